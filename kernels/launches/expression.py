"""The launch of a kernel in CUDA's own notation, as written, found in a file, or inferred.

    gemm<64, 64, 8><<<dim3(CEIL_DIV(N, 64), CEIL_DIV(M, 64)), 256>>>(M, N, K, 1.0f, A, B, 0.0f, C)

Calls of cudaMalloc and cudaMemset between launches are steps of a product, too.

A launch is text: the compiler evaluates it, for one shape at a time, inside a function whose
parameters are the names of the product (`NAMES`). What it calls M may be declared by the function
that contains the launch: then the declarations that the launch uses come with it.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from kernels.launches.pieces import Piece, blanked, closing, kernels_of, pieces
from kernels.launches.roles import is_leading_dimension, is_size_name

MALLOC, MEMSET = "cudaMalloc", "cudaMemset"
_OF_MEMORY = re.compile(rf"\b({MALLOC}|{MEMSET})(?:Async|Managed)?\s*(?:<[\w\s]*>)?\s*\(")
_BEFORE_POINTER = re.compile(r"\s*(?:\(\s*void\s*\*+\s*\)\s*)?&?\s*\(?\s*(\w+)\s*\)?\s*")
_CALL = re.compile(r"([A-Za-z_][\w:]*)\s*$")
_QUALIFIERS = (
    "static|constexpr|const|unsigned|signed|auto|typename|inline|extern|volatile|"
    "__constant__|__device__|__shared__"
)
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@dataclass(frozen=True)
class Launch:
    """A launch: kernel with template arguments, configuration and arguments.

    `declarations` are statements before it that declare names it uses. `line` is where it stands, 0
    for a launch from elsewhere. `enclosing` is the function that contains it. A call of `MALLOC` or
    `MEMSET` has no configuration, and its pointer is a name.
    """

    kernel: str
    configuration: str
    arguments: str
    declarations: tuple[str, ...] = ()
    line: int = 0
    enclosing: Piece | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The kernel's name without template arguments."""
        return re.split(r"\s*<", self.kernel, maxsplit=1)[0].rpartition("::")[2]

    @property
    def is_of_memory(self) -> bool:
        """Whether it allocates memory or sets it."""
        return self.name in (MALLOC, MEMSET)

    @property
    def call(self) -> str:
        """The text without declarations."""
        if self.is_of_memory:
            return f"{self.kernel}({'&' * (self.name == MALLOC)}{self.arguments})"
        return f"{self.kernel}<<<{self.configuration}>>>({self.arguments})"

    def __str__(self) -> str:
        return written([self])


def written(steps: Sequence[Launch]) -> str:
    """Return launches in order as text, each declaration once."""
    parts: list[str] = []
    for step in steps:
        parts += [each for each in step.declarations if each not in parts]
        parts.append(step.call if step is steps[-1] else f"{step.call};")
    return " ".join(parts)


def main_of(steps: Sequence[Launch]) -> Launch:
    """Return the launch that multiplies: the first with the most arguments that are names."""
    return max(
        (step for step in steps if not step.is_of_memory),
        key=lambda step: len(words(step.arguments)),
    )


def launches(text: str) -> list[Launch]:
    """Return the launches in a text in order; in a function, with the declarations they use."""
    in_order = []
    for piece in pieces(text):
        if piece.is_directive:
            continue
        for launch, place in _in(piece.text):
            line = _line(text, piece.begin + place)
            declared = _declarations(piece, place, launch)
            in_order.append(
                Launch(launch.kernel, launch.configuration, launch.arguments, declared, line, piece)
            )
    return in_order


def _line(text: str, place: int) -> int:
    """Return the number of a line, as the last ``#line`` before it says."""
    given = list(re.finditer(r"^#line (\d+)[^\n]*\n", text[:place], re.MULTILINE))
    first, begin = (int(given[-1][1]), given[-1].end()) if given else (1, 0)
    return first + text.count("\n", begin, place)


def _in(text: str) -> list[tuple[Launch, int]]:
    """Return launches and calls of memory, and where they begin, in order."""
    code = blanked(text)
    return sorted([*_kernels_in(code), *_memory_in(code)], key=lambda pair: pair[1])


def _memory_in(code: str) -> Iterator[tuple[Launch, int]]:
    for call in _OF_MEMORY.finditer(code):
        given = split_list(code[call.end() : closing(code, call.end() - 1) - 1])
        pointer = _BEFORE_POINTER.fullmatch(given[0]) if given else None
        wanted = 2 if call[1] == MALLOC else 3
        if pointer and len(given) >= wanted:  # a stream follows
            yield Launch(call[1], "", ", ".join([pointer[1], *given[1:wanted]])), call.start()


def _kernels_in(code: str) -> Iterator[tuple[Launch, int]]:
    for opening in re.finditer(r"<\s?<\s?<", code):
        kernel, begin = _kernel_before(code, opening.start())
        end = _end_of_configuration(code, opening.end())
        if not kernel or end is None:
            continue
        arguments = re.compile(r">\s?>\s?>\s*\(").match(code, end)
        if not arguments:
            continue
        close = closing(code, arguments.end() - 1)
        configuration, given = code[opening.end() : end], code[arguments.end() : close - 1]
        yield Launch(kernel, " ".join(configuration.split()), " ".join(given.split())), begin


def _kernel_before(code: str, end: int) -> tuple[str, int]:
    """Return the kernel with template arguments that ends at `end`, and where it begins."""
    stripped = code[:end].rstrip()
    begin = len(stripped)
    if stripped.endswith(">"):
        depth = 0
        while begin:
            begin -= 1
            depth += {">": 1, "<": -1}.get(code[begin], 0)
            if depth == 0:
                break
    name = _CALL.search(code[:begin])
    if not name:
        return "", end
    return " ".join(code[name.start() : len(stripped)].split()), name.start()


def _end_of_configuration(code: str, begin: int) -> int | None:
    place = begin
    while place < len(code):
        if re.compile(r">\s?>\s?>").match(code, place):
            return place
        place = closing(code, place) if code[place] in "([{" else place + 1
    return None


def words(text: str) -> set[str]:
    """Return the identifiers in a text."""
    return set(_WORD.findall(blanked(text)))


def statements(code: str) -> list[str]:
    """Return the statements before the end of a block's text, except those in closed blocks."""
    open_blocks: list[list[str]] = [[]]
    begin = place = 0
    while place < len(code):
        character = code[place]
        if character in "([" or (character == "{" and _initialises(code[begin:place])):
            place = closing(code, place)
            continue
        if character == ";" and code[begin:place].strip():
            open_blocks[-1].append(_behind_calls(code[begin : place + 1].strip()))
        elif character == "{":
            open_blocks.append([])
        elif character == "}" and len(open_blocks) > 1:
            open_blocks.pop()
        if character in ";{}":
            begin = place + 1
        place += 1
    return [statement for block in open_blocks for statement in block]


def _behind_calls(statement: str) -> str:
    """Return a statement without calls of macros before it, which have no semicolon."""
    while call := re.match(r"[A-Za-z_]\w*\s*\(", statement):
        rest = statement[closing(statement, call.end() - 1) :].lstrip()
        if not re.match(r"[A-Za-z_]", rest):
            break
        statement = rest
    return statement


def _initialises(before: str) -> bool:
    """Return whether a brace behind this text begins an initial value and not a block."""
    before = before.strip()
    is_name = re.search(r"[\w>*&]\s+[A-Za-z_]\w*(?:\[[^]]*\])*$|=$|,$|^enum$", before)
    return bool(is_name) and not re.match(r"(?:else|do|try|struct|namespace)\b", before)


def declared_names(statement: str) -> set[str]:
    """Return the names that a statement declares: those behind its type."""
    if enumerators := re.match(r"enum\b[^{]*\{([^}]*)\}", statement):
        return {named(each) for each in split_list(enumerators[1])}
    return {_declared(part) for part in _declarators(statement)[1]}


def without_names(statement: str, names: AbstractSet[str]) -> str:
    """Return a statement that declares only other names, "" if there are none."""
    if not declared_names(statement) & names:
        return statement
    kind, parts = _declarators(statement)
    kept = [part for part in parts if _declared(part) not in names]
    return f"{kind} {', '.join(kept)};" if kept else ""


def _declared(part: str) -> str:
    name = re.match(r"[\s*&]*([A-Za-z_]\w*)", part)
    return name[1] if name else ""


def _declarators(statement: str) -> tuple[str, list[str]]:
    """Return the type and the parts of a declaration, such as ``*a = 0``; no parts of others."""
    head = rf"(?:(?:{_QUALIFIERS})\s+)*[A-Za-z_][\w:]*"
    kind = re.match(
        rf"({head}(?:\s*<[^;=]*?>)?(?:\s+const)?)(?=[\s*&])[\s*&]*(?=[A-Za-z_])", statement
    )
    if not kind or re.match(r"(?:return|goto|throw|delete|using|case|else)\b", statement):
        return "", []
    return kind[1], split_list(statement[len(kind[1]) :].rstrip("; \n"))


def _declarations(piece: Piece, place: int, launch: Launch) -> tuple[str, ...]:
    """Return the statements before a launch that declare what it uses, in order."""
    if piece.body is None:
        return ()
    body = blanked(piece.text)[piece.body - piece.begin + 1 : place]
    return _needed(statements(body), launch)


def _needed(declarations: Sequence[str], launch: Launch) -> tuple[str, ...]:
    """Return the declarations that a launch needs, in order."""
    needed = words(f"{launch.kernel} {launch.configuration} {launch.arguments}")
    chosen: list[str] = []
    for statement in reversed(declarations):
        names = declared_names(statement)
        member = re.match(r"(\w+)\s*\.\s*\w+\s*=(?!=)", statement)
        if names & needed or (member and member[1] in needed):
            chosen.insert(0, " ".join(statement.split()))
            needed = (needed - names) | words(statement)
    return tuple(chosen)


def _with_plain_arguments(launch: Launch, kernel: Piece) -> Launch:
    """Return a launch with a kernel's parameter in place of an expression for its pointer.

    A size for a leading dimension becomes that leading dimension, too: it may be larger.
    """
    given = split_list(launch.arguments)
    targets = parameters(kernel, launch.name)
    plain = [
        named(target) if _is_replaced(argument, target) else argument
        for argument, target in zip(given, targets, strict=False)
    ]
    if plain == given:
        return launch
    changed = replace(launch, arguments=", ".join([*plain, *given[len(targets) :]]))
    return replace(changed, declarations=_needed(launch.declarations, changed))


def _is_replaced(argument: str, target: str) -> bool:
    if re.search(r"[*\[]", target):
        return not re.fullmatch(r"\w+", argument)
    return is_leading_dimension(named(target)) and is_size_name(argument)


def of_file(text: str, option: str | None) -> list[Launch]:
    """Return the launches that are declared: by the option, in ``// launch:`` comments, in code."""
    if option:
        return _written(option)
    comments = re.findall(r"^\s*(?://|/?\*+)\s*launch:(.*?)(?:\*/\s*)?$", text, re.MULTILINE)
    if comments:
        return _written(";\n".join(comments))
    kernels = kernels_of(text)
    return [
        launch if launch.is_of_memory else _with_plain_arguments(launch, kernels[launch.name])
        for launch in launches(text)
        if launch.is_of_memory or launch.name in kernels
    ]


def _written(text: str) -> list[Launch]:
    """Return the launches in a text, each with the statements before it."""
    return [
        replace(launch, declarations=_last_declarations(statements(blanked(text[:place]))))
        for launch, place in _in(text)
    ]


def _last_declarations(before: Sequence[str]) -> tuple[str, ...]:
    """Return the statements that are no launches, the last one of those that declare a name."""
    declared: set[str] = set()
    kept: list[str] = []
    for statement in reversed(before):
        names = declared_names(statement)
        if not _in(statement) and (not names or names - declared):
            kept.insert(0, statement)
        declared |= names
    return tuple(kept)


def parameters(piece: Piece, name: str) -> list[str]:
    """Return the parameters of a function, one text each."""
    header = blanked(piece.header)
    begin = re.search(rf"\b{re.escape(name)}\s*\(", header)
    if not begin:
        return []
    return split_list(header[begin.end() : closing(header, begin.end() - 1) - 1])


def template_parameters(piece: Piece) -> list[tuple[str, str, str]]:
    """Return type, name and default (or "") of each parameter of a function's template."""
    header = blanked(piece.header)
    begin = re.search(r"\btemplate\s*<", header)
    if not begin:
        return []
    place, depth = begin.end(), 1
    while place < len(header) and depth:
        depth += {"<": 1, ">": -1}.get(header[place], 0)
        place = closing(header, place) if header[place] in "([{" else place + 1
    parts = []
    for parameter in split_list(header[begin.end() : place - 1]):
        declared, _, default = parameter.partition("=")
        name = named(declared)
        kind = re.sub(rf"\bconst\b|\b{name}\b(?=\W*$)", "", declared)
        parts.append((" ".join(kind.split()), name, default.strip()))
    return parts


def split_list(code: str) -> list[str]:
    """Split a list at its commas outside brackets."""
    parts, begin, place, angles = [], 0, 0, 0
    while place < len(code):
        character = code[place]
        if character in "([{":
            place = closing(code, place)
            continue
        angles += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and angles <= 0:
            parts.append(code[begin:place])
            begin = place + 1
        place += 1
    return [" ".join(part.split()) for part in [*parts, code[begin:]] if part.strip()]


def named(parameter: str) -> str:
    """Return the name of a parameter."""
    identifiers: Sequence[str] = re.findall(r"[A-Za-z_]\w*", parameter.split("=")[0])
    return identifiers[-1] if identifiers else ""
