"""Guessing which names of a launch are sizes and matrices; each such reading is then checked."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from base.paths import shown
from kernels.host_execution.compiler import NotSupported
from kernels.launches.constants import fixed_sizes
from kernels.launches.expression import declarations_in, is_pointer, targets, words
from kernels.launches.library import Source
from kernels.launches.pieces import closing, named, split_list
from kernels.launches.reading import C_BEFORE, LAYOUTS, Reading
from kernels.launches.roles import (
    ADDEND,
    BATCH,
    EQUAL,
    FACTOR,
    MATRICES,
    SIZES,
    is_count,
    letter,
    matrices,
    meanings,
)

_MOST = 12  # meanings of the names that a check tries


def readings(source: Source) -> Iterator[Reading]:
    """Yield the readings of a launch to check, the likeliest first."""
    names, constants = list(source.scope.numbers), set(source.scope.constants)
    of_kernel = words(source.kernel.text) | {*fixed_sizes(source.text, source.kernel).values()}
    reached = source.arguments | (of_kernel & constants)
    given_names = source.arguments | constants
    implied = {name: name for name in names if name in SIZES and name not in given_names}
    asked = [name for name in names if name not in implied]
    if pitches := [name for name in asked if "pitch" in name.lower()]:
        raise NotSupported(
            f"{shown(source.path)}: {source.name}: {pitches[0]} is in bytes or in elements; write "
            "which in --launch, such as K * sizeof(float)"
        )
    given = split_list(source.main.arguments)
    pairs, unused = targets(source.main, source.kernel), source.unused_factors
    ignored = {argument for argument, target in pairs if named(target) in unused}
    roles = _roles(source)
    choices = (
        choice
        for choice in meanings(asked, _counts(source), roles[0])
        if all(given.count(name) < 2 for name, size in choice.items() if size in EQUAL)
    )
    for found, places in itertools.islice(itertools.product(choices, roles), _MOST):
        numbers = {name: (implied | found)[name] for name in names}
        numbers |= dict.fromkeys(ignored & set(names), FACTOR)
        sizes = {numbers[name] for name in reached & set(names)} & {*SIZES, *EQUAL}
        adds = source.reads_c or ADDEND in places.values() or "BETA" in numbers.values()
        is_square = len(sizes) < 2 or source.main.is_square
        reading = Reading(numbers, places, is_square, adds, precision=source.precision)
        if reading.has_leading_dimensions and len(source.launches) == 1 and not reading.has_addend:
            reading = replace(reading, takes_padding=len(sizes) in (1, len(SIZES)))
        yield reading
        if reading.is_batched:
            yield replace(reading, shares_b=True)
        if reading.has_leading_dimensions:
            for layout in list(LAYOUTS)[1:]:
                yield replace(reading, layout=layout)


def with_c(source: Source, reading: Reading) -> list[Reading]:
    """Return readings of a kernel that loads C: without effect, or as the file sets it before."""
    before = list(C_BEFORE) if sets_c(source, reading) and not reading.is_batched else []
    return [
        replace(reading, loads_c=True),
        *(replace(reading, reads_c=True, c_before=use) for use in before),
    ]


def sets_c(source: Source, reading: Reading) -> bool:
    """Return whether the function around a launch stores to C, or gets C from its caller."""
    function = source.main.enclosing
    c = "|".join(name for name, role in reading.matrices.items() if role == "C")
    sets = rf"\b(?:\w*Memcpy\w*|\w*fill\w*)\s*\(\s*(?:{c})\b|\b(?:{c})\s*\[[^]]*\]\s*="
    is_given = c in map(named, function.parameters)
    return is_given or re.search(sets, function.code) is not None


def _roles(source: Source) -> list[dict[str, str]]:
    """Return roles that a launch's pointers can have, the likeliest first; raise NotSupported."""
    pointers = source.scope.pointers
    names = dict(zip(_names_of(source), pointers, strict=True))  # as roles need them
    kinds = {name: pointers[pointer] for name, pointer in names.items()}
    allocated = [name for name, pointer in names.items() if pointer in source.scope.allocated]
    roles = [{names[name]: each[name] for name in names} for each in matrices(kinds, allocated)]
    is_named = sorted(map(letter, names)) == ["A", "B", "C", "D"]
    adds = bool(roles) and ADDEND in roles[0].values()
    if not roles or (adds and not (source.reads_c or is_named)):
        raise NotSupported(
            f"{shown(source.path)}: {source.name}: A, B and C are not known among "
            f"{', '.join(pointers)}; name them in --launch, and allocate others there: "
            "cudaMalloc(&W, BYTES)"
        )
    return roles


def _names_of(source: Source) -> list[str]:
    """Return names for the pointers: the kernel's parameters if only these contain A, B and C."""
    pointers = list(source.scope.pointers)
    parameter_of = dict(targets(source.main, source.kernel))
    names = [named(parameter_of.get(pointer, pointer)) for pointer in pointers]
    letters, others = {*map(letter, names)}, {*map(letter, pointers)}
    is_better = letters >= set(MATRICES) and not others >= set(MATRICES)
    return names if is_better and len({*names}) == len(names) else pointers


def _counts(source: Source) -> dict[str, str]:
    """Return the numbers of a launch that are only factors of its arguments, or batch counts."""
    main, numbers, counts = source.main, source.scope.numbers, dict[str, str]()
    value_of = {name: each for each in main.declarations for name in declarations_in(each)}
    grid = split_list(main.configuration)[0]
    sizes = value_of.get(grid, grid)
    opening = re.search(rf"\b(?:dim3|{re.escape(grid)})\s*(?=[({{])", sizes)
    inside = sizes[opening.end() + 1 : closing(sizes, opening.end()) - 1] if opening else ""
    arguments = {*split_list(main.arguments)}
    layers = [(layer, BATCH) for layer in split_list(inside)[2:3] if not words(layer) & arguments]
    given = [(each, to) for each, to in targets(main, source.kernel) if not is_pointer(to)]
    for argument, target in [*given, *layers]:
        code = argument if argument in numbers else value_of.get(argument, argument)
        names = [name for name in dict.fromkeys(re.findall(r"\w+", code)) if name in numbers]
        if not re.search(r"[-+/%{]", code):
            counts |= dict.fromkeys(set(names[:-1]) - arguments, FACTOR)
        if names and len(named(target)) > 1 and is_count(named(target)):
            counts[names[-1]] = BATCH
    return counts
