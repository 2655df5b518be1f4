"""Reasons why a fault need not be the kernel's: its file leaves something about the launch open.

A false alarm costs more than no answer. Therefore a kernel with a fault is only called wrong if its
launch and the meaning of all its arguments are known; otherwise it is refused.
"""

import re
from contextlib import suppress

import numpy as np

from base.errors import StudyError
from kernels.catalog.source import without_comments
from kernels.launches.checks import LARGE_SHAPE, Judged
from kernels.launches.expression import COUNTS, MALLOC, declarations_in, targets, words
from kernels.launches.in_files import of_file
from kernels.launches.infer import is_edge
from kernels.launches.library import Source
from kernels.launches.pieces import named
from kernels.launches.reading import Operands
from kernels.launches.readings import sets_c
from kernels.launches.roles import ELEMENT, SIZES, is_count, meaning_of, size_named, size_of
from kernels.launches.trials import Outcome, Trial
from kernels.products.shape import Shape

UNTYPED = "takes its matrices as void *; host execution passes float: give their types"
_SHORT = re.compile(r"half|bfloat16|\bu?int8_t\b|\bchar\b")  # types whose results differ
_AT_NULL = re.compile(r"element -?\d{9,} of")  # an index far outside of any matrix
# A parameter of a numeric type.
_NUMBER = re.compile(rf"^(?!.*[*\[&])(?:.*{COUNTS.pattern}|.*\b(?:float|double|bool)\b)")


def lack(judged: Judged, option: str | None) -> str | None:
    """Return what the host lacks to judge a kernel that has a fault; None if it lacks nothing."""
    source = judged.source
    if source.has_open_types:
        return UNTYPED
    between_blocks = re.search(r"earlier block|nothing was stored", str(judged.fault))
    if between_blocks and "__threadfence" in words(source.device):
        return (
            "its blocks read what other blocks store before __threadfence; host execution orders "
            "the stores of blocks only by launches"
        )
    if _packs_bytes(judged):
        return (
            "packs numbers of 8 bits into elements of 32; host execution passes whole numbers of "
            "32 bits: give their types"
        )
    if padded := not _for_one_size(judged) and _padded_matrix(judged, option):
        return (
            f"the file allocates more for {padded} than the matrix has, and its kernel needs it; "
            "host execution allocates matrices without padding"
        )
    return None


def unsaid(judged: Judged) -> str | None:
    """Return what the file does not say about a launch that has a fault; None if it says all."""
    source, names = judged.source, judged.reading.numbers
    if len(source.launches) == 1 and (argument := _for_one_size(judged)):
        return f"gets {argument}"
    open_types = {name for name, kind in source.scope.types.items() if kind == ELEMENT}
    is_open = open_types & words(" ".join(source.scope.pointers.values()))
    fault = judged.fault
    if is_open and fault and fault.outcome is Outcome.WRONG and _SHORT.search(source.device):
        return f"gets matrices of an unknown type {min(is_open)}"
    # Of a launch that is not from code, only the names that the product sets are open.
    given = {
        named(target): words(each)
        for each, target in targets(source.main, source.kernel)
        if _NUMBER.search(target) and (source.main.line or words(each) & set(names))
    }
    declared = (declarations_in(each).items() for each in source.main.declarations)
    literals = {n for each in declared for n, v in each if re.search(r"=\s*\d+$", v)} - {*SIZES}
    passed = set[str]().union(*given.values())
    sizes = [name for name, size in names.items() if size in SIZES]
    given |= {name: set() for name in sizes if name not in passed}
    for name, values in given.items():
        pointers = judged.reading.matrices
        said = (name, *(values - literals))
        is_said = any(meaning_of(n) or size_of(n, pointers) or is_count(n) for n in said)
        if not (is_said or is_edge(name)):
            return f"the meaning of {name} is unknown"
    if source.main.line and not source.loops_over_blocks and _fixes_blocks(judged):
        return "has a number of blocks that is for one size"
    if source.scope.absent and _AT_NULL.search(str(fault)):
        return f"gets no {next(iter(source.scope.absent))} in host execution"
    of_step = any(f" of {name}," in str(fault) for name in source.scope.allocated)
    if "nothing was stored there" in str(fault) and sets_c(source, judged.reading) and not of_step:
        return "reads a matrix that its file sets"
    return next((step.unknown for step in source.steps if step.unknown), None)


def _fixes_blocks(judged: Judged) -> bool:
    """Return whether a grid has several blocks along an axis, as many at all sizes.

    If sums may be divided, because a product has several steps or atomic sums, z is not counted: it
    may be the number of parts.
    """
    source = judged.source
    trial = Trial(source.library("launch"), judged.reading)
    axes = 2 if source.steps[1:] or "atomicAdd" in source.kernel.text else 3
    grids = [trial.configured(Shape.square(n * LARGE_SHAPE)).grid[:axes] for n in (1, 2)]
    return any(small == large > 1 for small, large in zip(*grids, strict=True))


def _for_one_size(judged: Judged) -> str | None:
    """Return an argument that is constant, or that a kernel gets as two sizes; else None."""
    source, scope = judged.source, judged.source.scope
    pairs = targets(source.main, source.kernel)
    given = [(each, named(target)) for each, target in pairs if COUNTS.search(target)]
    given = [(each, name) for each, name in given if not (meaning_of(name) or is_edge(name))]
    sizes = [each for each, _ in {(each, size_named(name) or name) for each, name in given}]
    for each, name in given:
        is_set = rf"\b{re.escape(each)}\s*=\s*\d+\s*[,;]"
        is_constant = each.isdecimal() or re.search(is_set, " ".join(scope.statements(source.main)))
        if is_constant or (sizes.count(each) > 1 and not judged.reading.is_square):
            return f"{each} for its {name}"
    return None


def _packs_bytes(judged: Judged) -> bool:
    """Return whether a kernel of 32-bit integers treats each as four packed bytes."""
    code = without_comments(judged.source.device)
    precision = judged.reading.precision
    is_whole = np.dtype(precision.a.dtype).itemsize == 4 and not precision.a.digits
    return is_whole and re.search(r"\b(?:u?int8_t|u?char\d?|__dp4a)\b", code) is not None


def _padded_matrix(judged: Judged, option: str | None) -> str | None:
    """Return the matrix for which the file allocates more memory than its size, or None."""
    source, reading, shape = judged.source, judged.reading, judged.shapes[0]
    if not re.search(r"element \d+ of .* is out of bounds", judged.fault or ""):
        return None
    steps = [each for each in of_file(source.text, option) if each.name == MALLOC]
    mallocs = [each for each in steps if each.enclosing == source.main.enclosing]
    padded = Source.of(source.path, source.text, *mallocs, *source.steps)
    pointers = list(padded.scope.pointers)
    if pointers != list(source.scope.pointers):
        return None
    with suppress(StudyError):
        allocated = padded.library("launch").allocated(reading.values(shape), len(pointers))
        operands = Operands.random(shape, 1, reading)
        sizes = {"A": operands.a.nbytes, "B": operands.b.nbytes, "C": operands.c.nbytes}
        roles = [reading.matrices[pointer] for pointer in pointers]
        named_sizes = zip(roles, allocated, strict=True)
        return next((name for name, size in named_sizes if size > sizes.get(name, size)), None)
    return None
