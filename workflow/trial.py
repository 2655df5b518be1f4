"""``gemm-study try``: check, count, build, compare and time a user-supplied kernel.

The kernel is added to the catalog of this process and handled like every other variant. A Python
function is only timed.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan, lcm
from pathlib import Path
from time import monotonic, time
from typing import Any

import psutil

from base.command_line import ABSENT, table
from base.errors import StudyError
from base.files import sha256
from base.paths import RESULTS, ROOT, remedy, shown
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import with_entry
from kernels.catalog.user_supplied import CALL, read, source_text
from kernels.catalog.variant import IN_TURN, UserKernel, UserSupplied
from kernels.cubins.summary import built
from kernels.cubins.toolchain import COMPILER, find_nvcc
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.host_execution.limited import LimitReached, limited
from kernels.host_execution.trial import MEMORY_BYTES, SECONDS_WITH_BUILDS, Counted, checked, gap
from kernels.launches.lines import check_options, is_declared, judged
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total
from measurement.recorder.answer import answer
from measurement.recorder.hardware import Host
from measurement.recording.files import check_manifest
from study.config import Config, load
from study.narrow import narrowed

RESULTS = RESULTS / "tried"
SIZES = (1024, 4096)  # on the GPU
_HOW_TO = "docs/how-to/try-a-kernel.md"
UNCHECKED = 3  # exit status
# Always timed with float32 kernels, and with kernels of other dtypes.
_ALWAYS = ("naive_coalesced", "block", "sgemm_top", "cublas_sgemm")
_OTHER_DTYPES = ("mm_naive", "mm_tile")

_LONGEST_START_S = 10.0  # of Python on a busy host

_BOUNDS = {"compute": "FMAs", "l1": "L1", "shared": "shared memory", "pipe": "L1 + shared memory"}
_BOUNDS |= {"l2": "L2", "issue": "issue slots", "dram": "memory"}
_MERGED = "  > assumes that nvcc merges no loads of shared memory; merged loads raise it"


def attempt(
    path: Path,
    config: Path,
    recording: Path | None = None,
    architectures: Sequence[str] = (),
    device: int | None = None,
    sizes: Sequence[int] = (),
    hardware: Host | None = None,
    launch: str | None = None,
    kernel: str | None = None,
    folders: Sequence[Path] = (),
    defines: Sequence[str] = (),
) -> Generator[str, None, int]:
    """Yield the lines of the report on the kernel in the file `path`; return the exit status.

    A file without a ``try:`` comment is judged by its launch: `launch`, one in the file, or an
    inferred one. `kernel` selects one of its kernels, `folders` contain files that it includes,
    `defines` are macros such as ``TILE=16``.

    `recording`: a recorded GPU, whose roofline is used (None: the report's). `architectures`:
    targets such as sm_90 (empty: all of nvcc). `device`: the CUDA index of a GPU on which the
    kernel is timed at `sizes`. The status is `UNCHECKED` if the kernel was not checked to the end.
    Raise StudyError with file and line if the kernel is wrong.
    """
    age = time() - psutil.Process().create_time()
    end = monotonic() + SECONDS_WITH_BUILDS - min(age, _LONGEST_START_S)
    text = source_text(path)
    check_options(path, launch, kernel, text)
    if path.suffix != ".py" and not is_declared(text):
        return (yield from _judged(path, launch, kernel, folders, defines))
    entry = read(path)
    study = load(config, "quick", VARIANTS.joined(entry))
    if recording:  # before the long work
        check_manifest(recording)
    if device is not None:
        (hardware or Host()).select(device)
    yield _introduced(entry)
    counted: Counted = {}
    unchecked: StudyError | None = None
    if isinstance(entry, UserKernel):
        try:
            counted = yield from checked(entry)
            if unchecked := gap(entry):
                yield f"not checked on the CPU: {unchecked}"
        except (NotSupported, LimitReached, CompilerError) as error:
            unchecked = error
            yield f"not checked on the CPU: {error}"
        try:
            nvcc = find_nvcc(study.toolchain.nvcc)
        except StudyError as missing:
            if isinstance(unchecked, CompilerError):  # no compiler accepts the kernel
                raise unchecked from None
            yield f"not built: {missing} ({remedy('make setup STUDY=full', COMPILER)} installs it)"
        else:
            yield from _built(entry, nvcc, architectures, end)
    else:
        yield "not checked on the CPU: a Python function runs only on a GPU"
    near: Sequence[str] = list(dict.fromkeys([*_ALWAYS, *filter(None, [entry.after])]))
    if counted and (on := recording or _focus(study)):
        lines, near = _roofline(counted, entry.after, on)
        yield from lines
    elif counted:
        yield "not compared with a roofline: the study has no recording; name one with --gpu"
    if device is not None:
        yield from _timed(entry, study, near, device, sizes, hardware)
    else:
        yield f"to time it on a GPU of this host: gemm-study try {path} --device 0"
    is_checked = unchecked is None if isinstance(entry, UserKernel) else device is not None
    return 0 if is_checked else UNCHECKED


def _judged(
    path: Path,
    launch: str | None,
    kernel: str | None,
    folders: Sequence[Path],
    defines: Sequence[str],
) -> Generator[str, None, int]:
    """Judge the kernels of a file by their launches; return the exit status."""
    try:
        yield from judged(path, launch, kernel, folders, defines)
    except (NotSupported, LimitReached, CompilerError) as error:
        yield f"not checked on the CPU: {error}"
        return UNCHECKED
    yield f"to time a kernel on a GPU, declare its launch by a `try:` comment: {_HOW_TO}"
    return 0


def _built(
    entry: UserKernel, nvcc: Path, architectures: Sequence[str], end: float
) -> Iterator[str]:
    """Build the kernel until `end` at the latest; yield a table of its machine code."""
    machine_code = built(entry, nvcc, architectures, RESULTS / entry.name)
    seconds = max(0.0, end - monotonic())
    try:
        yield from limited(lambda: list(machine_code), seconds, MEMORY_BYTES, "nvcc")
    except LimitReached as error:
        how = "simplify the kernel, or choose one --architecture"
        raise StudyError(f"{shown(Path(entry.file))}: {error}; {how}") from None


def _introduced(entry: UserSupplied) -> str:
    if not isinstance(entry, UserKernel):
        return f"{shown(Path(entry.file))}: {CALL}(a, b, c, stream), {', '.join(entry.dtypes)}"
    block = (entry.block_sizes or (None,))[0]
    product = with_entry(entry, entry.dtypes[0], Shape.square(1), block)
    tile, threads = product.tile, product.launch.threads
    arguments = "n" if entry.shapes == "square" else "m, n, k"
    first = f", B={block}" if block else ""
    return (
        f"{shown(Path(entry.file))}: {entry.name}(a, b, c, {arguments}), "
        f"{', '.join(entry.dtypes)}{first}: tiles of {tile[0]}x{tile[1]}, "
        f"{threads[0]}x{threads[1]} threads"
    )


# ---- On the roofline of a recorded GPU


def _focus(study: Config) -> Path | None:
    """Return the recording of the report's focus, or else the study's first one, if any."""
    entries = [gpu for gpu in study.gpus if gpu.folders]
    entries.sort(key=lambda gpu: gpu.id != study.report.focus)
    return ROOT / entries[0].folders[0] if entries else None


def _roofline(
    counted: Counted, after: str | None, recording: Path
) -> tuple[list[str], Sequence[str]]:
    """Return a table of the kernel and its neighbours on a GPU's roofline, and their names."""
    from analysis.data.recordings import load as load_recordings  # imports pandas: slow
    from analysis.data.recordings import sources, with_gpu
    from analysis.kernels.standing import largest_size, standing

    measured = with_gpu(sources(load_recordings({recording.name: [recording]})))
    if not measured:
        raise StudyError(f"--gpu: {recording}: contains no GPU; name another recording")
    size = largest_size(measured[0])
    pairs = list(counted.items())
    extended = {
        replace(small, shape=Shape.square(size)): {
            operation: _extended(totals[operation], twice[operation], small.shape.n, size)
            for operation in OPERATIONS
        }
        for (small, totals), (_, twice) in zip(pairs[::2], pairs[1::2], strict=True)
    }
    names = ("kernel", "B", "flop/byte", "nearest ceiling", "attainable TFLOP/s", "measured")
    rows = [[*names, "share"]]
    frame = standing(measured[0], extended, [after] if after else [])
    rows += [_standing_texts(row) for row in frame.to_dict("records")]
    note = [_MERGED] if (frame["bound"].isin(["shared", "pipe"]) & frame["is_own"]).any() else []
    title = f"on the roofline of {measured[0].gpu_name} at N = {size}, from the counts at "
    title += " and ".join(str(product.shape) for product, _ in pairs[:2])
    near = [name for name in frame["variant"] if name not in {p.variant for p in counted}]
    return [title, *table(rows), *note], tuple(dict.fromkeys([*_ALWAYS, *near]))


def _standing_texts(row: Mapping[str, Any]) -> list[str]:
    """Return a row of the roofline as texts; a library has no bound."""
    has_bound, timed = not isnan(row["flop_per_byte_of_sectors"]), not isnan(row["kernel_s"])
    bound = (
        f"{row['flop_per_byte_of_sectors']:.3g}",
        _BOUNDS[row["bound"]],
        f"{row['bound_flop_per_s'] / 1e12:.3g}",
    )
    return [
        f"> {row['variant']}" if row["is_own"] else str(row["variant"]),
        ABSENT if isnan(row["block_size"]) else str(int(row["block_size"])),
        *(bound if has_bound else [ABSENT] * len(bound)),
        f"{row['kernel_flop_per_s'] / 1e12:.3g}" if timed else ABSENT,
        f"{row['share_of_bound']:.0%}" if timed and has_bound else ABSENT,
    ]


def _extended(small: Total, twice: Total, size: int, wanted: int) -> Total:
    """Extrapolate a total a·N³ + b·N² from `size` and twice `size` to `wanted`."""

    def at(low: int, high: int) -> int:
        cubic = (high - 4 * low) / (4 * size**3)
        square = low / size**2 - cubic * size
        return round(cubic * wanted**3 + square * wanted**2)

    pairs = zip(vars(small).values(), vars(twice).values(), strict=True)
    return Total(*(at(low, high) for low, high in pairs))


# ---- On a GPU


def _timed(
    entry: UserSupplied,
    config: Config,
    near: Sequence[str],
    device: int,
    sizes: Sequence[int],
    hardware: Host | None,
) -> Iterator[str]:
    """Time the kernel and its neighbours; yield a table. Raise StudyError if the kernel fails."""
    from measurement.recorder.record import record
    from measurement.recorder.target import unused

    one = Shape.square(1)
    products = [with_entry(entry, "float32", one, b) for b in entry.block_sizes or (None,)]
    width = max(lcm(*product.tile) for product in products)
    wanted = list(sizes) or [width * -(-size // width) for size in SIZES]
    others = [name for name in near if VARIANTS.variant(name).flow == IN_TURN]
    dtypes = [dtype for dtype in entry.dtypes if dtype != "float32"]
    variants = [entry.name, *others] if "float32" in entry.dtypes else ["cublas_sgemm"]
    more = {"variants": [entry.name, *_OTHER_DTYPES], "dtypes": dtypes, "block_sizes": [32]}
    study = narrowed(config, variants, wanted, [more | {"shapes": wanted}] if dtypes else [])
    out = unused(RESULTS / entry.name / f"gpu{device}-{sha256(Path(entry.file))[:8]}")
    recording = record(study, device, out, None, None, hardware)
    yield from answer(recording, ladder_of=entry.name)
    yield f"recording: {shown(out)}"
    checks = recording.checks[recording.checks["variant"] == entry.name]
    failed = checks[checks["status"] == "failed"]
    if len(failed):
        file, reason = shown(Path(entry.file)), failed["reason"].iloc[0]
        raise StudyError(f"{file}: {entry.name} fails on gpu{device}: {reason}")
