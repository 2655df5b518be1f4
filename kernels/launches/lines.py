"""The lines that `gemm-study try` prints about the kernels of a file."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from base.errors import StudyError
from base.paths import shown
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import CompilerError, NotSupported, unchecked_lines
from kernels.host_execution.limited import LimitReached, cpu_clock, limited
from kernels.launches.checks import Judged, at_large_sizes, equal_sizes
from kernels.launches.doubts import unsaid
from kernels.launches.elsewhere import own, with_launcher
from kernels.launches.expression import Launch, written
from kernels.launches.in_files import launches, of_file
from kernels.launches.includes import (
    conditions_of_kernels,
    read,
    with_defines,
    with_includes,
    with_macros,
)
from kernels.launches.pieces import blanked, kernels_of, with_pointers
from kernels.launches.reading import C_BEFORE
from kernels.launches.roles import EQUAL, SIZES
from kernels.launches.verdict import judge, kernels_to_judge, unjudged

SECONDS, MEMORY_BYTES = 36.0, 3 * 2**29  # limits for a whole file; the seconds are CPU time
LARGE_SECONDS = 26.0  # CPU time for large sizes
_LARGE = "sizes above 1,024"
_AT_ZERO = "shared memory that begins at byte 0, as before compute capability 9.0"


def text_of(path: Path, folders: Sequence[Path] = (), defines: Sequence[str] = ()) -> str:
    """Return the text of a file with its includes and macros expanded, so kernels are found."""
    text = with_launcher(path, with_includes(path, read(path), folders), folders)
    text = with_defines(with_pointers(text), [*conditions_of_kernels(text), *defines])
    is_hidden = not kernels_of(text) or (
        "<<<" in blanked(text) and not launches(text)
    )  # kernels can be declared by a macro
    return with_macros(text) if is_hidden and "__global__" in text else text


def judged(
    path: Path,
    option: str | None = None,
    kernel: str | None = None,
    folders: Sequence[Path] = (),
    defines: Sequence[str] = (),
) -> Generator[str, None, list[Judged]]:
    """Judge the kernels of a file on the CPU; yield lines; return the verdicts.

    `option` is a launch, `kernel` the only kernel to judge, `folders` are searched for included
    files, `defines` are macros. After all kernels are judged, raise KernelFault if one is wrong, or
    NotSupported, CompilerError or LimitReached if one was not checked. Raise StudyError if there is
    none.
    """
    text = text_of(path, folders, defines)
    end = cpu_clock() + SECONDS
    names = kernels_to_judge(path, text, option, kernel)
    if macros := conditions_of_kernels(text):
        yield f"{shown(path)}: checked with -D {' -D '.join(macros)}"
    verdicts, errors = [], list[StudyError]()
    for place, name in enumerate(names):
        try:
            verdict = verdict_on(path, text, name, option, end)
            yield from _lines(path, name, verdict, of_file(text, option))
            check_compiled(path, verdict)
        except LimitReached as error:
            how = f"check one at a time: --kernel {name}" if len(names) > 1 else "simplify it"
            errors.append(LimitReached(f"{', '.join(names[place:])}: {error}; {how}"))
            if len(errors) > 1:
                yield f"{shown(path)}: {errors[-1]}"
            break
        except (KernelFault, NotSupported, CompilerError) as error:
            errors.append(error)
            if len(names) > 1:
                yield f"{shown(path)}: {name}: {error}"
            continue
        verdicts.append(verdict)
    if errors:
        raise min(errors, key=lambda error: not isinstance(error, KernelFault))
    return verdicts


def judged_or_assumed(
    path: Path,
    option: str | None,
    kernel: str | None,
    folders: Sequence[Path],
    defines: Sequence[str],
) -> Generator[str, None, tuple[list[Judged], StudyError | None]]:
    """Judge the kernels of a file; return their verdicts, and why some were not checked."""
    try:
        verdicts = yield from judged(path, option, kernel, folders, defines)
    except (NotSupported, LimitReached, CompilerError) as error:
        yield f"not checked on the CPU: {error}"
        launched = list[Judged]()
        with suppress(NotSupported):  # other kernels of the file, by name
            launched = unjudged(path, text_of(path, folders, defines), option, kernel)
        return launched, error
    return verdicts, None


def verdict_on(path: Path, text: str, name: str, option: str | None, end: float) -> Judged:
    """Return the verdict on a kernel that is correct for some sizes; stop at CPU time `end`.

    Raise KernelFault for a wrong kernel, and NotSupported, CompilerError or LimitReached for one
    that was not checked.
    """
    refused: StudyError | None = None
    try:
        verdict = _limited(end, path, text, name, option)
    except (CompilerError, NotSupported) as error:
        if own(text) == text:
            raise
        refused = error
        verdict = _limited(end, path, own(text), name, option)  # without the file that launches it
    if verdict.multiple:
        verdict = _at_large_sizes(verdict, max(0.0, end - cpu_clock()))
    if verdict.multiple:
        return verdict
    if refused:
        raise refused
    is_launched = name in [launch.name for launch in of_file(text, option)]
    doubt = unsaid(verdict) or (verdict.is_guessed and is_launched and "gets another launch")
    if doubt or verdict.defined:
        how = f"{doubt or ', '.join(verdict.defined)}: write a launch for all sizes, by --launch"
        raise NotSupported(f"{verdict.fault}; {how}")
    sizes = ""
    with suppress(LimitReached):
        sizes = limited(partial(equal_sizes, verdict), max(0.0, end - cpu_clock()), MEMORY_BYTES)
    raise KernelFault(f"{verdict.fault}{sizes}; launched as {written(verdict.source.steps)}")


def _limited(end: float, path: Path, text: str, name: str, option: str | None) -> Judged:
    work = partial(judge, path, text, name, option)
    return limited(work, max(0.0, end - cpu_clock()), MEMORY_BYTES)


def check_compiled(path: Path, verdict: Judged) -> None:
    """Raise NotSupported if a kernel has lines that only compilers for GPUs compile."""
    if lines := unchecked_lines(verdict.source.for_the_host, {}):
        raise NotSupported(
            f"{shown(path)}:{','.join(map(str, lines))}: only GPUs compile these lines; make the "
            "CPU compile them too"
        )


def _lines(path: Path, name: str, verdict: Judged, declared: Sequence[Launch]) -> Iterator[str]:
    steps = verdict.source.steps
    yield f"{shown(path)}: {name}: {verdict_line(verdict)}"
    shapes = dict.fromkeys(map(verdict.reading.fitted, verdict.shapes))
    yield f"checked on the CPU, within the error bound, at {', '.join(map(str, shapes))}"
    if verdict.defined:
        yield f"not included, but found in the repository: {', '.join(verdict.defined)}"
    if constants := verdict.source.scope.constants:
        yield f"the file's {', '.join(constants)} took these sizes"
    if verdict.multiple > 1:
        yield f"at other sizes: {verdict.fault}"
    yield f"launch ({_origin(steps, declared)}): --launch '{written(steps)}'"


def _origin(steps: Sequence[Launch], declared: Sequence[Launch]) -> str:
    if lines := [str(line) for line in sorted({step.line for step in steps}) if line]:
        file = f" of {steps[-1].file}" if steps[-1].file else ""
        return f"found at line{'s' * (len(lines) > 1)} {', '.join(lines)}{file}"
    return "as given" if steps[-1] in declared else "inferred"


def _at_large_sizes(verdict: Judged, left_s: float) -> Judged:
    try:
        seconds = min(LARGE_SECONDS, left_s)
        return limited(partial(at_large_sizes, verdict), seconds, MEMORY_BYTES)
    except LimitReached as error:
        if left_s < LARGE_SECONDS:
            return replace(verdict, is_cut_short=True)
        name = verdict.source.name
        raise LimitReached(f"{name} at {_LARGE}: {error}: does each loop end?") from None


def verdict_line(verdict: Judged) -> str:
    """Return a line that says for which products and sizes a kernel is correct."""
    text = f"correct for {verdict.layout}" if verdict.layout else "correct"
    if verdict.reading.precision.note:
        text += f" ({verdict.reading.precision.note})"
    limits = [" = ".join(sizes) for sizes in verdict.reading.numbers.values() if sizes in EQUAL]
    limits += ["one B for all products"] * verdict.reading.shares_b
    is_square = verdict.reading.is_square and {*SIZES} <= {*verdict.reading.numbers.values()}
    limits += [" = ".join(SIZES)] * is_square
    if verdict.reading.c_before:
        limits.append(C_BEFORE[verdict.reading.c_before])
    limits += [_AT_ZERO] * verdict.needs_alignment
    if unused := verdict.source.unused_factors:
        limits.append(f"unused {', '.join(unused)}")
    text += f" with {', '.join(limits)}" if limits else ""
    if verdict.is_fixed:
        return f"{text} at size {verdict.shapes[0]}, which the file fixes"
    if verdict.multiple > 1:
        text += f" for sizes that are multiples of {verdict.multiple}"
    return f"{text}, not checked at {_LARGE}" if verdict.is_cut_short else text
