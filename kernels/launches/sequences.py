"""The launches of one product in order, such as split sums or transposes before the product.

Launches that the user declares belong to one product until A, B and C have occurred. In code of the
host, a launch belongs to the product whose kernel reads what the launch stores.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from kernels.launches.expression import MALLOC, MEMSET, Launch, is_pointer, targets, words
from kernels.launches.in_files import of_file
from kernels.launches.pieces import NOTHING, Piece, closing, kernels_of, named, split_list
from kernels.launches.roles import MATRICES, letter, meaning_of, plain

Steps = tuple[Launch, ...]
_ATOMIC = r"\batomic\w+\s*\([^;]*\b{}\b"


def sequences(text: str, option: str | None) -> list[Steps]:
    """Return the products of several steps in a file, declared or found, in order."""
    declared = of_file(text, option)
    if not declared:
        return []
    kernels = kernels_of(text)
    if any(step.line for step in declared):
        return list(_in_code(declared, kernels))
    return [steps for steps in _declared(declared, kernels) if len(steps) > 1]


def _declared(steps: Sequence[Launch], kernels: dict[str, Piece]) -> list[Steps]:
    """Return declared launches in groups with A, B and C; later ones belong to the last group."""
    groups: list[list[Launch]] = [[]]
    for step in steps:
        if _is_complete(groups[-1], kernels):
            groups.append([])
        groups[-1].append(step)
    if len(groups) > 1 and not _is_complete(groups[-1], kernels):
        groups[-2] += groups.pop()
    return [tuple(group) for group in groups]


def _is_complete(steps: Sequence[Launch], kernels: dict[str, Piece]) -> bool:
    """Return whether the arguments of these launches include A, B and C."""
    names = {name for step in steps for name in _flow(step, kernels)}
    return {*map(letter, names)} >= set(MATRICES)


def _in_code(steps: Sequence[Launch], kernels: dict[str, Piece]) -> Iterator[Steps]:
    """Yield products of several steps in the functions of the host."""
    mallocs = [step for step in steps if step.name == MALLOC]
    by_function = groupby(steps, key=lambda step: step.enclosing.begin)
    for launched in (list(group) for _, group in by_function):
        for place, last in enumerate(launched):
            if last.is_of_memory:
                continue
            chosen = _slice(launched, place, kernels)
            names = {name for step in chosen for name in _flow(step, kernels)}
            letters = {letter(name): name for name in names}
            stored = _stored(last, kernels)
            if set(MATRICES) <= set(letters):
                stored &= {letters["C"]}
                temporary = names - {letters[matrix] for matrix in MATRICES}
            else:
                copies = [step for step in chosen if len(_flow(step, kernels)) > 1]
                temporary = _passed_on(copies, kernels)
            calls = [_malloc(name, launched, mallocs) for name in sorted(temporary)]
            found = (*filter(None, calls), *chosen)
            if len(found) > 1 and len(names) >= len(MATRICES) and stored:
                yield found


def _slice(steps: Sequence[Launch], place: int, kernels: dict[str, Piece]) -> list[Launch]:
    """Return a launch and the launches that store what it reads: those before it, if any.

    Launches that store A or B are no steps, nor are other products and launches of the same kernel.
    """
    inputs = [{"A", "B"} & {*map(letter, _stored(step, kernels))} for step in steps]
    possible = [
        not stored and not _is_complete([step], kernels) and step.name != steps[place].name
        for step, stored in zip(steps, inputs, strict=True)
    ]
    chosen = {place: steps[place]}
    for before in range(place - 1, -1, -1):
        later = [chosen[each] for each in sorted(chosen)]
        if possible[before] and _passed_on([steps[before], *later], kernels, 1):
            chosen[before] = steps[before]
    stored = set[str]().union(*(_stored(step, kernels) for step in chosen.values()))
    missing = {name for name, (is_read, _) in _flow(steps[place], kernels).items() if is_read}
    missing -= stored
    for behind in range(place + 1, len(steps)):
        if possible[behind] and missing & _stored(steps[behind], kernels):
            chosen[behind] = steps[behind]
    return [chosen[each] for each in sorted(chosen)]


def _stored(step: Launch, kernels: dict[str, Piece]) -> set[str]:
    """Return the pointers through which a launch stores."""
    return {name for name, (_, is_stored) in _flow(step, kernels).items() if is_stored}


def _passed_on(
    steps: Sequence[Launch], kernels: dict[str, Piece], first: int | None = None
) -> set[str]:
    """Return the buffers that one of the `first` launches (or any) stores and a later one reads."""
    flows = [_flow(step, kernels) for step in steps]
    return {
        name
        for place, flow in enumerate(flows[:first])
        for name, (_, is_stored) in flow.items()
        if is_stored and any(later.get(name, (False,))[0] for later in flows[place + 1 :])
    }


def _malloc(name: str, here: Sequence[Launch], mallocs: Sequence[Launch]) -> Launch | None:
    """Return the allocation of a buffer: in the same function, or else by a similar name."""
    for calls, same in ((here, str), (mallocs, plain)):
        for call in calls:
            pointer, size = split_list(call.arguments)[:2]
            if call.name == MALLOC and same(pointer) == same(name):
                return replace(call, arguments=f"{name}, {size}")
    return None


def _flow(step: Launch, kernels: dict[str, Piece]) -> dict[str, tuple[bool, bool]]:
    """Return for each pointer of a launch whether its kernel reads and whether it stores there."""
    given = split_list(step.arguments)
    if step.name == MEMSET:
        return {given[0]: (False, True)}
    kernel = kernels.get(step.name, NOTHING)
    pairs = [
        (argument, parameter)
        for argument, parameter in targets(step, kernel)
        if is_pointer(parameter) and re.fullmatch(r"\w+", argument)
    ]
    body = kernel.code[len(kernel.header) :]
    flow = {argument: _uses(body, parameter) for argument, parameter in pairs}
    if not any(is_stored for _, is_stored in flow.values()):  # it may store by another pointer
        constant = {argument for argument, parameter in pairs if "const" in words(parameter)}
        flow = {argument: (True, argument not in constant) for argument in flow}
    return {name: uses for name, uses in flow.items() if not meaning_of(name)}


def _uses(body: str, parameter: str) -> tuple[bool, bool]:
    """Return whether a kernel reads the memory of a parameter, and whether it stores there.

    If the kernel only adds to the memory, it also reads it. If it stores there as well, it does not
    count as read, because its factor can be 0.
    """
    name = named(parameter)
    if re.search(r"\bconst\b[^*]*[*\[]", parameter):
        return True, False
    if re.search(_ATOMIC.format(name), body):
        return True, True
    is_added = is_stored = False
    for use in re.finditer(rf"\b{name}\s*(?=\[)", body):
        end = closing(body, use.end())
        operator = re.match(r"[\s)]*(?:\[0\])?(?:\.[xyzw])?\s*([-+*]?)=(?!=)", body[end:])
        is_stored |= operator is not None
        is_added |= bool(operator and operator[1])
    is_stored |= bool(re.search(rf"\bstore\w*\s*\([^,;]*\b{name}\b", body))
    if is_stored:
        return is_added, True
    aliases = re.findall(rf"\b(\w+)\s*=[^;=]*\b{name}\b", body)
    is_stored = any(re.search(rf"\b{alias}\s*\[[^;]*\]\s*=(?!=)", body) for alias in aliases)
    return not is_stored, is_stored
