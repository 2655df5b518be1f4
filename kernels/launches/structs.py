"""Matrices that a kernel takes as structures: a pointer to the elements, and sizes."""

import re

from kernels.launches.expression import declared_names, named, parameters, statements
from kernels.launches.pieces import Piece, blanked, pieces
from kernels.launches.roles import SIZES, is_bias, matrices, meaning_of, plain

_STRUCTURE = re.compile(r"\b(?:struct|class)\b\s*(\w*)[^{;]*\{(.*)\}\s*(\w*)\s*;", re.DOTALL)
_COLUMNS = r"(?:n|num)?_?(?:w|width|col(?:umn)?s?|stride|pitch|ld\w*)"
_ROWS = r"(?:n|num)?_?(?:h|height|rows?)"
_SIZES = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}


def arguments_of(text: str, name: str, kernel: Piece) -> tuple[str, tuple[str, ...]]:
    """Return a kernel's arguments, and the statements that declare those that are structures."""
    given = parameters(kernel, name)
    fields = {parameter: _fields(text, parameter) for parameter in given}
    structures = {named(parameter): parameter for parameter in given if fields[parameter]}
    taken = structures or {named(each): each for each in given if re.search(r"[*\[]", each)}
    # The names of sizes have another meaning in a launch.
    is_renamed = len(taken) == len(_SIZES) and (structures or set(SIZES) & set(taken))
    roles = next(matrices(taken)) if is_renamed else {}
    names, declared = [], []
    for parameter in given:
        role = roles.get(named(parameter), named(parameter))
        names.append(f"matrix_{role}" if structures and role in _SIZES else role)
        if fields[parameter] and roles:
            kind = re.sub(r"\bconst\b|&", "", parameter).split()[0]
            declared.append(f"{kind} matrix_{role}{{}};")
            pointer, *sizes = fields[parameter]
            values = {pointer: role} | {size: _value(size, role) for size in sizes}
            declared += [f"matrix_{role}.{field} = {v};" for field, v in values.items() if v]
    return ", ".join(names), tuple(declared)


def matrix_count(text: str, name: str, kernel: Piece) -> int:
    """Return how many parameters of a kernel can be matrices: pointers and structures."""
    return sum(
        bool(re.search(r"[*\[]", parameter)) or bool(_fields(text, parameter))
        for parameter in parameters(kernel, name)
        if not meaning_of(named(parameter)) and not is_bias(named(parameter))
    )


def _fields(text: str, parameter: str) -> list[str]:
    """Return the fields of the structure that a parameter is: a pointer (first) and sizes."""
    if "*" in parameter:
        return []
    for piece in pieces(text):
        structure = _STRUCTURE.search(blanked(piece.text))
        if structure and {structure[1], structure[3]} & set(parameter.split()) - {""}:
            parts = statements(structure[2])
            pointers = [name for part in parts if "*" in part for name in declared_names(part)]
            others = [name for part in parts if "*" not in part for name in declared_names(part)]
            return [*pointers, *sorted(others)] if len(pointers) == 1 else []
    return []


def _value(field: str, role: str) -> str:
    """Return the meaning of a field of a matrix, "" if it is unknown."""
    rows, columns = _SIZES[role]
    if re.fullmatch(_COLUMNS, plain(field)):
        return columns
    return rows if re.fullmatch(_ROWS, plain(field)) else ""
