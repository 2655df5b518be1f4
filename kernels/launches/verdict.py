"""The verdict on a kernel, from the first of its launches that computes a product."""

import re
from dataclasses import replace
from math import lcm
from pathlib import Path

from base.errors import StudyError
from base.paths import shown
from kernels.catalog.source import without_comments
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.launches.checks import Judged, check, tile_of
from kernels.launches.device import for_the_device
from kernels.launches.doubts import UNTYPED, lack, unsaid
from kernels.launches.elsewhere import own, with_definition
from kernels.launches.expression import Launch, main_of, written
from kernels.launches.guessed import by_guesses
from kernels.launches.in_files import of_file
from kernels.launches.library import Source, may_add
from kernels.launches.pieces import kernels_of, split_list
from kernels.launches.readings import readings
from kernels.launches.roles import MATRICES
from kernels.launches.sequences import Steps, sequences
from kernels.launches.shapes import whole_tiles
from kernels.launches.structs import matrix_count
from kernels.launches.trials import Trial

# A kernel that multiplies loops over its sums, or lets hardware do so, or adds up products.
_CAN_MULTIPLY = re.compile(r"\b(?:for|while|do|goto)\b|mma|atomicAdd\s*\([^;]*\*")
_SOME_BLOCKS = 132  # as many as an H100 has multiprocessors
# Template arguments that are element types.
_OTHER_TYPES = re.compile(r"\b(?:\w*half|\w*bfloat16|double|u?int\d*(?:_t)?|char|complex)\b")


def kernels_to_judge(path: Path, text: str, option: str | None, kernel: str | None) -> list[str]:
    """Return the names of the kernels to judge; raise StudyError if there is none."""
    present = kernels_of(own(text))
    if not present:
        raise StudyError(
            f"{shown(path)}: no kernel found: no function is __global__; name a file with one"
        )
    names = ", ".join(present)
    if kernel and kernel not in present:
        raise StudyError(f"{shown(path)}: --kernel {kernel}: not in the file; it contains {names}")
    if option and not {launch.name for launch in of_file(text, option)} & set(present):
        raise StudyError(
            f"{shown(path)}: --launch {option:.60}: launches no kernel of the file, such as "
            f"'{next(iter(present))}<<<GRID, BLOCK>>>(A, B, C, N)'; the file contains {names}"
        )
    if kernel:
        return [kernel]
    count_of = {
        name: matrix_count(text, piece)
        for name, piece in present.items()
        if _CAN_MULTIPLY.search(without_comments(for_the_device(text, {name})))
    }
    products = [
        name
        for name, count in count_of.items()
        if count == len(MATRICES) or (count == len(MATRICES) + 1 and may_add(present[name]))
    ]
    several = [s for s in sequences(text, option) if count_of.keys() & {step.name for step in s}]
    mains = {main_of(steps).name for steps in several}
    parts = {step.name for steps in several for step in steps} - mains
    products = [name for name in present if name in {*products, *mains} - parts]
    launched = [launch.name for launch in of_file(text, option) if launch.name in products]
    if not products and any("CUtensorMap" in each.header for each in present.values()):
        raise NotSupported(
            f"{shown(path)}: its kernels take a CUtensorMap: host execution makes no tensor maps "
            "(TMA); run the kernel on a GPU only"
        )
    if not products:
        counts = ", ".join(f"{name} takes {count_of.get(name, 0)}" for name in present)
        raise StudyError(
            f"{shown(path)}: no kernel takes three matrices: {counts}; name a file with C = A·B"
        )
    return list(dict.fromkeys(launched)) or products


def _launched(text: str, option: str | None, name: str) -> list[Steps]:
    """Return the products in which a kernel multiplies; those of several steps are first.

    A launch that is a step of a declared product is no product by itself.
    """
    several = [steps for steps in sequences(text, option) if main_of(steps).name == name]
    single = [(launch,) for launch in of_file(text, option) if launch.name == name]
    return several if several and not several[0][-1].line else [*several, *single]


def judge(path: Path, text: str, name: str, option: str | None = None) -> Judged:
    """Judge a kernel of a file with this text on the host.

    Names that neither the file nor those that it includes define are searched in the repository. As
    they may be others, the kernel is not called wrong then. Raise NotSupported if no launch fits,
    CompilerError if none compiles.
    """
    try:
        return _judge(path, text, name, option)
    except CompilerError as error:
        defined = with_definition(path, text, error)
        if defined is None:
            raise
    judged = judge(path, defined[0], name, option)
    if judged.multiple:
        return replace(judged, defined=(defined[1], *judged.defined))
    raise NotSupported(
        f"{judged.fault}; {defined[1]} was assumed, which {shown(path)} does not include"
    )


def _judge(path: Path, text: str, name: str, option: str | None) -> Judged:
    """Return the verdict on a kernel whose names are all defined.

    A launch that is found in the file may be for one size only, so that it does not grow with the
    matrices. Unless its blocks loop, a launch is then guessed, as for a file without one.
    """
    for parameter in kernels_of(text)[name].parameters:
        if re.search(r"\(\s*\*|\]\s*\[|\*[\s\w]*\*", parameter):
            raise NotSupported(
                f"{shown(path)}: {name}: its parameter {parameter} is a pointer to rows; replace "
                "it by a pointer to elements"
            )
    refused, unknown = list[StudyError](), list[StudyError]()  # `unknown`: of several steps
    wrong = list[Judged]()
    launched = list(dict.fromkeys(_launched(text, option, name)))
    for steps in launched:  # the list grows in the loop
        source = Source.of(path, text, *steps)
        try:
            judged = _with_steps(source, option)
        except (CompilerError, NotSupported) as error:
            if isinstance(error, CompilerError) and with_definition(path, text, error):
                raise
            if len(steps) == 1 and isinstance(error, NotSupported) and not source.has_open_types:
                raise (unknown or [error])[0] from None
            (unknown if len(steps) > 1 else refused).append(error)
            continue
        trial = Trial(source.library("counted"), judged.reading) if judged else None
        if judged and trial and steps[-1].line and 0 in trial.configured(judged.shapes[0]).grid:
            if len(steps) == 1 and source.takes_any_grid:
                launched.append((_with_blocks(steps[0]),))
        elif judged and judged.multiple:
            return judged
        elif judged and (reason := unsaid(judged)):
            where = f"{shown(path)}:{steps[-1].line}".removesuffix(":0") + f": {name}: {reason}"
            doubtful = NotSupported(f"{where}; write a launch for all sizes, by --launch")
            (unknown if len(steps) > 1 else refused).append(doubtful)
        elif judged and len(steps) > 1 and not unknown:
            return judged
        elif judged:
            wrong.append(judged)
    if wrong and not unknown:  # a race or a wrong sum is more likely the kernel's own fault
        return min(wrong, key=lambda judged: judged.fault.outcome if judged.fault else 0)
    if reasons := unknown or (refused if option else []):  # no guess replaces an option
        raise reasons[0]
    return by_guesses(path, text, name, refused[0] if refused else None, bool(launched))


def _with_steps(source: Source, option: str | None) -> Judged | None:
    """Return the verdict on a product of these steps; None if its only launch does not grow.

    Raise NotSupported or CompilerError if they cannot be judged.
    """
    where = f"{shown(source.path)}: {source.name}"
    if source.has_open_types and _OTHER_TYPES.search(source.main.kernel):
        raise NotSupported(f"{where}: {UNTYPED}")
    is_declared = not source.steps[-1].line or source.loops_over_blocks
    judged = check(source, source.library("counted"), is_declared)
    if judged is None and source.steps[1:]:
        how = f"write them, such as --launch '{written(source.steps)}'"
        raise NotSupported(f"{where}: its launches do not grow with the matrices; {how}")
    if judged and not judged.multiple and (reason := lack(judged, option)):
        raise NotSupported(f"{where}: {reason}")
    return judged


def _with_blocks(launch: Launch) -> Launch:
    """Return a launch in which a number replaces a count of blocks that only the runtime knows."""
    _, *others = split_list(launch.configuration)
    return replace(launch, configuration=", ".join([str(_SOME_BLOCKS), *others]))


def unjudged(path: Path, text: str, option: str | None, kernel: str | None) -> list[Judged]:
    """Return the likeliest launches of a file's kernels, which the host cannot run.

    Kernels without a launch that grows with the matrices are omitted.
    """
    products = [
        steps
        for name in kernels_to_judge(path, text, option, kernel)
        for launched in [_launched(text, option, name)]
        for steps in [several for several in launched if len(several) > 1] or launched
    ]
    assumed = []
    for steps in products:
        source = Source.of(path, text, *steps)
        try:
            library = source.library("launch")
            reading = next(readings(source)).typed(library)
        except (StudyError, StopIteration):  # another launch may compile
            continue
        if tile := tile_of(Trial(library, reading)):
            multiple, shapes = lcm(*tile), (whole_tiles(tile, reading),)
            assumed.append(Judged(source, reading, tile, multiple, shapes, None, is_checked=False))
    return assumed
