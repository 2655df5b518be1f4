"""Sizes that a file fixes by macros and by constants outside of functions.

A kernel may use such a constant as a size, or its caller may pass it. To check the kernel at
several sizes, each product sets these constants to its own sizes, unless the size of an array or a
template argument depends on them.
"""

import re
from collections.abc import Iterable, Sequence

from kernels.launches.expression import (
    Launch,
    declarations_in,
    edges_of_blocks,
    is_pointer,
    targets,
    without_names,
    words,
)
from kernels.launches.pieces import Piece, blanked, named, pieces
from kernels.launches.roles import size_named

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\(?)[ \t]*(.*)$", re.MULTILINE)
_NUMBER = re.compile(
    r"\s*(?:(?:static|inline|const|constexpr|__constant__|__device__)\s+)*"
    r"((?:unsigned|signed|long|short|int|auto|size_t|u?int\d*(?:_t)?)\b[\s\w]*?)\s+\w+\s*[={;,]"
)
_DIMENSIONS = (
    r"\b[A-Za-z_]\w*[\s>*]+\w+\s*(?:\[[^]]*\]\s*)*\[[^]]*\b{}\b[^]]*\]\s*(?:\[[^]]*\]\s*)*[;={{,]"
)
_IN_ANGLES = r"<[^<>;()]*\b{}\b[^<>;()]*>"


def macros(text: str, launch: str) -> set[str]:
    """Return the names of macros and constants that a source defines outside of functions.

    A macro with parameters counts only if the text of a launch calls it.
    """
    return {
        name
        for name, opening, _ in _MACRO.findall(blanked(text))
        if not opening or re.search(rf"\b{name}\s*\(", launch)
    } | {name for name, piece in variables(text).items() if not _is_of_host(name, piece)}


def _is_of_host(name: str, variable: Piece) -> bool:
    """Return whether a variable is a size that only host code can read and change."""
    code = blanked(variable.text)
    is_fixed = re.search(r"\bconst(?:expr)?\b|__(?:constant|device|managed)__", code)
    return bool(_NUMBER.match(code) and not is_fixed and size_named(name))


def variables(text: str) -> dict[str, Piece]:
    """Return the variables and constants that a source declares outside of functions."""
    return {
        name: piece
        for piece in pieces(text)
        if piece.body is None and not piece.is_directive
        for name in declarations_in(" ".join(piece.code.split()))
    }


def settable(text: str, launch: Launch, kernel: Piece) -> dict[str, str]:
    """Return the constants that a product sets to its sizes, with their types.

    These constants are arguments of a launch, or sizes of a kernel without such arguments, or sizes
    that a program copies to constant memory.
    """
    of_file = variables(text)
    kinds = {name: kind for name, each in of_file.items() if (kind := _kind(each))}
    bodies = _bodies(text).items()
    whole_numbers = {name: "int" for name, body in bodies if re.match(r"[\s(]*\w", body)} | kinds
    names = {argument for argument, target in targets(launch, kernel) if not is_pointer(target)}
    names |= set(fixed_sizes(text, kernel).values())
    declared = {name: of_file[name].code for name in words(kernel.text) & set(of_file)}
    names |= {n for n, each in declared.items() if re.search(r"__constant__[^={]*$", each)}
    names &= set(whole_numbers)
    if names:  # the grid may depend on the others
        in_launch = words(str(launch)) & set(whole_numbers)
        names |= {name for name in in_launch if size_named(name)}
        names -= edges_of_blocks(launch)
    return {name: whole_numbers[name] for name in sorted(names) if _is_free(text, name, launch)}


def _kind(variable: Piece) -> str | None:
    """Return the type of a variable that is an integer; None for others."""
    kind = _NUMBER.match(variable.code)
    return kind and (" ".join(re.sub(r"\b(?:auto|const(?:expr)?)\b", "", kind[1]).split()) or "int")


def _is_free(text: str, name: str, launch: Launch) -> bool:
    """Return whether no array size, template argument or other constant depends on it."""
    codes = [piece.code for piece in pieces(text) if piece.is_for_the_device]
    of_file = variables(text)
    of_others = [
        piece.text
        for piece in of_file.values()  # without arrays of the host
        if piece != of_file.get(name) and (piece.is_for_the_device or "const" in words(piece.code))
    ]
    is_elsewhere = any(name in words(text_of) for text_of in [*of_others, launch.kernel])
    return not is_elsewhere and not _is_edge(codes, name, (_DIMENSIONS, _IN_ANGLES))


def _is_edge(codes: Sequence[str], name: str, patterns: Sequence[str]) -> bool:
    """Return whether a constant is used in array sizes or template arguments (`patterns`)."""
    return any(re.search(pattern.format(name), code) for pattern in patterns for code in codes)


def with_variables(text: str, names: Iterable[str], value: int | None = None) -> str:
    """Return a source whose constants are variables, which are set before each launch.

    With a `value`, they become constants of this value instead.
    """
    word, given = ("__constant__", "") if value is None else ("constexpr", f" = {value}")
    text = _with_counts(text, names)
    for name in names:
        variable = f"{word} int {name}{given};"
        macro = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b[^\n]*", text, re.MULTILINE)
        if macro:
            text = text[: macro.start()] + variable + text[macro.end() :]
        elif piece := variables(text).get(name):
            others = without_names(" ".join(piece.code.split()), {name})
            variable = f"{word} {_kind(piece) or 'int'} {name}{given}; {others}"
            blank = "\n" * piece.text.count("\n")
            text = text[: piece.begin] + blank + variable + text[piece.end :]
    return text


def _with_counts(text: str, names: Iterable[str]) -> str:
    """Return a source in which numbers of tiles are computed from the sizes.

    If the macro of a size is a product of a number of tiles and a tile edge, that number becomes
    the size divided by the edge.
    """
    bodies = _bodies(text)
    codes = [piece.code for piece in pieces(text) if piece.is_for_the_device]
    for name in names:
        factors = re.fullmatch(r"[\s(]*(\w+)\s*\*\s*(\w+)[\s)]*", bodies.get(name, ""))
        if not factors:
            continue
        for count, edge in (factors.groups()[::-1], factors.groups()):
            is_number = re.fullmatch(r"[\s(]*\d+[\s)]*", bodies.get(count, ""))
            if is_number and not _is_edge(codes, count, (_DIMENSIONS, _IN_ANGLES)):
                define = rf"^([ \t]*#[ \t]*define[ \t]+{count}\b)[^\n]*"
                text = re.sub(define, rf"\1 ({name} / {edge})", text, flags=re.MULTILINE)
                break
    return text


def fixed_sizes(text: str, kernel: Piece) -> dict[str, str]:
    """Return the macros and constants that stand for M, N and K in a kernel without such arguments.

    If one name stands for all three sizes, it means N. If the kernel names only N and K, the
    constant for M has the name of N with the letter replaced.
    """
    numbers = [each for each in kernel.parameters if not is_pointer(each)]
    if any(size_named(named(each)) for each in numbers):
        return {}
    code, defined = kernel.code, macros(text, "")
    reached = _through_macros(text, sorted(words(code) & defined, key=code.index))
    for edges in ((_IN_ANGLES, _DIMENSIONS), (_IN_ANGLES,)):  # edges of tiles are no sizes
        names = [name for name in reached if name in defined and not _is_edge([code], name, edges)]
        sizes = {size: name for name in reversed(names) if (size := size_named(name))}
        if set(sizes) == {"N", "K"}:
            rows = sizes["N"].translate(str.maketrans("Nn", "Mm"))
            sizes |= {"M": rows} if rows in defined and size_named(rows) == "M" else {}
        if "N" in sizes:
            return sizes
    return {}


def _bodies(text: str) -> dict[str, str]:
    """Return the bodies of the macros without parameters, by name."""
    return {name: body for name, opening, body in _MACRO.findall(blanked(text)) if not opening}


def _through_macros(text: str, names: Sequence[str]) -> list[str]:
    """Return the names, followed by all names in the bodies of those that are macros."""
    bodies = _bodies(text)
    reached = list(names)
    for name in reached:  # the list grows in the loop
        reached += sorted(words(bodies.get(name, "")) - set(reached))
    return reached
