"""Dividing a CUDA source into top-level pieces: directives, functions and other declarations.

The code is parsed by compilers only. This module just finds where a piece begins and ends, so that
code of the host can be removed from code for the device.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

_IGNORED = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    r'|R"(?P<tag>[^(\s]{0,16})\(.*?\)(?P=tag)"',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*#(?:\\\r?\n|[^\n])*")
# Beginnings of blocks, such as namespaces, whose contents are separate pieces.
_TRANSPARENT = re.compile(r'(?:extern\s+"[^"]*"|(?:inline\s+)?namespace\b[\w\s:]*)\s*$')
_CONDITION = re.compile(
    r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(.*?)\s*(?://.*|/\*.*)?$", re.MULTILINE
)
_TYPE = re.compile(r"\b(?:struct|class|union|enum)\b(?![^{]*\)\s*(?:const)?\s*$)")
_NAMED_POINTER = re.compile(r"\busing\s+(\w+)\s*=\s*([\w\s:]+?)\s*\*\s*;")
_VECTOR = re.compile(r"\b(?:thrust::)?device_vector\s*<\s*([\w:]+)\s*>\s*&?\s*(\w+)")
_ADDRESS = re.compile(
    r"\b(?:thrust::)?raw_pointer_cast\s*\(\s*&?\s*(\w+)(?:\.data\(\)|\[0\])?\s*\)"
)
_ON_DEVICE = re.compile(
    r"\b(?:__device__|__global__|__shared__|constexpr|consteval|__constant__)\b"
)

# Arguments of a template, which may contain brackets.
_PARENTHESES = r"\((?:[^()]|\([^()]*\))*\)"
_INNER = rf"(?:[^<>(){{}};]|{_PARENTHESES})*"
OUTER = rf"(?:[^<>(){{}};]|{_PARENTHESES}|<{_INNER}(?:<{_INNER}>{_INNER})*>)*"
_TEMPLATE = re.compile(rf"\btemplate\s*<({OUTER})>")


@dataclass(frozen=True)
class Piece:
    """A top-level piece of a source from `begin` to `end`; its block, if any, begins at `body`."""

    text: str
    begin: int
    end: int
    body: int | None = None

    @cached_property
    def code(self) -> str:
        """The text in which comments and strings are blank."""
        return blanked(self.text)

    @cached_property
    def head(self) -> str:
        """The header in which comments and strings are blank."""
        return blanked(self.header)

    @property
    def header(self) -> str:
        """The text before the block, or all of the text if there is no block."""
        return self.text[: self.end - self.begin if self.body is None else self.body - self.begin]

    @property
    def is_directive(self) -> bool:
        """Whether it is a directive of the preprocessor."""
        return self.text.lstrip().startswith("#")

    @cached_property
    def is_function(self) -> bool:
        """Whether it defines a function."""
        return self.body is not None and "(" in self.head and not _TYPE.search(self.head)

    @cached_property
    def is_for_the_device(self) -> bool:
        """Whether the piece is code that a GPU can execute."""
        return _ON_DEVICE.search(self.head) is not None

    @cached_property
    def name(self) -> str:
        """The name of the function that it defines or declares; "" without one."""
        header = re.sub(r"\btemplate\s*<\s*>", "", _without_attributes(self.head))
        name = re.search(r"([A-Za-z_]\w*)\s*(?:<[^()]*>)?\s*\(", header)
        return name[1] if name else ""

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The declaration of each parameter of a function; none without a function."""
        begin = re.search(rf"\b{self.name}\s*\(", self.head) if self.name else None
        end = begin.end() if begin else 0
        return tuple(split_list(self.head[end : closing(self.head, end - 1) - 1]) if begin else ())

    @cached_property
    def template(self) -> list[tuple[str, str, str]]:
        """Type, name and default (or "") of each parameter of a function's template."""
        given = _TEMPLATE.search(self.head)
        parts = []
        for parameter in split_list(given[1]) if given else ():
            declared, _, default = parameter.partition("=")
            name = named(declared)
            kind = re.sub(rf"\bconst\b|\b{name}\b(?=\W*$)", "", declared)
            parts.append((" ".join(kind.split()), name, default.strip()))
        return parts


NOTHING = Piece("", 0, 0)  # instead of a function that is not in the file


def blanked(text: str) -> str:
    """Return a source in which comments and strings are blank; positions and lines are kept."""
    return _IGNORED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def with_conditions(code: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return the lines of a source, each with number and condition of every ``#if`` around it.

    An ``#else`` has its own condition, and ``#ifndef X`` has ``!X``. A directive belongs to the
    branch that it begins.
    """
    lines, inside, count = [], list[tuple[int, str]](), 0
    for line in code.splitlines(keepends=True):
        directive = _CONDITION.match(line)
        if directive and directive[1].startswith("if"):
            count += 1
            inside = [*inside, (count, "!" * (directive[1] == "ifndef") + directive[2])]
        elif directive and inside:
            number = inside[-1][0]
            branch = (number, directive[2] or f"else {number}")
            inside = inside[:-1] if directive[1] == "endif" else [*inside[:-1], branch]
        lines.append((line, inside))
    return lines


@lru_cache(64)
def pieces(text: str) -> tuple[Piece, ...]:
    """Return the top-level pieces of a source in order, including those in its namespaces."""
    return tuple(_pieces(text))


def _pieces(text: str) -> Iterator[Piece]:
    code = blanked(text)
    begin = place = 0
    while place < len(code):
        line_begins = not code[code.rfind("\n", 0, place) + 1 : place].strip()
        if (
            line_begins
            and not code[begin:place].strip()
            and (directive := _DIRECTIVE.match(code, place))
        ):
            yield Piece(text[place : directive.end()], place, directive.end())
            begin = place = directive.end()
            continue
        character = code[place]
        if character in "([":
            place = closing(code, place)
        elif character == "{":
            if _TRANSPARENT.search(text[begin:place]):
                begin = place = place + 1
                continue
            end = closing(code, place)
            if _begins_function(code[begin:place]):
                yield Piece(text[begin:end], begin, end, place)
                begin = place = end
                continue
            place = end
        elif character in ";}":
            place += 1
            if code[begin:place].strip(" \t\n;}"):
                yield Piece(text[begin:place], begin, place)
            begin = place
        else:
            place += 1
    if code[begin:].strip(" \t\n;}"):
        yield Piece(text[begin:], begin, len(text))


def _begins_function(head: str) -> bool:
    """Return whether a block after this text ends its piece, as that of a type does not."""
    outside, before = head, ""
    while outside != before:
        outside, before = re.sub(r"\([^()]*\)|<[^<>()]*>", "", outside), outside
    return not _TYPE.search(head) and "=" not in outside


def closing(code: str, place: int) -> int:
    """Return the index after the bracket that closes the one at `place`; else the end."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    expected = []
    for at in range(place, len(code)):
        if code[at] in pairs:
            expected.append(pairs[code[at]])
        elif expected and code[at] == expected[-1]:
            expected.pop()
            if not expected:
                return at + 1
    return len(code)


def split_list(code: str) -> list[str]:
    """Split a list at its commas outside brackets."""
    parts, begin, place, angles = [], 0, 0, 0
    while place < len(code):
        character = code[place]
        if character in "([{":
            place = closing(code, place)
            continue
        if code[place : place + 2] == "<<":  # the operator of a shift
            place += 2
            continue
        angles += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and angles <= 0:
            parts.append(code[begin:place])
            begin = place + 1
        place += 1
    return [" ".join(part.split()) for part in [*parts, code[begin:]] if part.strip()]


def named(parameter: str) -> str:
    """Return the name in the declaration of a parameter."""
    identifiers: Sequence[str] = re.findall(r"[A-Za-z_]\w*", parameter.split("=")[0])
    return identifiers[-1] if identifiers else ""


def declarations(text: str) -> str:
    """Return code for the device with kernels as declarations only; functions of the host stay."""
    for piece in reversed(list(pieces(text))):
        if not piece.is_function or piece.body is None:
            continue
        if "__global__" in piece.head:
            text = f"{text[: piece.body]}{{}}{text[piece.end :]}"
        elif re.search(r"\b__device__\b(?!.*\b(?:__host__|constexpr)\b)", piece.head, re.DOTALL):
            text = text[: piece.begin] + text[piece.end :]
    return text


def kernels_of(text: str) -> dict[str, Piece]:
    """Return the kernels that a source defines by name, except specialisations of templates."""
    kernels = dict[str, Piece]()
    for piece in pieces(text):
        if piece.name and piece.is_function and "__global__" in piece.head:
            kernels.setdefault(piece.name, piece)
    return kernels


def with_pointers(text: str) -> str:
    """Return a source in which pointers replace Thrust's vectors and the file's names of types."""
    text = _ADDRESS.sub(r"\1", _VECTOR.sub(r"\1 *\2", text))
    for name, kind in _NAMED_POINTER.findall(blanked(text)):
        text = re.sub(rf"(?<!using )\b{name}\b(?=\s+\w)", f"{kind} *", text)
    return text


def _without_attributes(header: str) -> str:
    header = re.sub(
        r"\b(?:__launch_bounds__|__align__|alignas|__attribute__|decltype)\s*", "@", header
    )
    while (at := header.find("@(")) >= 0:
        header = header[:at] + header[closing(header, at + 1) :]
    return header
