"""``gemm-study try``: judge, count, build, compare and time user-supplied kernels.

A kernel is added to the catalog of this process, and then handled like every other variant. A
Python function is only timed.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from base.errors import StudyError
from base.files import write_atomic
from base.paths import remedy, shown
from kernels.catalog.entries import VARIANTS
from kernels.catalog.python_calls import CallFacts, cuda_of
from kernels.catalog.user_supplied import Facts, called, check_name, name_of, read, source_text
from kernels.catalog.variant import UserKernel, UserSupplied
from kernels.cubins.summary import built
from kernels.cubins.toolchain import COMPILER, find_nvcc
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.limited import LimitReached, cpu_clock, limited
from kernels.launches import accesses
from kernels.launches.accesses import Counted, counted
from kernels.launches.checks import Judged
from kernels.launches.lines import MEMORY_BYTES, judged, judged_or_assumed
from kernels.launches.program import write
from measurement.recorder.hardware import Host
from measurement.recording.files import check_manifest
from study.config import Config, load
from workflow.roofline import focus, position
from workflow.timed_trial import TRIED, timed

UNCHECKED = 3  # an exit status
# CPU seconds until the compilation for GPUs must end, and until the counts must end.
SECONDS_WITH_BUILDS, COUNT_S = 44.0, 8.0
_OF_SEVERAL = "sm_90"  # for all architectures, the kernels of a file take minutes
# Variants that are timed with every float32 kernel.
_ALWAYS = ("naive_coalesced", "block", "sgemm_top", "cublas_sgemm")


@dataclass(frozen=True)
class Wanted:
    """What to do with a file; the defaults need no GPU and no option.

    `launch`: the launch in CUDA's notation. `kernel`: the only kernel of the file to check.
    `folders`: folders of included files. `defines`: macros such as ``TILE=16``. `baseline`: the
    variant of the catalog to compare with.
    `recording`: a recorded GPU, whose roofline is used (None: the report's). `architectures`:
    targets such as sm_90 (empty: all of nvcc). `device`: the CUDA index of a GPU on which the
    kernel is timed at `sizes`.
    """

    launch: str | None = None
    kernel: str | None = None
    folders: Sequence[Path] = ()
    defines: Sequence[str] = ()
    baseline: str | None = None
    recording: Path | None = None
    architectures: Sequence[str] = ()
    device: int | None = None
    sizes: Sequence[int] = ()


def attempt(
    path: Path, config: Path, wanted: Wanted, hardware: Host | None = None
) -> Generator[str, None, int]:
    """Yield the lines of the report on the kernels in the file `path`; return the exit status.

    The status is `UNCHECKED` if a kernel was not checked to the end. Raise StudyError with file and
    line if a kernel is wrong.
    """
    end = cpu_clock() + SECONDS_WITH_BUILDS
    text = source_text(path)
    if wanted.recording:  # read now, so that an error precedes the long work
        check_manifest(wanted.recording)
    if wanted.baseline:
        VARIANTS.variant(wanted.baseline)
    if wanted.device is not None:
        (hardware or Host()).select(wanted.device)
    trial = _Trial(config, wanted, hardware)
    if path.suffix == ".py":
        cuda = _cuda(path, text)
        try:
            call, assumed = called(path, text, wanted.kernel)
        except StudyError:
            if cuda is None:
                raise
            path = cuda
        else:
            entry = trial.written_call(path, text, call)
            study = load(config, "quick", VARIANTS.joined(entry))
            yield from (f"{shown(path)}: {assumption}" for assumption in assumed)
            if cuda:
                yield from _of_texts(cuda)
            yield "not checked on the CPU: a Python function runs only on a GPU"
            yield from trial.timed(entry, study, [])
            return UNCHECKED if wanted.device is None else 0
    options = (wanted.launch, wanted.kernel, wanted.folders, wanted.defines)
    kernels, unchecked = yield from judged_or_assumed(path, *options)
    is_complete = unchecked is None
    if len(kernels) > 1 and not wanted.architectures:
        trial = _Trial(config, replace(wanted, architectures=[_OF_SEVERAL]), hardware)
    for kernel in kernels:
        is_complete &= yield from trial.further(kernel, end)
    return 0 if is_complete else UNCHECKED


def _cuda(path: Path, text: str) -> Path | None:
    """Write the CUDA code in the strings of a Python file to a file, at the same line numbers."""
    with suppress(SyntaxError):
        if code := cuda_of(text):
            copy = TRIED / name_of(path) / f"{name_of(path)}_cuda.cu"
            write_atomic(copy, code)
            return copy
    return None


def _of_texts(cuda: Path) -> Iterator[str]:
    """Check the CUDA code of a Python file as far as the CPU can; raise KernelFault."""
    try:
        yield from judged(cuda)
    except KernelFault:
        raise
    except StudyError as error:
        yield f"not checked on the CPU: {error}"


@dataclass(frozen=True)
class _Trial:
    """The steps that follow the check on the CPU, with this configuration of the study."""

    config: Path
    wanted: Wanted
    hardware: Host | None

    def written_call(self, path: Path, text: str, call: CallFacts | None) -> UserSupplied:
        """Write a Python file together with its facts; return its variant."""
        if self.wanted.launch:
            raise StudyError(f"{shown(path)}: is a Python file; remove --launch")
        name = name_of(path)
        check_name(path, name)
        facts = Facts(name=name, baseline=self.wanted.baseline, call=call)
        copy = TRIED / name / f"{name}.py"
        write_atomic(copy, f"{text.rstrip()}\n\n{facts.line('.py')}")
        return read(copy)

    def further(self, kernel: Judged, end: float) -> Generator[str, None, bool]:
        """Build a kernel, place it on a roofline and time it, as far as this host can.

        Return whether nvcc stayed within its limits of time and memory.
        """
        is_built, entry = True, write(kernel, self.wanted.baseline, TRIED)
        study = load(self.config, "quick", VARIANTS.joined(entry))
        totals: Counted = {}
        if kernel.is_checked:
            with suppress(LimitReached):
                totals = limited(partial(counted, kernel, entry), COUNT_S, MEMORY_BYTES)
        if totals:
            yield from accesses.lines(*next(iter(totals.items())))
        try:
            nvcc = find_nvcc(study.toolchain.nvcc)
        except StudyError as missing:
            yield f"not built: {missing} ({remedy('make setup STUDY=full', COMPILER)} installs it)"
        else:
            try:
                is_built = yield from _built(entry, nvcc, self.wanted.architectures, end)
            except StudyError as error:
                if not kernel.defined:
                    raise
                is_built = False
                yield f"not built without what it does not include: {error}"
        near: Sequence[str] = []
        if totals and kernel.source.uses_tensor_cores:
            yield "not compared with a roofline: not all loads of tensor cores are counted"
        elif totals and (on := self.wanted.recording or focus(study)):
            lines, near = position(totals, entry.after, on)
            yield from lines
        elif totals:
            yield "not compared with a roofline: the study has no recording; name one with --gpu"
        yield from self.timed(entry, study, near)
        return is_built

    def timed(self, entry: UserSupplied, study: Config, near: Sequence[str]) -> Iterator[str]:
        """Time a variant with its baseline and the variants `near` it, if the user named a GPU."""
        if isinstance(entry, UserKernel) and not entry.facts.dtype:
            yield "not timed: only products of float, double or int matrices are timed"
        elif self.wanted.device is None:
            yield "to time it on a GPU of this host: add --device 0"
        else:
            others = near or ([entry.after] if entry.after else [])
            names = list(dict.fromkeys([*_ALWAYS, *others]))
            device, sizes = self.wanted.device, self.wanted.sizes
            yield from timed(entry, study, names, device, sizes, self.hardware)


def _built(
    entry: UserKernel, nvcc: Path, architectures: Sequence[str], end: float
) -> Generator[str, None, bool]:
    """Build the kernel until the CPU clock shows `end`; yield a table of its machine code.

    Return whether nvcc stayed within its limits of time and memory.
    """
    machine_code = built(entry, nvcc, architectures, TRIED / entry.name)
    seconds = max(0.0, end - cpu_clock())
    try:
        yield from limited(lambda: list(machine_code), seconds, MEMORY_BYTES, "nvcc")
    except LimitReached as error:
        yield f"not built: {error}; simplify the kernel, or choose one --architecture"
        return False
    return True
