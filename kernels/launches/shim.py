"""C++ that evaluates a launch: the function `host_configure`, for every compiler."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernels.host_execution.compiler import SOURCE_NAME
from kernels.launches.constants import fixed_sizes, macros, settable, variables
from kernels.launches.expression import (
    MALLOC,
    MEMSET,
    Launch,
    declared_names,
    main_of,
    named,
    parameters,
    split_list,
    template_parameters,
    without_names,
    words,
)
from kernels.launches.pieces import Piece, blanked, function_name, kernels_of
from kernels.launches.roles import (
    ELEMENT,
    ELEMENT_TYPES,
    MATRICES,
    SIZES,
    is_bias,
    is_number_name,
    meaning_of,
    size_named,
)

_MEMSET_THREADS = 256
# One word per thread, and the bytes behind the last word.
_MEMSET_KERNEL = (
    "__global__ void host_memset(void *memory, int value, size_t count) { "
    "const size_t word = blockIdx.x * (size_t)blockDim.x + threadIdx.x; "
    "if (4 * word + 4 <= count) ((unsigned *)memory)[word] = 0x01010101u * (unsigned char)value; "
    "else for (size_t i = 4 * word; i < count; ++i) ((unsigned char *)memory)[i] = value; }"
)
# A pointer's elements and its name.
_CAST = re.compile(r"[(<]\s*(?:const\s+)?(\w+)\s*\*\s*[)>]\s*\(?\s*(\w+)")
# A type without pointers, references and const, as templates deduce it.
_PLAIN = """\
template <typename HostType>
struct HostPlain {
    typedef HostType type;
};
template <typename HostType>
struct HostPlain<HostType *> : HostPlain<HostType> {};
template <typename HostType>
struct HostPlain<HostType &> : HostPlain<HostType> {};
template <typename HostType>
struct HostPlain<const HostType> : HostPlain<HostType> {};
"""
_MATRIX = re.compile(r"\*|\[\s*\]")
_COUNTS = re.compile(r"\b(?:int|unsigned|long|size_t|u?int\d+_t)\b")
_QUALIFIERS = re.compile(r"\b(?:const(?:expr)?|static|_*restrict_*|volatile|register)\b|&")


@dataclass(frozen=True)
class Scope:
    """The names that the product defines for launches: numbers and pointers, with their types.

    `absent` are null pointers. `allocated` are pointers to memory that a step allocates.
    """

    numbers: dict[str, str]
    pointers: dict[str, str]
    absent: dict[str, str]
    types: dict[str, str]  # template parameters of the enclosing function
    constants: tuple[str, ...] = ()  # numbers that are constants of the file
    allocated: tuple[str, ...] = ()

    def statements(self, launch: Launch) -> list[str]:
        """Return the declarations of a launch that are not those of the product."""
        bound = {*self.numbers, *self.pointers, *self.absent}
        return [without_names(each, bound) for each in launch.declarations]


def scope_of(text: str, steps: Sequence[Launch]) -> Scope:
    """Return the declarations that the launches of a product need from it."""
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
        name: statement for statement in launch.declarations for name in declared_names(statement)
    }
    types = {name: kind for name, kind in _types(launch).items() if name not in declared}
    text_of = " ".join([launch.kernel, launch.configuration, launch.arguments])
    members = r"::\s*\w+"  # of types and namespaces
    needed = words(re.sub(members, "", " ".join([text_of, *launch.declarations])))
    kernel = kernels_of(text).get(launch.name)
    constants = settable(text, launch, kernel)
    given = parameters(kernel, launch.name) if kernel else []
    hidden = {named(each) for each in given if size_named(named(each))} & set(variables(text))
    outside = (macros(text, str(launch)) | set(kernels_of(text))) - set(constants) - hidden
    needed |= set(constants)
    numbers: dict[str, str] = {}
    pointers: dict[str, str] = {}
    absent: dict[str, str] = {}  # a product without bias
    by_argument = dict(zip(split_list(launch.arguments), given, strict=False))
    sizes = _sizes(launch, declared, by_argument)
    in_templates = words(launch.kernel)
    casts = {name: kind for kind, name in _CAST.findall(launch.arguments)}
    in_order = [*re.findall(r"\w+", launch.arguments), *sorted(needed)]
    for name in sorted(needed - outside, key=in_order.index):
        kind = types.get(name) or _declared_type(declared.get(name, ""), name)
        kind = constants.get(name) or kind
        target = by_argument.get(name, "")
        if is_bias(name) and "*" in f"{kind}{target}":
            absent[name] = _type(target) or kind
        elif "*" in kind and (meaning_of(name) or (is_number_name(name) and _COUNTS.search(kind))):
            numbers[name] = kind
        elif name in MATRICES and name not in declared and not (kind or target):
            pointers[name] = f"{casts.get(name, ELEMENT)} *"
        elif "*" in kind and name not in words(text_of):
            continue
        elif _MATRIX.search(target) or "*" in kind:
            constant = "const " if re.search(r"\bconst\b[^*]*[*\[]", target) else ""
            is_open = kernel is None or template_parameters(kernel)
            pointers[name] = constant + (kind if "*" in kind and is_open else _type(target) or kind)
        elif name in types or name in constants or (name in sizes and name not in in_templates):
            numbers[name] = kind or "int"
        elif name not in declared and (target or is_number_name(name)):
            numbers[name] = _type(target) if target and "*" not in target else "int"
    template_types = _template_types(text, launch.enclosing, kernel)
    return Scope(numbers, pointers, absent, template_types, tuple(constants))


def _sizes(launch: Launch, declared: Mapping[str, str], by_argument: Mapping[str, str]) -> set[str]:
    """Return the declared names of sizes, and of equal numbers that are declared beside them."""
    values = {
        name: (statement, value[1])
        for name, statement in declared.items()
        if (value := re.search(rf"\b{name}\s*=\s*(\d+)\s*[,;]", statement))
    }
    targets = {name: named(by_argument.get(name, "")) for name in declared}
    if set(SIZES) <= {each.upper() for each in (*_types(launch), *declared)}:  # no others
        targets = {n: each for n, each in targets.items() if n.upper() in SIZES or meaning_of(n)}
    sizes = {name for name, each in targets.items() if is_number_name(name) or size_named(each)}
    beside = {name for name, value in values.items() if value in map(values.get, sizes)}
    return sizes | {name for name in beside if len(re.findall(rf"\b{name}\b", str(launch))) > 1}


def _types(launch: Launch) -> dict[str, str]:
    """Return the types of the enclosing function's parameters by name."""
    function = launch.enclosing
    given = parameters(function, function_name(function) or "") if function else []
    return {named(each): _type(each) for each in given if named(each) not in ("argc", "argv")}


def _type(parameter: str) -> str:
    """Return the type in a parameter's declaration, without qualifiers."""
    parameter = parameter.split("=")[0]
    before = re.sub(r"\[[^]]*\]\s*$", "*", parameter.strip())
    before = re.sub(rf"\b{re.escape(named(parameter))}\b(?=[^\w]*$)", "", before)
    return " ".join(_QUALIFIERS.sub(" ", before).split())


def _declared_type(statement: str, name: str) -> str:
    kind = re.match(r"(?:(?:const|constexpr|static|unsigned|signed)\s+)*[A-Za-z_][\w:]*", statement)
    if not kind:
        return ""
    pointer = "*" if re.search(rf"\*\s*(?:const\s*)?{re.escape(name)}\b", statement) else ""
    return " ".join(_QUALIFIERS.sub(" ", kind[0]).split()) + pointer


def _template_types(text: str, *functions: Piece | None) -> dict[str, str]:
    """Return the types that stand in templates of functions: float, unless a call gives others."""
    types = {}
    for function in filter(None, functions):
        given = _given_types(text, function_name(function) or "")
        for place, (kind, name, _) in enumerate(template_parameters(function)):
            calls = [call[place] for call in given if len(call) > place]
            if kind in ("typename", "class") and (calls or name not in types):
                types[name] = ELEMENT if ELEMENT in calls or not calls else calls[0]
    return types


def _given_types(text: str, name: str) -> list[list[str]]:
    """Return the arguments of a template in calls and instantiations that name element types."""
    calls = re.findall(rf"\b{re.escape(name)}\s*<([^;{{}}()<>]*)>\s*\(", blanked(text))
    return [split_list(call) for call in calls if words(call) & ELEMENT_TYPES]


def _instance(text: str, step: Launch) -> str:
    """Return a kernel with the template arguments that a compiler deduces from its arguments."""
    kernel = kernels_of(text).get(step.name)
    template = template_parameters(kernel) if kernel and "<" not in step.kernel else []
    given = zip(
        [_type(each) for each in parameters(kernel, step.name)] if kernel else [],
        split_list(step.arguments),
        strict=False,
    )
    deduced = {kind.rstrip(" *"): argument for kind, argument in [*given][::-1]}
    names = [name for _, name, default in template if not default or name in deduced]
    if not names or not {*names} <= {*deduced}:
        return step.kernel
    kinds = ", ".join(f"HostPlain<decltype({deduced[name]})>::type" for name in names)
    return f"{step.kernel}<{kinds}>"


def _evaluated(text: str, step: Launch, scope: Scope) -> str:
    """Return a step in C++: a launch, or the size of memory that it allocates."""
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
    """Return the kernel that sets memory, for the line of the first call that needs it, or ""."""
    lines = [step.line for step in steps if step.name == MEMSET]
    return f'\n#line {max(1, lines[0])} "{SOURCE_NAME}"\n{_MEMSET_KERNEL}\n' if lines else ""


def _using(code: str) -> Iterator[str]:
    """Yield a directive for each namespace; an outermost one may be in code that is left out."""
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
    sizes = fixed_sizes(text, main, kernels_of(text).get(main.name))
    if any(size_named(name) for name in scope.constants):
        sizes = {}
    fixed = ", ".join(f"(unsigned)({sizes.get(size, sizes.get('N', 0))})" for size in "MNK")
    return (
        f"{_PLAIN}{namespaces}"
        'extern "C" __attribute__((no_sanitize("thread"))) HostLaunch *host_configure(\n'
        "    const double *host_numbers, void *const *host_pointers, unsigned *count) {\n"
        f"    host_launch_count = 0;\n    {body}\n"
        "    *count = host_launch_count;\n    return host_launches;\n}\n"
        f'extern "C" const unsigned host_fixed[3];\nconst unsigned host_fixed[] = {{{fixed}}};\n'
    )
