"""Generating C++ that evaluates a launch with any compiler: the function `host_configure`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernels.host_execution.compiler import HERE, SOURCE_NAME
from kernels.launches.constants import fixed_sizes, macros, settable, variables
from kernels.launches.expression import (
    COUNTS,
    MALLOC,
    MEMSET,
    Launch,
    declarations_in,
    edges_of_blocks,
    main_of,
    targets,
    without_names,
    words,
)
from kernels.launches.pieces import NOTHING, Piece, blanked, kernels_of, named, split_list
from kernels.launches.roles import (
    ELEMENT,
    ELEMENT_TYPES,
    FACTORS,
    MATRICES,
    SIZES,
    is_bias,
    is_number_name,
    meaning_of,
    size_named,
)
from kernels.launches.structs import members

_MEMSET_THREADS = 256
_MEMSET_KERNEL = " ".join((HERE / "memset.h").read_text().split())  # as one line
# A pointer's elements and its name.
_CAST = re.compile(r"[(<]\s*(?:const\s+)?(\w+)\s*\*\s*[)>]\s*\(?\s*(\w+)")
_PLAIN_TYPE = (HERE / "plain_type.h").read_text()
_MATRIX = re.compile(r"\*|\[\s*\]")
# Numbers of a command line.
_OF_CALLER = re.compile(r"\bargv\b|\b(?:ato[il]|sto[il]|strtou?l+)\s*\(")
_FLOATING = re.compile(r"\b(?:float|double)\b")
_QUALIFIERS = re.compile(r"\b(?:const(?:expr)?|static|_*restrict_*|volatile|register)\b|&")


@dataclass(frozen=True)
class Scope:
    """The names that a product defines for its launches: numbers and pointers, with types.

    `absent` are pointers that are null. `allocated` are pointers to memory that a step allocates.
    """

    numbers: dict[str, str]
    pointers: dict[str, str]
    absent: dict[str, str]
    types: dict[str, str]  # template parameters of the enclosing function
    constants: tuple[str, ...] = ()  # those numbers that are constants of the file
    allocated: tuple[str, ...] = ()

    def statements(self, launch: Launch) -> tuple[str, ...]:
        """Return those declarations of a launch that the product does not define itself."""
        bound = {*self.numbers, *self.pointers, *self.absent}
        return tuple(without_names(each, bound) for each in launch.declarations)


def scope_of(text: str, steps: Sequence[Launch]) -> Scope:
    """Return the names that a product must define for its launches."""
    merged = Scope({}, {}, {}, {})
    for step in sorted(steps, key=lambda step: step.is_of_memory):  # kernels have the types
        scope = _scope_of(text, step)
        for name, kind in scope.pointers.items():
            before = merged.pointers.get(name, kind)
            is_stored = step.is_of_memory or not kind.startswith("const ")
            merged.pointers[name] = before.removeprefix("const ") if is_stored else before
        for target, names in (
            (merged.numbers, scope.numbers),
            (merged.absent, scope.absent),
            (merged.types, scope.types),
        ):
            target |= names | target
        constants = dict.fromkeys((*merged.constants, *scope.constants))
        merged = replace(merged, constants=tuple(constants))
    allocated = [split_list(step.arguments)[0] for step in steps if step.name == MALLOC]
    return replace(merged, allocated=tuple(allocated))


def _scope_of(text: str, launch: Launch) -> Scope:
    declared = {
        name: each for line in launch.declarations for name, each in declarations_in(line).items()
    }
    types = {name: kind for name, kind in _types(launch).items() if name not in declared}
    text_of = " ".join([launch.kernel, launch.configuration, launch.arguments])
    needed = words(re.sub(r"::\s*\w+", "", " ".join([text_of, *launch.declarations])))
    kernel = kernels_of(text).get(launch.name, NOTHING)
    constants = settable(text, launch, kernel)
    hidden = {n for n in map(named, kernel.parameters) if size_named(n)} & set(variables(text))
    outside = (macros(text, str(launch)) | set(kernels_of(text))) - set(constants) - hidden
    needed |= set(constants)
    numbers: dict[str, str] = {}
    pointers: dict[str, str] = {}
    absent: dict[str, str] = {}  # pointers to a bias are null, so that none is added
    by_argument = dict(targets(launch, kernel)) | members(text, launch, kernel)
    sizes = _sizes(launch, declared, by_argument)
    in_templates = words(launch.kernel)
    casts = {name: kind for kind, name in _CAST.findall(launch.arguments)}
    in_order = [*re.findall(r"\w+", " ".join(by_argument)), *sorted(needed)]
    for name in sorted(needed - outside - {"true", "false"}, key=in_order.index):
        kind = constants.get(name) or types.get(name) or _type(declared.get(name, ""))
        target = by_argument.get(name, "")
        if (is_bias(name) or is_bias(named(target))) and "*" in f"{kind}{target}":
            absent[name] = _type(target) or kind
        elif "*" in kind and (meaning_of(name) or (is_number_name(name) and COUNTS.search(kind))):
            numbers[name] = kind
        elif name in MATRICES and name not in declared and not (kind or target):
            pointers[name] = f"{casts.get(name, ELEMENT)} *"
        elif "*" in kind and not target and name not in words(text_of):
            continue
        elif _MATRIX.search(target) or "*" in kind:
            constant = "const " if re.search(r"\bconst\b[^*]*[*\[]", target) else ""
            is_open = kernel is NOTHING or kernel.template
            pointers[name] = constant + (kind if "*" in kind and is_open else _type(target) or kind)
        elif meaning_of(name) in FACTORS and COUNTS.search(kind) and _FLOATING.search(target):
            numbers[name] = _type(target)  # the kernel's factor may be any number
        elif name in types or name in constants or (name in sizes and name not in in_templates):
            numbers[name] = kind or "int"
        elif name not in declared and (target or is_number_name(name)):
            numbers[name] = _type(target) if target and "*" not in target else "int"
    template_types = _template_types(text, launch.enclosing, kernel)
    scope = Scope(numbers, pointers, absent, template_types, tuple(constants))
    used = words(" ".join([text_of, *scope.statements(launch)])) | set(constants)
    return replace(scope, numbers={name: numbers[name] for name in numbers if name in used})


def _sizes(launch: Launch, declared: Mapping[str, str], by_argument: Mapping[str, str]) -> set[str]:
    """Return which declared names are sizes, including names declared equal to a size.

    Edges of blocks are excluded, and so are products of the caller's sizes.
    """
    of_caller = set(_types(launch))
    values = {name: each.partition("=")[2].strip() for name, each in declared.items()}
    products = {name for name, v in values.items() if "*" in v and words(v) <= of_caller}
    targets = {name: named(by_argument.get(name, "")) for name in declared}
    sizes = {name for name, each in targets.items() if is_number_name(name) or size_named(each)}
    if set(SIZES) <= {name.upper() for name in (*of_caller, *declared)}:  # no others
        sizes = {name for name in sizes if name.upper() in SIZES or meaning_of(name)}
    sizes -= products | edges_of_blocks(launch)
    beside = {n: (line, values[n]) for line in launch.declarations for n in declarations_in(line)}
    given = {name for name, value in values.items() if _OF_CALLER.search(value)}
    equal = {beside[name] for name in sizes if values[name].isdecimal()}
    used = re.findall(r"\w+", str(launch))
    return sizes | given | {n for n, each in beside.items() if each in equal and used.count(n) > 1}


def _types(launch: Launch) -> dict[str, str]:
    """Return the types of the enclosing function's parameters, by name."""
    given = launch.enclosing.parameters
    return {named(each): _type(each) for each in given if named(each) not in ("argc", "argv")}


def _type(parameter: str) -> str:
    """Return the type in a parameter's declaration, without qualifiers."""
    parameter = re.split(r"[=({]", parameter)[0]
    before = re.sub(r"\[[^]]*\]\s*$", "*", parameter.strip())
    before = re.sub(rf"\b{re.escape(named(parameter))}\b(?=[^\w]*$)", "", before)
    return " ".join(_QUALIFIERS.sub(" ", before).split())


def _template_types(text: str, *functions: Piece) -> dict[str, str]:
    """Return the type for each type parameter of templates: float, unless calls give another."""
    types = {}
    for function in functions:
        call = rf"\b{re.escape(function.name)}\s*<([^;{{}}()<>]*)>\s*\("
        matches = re.findall(call, blanked(text))
        given = [split_list(each) for each in matches if words(each) & ELEMENT_TYPES]
        for place, (kind, name, _) in enumerate(function.template):
            calls = [call[place] for call in given if len(call) > place]
            if kind in ("typename", "class") and (calls or name not in types):
                types[name] = ELEMENT if ELEMENT in calls or not calls else calls[0]
    return types


def _instance(text: str, step: Launch) -> str:
    """Return a kernel with the template arguments that a compiler would deduce."""
    kernel = kernels_of(text).get(step.name, NOTHING)
    template = kernel.template if "<" not in step.kernel else []
    given = targets(step, kernel)[::-1]
    deduced = {_type(target).rstrip(" *"): argument for argument, target in given}
    names = [name for _, name, default in template if not default or name in deduced]
    if not names or not {*names} <= {*deduced}:
        return step.kernel
    kinds = ", ".join(f"HostPlain<decltype({deduced[name]})>::type" for name in names)
    return f"{step.kernel}<{kinds}>"


def _evaluated(text: str, step: Launch, scope: Scope) -> str:
    """Return a step as C++: a launch to record, or the size of memory that it allocates."""
    pointer, *given = split_list(step.arguments) or [""]
    if step.name == MALLOC and pointer not in scope.pointers:
        return ""
    if step.name == MALLOC:
        return f"host_bytes[{list(scope.pointers).index(pointer)}] = {given[0]};"
    kernel, where, arguments = _instance(text, step), step.configuration, step.arguments
    if step.name == MEMSET:
        kernel, where = "host_memset", f"CEIL_DIV({given[1]}, {4 * _MEMSET_THREADS}), "
        where, arguments = f"{where}{_MEMSET_THREADS}", f"{pointer}, {', '.join(given)}"
    return f"host_at({kernel}, HostConfiguration({where}))({arguments});"


def memset(steps: Sequence[Launch]) -> str:
    """Return the source of a kernel that sets memory, for the first line that needs it, or ""."""
    lines = [step.line for step in steps if step.name == MEMSET]
    return f'\n#line {max(1, lines[0])} "{SOURCE_NAME}"\n{_MEMSET_KERNEL}\n' if lines else ""


def _using(code: str) -> Iterator[str]:
    """Yield a using directive per namespace, declared before if its own code may be removed."""
    for opened in re.finditer(r"\bnamespace\s+([\w:]+)\s*\{", code):
        before = code[: opened.start()]
        is_outermost = before.count("{") == before.count("}")
        declared = f"namespace {opened[1]} {{}}\n" if is_outermost else ""
        yield f"{declared}using namespace {opened[1]};\n"


def code(text: str, steps: Sequence[Launch], scope: Scope) -> str:
    """Return `host_configure`: it gets the numbers and pointers of `scope`, in their order.

    It sets `host_bytes`, by pointer, to the sizes of memory that steps allocate. `host_fixed`
    contains M, N and K if the source `text` fixes them, else zeros.
    """
    lines = [f"using {name} = {kind};" for name, kind in scope.types.items()]
    for index, (name, kind) in enumerate(scope.numbers.items()):
        if kind.endswith("*"):
            base = kind.rstrip("* ")
            lines.append(f"static {base} host_{name}; host_{name} = ({base})host_numbers[{index}];")
            lines.append(f"{base} *{name} = &host_{name};")
        elif meaning_of(name) == "STREAM":
            lines.append(f"cudaStream_t {name} = nullptr;")
        else:
            lines.append(f"{kind} {name} = ({kind})host_numbers[{index}];")
    for index, (name, kind) in enumerate(scope.pointers.items()):
        lines.append(f"{kind} {name} = ({kind})host_pointers[{index}];")
        lines.append(f"host_elements[{index}] = host_element({name});")
    lines += [f"{kind} {name} = nullptr;" for name, kind in scope.absent.items()]
    lines += [f"::{name} = {name};" for name in scope.constants]
    for step in steps:
        lines.append(f"{{ {' '.join([*scope.statements(step), _evaluated(text, step, scope)])} }}")
    body = "\n    ".join(lines)
    namespaces = "".join(dict.fromkeys(_using(blanked(text))))
    main = main_of(steps)
    sizes = fixed_sizes(text, kernels_of(text).get(main.name, NOTHING))
    if any(size_named(name) for name in scope.constants):
        sizes = {}
    fixed = ", ".join(f"(unsigned)({sizes.get(size, sizes.get('N', 0))})" for size in "MNK")
    return (
        f"{_PLAIN_TYPE}{namespaces}"
        'extern "C" __attribute__((no_sanitize("thread"))) HostLaunch *host_configure(\n'
        "    const double *host_numbers, void *const *host_pointers, unsigned *count) {\n"
        f"    host_launch_count = 0;\n    {body}\n"
        "    *count = host_launch_count;\n    return host_launches;\n}\n"
        f'extern "C" const unsigned host_fixed[3];\nconst unsigned host_fixed[] = {{{fixed}}};\n'
    )
