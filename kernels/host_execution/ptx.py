"""Translating inline PTX: each ``asm`` statement becomes C++ calls of functions in ptx.h.

Those instructions are translated that public kernels of matrix products contain: asynchronous
copies, loads of matrices, products on tensor cores, loads, stores and moves, and simple arithmetic.
Layouts of fragments are those of NVIDIA's PTX ISA, section on warp-level matrix instructions.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_QUOTED = r'"(?:\\.|[^"\\\n])*"'
_LITERAL = re.compile(rf"R\"([^()\s]*)\(.*?\)\1\"|{_QUOTED}|'(?:\\.|[^'\\\n])'", re.DOTALL)
_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b[^(;{}]*\(")  # an asm statement with its qualifiers
_STRING = re.compile(r'\s*"((?:\\.|[^"\\\n])*)"')
_OPERAND = re.compile(r'(?:\[(\w+)\])?\s*"[^"]*"\s*\((.*)\)\s*', re.DOTALL)
_REGISTER = re.compile(r"%?[A-Za-z_]\w*")
_SPECIAL = {
    f"%{name}.{axis}": f"{call}.{axis}"
    for axis in "xyz"
    for name, call in (
        ("tid", "threadIdx"),
        ("ctaid", "blockIdx"),
        ("ntid", "blockDim"),
        ("nctaid", "gridDim"),
    )
} | {"%laneid": "host_lane()"}
_TYPES = {
    "f16": "__half",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
    "f32": "float",
    "f64": "double",
    "b8": "unsigned char",
    "u8": "unsigned char",
    "s8": "signed char",
    "b16": "unsigned short",
    "u16": "unsigned short",
    "s16": "short",
    "b32": "unsigned",
    "u32": "unsigned",
    "s32": "int",
    "b64": "unsigned long long",
    "u64": "unsigned long long",
    "s64": "long long",
    "pred": "bool",
}
# Type name and element type of vectors, by bytes per element.
_VECTORS = {4: ("uint", "unsigned"), 8: ("ulonglong", "unsigned long long")}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<"}
_OPERATORS |= {"shr": ">>"}
_NAMES = {"ex2": "exp2", "lg2": "log2"}
_FUNCTIONS = {"float": "{}f", "__half": "h{}", "__half2": "h2{}", "int": "{}", "unsigned": "{}"}
_SHUFFLES = {"bfly": "_xor", "up": "_up", "down": "_down", "idx": ""}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARED |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
# Element size in bytes and type name of the operands of a tensor-core product.
_FACTORS = {"f16": (2, "HOST_F16"), "bf16": (2, "HOST_BF16"), "tf32": (4, "HOST_TF32")}
_FACTORS |= {"s8": (1, "HOST_S8"), "u8": (1, "HOST_U8")}


class _NotTranslated(Exception):  # noqa: N818  the field's word
    """An instruction cannot be translated; the message is its name."""


@dataclass
class _Statement:
    """An ``asm`` statement: its operands as C++ expressions, and the registers it declares."""

    operands: list[str]
    names: dict[str, str]
    registers: set[str] = field(default_factory=set)

    def translated(self, template: str) -> str:
        """Return the C++ code of all instructions in the template; raise _NotTranslated."""
        return " ".join(self._instruction(text) for text in _instructions(template))

    def _instruction(self, text: str) -> str:
        text = re.sub(r"^[\w$]+:(?!:)\s*", "", text)  # a label, which only branches need
        guarded = re.match(r"@(!?)\s*(%?\w+)\s+(.*)", text, re.DOTALL)
        if guarded:
            inner = self._instruction(guarded[3])
            if guarded[2] not in self.registers:
                raise _NotTranslated(f"@{guarded[2]}")
            return f"if ({guarded[1]}{_host_name(guarded[2])}) {{ {inner} }}"
        opcode, *others = re.split(r"(?=[\s{\[])", text, maxsplit=1)
        rest = "".join(others)
        if opcode == ".reg":
            return self._declared(rest)
        for pattern, translate in _INSTRUCTIONS:
            if match := re.fullmatch(pattern, opcode):
                try:
                    code = translate(match, [self._operand(each) for each in split(rest, ",")])
                    return f"{{ {code} }}"
                except (IndexError, KeyError, ValueError):
                    break
        raise _NotTranslated(opcode)

    def _declared(self, rest: str) -> str:
        kind, _, names = rest.strip().partition(" ")
        declared = [name for text in names.split(",") for name in _numbered(text.strip())]
        if kind.lstrip(".") not in _TYPES or not all(map(_REGISTER.fullmatch, declared)):
            raise _NotTranslated(f".reg {rest.strip()}")
        self.registers |= set(declared)
        return f"{_TYPES[kind.lstrip('.')]} {', '.join(map(_host_name, declared))};"

    def _operand(self, text: str) -> list[str]:
        """Return an operand as C++ expressions: several for a vector."""
        text = text.strip()
        if text.startswith("{"):
            return [self._value(each) for each in split(text.strip("{} "), ",")]
        if text.startswith("["):
            base, plus, offset = text.strip("[] ").partition("+")
            value = self._value(base.strip())
            return [f"{value}, {self._value(offset.strip()) if plus else 0}"]
        return [self._value(text)]

    def _value(self, text: str) -> str:
        if text in _SPECIAL:
            return _SPECIAL[text]
        if numbered := re.fullmatch(r"%(\d+)", text):
            return f"({self.operands[int(numbered[1])]})"
        if named := re.fullmatch(r"%\[(\w+)\]", text):
            return f"({self.names[named[1]]})"
        if number := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            return f"0x{number[1]}u"
        if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|\d+)[uU]?|-?\d+\.\d+", text):
            return text
        if text in self.registers:
            return _host_name(text)
        raise ValueError(text)


def _host_name(register: str) -> str:
    return f"host_{register.replace('%', 'percent_')}"


def _numbered(declared: str) -> list[str]:
    """Return the registers that a declaration names; ``r<4>`` declares r0 to r3."""
    several = re.fullmatch(r"(\S+?)<(\d{1,3})>", declared)
    return [f"{several[1]}{i}" for i in range(int(several[2]))] if several else [declared]


def _instructions(template: str) -> Iterator[str]:
    """Yield the instructions of a template, without the braces around blocks."""
    template = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.DOTALL)
    for text in template.split(";"):
        words = " ".join(text.split())
        while words[:1] in ("{", "}") and words:
            words = words[1:].lstrip()
        if words:
            yield words


# ---- Instructions: what remains of the match are modifiers

_Operands = Sequence[Sequence[str]]
_Translate = Callable[[re.Match[str], _Operands], str]


def _address(space: str | None, operand: Sequence[str]) -> str:
    value, _, offset = operand[0].rpartition(", ")
    if (space or "").startswith("shared"):
        return f"host_shared_address((unsigned){value} + {offset})"
    return f"(void *)((char *){value} + {offset})"


def _copy(match: re.Match[str], operands: _Operands) -> str:
    to, source, size = _address("shared", operands[0]), _address(None, operands[1]), operands[2][0]
    others = [each[0] for each in operands[3:]]
    if match["hint"]:
        others.pop()  # the cache policy has no effect here
    zeros = f"host_zeros({size}, {others[0]})" if others else "0"
    return f"host_copy_async({to}, {source}, {size}, {zeros});"


def _matrices(match: re.Match[str], operands: _Operands) -> str:
    count, is_load = int(match["count"]), match["way"] == "ld"
    registers, (address,) = operands if is_load else reversed(operands)
    if len(registers) != count:
        raise ValueError
    row = address.replace(", ", " + ")
    if not match["space"]:  # a generic address must be one of shared memory
        row = f"host_shared_number({_address(None, [address])})"
    rest = f"((unsigned)({row}), {count}, {int(bool(match['trans']))}, host_words);"
    if is_load:
        return f"unsigned host_words[{count}]; host_load_matrices{rest} {_sets(registers)}"
    return f"const unsigned host_words[] = {_words(registers)}; host_store_matrices{rest}"


def _sets(targets: Sequence[str]) -> str:
    return " ".join(f"host_set({to}, host_words[{at}]);" for at, to in enumerate(targets))


def _words(values: Sequence[str]) -> str:
    return f"{{{', '.join(f'host_as<unsigned>({value})' for value in values)}}}"


def _multiply(match: re.Match[str], operands: _Operands) -> str:
    rows, columns, depth = int(match["m"]), int(match["n"]), int(match["k"])
    (bytes_, a), (b_bytes, b) = _FACTORS[match["a"]], _FACTORS[match["b"]]
    steps = depth * bytes_ // 16
    sums = {"f32": "float", "f16": "__half", "s32": "int"}[match["d"]]
    halves, per_register = rows // 8, 2 if sums == "__half" else 1
    counts = [2 * halves // per_register, halves * steps, steps, 2 * halves // per_register]
    is_usual = columns == 8 and rows in (8, 16) and steps in (1, 2) and bytes_ == b_bytes
    if not is_usual or [len(each) for each in operands] != counts or match["c"] != match["d"]:
        raise ValueError
    shape = f"HostWarpProduct{{{a}, {b}, {bytes_}, {rows}, {steps}}}"
    return (
        f"const unsigned host_factors[] = {_words([*operands[1], *operands[2]])}; "
        f"const unsigned host_before[] = {_words(operands[3])}; unsigned host_words[{counts[0]}]; "
        f"host_mma<{sums}, {2 * halves}>({shape}, host_factors, host_before, host_words); "
        f"{_sets(operands[0])}"
    )


def _load(match: re.Match[str], operands: _Operands) -> str:
    vector, _, fields = _vector(match)
    targets = zip(operands[0], fields, strict=True)
    sets = " ".join(f"host_set({to}, host_loaded{field});" for to, field in targets)
    address = _address(match["space"], operands[1])
    return f"const {vector} host_loaded = *(const {vector} *){address}; {sets}"


def _store(match: re.Match[str], operands: _Operands) -> str:
    vector, element, _ = _vector(match)
    parts = ", ".join(f"host_as<{element}>({value})" for value in operands[1])
    return f"*({vector} *){_address(match['space'], operands[0])} = {vector}{{{parts}}};"


def _vector(match: re.Match[str]) -> tuple[str, str, Sequence[str]]:
    """Return the C++ type of a load, store or move, its element type, and its fields."""
    count, kind = int(match["count"] or 1), match["type"]
    if count == 1:
        return _TYPES[kind], _TYPES[kind], [""]
    name, element = _VECTORS[int(kind[1:]) // 8]
    return f"{name}{count}", element, [f".{field}" for field in "xyzw"[:count]]


def _move(match: re.Match[str], operands: _Operands) -> str:
    (to, source), bits = operands, int(match["bits"])
    if len(to) == 2:
        half = f"host_as<unsigned long long>(host_as<{_TYPES[f'b{bits}']}>({source[0]}))"
        low, high = f"{half} & {hex((1 << bits // 2) - 1)}", f"{half} >> {bits // 2}"
        kind = _TYPES[f"b{bits // 2}"]
        return f"host_set({to[0]}, ({kind})({low})); host_set({to[1]}, ({kind})({high}));"
    if len(source) == 2:
        kind, part = _TYPES[f"b{bits}"], _TYPES[f"b{bits // 2}"]
        low, high = (f"({kind})host_as<{part}>({value})" for value in source)
        return f"host_set({to[0]}, ({kind})({low} | {high} << {bits // 2}));"
    return f"host_set({to[0]}, {source[0]});"


def _arithmetic(match: re.Match[str], operands: _Operands) -> str:
    kind = _TYPES[match["type"]]
    if kind in ("int", "long long") and match["op"] != "shr":
        kind = f"unsigned {kind}"  # unsigned, so that it wraps around
    a, b = (f"host_as<{kind}>({each[0]})" for each in operands[1:])
    return f"host_set({operands[0][0]}, ({kind})({a} {_OPERATORS[match['op']]} {b}));"


def _fused(match: re.Match[str], operands: _Operands) -> str:
    kind = _TYPES[match["type"]]
    name = {"float": "fmaf", "double": "fma", "__half": "__hfma"}.get(kind, "__hfma2")
    return _called(name, kind, operands)


def _called(name: str, kind: str, operands: _Operands) -> str:
    values = ", ".join(f"host_as<{kind}>({each[0]})" for each in operands[1:])
    return f"host_set({operands[0][0]}, {name}({values}));"


def _function(match: re.Match[str], operands: _Operands) -> str:
    kind = _TYPES[match["type"]]
    return _called(_FUNCTIONS[kind].format(_NAMES.get(match["op"], match["op"])), kind, operands)


def _rounded(match: re.Match[str], operands: _Operands) -> str:
    (to,), (value,) = operands
    call = {"n": "rint", "z": "trunc", "m": "floor", "p": "ceil"}[match["way"]]
    number = f"{call}((float)host_as<{_TYPES[match['type']]}>({value}))"
    return f"host_set({to}, (int)host_integer<{_TYPES[match['to']]}>({number}));"


def _added(match: re.Match[str], operands: _Operands) -> str:
    kind, (value,) = _TYPES[match["type"]], operands[1]
    return f"atomicAdd(({kind} *){_address('global', operands[0])}, host_as<{kind}>({value}));"


def _shuffle(match: re.Match[str], operands: _Operands) -> str:
    (to,), (value,), (by,), (clamp,), (mask,) = operands
    number = int(clamp.strip("()"), 0)  # number of the last lane, and width of the part of a warp
    if number & 31 != (0 if match["way"] == "up" else 31):
        raise ValueError
    call = f"__shfl{_SHUFFLES[match['way']]}_sync({mask}, host_as<unsigned>({value}), {by}"
    return f"host_set({to}, {call}, {32 - (number >> 8)}));"


def _compare(match: re.Match[str], operands: _Operands) -> str:
    kind = _TYPES[match["type"]]
    a, b = (f"host_as<{kind}>({each[0]})" for each in operands[1:])
    return f"{operands[0][0]} = {a} {_COMPARED[match['op']]} {b};"


def _pack(match: re.Match[str], operands: _Operands) -> str:
    code = "host_to_half" if match["to"] == "f16" else "host_to_bfloat16"
    high, low = (f"{code}(host_as<float>({each[0]}))" for each in operands[1:])
    return f"host_set({operands[0][0]}, {high} << 16 | {low});"


def _as(code: str) -> _Translate:
    """Return a translation to `code`, in which ``{0}`` is the first operand."""
    return lambda _match, operands: code.format(*(each[0] for each in operands))


_INSTRUCTIONS: tuple[tuple[str, _Translate], ...] = (
    (
        r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?P<hint>\.L2::cache_hint)?"
        r"(?:\.L2::(?:64|128|256)B)?",
        _copy,
    ),
    (r"cp\.async\.commit_group", _as("host_commit_copies();")),
    (r"cp\.async\.wait_group", _as("host_wait_copies({0});")),
    (r"cp\.async\.wait_all", _as("host_commit_copies(); host_wait_copies(0);")),
    (
        r"(?P<way>ld|st)matrix\.sync\.aligned(?=.*\.x(?P<count>[124])\b)"
        r"(?=(?:.*(?P<trans>\.trans))?)(?:\.(?:m8n8|x\d|trans))+(?P<space>\.shared(?:::cta)?)?\.b16",
        _matrices,
    ),
    (
        r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16",
        _as("host_set({0}, host_transposed(host_as<unsigned>({1})));"),
    ),
    (
        r"mma\.sync\.aligned\.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)\.row\.col"
        r"\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)",
        _multiply,
    ),
    (
        r"ld(?:\.(?:volatile|weak|relaxed\.\w+))?(?:\.(?P<space>global|shared(?:::cta)?))?"
        r"(?:\.(?:ca|cg|cs|lu|cv|nc))*(?:\.L[12]::\w+)*(?:\.v(?P<count>[24]))?\.(?P<type>\w+)",
        _load,
    ),
    (
        r"st(?:\.(?:volatile|weak|relaxed\.\w+))?(?:\.(?P<space>global|shared(?:::cta)?))?"
        r"(?:\.(?:wb|cg|cs|wt))?(?:\.L[12]::\w+)*(?:\.v(?P<count>[24]))?\.(?P<type>\w+)",
        _store,
    ),
    (r"cvta\.to\.shared\.u(?:32|64)", _as("host_set({0}, host_shared_number((void *){1}));")),
    (r"cvta\.to\.global\.u64", _as("host_set({0}, (unsigned long long){1});")),
    (r"cvt\.[us](?:32|64)\.[us](?:32|64)", _as("{0} = {1};")),
    (r"cvt\.rna\.tf32\.f32", _as("host_set({0}, __float_to_tf32(host_as<float>({1})));")),
    (r"cvt\.rn\.(?P<to>f16|bf16)x2\.f32", _pack),
    (r"cvt\.rn\.f16\.f32", _as("host_set({0}, (unsigned short)host_to_half({1}));")),
    (r"cvt\.f32\.f16", _as("host_set({0}, host_from_half(host_as<unsigned short>({1})));")),
    (r"mov\.[bufs](?P<bits>16|32|64)", _move),
    (r"(?P<op>add|sub|mul)(?:\.(?:lo|rn|ftz))*\.(?P<type>\w+)", _arithmetic),
    (r"mul\.wide\.u32", _as("host_set({0}, (unsigned long long)(unsigned){1} * (unsigned){2});")),
    (r"mul\.wide\.s32", _as("host_set({0}, (long long)(int){1} * (int){2});")),
    (r"(?P<op>and|or|xor|shl|shr)\.(?P<type>\w+)", _arithmetic),
    (r"fma\.rn(?:\.ftz)?\.(?P<type>\w+)", _fused),
    (r"mad\.lo\.[us]32", _as("host_set({0}, (unsigned){1} * (unsigned){2} + (unsigned){3});")),
    (r"setp\.(?P<op>\w+)\.(?P<type>\w+)", _compare),
    (r"selp\.\w+", _as("host_set({0}, {3} ? {1} : {2});")),
    (
        r"(?P<op>ex2|lg2|tanh|rsqrt|sqrt)(?:\.(?:approx|rn|ftz))+\.(?P<type>f32|f16|f16x2)",
        _function,
    ),
    (r"(?P<op>max|min)\.(?P<type>u32|s32)", _function),
    (r"max(?:\.ftz)?\.f32", _as("host_set({0}, fmaxf(host_as<float>({1}), host_as<float>({2})));")),
    (r"min(?:\.ftz)?\.f32", _as("host_set({0}, fminf(host_as<float>({1}), host_as<float>({2})));")),
    (r"neg(?:\.ftz)?\.f32", _as("host_set({0}, -host_as<float>({1}));")),
    (r"abs(?:\.ftz)?\.f32", _as("host_set({0}, fabsf(host_as<float>({1})));")),
    (r"lop3\.b32", _as("host_set({0}, host_logic({1}, {2}, {3}, {4}));")),
    (r"prmt\.b32", _as("host_set({0}, host_permuted({1}, {2}, {3}));")),
    (r"shfl\.sync\.(?P<way>bfly|idx|up|down)\.b32", _shuffle),
    (
        r"cvt\.r(?P<way>[nzmp])i(?:\.ftz|\.sat)*\.(?P<to>[us](?:8|16|32))\.(?P<type>f32|f16)",
        _rounded,
    ),
    (r"red(?:\.relaxed)?(?:\.gpu)?\.global(?:\.gpu)?\.add\.(?P<type>[uf]32|s32)", _added),
    (r"rcp\.(?:approx|rn)(?:\.ftz)?\.f32", _as("host_set({0}, 1 / host_as<float>({1}));")),
    (
        r"bar(?:rier)?(?:\.cta)?\.(?P<way>sync|arrive)(?:\.aligned)?",
        lambda match, operands: _barrier(match["way"] == "sync", operands),
    ),
    (r"bar\.warp\.sync", _as("host_sync_warp({0});")),
    (r"activemask\.b32", _as("host_set({0}, host_active_mask());")),
    (r"createpolicy\.[\w.:]+", _as("host_set({0}, 0ull);")),
    (r"(?:membar|prefetch|prefetchu|fence)\.[\w.:]+", _as("")),
    (r"griddepcontrol\.(?:wait|launch_dependents)", _as("")),  # no effect: each grid runs alone
)


def _barrier(waits: bool, operands: _Operands) -> str:
    if operands == [["0"]] and waits:
        return "__syncthreads();"
    number, *threads = (f"(unsigned){each[0]}" for each in operands)
    if not (threads or waits):
        raise ValueError
    count = threads[0] if threads else "blockDim.x * blockDim.y * blockDim.z"
    return f"host_numbered_barrier({number}, {count}, {int(waits)});"


# ---- Statements in a source


def translated(code: str) -> tuple[str, list[tuple[int, str]]]:
    """Return code with its ``asm`` statements translated, and a list of those that cannot be.

    The list has the position and the instruction of each. The code must contain no comments and no
    macros; lines keep their numbers.
    """
    hidden = _without_literals(code)
    out, begin, refused = [], 0, []
    for match in _ASM.finditer(hidden):
        if match.start() < begin:
            continue
        end = closing(hidden, match.end())
        try:
            statement = _statement(code[match.end() : end - 1])
        except _NotTranslated as instruction:
            refused.append((match.start(), str(instruction) or match[0].split()[0]))
            continue
        breaks = "\n" * code.count("\n", match.start(), end)
        out += [code[begin : match.start()], f"({{ {statement} }})", breaks]
        begin = end
    return "".join([*out, code[begin:]]), refused


def _without_literals(code: str) -> str:
    return _LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code)


def closing(hidden: str, begin: int) -> int:
    """Return the index after the parenthesis that closes the one open at `begin`."""
    depth = 1
    for place in range(begin, len(hidden)):
        depth += {"(": 1, ")": -1}.get(hidden[place], 0)
        if not depth:
            return place + 1
    return len(hidden)


def _statement(inside: str) -> str:
    """Return the C++ code for the text in the parentheses of an ``asm``; raise _NotTranslated."""
    template, place = "", 0
    while literal := _STRING.match(inside, place):
        template, place = template + literal[1], literal.end()
    rest = inside[place:].strip()
    if rest and not rest.startswith(":"):
        raise _NotTranslated("")
    sections = split(rest[1:], ":")
    operands: list[str] = []
    names: dict[str, str] = {}
    for section in sections[:2]:
        for text in split(section, ","):
            given = _OPERAND.fullmatch(text)
            if not given:
                raise _NotTranslated("")
            names |= {given[1]: given[2]} if given[1] else {}
            operands.append(" ".join(given[2].split()))
    template = re.sub(r"\\[nt]", "\n", template)
    template = template.replace("%%", "%")
    return _Statement(operands, names).translated(template)


def split(text: str, separator: str) -> list[str]:
    """Split a text at separators outside of brackets and quotes; an empty text has no parts."""
    hidden = _without_literals(text)
    parts, begin, depth = [], 0, 0
    for place, character in enumerate(f"{hidden}{separator}"):
        depth += (character in "([{") - (character in ")]}")
        if character == separator and not depth:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return parts if text.strip() else []
