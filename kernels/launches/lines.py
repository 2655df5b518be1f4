"""What `gemm-study try` prints about the kernels of a file without declarations."""

import re
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic

from base.errors import StudyError
from base.paths import shown
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import NotSupported, unchecked_lines
from kernels.host_execution.limited import LimitReached, limited
from kernels.launches.expression import Launch, of_file
from kernels.launches.includes import read, with_includes, with_macros
from kernels.launches.shim import kernels_of
from kernels.launches.verdict import Judged, at_large_sizes, judge, kernels_to_judge
from kernels.products.shape import Shape

SECONDS, MEMORY_BYTES = 35.0, 3 * 2**29  # of the whole file
LARGE_SECONDS = 20.0  # of large sizes


def judged(
    path: Path,
    option: str | None = None,
    kernel: str | None = None,
    folders: Sequence[Path] = (),
) -> Generator[str, None, list[Judged]]:
    """Judge the kernels of a file on the CPU; yield lines; return the verdicts.

    `option` is a launch, `kernel` the only kernel to judge, `folders` are searched for included
    files. Raise KernelFault for a wrong kernel,
    StudyError if there is no kernel or no launch, LimitReached after `SECONDS`.
    """
    text = with_includes(path, read(path), folders)
    if not kernels_of(text) and "__global__" in text:
        text = with_macros(text)
    end = monotonic() + SECONDS
    verdicts = []
    for name in kernels_to_judge(path, text, option, kernel):
        work = partial(judge, path, text, name, option)
        verdict: Judged = limited(work, max(0.0, end - monotonic()), MEMORY_BYTES)
        verdict = _at_large_sizes(verdict, min(LARGE_SECONDS, max(0.0, end - monotonic())))
        launch = verdict.source.launches[-1]
        if not verdict.multiple:
            raise KernelFault(f"{verdict.fault}; launched as {launch}")
        yield f"{shown(path)}: {name}: {_first_line(verdict)}"
        yield f"checked on the CPU, within the error bound, at {_sizes(verdict.shapes)}"
        if verdict.multiple > 1:
            yield f"at other sizes: {verdict.fault}"
        yield f"launch ({_origin(launch, of_file(text, option))}): --launch '{launch}'"
        verdicts.append(verdict)
    if lines := unchecked_lines(text, {}):
        raise NotSupported(
            f"{shown(path)}:{','.join(map(str, lines))}: only GPUs compile these lines; make the "
            "CPU compile them too"
        )
    return verdicts


def _origin(launch: Launch, declared: Sequence[Launch]) -> str:
    if launch.line:
        return f"found at line {launch.line}"
    return "as given" if launch in declared else "inferred"


def _at_large_sizes(verdict: Judged, seconds: float) -> Judged:
    try:
        return limited(partial(at_large_sizes, verdict), seconds, MEMORY_BYTES)
    except LimitReached as error:
        name = verdict.source.name
        raise LimitReached(f"{name} at sizes above 1,024: {error}: does each loop end?") from None


def _first_line(verdict: Judged) -> str:
    text = f"correct for {verdict.layout}" if verdict.layout else "correct"
    if verdict.reading.precision.note:
        text += f" ({verdict.reading.precision.note})"
    if verdict.is_fixed:
        return f"{text} at size {verdict.shapes[0]}, which the file fixes"
    if verdict.multiple > 1:
        return f"{text} for sizes that are multiples of {verdict.multiple}"
    return text


def _sizes(shapes: tuple[Shape, ...]) -> str:
    return ", ".join(map(str, shapes))


def is_declared(text: str) -> bool:
    """Return whether a file declares its launch by the keys of a ``try:`` comment."""
    return bool(re.search(r"^\s*(?://|/?\*+|#)\s*try:", text, re.MULTILINE))


def check_options(path: Path, option: str | None, kernel: str | None, text: str) -> None:
    """Raise StudyError for options that a file with a ``try:`` comment does not take."""
    if (option or kernel) and (path.suffix == ".py" or is_declared(text)):
        what = "is a Python file" if path.suffix == ".py" else "has a `try:` comment"
        raise StudyError(f"{shown(path)}: {what}; remove --launch and --kernel")
