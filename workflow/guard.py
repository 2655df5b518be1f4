"""``gemm-study guard``: check all kernels of a repository on the CPU, and compare their counts.

A kernel's counts are those of its memory accesses at one size, per launch, and the registers of its
machine code. They depend on the source only, so a larger count means that the code changed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from base.command_line import annotation
from base.errors import StudyError
from base.files import write_atomic
from base.paths import shown
from kernels.catalog.product import with_entry
from kernels.cubins.build import build_for
from kernels.cubins.compile import build_cubin
from kernels.cubins.toolchain import find_nvcc
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.host_execution.counts import quantities
from kernels.host_execution.limited import LimitReached, cpu_clock, limited
from kernels.launches import lines
from kernels.launches.accesses import counted
from kernels.launches.checks import Judged
from kernels.launches.expression import written
from kernels.launches.program import write
from kernels.launches.verdict import kernels_to_judge
from kernels.products.shape import Shape

CORRECT, WRONG, UNCHECKED, COSTLIER = "correct", "wrong", "unchecked", "costlier"
_STATUS = {CORRECT: 0, COSTLIER: 1, WRONG: 2, UNCHECKED: 3}
_SUFFIXES = (".cu", ".cuh")
_ARCHITECTURE = "sm_90"
_COUNTED = re.compile(r"sectors|wavefronts|bank_conflicts")


@dataclass(frozen=True)
class Result:
    """The result for one kernel: `text` says why it has its `status`, `line` where."""

    file: str
    kernel: str
    status: str
    text: str
    line: int = 1
    launch: str = ""
    multiple: int = 0
    counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name under which a file of counts lists the kernel."""
        return f"{self.file}: {self.kernel}"

    def annotated(self) -> str:
        """Return the result as an annotation of GitHub Actions; empty for a correct kernel."""
        if self.status == CORRECT:
            return ""
        kind = "error" if self.status == WRONG else "warning"
        return annotation(kind, self.text, self.kernel, file=self.file, line=self.line)


def results(
    path: Path,
    launch: str | None = None,
    kernel: str | None = None,
    folders: Sequence[Path] = (),
    defines: Sequence[str] = (),
) -> Iterator[Result]:
    """Yield a result for each kernel of a file; raise StudyError if it contains none."""
    text = lines.text_of(path, folders, defines)
    end = cpu_clock() + lines.SECONDS
    try:
        names = kernels_to_judge(path, text, launch, kernel)
    except NotSupported as error:
        names = []
        yield Result(shown(path), path.stem, UNCHECKED, str(error))
    for name in names:
        try:
            verdict = lines.verdict_on(path, text, name, launch, end)
            lines.check_compiled(path, verdict)
            yield limited(
                partial(_correct, path, verdict), max(0.0, end - cpu_clock()), lines.MEMORY_BYTES
            )
        except (KernelFault, NotSupported, CompilerError, LimitReached) as error:
            status = WRONG if isinstance(error, KernelFault) else UNCHECKED
            line = re.search(rf"{re.escape(path.name)}:([1-9]\d*)", str(error))
            yield Result(shown(path), name, status, str(error), int(line[1]) if line else 1)


def _correct(path: Path, judged: Judged) -> Result:
    """Return the result of a correct kernel with its counts; raise KernelFault."""
    with TemporaryDirectory(prefix="gemm-study-") as folder:
        entry = write(judged, None, Path(folder))
        totals = counted(judged, entry)
        values = quantities(next(iter(totals.values()), {}))
        counts = {name: value for name, value in values.items() if value and _COUNTED.search(name)}
        try:
            nvcc = find_nvcc(None)
        except StudyError:  # the counts then contain no registers
            pass
        else:
            build = build_for(with_entry(entry, entry.dtypes[0], Shape.square(1)))
            assert build is not None
            result = build_cubin(nvcc, build, _ARCHITECTURE, Path(folder) / "kernel.cubin")
            counts |= {
                "registers_per_thread": result.registers_per_thread,
                "spilled_bytes": result.spill_store_bytes,
            }
    source, text = judged.source, lines.verdict_line(judged)
    launch = written(source.steps)
    return Result(shown(path), source.name, CORRECT, text, 1, launch, judged.multiple, counts)


def files_of(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the given files, and the CUDA sources with a kernel in the given folders, sorted."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            is_source = file.is_file() and file.suffix in _SUFFIXES
            if is_source and "__global__" in file.read_text(errors="replace"):
                yield file


def guarded(paths: Sequence[Path], counts: Path | None) -> Iterator[Result]:
    """Yield the results of all kernels; a correct kernel whose count grew is `COSTLIER`.

    `counts` is a JSON file with the counts of the last run. It is read if it exists, and written at
    the end. Raise StudyError if it is not valid.
    """
    before = _read(counts) if counts and counts.exists() else {}
    now: dict[str, Mapping[str, float]] = {}
    for path in files_of(paths):
        try:
            for result in results(path):
                now[result.key] = result.counts
                yield _compared(result, before.get(result.key, {}))
        except StudyError as error:  # the file has no kernel that multiplies
            if path in paths or "matrices" not in str(error):
                raise
    if counts:
        write_atomic(counts, json.dumps(now, indent=2, sort_keys=True) + "\n")


def _read(path: Path) -> dict[str, dict[str, float]]:
    try:
        before = json.loads(path.read_text())
        return {str(key): {str(k): float(v) for k, v in of.items()} for key, of in before.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        raise StudyError(f"{shown(path)}: is not a file of counts: name another file") from None


def _compared(result: Result, before: Mapping[str, float]) -> Result:
    larger = [
        f"{name} {before[name]:g} before, {value:g} now"
        for name, value in result.counts.items()
        if name in before and value > before[name]
    ]
    if not larger:
        return result
    return replace(result, status=COSTLIER, text="; ".join(larger))


def status_of(all_results: Sequence[Result]) -> int:
    """Return 2 if a kernel is wrong, else 1 if one is costlier, else 3 if one was not checked."""
    present = {result.status for result in all_results}
    return next((_STATUS[each] for each in (WRONG, COSTLIER, UNCHECKED) if each in present), 0)
