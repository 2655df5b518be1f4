"""The launch of a kernel in CUDA's notation: written by the user, found in a file, or inferred.

    gemm<64, 64, 8><<<dim3(CEIL_DIV(N, 64), CEIL_DIV(M, 64)), 256>>>(M, N, K, 1.0f, A, B, 0.0f, C)

Calls of cudaMalloc and cudaMemset between launches also count as steps of a product.

A launch is text: the compiler evaluates it, for one shape at a time, inside a function whose
parameters are the names of the product (`NAMES`). If the function that contains a launch declares
names that the launch uses, these declarations are stored with it.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from kernels.launches.pieces import NOTHING, OUTER, Piece, blanked, closing, named, split_list

MALLOC, MEMSET = "cudaMalloc", "cudaMemset"
_OF_MEMORY = re.compile(rf"\b({MALLOC}|{MEMSET})(?:Async|Managed)?\s*(?:<[\w\s]*>)?\s*\(")
_BEFORE_POINTER = re.compile(
    r"\s*(?:\(\s*void\s*\*+\s*\)\s*|\w+_cast\s*<[^>]*>\s*\(\s*)?&?\s*\(?\s*(\w+)[\s)]*"
)
_LAUNCH = re.compile(
    rf"([A-Za-z_][\w:]*(?:\s*<{OUTER}>)?)\s*<\s?<\s?<((?!\s*<)[^;]*?)>\s?>\s?>\s*\("
)
_QUALIFIERS = (
    "static|constexpr|const|unsigned|signed|auto|typename|inline|extern|volatile|"
    "__constant__|__device__|__shared__"
)
COUNTS = re.compile(r"\b(?:int|unsigned|long|size_t|u?int\d+_t)\b")  # types of integers
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_MARK = re.compile(r"[(\[{};]")  # characters that end a statement, or may contain one
_SET = re.compile(r"(\w+)\s*=(?!=)(.*)", re.DOTALL)
# Sets a member, or changes a value.
_CHANGED = re.compile(
    r"(?:\+\+|--)\s*(\w+)|"
    r"(\w+)\s*(?:(?:\.\s*\w+\s*)+=(?!=)|(?:\.\s*\w+\s*)*(?:\+\+|--|(?:[-+*/%|&^]|<<|>>)=))"
)


@dataclass(frozen=True)
class Launch:
    """A launch: kernel with template arguments, configuration and arguments.

    `declarations` are earlier statements that declare names the launch uses. `line` is its line, 0
    if it is not from a file, and `file` names another file of the repository. `enclosing` is the
    function that contains it. `unknown` says what the file leaves open, such as "gets threads from
    a caller"; else "". `is_square`: an assertion says that sizes are equal. A call of `MALLOC` or
    `MEMSET` has no configuration, and its pointer is a name.
    """

    kernel: str
    configuration: str
    arguments: str
    declarations: tuple[str, ...] = ()
    line: int = 0
    file: str = ""
    unknown: str = ""
    is_square: bool = False
    enclosing: Piece = field(default=NOTHING, compare=False)

    @property
    def name(self) -> str:
        """The kernel's name without template arguments."""
        return re.split(r"\s*<", self.kernel, maxsplit=1)[0].rpartition("::")[2]

    @property
    def is_of_memory(self) -> bool:
        """Whether this step allocates or sets memory instead of launching a kernel."""
        return self.name in (MALLOC, MEMSET)

    @property
    def call(self) -> str:
        """The text of the launch without its declarations."""
        if self.is_of_memory:
            return f"{self.kernel}({'&' * (self.name == MALLOC)}{self.arguments})"
        return f"{self.kernel}<<<{self.configuration}>>>({self.arguments})"

    def __str__(self) -> str:
        return written([self])


def written(steps: Sequence[Launch]) -> str:
    """Return the text of several launches in order, with each declaration only once."""
    parts: list[str] = []
    for step in steps:
        parts += [each for each in step.declarations if each not in parts]
        parts.append(step.call if step is steps[-1] else f"{step.call};")
    return " ".join(parts)


def main_of(steps: Sequence[Launch]) -> Launch:
    """Return the launch that multiplies: the first of those with the most names as arguments."""
    return max(
        (step for step in steps if not step.is_of_memory),
        key=lambda step: len(words(step.arguments)),
    )


def launches_in(text: str) -> list[tuple[Launch, int]]:
    """Return the launches, allocations and settings of memory in a text, each with its position."""
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
    for launch in _LAUNCH.finditer(code):
        given = code[launch.end() : closing(code, launch.end() - 1) - 1]
        kernel, where, arguments = (" ".join(each.split()) for each in (*launch.groups(), given))
        yield Launch(kernel, where, arguments), launch.start()


def words(text: str) -> set[str]:
    """Return the identifiers in a text."""
    return set(_WORD.findall(blanked(text)))


def statements(code: str) -> list[str]:
    """Return the statements of a block up to the end of the text, except those in closed blocks.

    A condition with a single assignment is returned as a statement, too.
    """
    open_blocks: list[tuple[str, list[str]]] = [("", [])]
    begin = place = 0
    while mark := _MARK.search(code, place):
        place, before = mark.start(), code[begin : mark.start()].strip()
        if mark[0] in "([" or (mark[0] == "{" and _initialises(before)):
            place = closing(code, place)
            continue
        if mark[0] == ";" and before:
            _append(open_blocks[-1][1], _behind_calls(f"{before};"))
        elif mark[0] == "{":
            open_blocks.append((before, []))
        elif mark[0] == "}" and len(open_blocks) > 1:
            head, block = open_blocks.pop()
            if re.match(r"(?:if|else)\b", head):
                is_change = len(block) == 1 and _CHANGED.match(block[0])
                _append(open_blocks[-1][1], f"{head} {block[0] if is_change else ';'}")
        begin = place = place + 1
    return [statement for _, block in open_blocks for statement in block]


def _append(block: list[str], statement: str) -> None:
    """Append a statement to a block; one that begins with ``else`` is joined to the last one."""
    if statement.startswith("else") and block and block[-1].startswith("if"):
        statement = f"{block.pop()} {statement}"
    block.append(statement)


def _behind_calls(statement: str) -> str:
    """Return a statement without preceding macro calls, which end without a semicolon.

    A value that is set under a condition counts as set.
    """
    while call := re.match(r"(?!for\b|while\b)([A-Za-z_]\w*)\s*\(", statement):
        rest = statement[closing(statement, call.end() - 1) :].lstrip()
        if not re.match(r"[A-Za-z_]", rest) or (call[1] == "if" and _CHANGED.match(rest)):
            break
        statement = rest
    return statement


def _initialises(before: str) -> bool:
    """Return whether a brace after this text begins an initial value rather than a block."""
    before = before.strip()
    is_name = re.search(r"(?:[\w>*&]\s+|,\s*)[A-Za-z_]\w*(?:\[[^]]*\])*$|=$|,$|^enum$", before)
    return bool(is_name) and not re.match(r"(?:else|do|try|struct|namespace)\b", before)


def declarations_in(statement: str) -> dict[str, str]:
    """Return the names that a statement declares, each with a separate declaration if possible."""
    if alias := re.match(r"using\s+(\w+)\s*=", statement):
        return {alias[1]: ""}
    if enumerators := re.match(r"enum\b[^{]*\{([^}]*)\}", statement):
        return {named(each): "" for each in split_list(enumerators[1])}
    kind, parts = declarators(statement)
    return {_declared(part): f"{kind} {part}" for part in parts}


def without_names(statement: str, names: AbstractSet[str]) -> str:
    """Return a statement without the names that it declares or sets among `names`, "" if empty."""
    if assigned(statement)[0] in names:
        return ""
    if not declarations_in(statement).keys() & names:
        return statement
    kind, parts = declarators(statement)
    kept = [part for part in parts if _declared(part) not in names]
    return f"{kind} {', '.join(kept)};" if kept else ""


def _declared(part: str) -> str:
    name = re.match(r"[\s*&]*([A-Za-z_]\w*)", part)
    return name[1] if name else ""


def declarators(statement: str) -> tuple[str, list[str]]:
    """Return the type and the parts of a declaration, such as ``*a = 0``; else no parts."""
    head = rf"(?:(?:{_QUALIFIERS})\s+)*[A-Za-z_][\w:]*(?:\s+(?:int|long|short|char|double)\b)*"
    kind = re.match(
        rf"({head}(?:\s*<[^;=]*?>)?(?:\s+const)?)(?=[\s*&])[\s*&]*(?=[A-Za-z_])", statement
    )
    if not kind or re.match(r"(?:return|goto|throw|delete|using|case|else)\b", statement):
        return "", []
    return kind[1], split_list(statement[len(kind[1]) :].rstrip("; \n"))


def needed(declarations: Sequence[str], launch: Launch) -> tuple[str, ...]:
    """Return the declarations and last assignments that a launch needs, in order."""
    unresolved = words(f"{launch.kernel} {launch.configuration} {launch.arguments}")
    types = {name: each for each in declarations for name in declarations_in(each)}
    chosen: list[str] = []
    complete = set[str]()  # names whose last value was found
    for statement in reversed(declarations):
        names = declarations_in(statement).keys()
        target, value = assigned(statement)
        is_needed = target in unresolved - complete and "*" not in types.get(target, "*")
        if names & unresolved or is_needed:
            chosen.insert(0, " ".join(statement.split()))
            unresolved = (unresolved | words(statement)) - names
            unresolved |= {target} - {""}
            complete |= {target} if value and target not in words(value) else set()
    return tuple(chosen)


def assigned(statement: str) -> tuple[str, str]:
    """Return the name that a statement sets or changes, and its value if it only sets it, or ""."""
    if condition := re.match(r"if\s*\(", statement):
        statement = statement[closing(statement, condition.end() - 1) :].lstrip()
    elif whole := _SET.match(statement):
        return whole[1], whole[2]
    change = _CHANGED.match(statement)
    return (change[1] or change[2], "") if change else ("", "")


def edges_of_blocks(launch: Launch) -> set[str]:
    """Return the names in the block size of a launch, except those that are also arguments."""
    block = "".join(split_list(launch.configuration)[1:2])
    values = [f"({block})", *(declarations_in(each).get(block, "") for each in launch.declarations)]
    edges = re.findall(r"(?<=[({,])\s*([A-Za-z_]\w*)\s*(?=[)},])", " ".join(values))
    return set(edges) - words(launch.arguments)


def targets(launch: Launch, kernel: Piece) -> list[tuple[str, str]]:
    """Return each argument of a launch with the declaration of the parameter that gets it."""
    return list(zip(split_list(launch.arguments), kernel.parameters, strict=False))


def is_pointer(parameter: str) -> bool:
    """Return whether the declaration of a parameter is that of a pointer."""
    return bool(re.search(r"[*\[]", parameter))
