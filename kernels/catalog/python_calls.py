"""Unchanged Python files: which function multiplies matrices, and which statements it needs.

A file is parsed, never run. A function takes two matrices and returns their product, or takes three
and stores it; a kernel of Numba takes three. Where it is timed, only the statements that this
function needs are executed, so no test, benchmark or plot of the file runs.
"""

import ast
import dis
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
_Threads = Annotated[int, Field(ge=1, le=1024)]

_KERNEL = re.compile(r"(?:(?!torch\b)\w+\.)*(?:jit|autotune|heuristics|rawkernel)\b")
_NUMBA_KERNEL = re.compile(r"(?:numba\.)?cuda\.jit\b")
_GPU_OBJECTS = ("RawKernel", "RawModule", "ElementwiseKernel", "load_inline", "get_function")
_PRODUCT = re.compile(r"mat_?mul|gemm|multiply|product|(?:^|_)(?:mm|dot|mul)(?:_|$)", re.IGNORECASE)
_OTHER_PURPOSE = re.compile(r"test|check|bench|verify|compare|main|plot|profile|ref", re.IGNORECASE)
# Names of two parameters that suggest matrices, if the function's name does not.
_MATRIX = re.compile(
    r"(?:d_|dev_)?(?:[abxyw]|left|right|lhs|rhs|input|other|weight|mat_?[12ab]|m[12])(?:_\w+)?",
    re.IGNORECASE,
)
_RESULT = re.compile(r"(?:d_|dev_)?(?:c|out|output|result|res|dst)(?:_\w+)?", re.IGNORECASE)
_LIBRARIES = {"numba": "numba", "triton": "torch", "torch": "torch", "cupy": "cupy"}
_SHORT = {"float16": "float16", "half": "float16", "fp16": "float16", "bf16": "bfloat16"}
_SHORT |= {"bfloat16": "bfloat16"}
_DEFAULT_THREADS = (16, 16)


class NoCall(ValueError):  # noqa: N818  the field's word
    """No function of a file, or more than one, may be the product."""


class CallFacts(BaseModel):
    """How the Python function that computes the product is called.

    `form`: it returns the product, stores it in its third argument, or is a Numba kernel. The
    kernel stores it in the parameter `result` and has `threads` per block; `x_is_row` says whether
    its x index counts rows of C (None: unknown). `library` provides the arrays that the function
    takes. `elements` is the type to which A and B are converted before each call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: Name
    form: Literal["returns", "stores", "kernel"]
    library: Literal["torch", "cupy", "numba"]
    elements: Literal["float32", "float16", "bfloat16"] = "float32"
    result: Literal[0, 1, 2] = 2
    threads: Annotated[tuple[_Threads, ...], Field(max_length=2)] = _DEFAULT_THREADS
    x_is_row: bool | None = None

    @property
    def digits(self) -> int:
        """The significant binary digits of the element type."""
        return {"float32": 24, "float16": 11, "bfloat16": 8}[self.elements]


@dataclass(frozen=True)
class _Candidate:
    function: ast.FunctionDef
    form: Literal["returns", "stores", "kernel"]
    likelihood: int


def call_of(tree: ast.Module, wanted: str | None = None) -> tuple[CallFacts, list[str]]:
    """Return how the product in a file is called, and the assumptions made; raise NoCall.

    `wanted` is the name of the function, if the user gave one.
    """
    chosen = _chosen(_candidates(tree, wanted), wanted)
    function = chosen.function
    statements = needed(tree, function.name)
    library = _library(tree, statements)
    short, line = _elements(statements, _SHORT)
    if not line:  # functions name float32 for their sums, so it counts only outside
        others = [each for each in tree.body if each not in statements]
        short, line = _elements(others, _SHORT | {"float32": "float32"})
    facts: dict[str, object] = {
        "function": function.name,
        "form": chosen.form,
        "library": library,
        "elements": short,
    }
    parameters = _positional(function)[: 2 if chosen.form == "returns" else 3]
    arguments = ", ".join(each.arg for each in parameters)
    how = {"returns": "returns C", "stores": "stores C", "kernel": "a kernel"}[chosen.form]
    assumed = [f"line {function.lineno}: {function.name}({arguments}) {how}, arrays of {library}"]
    if short != "float32":
        assumed.append(f"line {line}: elements are {short}; times include the conversions")
    if chosen.form == "kernel":
        threads, line = _threads(tree, function.name)
        result = _result(function)
        facts |= {"threads": threads, "result": result, "x_is_row": _x_is_row(function, result)}
        origin = f"line {line}" if line else "assumed"
        assumed.append(f"{origin}: blocks of {'x'.join(map(str, threads))} threads")
    return CallFacts.model_validate(facts), assumed


def needed(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the top-level statements that the function `name` needs, in their order.

    They bind names that it uses, directly or not, or set options of modules that it uses.
    """
    codes = {statement: _code(statement) for statement in tree.body if not _is_main(statement)}
    wanted, chosen = {name}, set[ast.stmt]()
    while True:
        new = [each for each in codes if each not in chosen and wanted & _bound(each, codes[each])]
        if not new:
            return [statement for statement in tree.body if statement in chosen]
        chosen.update(new)
        wanted |= {used for statement in new for used in _used(codes[statement])}


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _code(statement: ast.stmt) -> CodeType:
    code: CodeType = compile(ast.Module([statement], []), "file", "exec")
    return code


def _used(code: CodeType) -> Iterator[str]:
    """Yield the names that compiled code reads, except inside of nested functions."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _used(constant)


def _bound(statement: ast.stmt, code: CodeType) -> set[str]:
    names = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_NAME"}
    if isinstance(statement, ast.Assign):  # sets an option such as torch.backends.cudnn.benchmark
        attributes = [each for each in statement.targets if isinstance(each, ast.Attribute)]
        return names | {_root(each) for each in attributes}
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        is_option = all(isinstance(argument, ast.Constant) for argument in call.args)
        if is_option and not call.keywords and isinstance(call.func, ast.Attribute):
            return {_root(call.func)}
    return names


def _root(attribute: ast.expr) -> str:
    while isinstance(attribute, ast.Attribute):
        attribute = attribute.value
    return attribute.id if isinstance(attribute, ast.Name) else ""


def cuda_of(text: str) -> str:
    """Return the CUDA code in a Python file's strings, at its lines; raise SyntaxError."""
    code = ""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if "__global__" in node.value:
            code += "\n" * (node.lineno - 1 - code.count("\n")) + f"{node.value}\n"
    return code


# ---- Which function


def _candidates(tree: ast.Module, wanted: str | None) -> list[_Candidate]:
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    kernels = {each.name for each in functions if _is_decorated(each, _KERNEL)}
    kernels |= {
        target.id
        for each in tree.body
        if isinstance(each, ast.Assign) and any(name in ast.unparse(each) for name in _GPU_OBJECTS)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    candidates = []
    for function in functions:
        if form := _form(function, function.name in kernels):
            launches = bool(kernels & set(_used(_code(function)))) and form != "kernel"
            is_other = bool(_OTHER_PURPOSE.search(function.name))
            is_product = bool(_PRODUCT.search(function.name))
            names = [each.arg for each in _positional(function)[:2]]
            are_matrices = all(map(_MATRIX.fullmatch, names))
            if not is_product and not are_matrices and function.name != wanted:
                continue
            likelihood = 4 * launches + 2 * is_product - 8 * is_other
            candidates.append(_Candidate(function, form, likelihood))
    return candidates


def _chosen(candidates: Sequence[_Candidate], wanted: str | None) -> _Candidate:
    names = ", ".join(each.function.name for each in candidates)
    if wanted:
        candidates = [each for each in candidates if each.function.name == wanted]
        if not candidates:
            raise NoCall(f"--kernel {wanted}: is none of its products: {names or 'none'}")
    if not candidates:
        raise NoCall("no function takes two matrices and returns one, or takes three")
    likeliest = max(each.likelihood for each in candidates)
    best = [each for each in candidates if each.likelihood == likeliest]
    if len(best) > 1:
        names = ", ".join(each.function.name for each in best)
        raise NoCall(f"several functions may be the product: {names}; name one with --kernel")
    return best[0]


def _is_decorated(function: ast.FunctionDef, pattern: re.Pattern[str]) -> bool:
    return any(pattern.match(ast.unparse(each)) for each in function.decorator_list)


def _positional(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]


def _form(
    function: ast.FunctionDef, is_kernel: bool
) -> Literal["returns", "stores", "kernel"] | None:
    names = [each.arg for each in _positional(function)]
    required = len(names) - len(function.args.defaults)
    has_more = any(default is None for default in function.args.kw_defaults)
    if is_kernel:
        is_numba = _is_decorated(function, _NUMBA_KERNEL) and "device" not in ast.unparse(
            ast.Module(function.decorator_list, [])  # type: ignore[arg-type]
        )
        return "kernel" if is_numba and len(names) == required == 3 else None
    if has_more:
        return None
    returns = any(isinstance(each, ast.Return) and each.value for each in _own_nodes(function))
    if required == 2:
        return "returns" if returns else None
    return "stores" if required == 3 and _RESULT.fullmatch(names[2]) else None


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, except those of nested functions."""
    queue: list[ast.AST] = [*function.body]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            queue += ast.iter_child_nodes(node)


# ---- What it takes


def _library(tree: ast.Module, statements: Sequence[ast.stmt]) -> str:
    for part in (statements, [*ast.walk(tree)]):
        imported = set[str]()
        for node in part:
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
        for module, library in _LIBRARIES.items():
            if module in imported:
                return library
    raise NoCall("imports none of torch, triton, cupy and numba")


def _elements(statements: Sequence[ast.stmt], words: Mapping[str, str]) -> tuple[str, int | None]:
    """Return the element type that the first of `words` names, and its line; else float32, None."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute | ast.Constant):
                word = node.attr if isinstance(node, ast.Attribute) else str(node.value)
                if word in words:
                    return words[word], node.lineno
    return "float32", None


def _threads(tree: ast.Module, name: str) -> tuple[tuple[int, ...], int | None]:
    """Return the threads per block of the kernel's launch in the file, and its line."""
    nodes = [*ast.walk(tree)]
    assigned = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != name:
            continue
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1:
            try:
                value = _evaluated(node.slice.elts[1], assigned)
            except (KeyError, ValueError, RecursionError):
                continue
            return (value if isinstance(value, tuple) else (value,)), node.lineno
    return _DEFAULT_THREADS, None


def _evaluated(node: ast.expr, assigned: dict[str, ast.expr]) -> int | tuple[int, ...]:
    """Return the integer, or integers, that an expression of constants gives; raise ValueError."""
    if isinstance(node, ast.Name):
        return _evaluated(assigned[node.id], assigned)
    if isinstance(node, ast.Tuple):
        parts = [_evaluated(each, assigned) for each in node.elts]
        return tuple(part for part in parts if isinstance(part, int))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _evaluated(node.left, assigned), _evaluated(node.right, assigned)
        if isinstance(left, int) and isinstance(right, int):
            return left * right
    value = ast.literal_eval(node)
    if isinstance(value, int):
        return value
    raise ValueError(ast.unparse(node))


def _result(function: ast.FunctionDef) -> int:
    """Return the index of the parameter to which a kernel stores; 2 if that is not clear."""
    stored = {
        ast.unparse(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    places = [at for at, each in enumerate(_positional(function)) if each.arg in stored]
    return places[0] if len(places) == 1 else 2


def _x_is_row(function: ast.FunctionDef, result: int) -> bool | None:
    """Return whether the first index of ``cuda.grid(2)`` selects the row of C that is stored."""
    text = ast.unparse(function)
    grid = re.search(r"\(?(\w+), (\w+)\)? = cuda\.grid\(2\)", text)
    stored = re.search(rf"\b{_positional(function)[result].arg}\[\(?(\w+), (\w+)\)?\] \+?=", text)
    if not grid or not stored or {*grid.groups()} != {*stored.groups()}:
        return None
    return grid[1] == stored[1]
