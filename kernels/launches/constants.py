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
# A constant and its value.
_DERIVED = re.compile(r"\s*(?:(?:static|inline|const|constexpr|[a-z]\w*)\s+)+\w+\s*=\s*([^;{,]*);")
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
    """Return whether a variable is a size or a pointer that only host code can read and change."""
    code = variable.code
    is_size = _NUMBER.match(code) and size_named(name) and not re.search(r"\bconst", code)
    is_pointer_of_host = re.match(r"[\w\s:]+\*[\w\s,*]+;", code)
    is_on_device = re.search(r"__(?:constant|device|managed)__", code)
    return bool(is_size or is_pointer_of_host) and not is_on_device


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
    free = {name: whole_numbers[name] for name in sorted(names) if _is_free(text, name, launch)}
    return free if {*fixed_sizes(text, kernel).values()} & names <= {*free} else {}


def _kind(variable: Piece) -> str | None:
    """Return the type of a variable that is an integer; None for others."""
    kind = _NUMBER.match(variable.code)
    return kind and (" ".join(re.sub(r"\b(?:auto|const(?:expr)?)\b", "", kind[1]).split()) or "int")


def _is_free(text: str, name: str, launch: Launch) -> bool:
    """Return whether no array size or template argument depends on it, through constants or not."""
    codes = [piece.code for piece in pieces(text) if piece.is_for_the_device]
    of_file = variables(text)
    of_others = {
        other: piece.code
        for other, piece in of_file.items()  # without arrays of the host
        if piece != of_file.get(name) and (piece.is_for_the_device or "const" in words(piece.code))
    }
    derived = [other for other, code in of_others.items() if name in words(code)]
    if name in words(launch.kernel) or _is_edge(codes, name, (_DIMENSIONS, _IN_ANGLES)):
        return False
    return all(_DERIVED.match(of_others[n]) and _is_free(text, n, launch) for n in derived)


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
    derived = dict[str, tuple[Piece, str]]()
    for name, piece in variables(text).items():
        of_sizes = _DERIVED.match(piece.code)  # such as a number of tiles
        if of_sizes and words(of_sizes[1]) & {*names, *derived}:
            derived[name] = piece, " ".join(of_sizes[1].split())
    for name, (piece, define) in reversed(derived.items()):
        begin, end = "\n" * piece.text.count("\n") or "\n", text[piece.end :]
        end = end if re.match(r"\s*\n", blanked(end)) else f"\n{end}"
        text = f"{text[: piece.begin]}{begin}#define {name} ({define}){end}"
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
    bodies, reached = _bodies(text), sorted(words(code) & defined, key=code.index)
    for name in reached:  # the list grows in the loop
        reached += sorted(words(bodies.get(name, "")) - set(reached))
    for edges in ((_IN_ANGLES, _DIMENSIONS), (_IN_ANGLES,)):  # edges of tiles are no sizes
        names = [name for name in reached if name in defined and not _is_edge([code], name, edges)]
        sizes = {size: name for name in reversed(names) if (size := size_named(name))}
        if set(sizes) == {"N", "K"}:
            rows = sizes["N"].translate(str.maketrans("Nn", "Mm"))
            sizes |= {"M": rows} if rows in defined and size_named(rows) == "M" else {}
        if "N" in sizes and {*sizes} != {"M", "N"}:
            return sizes
    return sizes if "N" in sizes else {}


def _bodies(text: str) -> dict[str, str]:
    """Return the bodies of the macros without parameters, by name."""
    return {name: body for name, opening, body in _MACRO.findall(blanked(text)) if not opening}
