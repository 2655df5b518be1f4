"""Matrices that a kernel takes as structures, which contain a pointer and sizes."""

import re
from dataclasses import replace
from functools import lru_cache

from kernels.launches.expression import Launch, declarations_in, is_pointer, statements, targets
from kernels.launches.pieces import Piece, named, pieces
from kernels.launches.roles import SIZES, is_bias, matrices, meaning_of, plain

_STRUCTURE = re.compile(r"\b(?:struct|class)\b\s*(\w*)[^{;]*\{(.*)\}\s*(\w*)\s*;", re.DOTALL)
_COLUMNS = r"(?:n|num)?_?(?:w|width|col(?:umn)?s?|stride|pitch|ld\w*)"
_ROWS = r"(?:n|num)?_?(?:h|height|rows?)"
_SIZES = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}


def arguments_of(text: str, kernel: Piece) -> tuple[str, tuple[str, ...]]:
    """Return the arguments for a kernel, and statements that declare those that are structures."""
    given = kernel.parameters
    fields = {parameter: _fields(text, parameter) for parameter in given}
    structures = {
        named(each): each for each in given if " ".join(fields[each].values()).count("*") == 1
    }
    taken = structures or {named(each): each for each in given if is_pointer(each)}
    # Pointers named M, N or K are renamed, because these names mean sizes in a launch.
    is_renamed = len(taken) == len(_SIZES) and (structures or set(SIZES) & set(taken))
    roles = next(matrices(taken)) if is_renamed else {}
    names, declared = [], []
    for parameter in given:
        role = roles.get(named(parameter), named(parameter))
        names.append(f"matrix_{role}" if structures and role in _SIZES else role)
        if named(parameter) in structures and roles:
            declared.append(f"{_kind(parameter)} matrix_{role}{{}};")
            values = {
                name: role if "*" in field else _value(name, role)
                for name, field in fields[parameter].items()
            }
            declared += [f"matrix_{role}.{field} = {v};" for field, v in values.items() if v]
    return ", ".join(names), tuple(declared)


def with_fields(text: str, launch: Launch, kernel: Piece) -> Launch:
    """Return a launch that sets the fields of a structure with all matrices, got from a caller."""
    declared = {name for each in launch.declarations for name in declarations_in(each)}
    for argument, target in targets(launch, kernel):
        fields = _fields(text, target)
        if argument not in declared and "".join(fields.values()).count("*") == len(_SIZES):
            values = (f"{argument}.{field} = {field};" for field in fields)
            statements_before = f"{_kind(target)} {argument}{{}};", *values, *launch.declarations
            return replace(launch, declarations=statements_before)
    return launch


def _kind(parameter: str) -> str:
    return re.sub(r"\b(?:const|__grid_constant__)\b|&", "", parameter).split()[0]


def members(text: str, launch: Launch, kernel: Piece) -> dict[str, str]:
    """Return what each value in the structures of a launch means, by the fields that get them."""
    values = dict[str, str]()
    for argument, target in targets(launch, kernel):
        fields = _fields(text, target)
        for statement in launch.declarations if fields else ():
            if match := re.match(rf"{argument}\s*\.\s*(\w+)\s*=\s*(.*);", statement):
                values[match[2]] = fields.get(match[1], "")
    return values


def matrix_count(text: str, kernel: Piece) -> int:
    """Return how many parameters of a kernel, or fields of them, can be matrices."""
    fields = [field for each in kernel.parameters for field in _fields(text, each).values()]
    names = [named(each) for each in (*kernel.parameters, *fields) if is_pointer(each)]
    return sum(not meaning_of(each) and not is_bias(each) for each in names)


def _fields(text: str, parameter: str) -> dict[str, str]:
    """Return the fields of the structure that is a parameter's type, with their meaning by name."""
    if "*" in parameter:
        return {}
    structures = _structures(text)
    kind = next((word for word in re.findall(r"\w+", parameter) if word in structures), None)
    fields = dict[str, str]()
    for statement in statements(structures[kind]) if kind else ():
        fields |= declarations_in(statement)
    return fields


@lru_cache(8)
def _structures(text: str) -> dict[str, str]:
    """Return the contents of the structures that a source defines, by name."""
    found = [_STRUCTURE.search(piece.code) for piece in pieces(text)]
    named_twice = [(name, each[2]) for each in filter(None, found) for name in (each[1], each[3])]
    return {name: inside for name, inside in reversed(named_twice) if name}


def _value(field: str, role: str) -> str:
    """Return the size that a field of a matrix means, judged by its name; "" if it is unknown."""
    rows, columns = _SIZES[role]
    if re.fullmatch(_COLUMNS, plain(field)):
        return columns
    return rows if re.fullmatch(_ROWS, plain(field)) else ""
