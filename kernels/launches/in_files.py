"""Finding the launches of a file: in an option, in comments, or in code of the host."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from kernels.host_execution.compiler import SOURCE_NAME
from kernels.launches.device import OF_THE_HOST
from kernels.launches.expression import (
    Launch,
    assigned,
    declarations_in,
    launches_in,
    needed,
    statements,
    words,
    written,
)
from kernels.launches.pieces import (
    Piece,
    blanked,
    closing,
    kernels_of,
    named,
    pieces,
    split_list,
    with_conditions,
)
from kernels.launches.roles import FACTORS, LEADING, meaning_of, size_named
from kernels.launches.structs import with_fields

# A parameter that is a number of threads, or the edge of a block.
_EDGE = re.compile(
    r"^(?!dim3)[\w\s]*(?:block_?(?:size|dim|width|height)|thread|tile)\w*\s*(?:=|$)", re.IGNORECASE
)
_NEUTRAL = re.compile(r"\(?(?:float\W+)?[01](?:\.0*)?f?\)?|\W*\w*(?:alpha|beta)\w*", re.IGNORECASE)
# An address behind the beginning of a matrix.
_PART = re.compile(r"\+|-(?!>)|\[\s*(?!0\s*\])")


@lru_cache(32)
def launches(text: str) -> tuple[Launch, ...]:
    """Return the launches in a text in order, each with the declarations that it uses.

    If a function launches the kernel that it gets as a parameter, its calls say which kernel it is.
    """
    in_order = list[Launch]()
    for piece in pieces(text):
        if piece.is_directive:
            continue
        calls = [*launches_in(piece.text), *_by_the_runtime(piece)]
        for launch, place in sorted(calls, key=lambda pair: pair[1]):
            in_order.append(_placed(text, piece, place, launch))
    called = [
        launch
        for inner in filter(_is_open, in_order)
        for piece in pieces(text)
        if piece.is_function and piece != inner.enclosing
        for launch in _by_function(text, piece, inner, inner.enclosing)
    ]
    return tuple(_with_kernel(each) for each in (*in_order, *called) if not _is_open(each))


def _placed(text: str, piece: Piece, place: int, launch: Launch) -> Launch:
    line, file = _place(text, piece.begin + place)
    where = ", ".join(split_list(launch.configuration)[:3])  # in any stream
    launch = replace(launch, configuration=where)
    before = _before(piece, place)
    declared = (*(_with_call(text, each) for each in needed(before, launch)), *launch.declarations)
    is_square = any(map(_equates_sizes, before))
    launch = replace(launch, declarations=declared, line=line, file=file, enclosing=piece)
    launch = replace(launch, is_square=is_square)
    numbers, unknown = _given_numbers(text, piece, launch) if piece.is_function else ([], "")
    unknown = f"gets {unknown} from a caller" if unknown else launch.unknown
    return replace(launch, declarations=(*numbers, *declared), unknown=unknown)


def _given_numbers(text: str, function: Piece, launch: Launch) -> tuple[list[str], str]:
    """Return declarations of the numbers, except sizes, that calls pass to a function.

    They are template arguments and block edges; an edge is 32 if no call gives it. The name of such
    an edge is returned, too, else "".
    """
    name = function.name
    template, given = function.template, function.parameters
    kinds = {each: kind for kind, each, _ in template}
    edges = [named(each) for each in given if _EDGE.search(each)]
    names, kinds = [*kinds, *map(named, given)], kinds | dict.fromkeys(edges, "int")
    values = dict[str, str]()
    for first, others in re.findall(
        rf"\b{name}\s*(?:<([^;<>()]*)>)?\s*(?:\(([^;{{}}]*)\)|(?<=>))\s*;", blanked(text)
    ):
        by_template = (split_list(first) + [""] * len(template))[: len(template)]
        call = zip(names, [*by_template, *split_list(others)], strict=False)
        values = {n: v for n, v in call if re.fullmatch(r"[\d\s*]+|true|false", v)} | values
    values = {named(each): each.partition("=")[2].strip() for each in given if "=" in each} | values
    used = words(written([launch])).difference(*map(declarations_in, launch.declarations))
    unknown = next((each for each in edges if each in used - set(values)), "")
    values = dict.fromkeys(edges, "32") | values
    return [
        f"constexpr {k} {n} = {values[n]};" for n, k in kinds.items() if n in used & set(values)
    ], unknown


def _is_open(launch: Launch) -> bool:
    """Return whether the kernel, grid or block of a launch is a parameter of its function."""
    given = launch.enclosing.parameters
    sizes = {named(each) for each in given if "dim3" in words(each)}
    where = words(" ".join([launch.configuration, *launch.declarations]))
    return launch.kernel in map(named, given) or bool(sizes & where)


def _by_function(text: str, piece: Piece, inner: Launch, function: Piece) -> Iterator[Launch]:
    """Yield a launch for each call of a function whose launch `inner` uses its parameters."""
    code, name = piece.code, function.name
    targets = function.parameters
    for call in re.finditer(rf"\b{name}\s*(?:<[^;(){{}}]*>\s*)?\(", code[len(piece.header) :]):
        begin = len(piece.header) + call.end() - 1
        given = split_list(code[begin + 1 : closing(code, begin) - 1])
        values = dict(zip(map(named, targets), given, strict=False))
        if targets and "..." in targets[-1]:
            values[named(targets[-1])] = ", ".join(given[len(targets) - 1 :])
        parts = (inner.kernel, inner.configuration, inner.arguments, *inner.declarations)
        kernel, where, arguments, *declared = (_with_values(part, values) for part in parts)
        launch = Launch(kernel, where, arguments, tuple(declared))
        yield _placed(text, piece, begin, launch)


def _with_values(code: str, values: Mapping[str, str]) -> str:
    return re.sub(
        r"\b[A-Za-z_]\w*\b(?:\s*\.\.\.)?", lambda m: values.get(m[0].rstrip(". "), m[0]), code
    )


def _with_kernel(launch: Launch) -> Launch:
    """Return a launch that names its kernel, instead of a variable that points to the kernel."""
    pointer = rf"(?:auto|.*\(\s*\*)[\s*&]*\b{re.escape(launch.kernel)}\b[^=]*=\s*&?\s*(.*?)\s*;"
    for statement in launch.declarations:
        if match := re.fullmatch(pointer, statement):
            others = tuple(each for each in launch.declarations if each != statement)
            return replace(launch, kernel=match[1], declarations=others)
    return launch


def _by_the_runtime(piece: Piece) -> Iterator[tuple[Launch, int]]:
    """Yield launches by functions such as cudaLaunchKernel, each with its position."""
    code = piece.code
    for call in re.finditer(r"\bcudaLaunch(?:Cooperative)?Kernel(Ex)?\w*\s*\(", code):
        given = split_list(code[call.end() : closing(code, call.end() - 1) - 1])
        if call[1] and len(given) > 1:
            name, arguments = re.escape(given[0].lstrip("& ")), given[2:]
            fields = [
                re.findall(rf"\b{name}\s*\.\s*{field}\s*=([^;=]*);", code[: call.start()])
                for field in ("gridDim", "blockDim", "dynamicSmemBytes")
            ]
            where, kernel = [each[-1].strip() for each in fields if each], given[1]
        elif not call[1] and len(given) > 3:
            array = re.search(rf"\b{re.escape(given[3])}\s*\[[^]]*\]\s*=\s*\{{([^}}]*)\}}", code)
            arguments = split_list(array[1]) if array else []
            kernel, where = given[0], [*given[1:3], *given[4:5]]
        else:
            continue
        names = [re.sub(r"^(?:\(\s*void\s*\*+\s*\))?\s*&?\s*", "", each) for each in arguments]
        kernel = re.sub(r"^(?:\([^()]*\*\s*\)|reinterpret_cast<[^>]*>)?\s*[&(]*|\)+$", "", kernel)
        if names and len(where) > 1:
            yield Launch(kernel, ", ".join(where), ", ".join(names)), call.start()


def _place(text: str, place: int) -> tuple[int, str]:
    """Return line and file of a position by the last ``#line`` before it; file "" is the source."""
    given = list(re.finditer(r'^#line (\d+) "([^"\n]*)"\n', text[:place], re.MULTILINE))
    if not given:
        return 1 + text.count("\n", 0, place), ""
    first, file, begin = int(given[-1][1]), given[-1][2], given[-1].end()
    return first + text.count("\n", begin, place), "" if file == SOURCE_NAME else file


def _before(piece: Piece, place: int) -> list[str]:
    """Return the statements before a launch in its function, or in a type with methods."""
    begin = piece.code.find("{") if piece.body is None else piece.body - piece.begin
    body = piece.code[begin + 1 : place]
    before = statements(_without_other_branches(body))
    kinds = {named(each): each.partition("=")[0] for each in piece.parameters}
    for number, statement in enumerate(before):
        name, value = assigned(statement)
        if value and name in kinds and name not in words(value):  # a parameter gets another value
            before[number] = f"{kinds.pop(name)} = {value}"
    return before


def _equates_sizes(statement: str) -> bool:
    """Return whether a statement asserts that two sizes are equal."""
    pairs = re.findall(r"(?<![\w.>])(\w+)\s*==\s*(\w+)", statement)
    sizes = [[*map(size_named, pair)] for pair in pairs if statement.startswith("assert")]
    return any(first and second and first != second for first, second in sizes)


def _with_call(text: str, statement: str) -> str:
    """Return a declaration with the value that a function of the host returns.

    The calls of the runtime are removed, so that a compiler can evaluate it.
    """
    call = re.search(r"=\s*(\w+)\s*\(\s*\)\s*;$", statement)
    for piece in pieces(text) if call else ():
        if call and piece.is_function and piece.name == call[1]:
            returned = list(re.finditer(r"\breturn\b([^;]*);", piece.code))
            if len(returned) == 1 and OF_THE_HOST.search(piece.code):
                inside = needed(_before(piece, returned[0].start()), Launch("", "", returned[0][1]))
                value = " ".join([*inside, returned[0][0]])
                return f"{statement[: call.start()]}= [&] {{ {value} }}();"
    return statement


def _without_other_branches(code: str) -> str:
    """Return the code before a launch, without directives and without branches not taken.

    If the launch is under a condition of an ``#if``, its other branches are removed.
    """
    lines = with_conditions(code)
    around = {condition for _, inside in lines[-1:] for _, condition in inside}
    split = {number for _, inside in lines for number, each in inside if each in around}
    return "".join(
        "\n"
        if re.match(r"\s*#", line) or {n for n, each in inside if each not in around} & split
        else line
        for line, inside in lines
    )


def _with_plain_arguments(text: str, launch: Launch, kernel: Piece) -> Launch:
    """Return a launch whose pointer arguments are names instead of expressions or structures.

    The name is that of the kernel's parameter. A size that is passed as a leading dimension gets
    the name of that, too, because it may be larger. A member of an object, such as ``A.rows``,
    becomes the size that gets it.
    """
    targets, launch = kernel.parameters, with_fields(text, launch, kernel)
    for argument, target in zip(split_list(launch.arguments), targets, strict=False):
        if re.fullmatch(r"\w+(?:\.|->)\w+(?:\(\))?", argument) and size_named(named(target)):
            launch = _with_size(launch, argument, named(target))
    given = split_list(launch.arguments)
    plain = [
        named(target) if _is_replaced(argument, target) else argument
        for argument, target in zip(given, targets, strict=False)
    ]
    if plain == given:
        return launch
    parts = [each for each, name in zip(given, plain, strict=False) if each != name]
    part = next((each for each in parts if _PART.search(each)), "")
    unknown = f"gets a part of a matrix, {part}" if part else launch.unknown
    arguments = ", ".join([*plain, *given[len(targets) :]])
    changed = replace(launch, arguments=arguments, unknown=unknown)
    return replace(changed, declarations=needed(launch.declarations, changed))


def _with_size(launch: Launch, member: str, size: str) -> Launch:
    member = rf"{re.escape(member)}(?!\w|\s*\()"
    texts = (launch.configuration, launch.arguments, *launch.declarations)
    where, arguments, *declared = (re.sub(member, size, text) for text in texts)
    before = tuple(each for each in declared if size not in declarations_in(each))
    return replace(launch, configuration=where, arguments=arguments, declarations=before)


def _is_replaced(argument: str, target: str) -> bool:
    if re.search(r"[*\[]", target):
        return not re.fullmatch(r"\w+", argument)
    if meaning_of(named(target)) in FACTORS and "float" in words(target):
        return not _NEUTRAL.fullmatch(argument)
    return meaning_of(named(target)) in LEADING and size_named(argument) is not None


def of_file(text: str, option: str | None) -> list[Launch]:
    """Return the launches that are declared by option, in ``// launch:`` comments, or in code."""
    if option:
        return _written(option)
    comments = re.findall(r"^\s*(?://|/?\*+)\s*launch:(.*?)(?:\*/\s*)?$", text, re.MULTILINE)
    if comments:
        return _written(";\n".join(comments))
    kernels = kernels_of(text)
    return [
        launch if launch.is_of_memory else _with_plain_arguments(text, launch, kernels[launch.name])
        for launch in launches(text)
        if launch.is_of_memory or launch.name in kernels
    ]


def _written(text: str) -> list[Launch]:
    """Return the launches in a text that a user wrote, each with the statements before it."""
    return [
        replace(launch, declarations=needed(statements(blanked(text[:place])), launch))
        for launch, place in launches_in(text)
    ]
