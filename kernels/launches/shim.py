"""C++ that evaluates a launch: the function `host_configure`, for every compiler."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.launches.expression import (
    Launch,
    declared_names,
    named,
    parameters,
    split_list,
    words,
)
from kernels.launches.pieces import Piece, blanked, function_name, pieces
from kernels.launches.roles import is_number_name, is_size_name, meanings

_MATRIX = re.compile(r"\*|\[\s*\]")
_QUALIFIERS = re.compile(r"\b(?:const|__restrict__|__restrict|restrict|volatile|register)\b|&")


@dataclass(frozen=True)
class Scope:
    """The names that the product defines for a launch: numbers and pointers, with their types."""

    numbers: dict[str, str]
    pointers: dict[str, str]
    statements: tuple[str, ...]
    types: dict[str, str]  # template parameters of the enclosing function


def kernels_of(text: str) -> dict[str, Piece]:
    """Return the kernels that a source defines, by name."""
    found = {}
    for piece in pieces(text):
        name = function_name(piece)
        if name and piece.is_function and "__global__" in blanked(piece.header):
            found[name] = piece
    return found


def macros(text: str) -> set[str]:
    """Return the names of macros and constants that a source defines outside of functions."""
    names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", blanked(text), re.MULTILINE))
    for piece in pieces(text):
        if piece.body is None and not piece.is_directive:
            names |= declared_names(" ".join(piece.text.split()))
    return names


def scope_of(text: str, launch: Launch) -> Scope:
    """Return what a launch needs from the product."""
    declared = {
        name: statement for statement in launch.declarations for name in declared_names(statement)
    }
    types = _types(launch)
    needed = words(
        " ".join([launch.kernel, launch.configuration, launch.arguments, *launch.declarations])
    )
    outside = macros(text) | set(kernels_of(text))
    numbers: dict[str, str] = {}
    pointers: dict[str, str] = {}
    kernel = kernels_of(text).get(launch.name)
    by_argument = dict(
        zip(
            split_list(launch.arguments),
            parameters(kernel, launch.name) if kernel else [],
            strict=False,
        )
    )
    in_templates = words(launch.kernel)
    for name in sorted(needed - outside, key=lambda each: _first(launch, each)):
        kind = types.get(name) or _declared_type(declared.get(name, ""), name)
        target = by_argument.get(name, "")
        if kind and "*" in kind and is_number_name(name):
            numbers[name] = kind
        elif _MATRIX.search(target) or (kind and "*" in kind and "[" not in kind):
            pointers[name] = kind or _type(target)
        elif name in types or (
            name in declared and is_number_name(name) and name not in in_templates
        ):
            numbers[name] = kind or "int"
        elif name not in declared and (target or _is_size(name)):
            numbers[name] = _type(target) if target and "*" not in target else "int"
    bound = {*numbers, *pointers}
    statements = tuple(each for each in launch.declarations if not declared_names(each) & bound)
    return Scope(numbers, pointers, statements, _template_types(launch.enclosing, kernel))


def _is_size(name: str) -> bool:
    return is_number_name(name)


def _first(launch: Launch, name: str) -> int:
    """Return where a name first stands in the arguments, else behind them."""
    found = re.search(rf"\b{re.escape(name)}\b", launch.arguments)
    return found.start() if found else len(launch.arguments) + ord(name[0])


def _types(launch: Launch) -> dict[str, str]:
    """Return the types of the enclosing function's parameters by name."""
    if launch.enclosing is None:
        return {}
    given = parameters(launch.enclosing, function_name(launch.enclosing) or "")
    return {named(each): _type(each) for each in given if named(each) not in ("argc", "argv")}


def _type(parameter: str) -> str:
    """Return the type in a parameter's declaration, without qualifiers."""
    parameter = parameter.split("=")[0]
    before = re.sub(r"\[[^]]*\]\s*$", "*", parameter.strip())
    before = re.sub(rf"\b{re.escape(named(parameter))}\b(?=[^\w]*$)", "", before)
    return " ".join(_QUALIFIERS.sub(" ", before).split())


def _declared_type(statement: str, name: str) -> str:
    kind = re.match(
        r"((?:(?:const|constexpr|static|unsigned|signed)\s+)*[A-Za-z_][\w:]*)\s*([^=;({]*)",
        statement,
    )
    if not kind:
        return ""
    pointer = "*" if re.search(rf"\*\s*(?:const\s*)?{re.escape(name)}\b", statement) else ""
    return (
        " ".join(
            _QUALIFIERS.sub(" ", kind[1]).replace("constexpr", "").replace("static", "").split()
        )
        + pointer
    )


def _template_types(*functions: Piece | None) -> dict[str, str]:
    """Return the types that stand in templates of functions: float for each."""
    names: list[str] = []
    for function in filter(None, functions):
        template = re.search(r"template\s*<([^>]*)>", blanked(function.header))
        names += re.findall(r"(?:typename|class)\s+(\w+)", template[1]) if template else []
    return dict.fromkeys(names, "float")


def fixed_sizes(text: str, launch: Launch) -> dict[str, str]:
    """Return the macros and constants that stand for M, N and K in a kernel without such arguments.

    Where one name stands for all, it is that of N.
    """
    kernel = kernels_of(text).get(launch.name)
    if kernel is None or any(_size(named(each)) for each in parameters(kernel, launch.name)):
        return {}
    names = sorted(words(kernel.text) & macros(text), key=kernel.text.index)
    sizes = {size: name for name in reversed(names) if (size := _size(name))}
    return sizes if "N" in sizes else {}


def _size(name: str) -> str | None:
    return next(iter(meanings([name])))[name] if is_size_name(name) else None


def code(text: str, launches: Sequence[Launch], scope: Scope) -> str:
    """Return `host_configure`: it gets the numbers and pointers of `scope`, in their order.

    `host_fixed` contains M, N and K if the source `text` fixes them, else zeros.
    """
    lines = [f"using {name} = {kind};" for name, kind in scope.types.items()]
    for index, (name, kind) in enumerate(scope.numbers.items()):
        if kind.endswith("*"):
            base = kind.rstrip("* ")
            lines.append(f"static {base} host_{name}; host_{name} = ({base})host_numbers[{index}];")
            lines.append(f"{base} *{name} = &host_{name};")
        elif "Stream" in kind:
            lines.append(f"{kind} {name} = nullptr;")
        else:
            lines.append(f"{kind} {name} = ({kind})host_numbers[{index}];")
    for index, (name, kind) in enumerate(scope.pointers.items()):
        lines.append(f"{kind} {name} = ({kind})host_pointers[{index}];")
        lines.append(f"host_elements[{index}] = host_element({name});")
    lines += scope.statements
    for launch in launches:
        where = f"HostConfiguration({launch.configuration})"
        lines.append(f"host_at({launch.kernel}, {where})({launch.arguments});")
    body = "\n    ".join(lines)
    sizes = fixed_sizes(text, launches[-1])
    fixed = ", ".join(f"(unsigned)({sizes.get(size, sizes.get('N', 0))})" for size in "MNK")
    return (
        'extern "C" __attribute__((no_sanitize("thread"))) HostLaunch *host_configure(\n'
        "    const double *host_numbers, void *const *host_pointers, unsigned *count) {\n"
        f"    host_launch_count = 0;\n    {body}\n"
        "    *count = host_launch_count;\n    return host_launches;\n}\n"
        f'extern "C" const unsigned host_fixed[3];\nconst unsigned host_fixed[] = {{{fixed}}};\n'
    )
