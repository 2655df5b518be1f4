"""User-supplied Python functions that multiply on a GPU, for example by PyTorch or CuPy.

`kernels.catalog.python_calls` describes how these functions are called.
"""

import ast
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from base.paths import FOLDERS
from kernels.catalog.python_calls import CallFacts, needed
from kernels.catalog.user_supplied import CALL
from measurement.devices.errors import CellError

_MEASURING = ("kernels", "measurement", "study")
# Names and versions of packages that a recording contains.
_NAME, _VERSION = re.compile(r"[A-Za-z]\w{0,99}", re.ASCII), re.compile(r"[\w.+!-]{1,99}", re.ASCII)


@dataclass(frozen=True)
class DeviceMatrix:
    """A matrix in GPU memory with the CUDA array interface.

    https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3. `shape` is
    (rows, columns), row-major.
    """

    address: int
    shape: tuple[int, int]
    dtype: type[np.generic]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.address, False),
            "strides": None,
            "stream": None,  # the function gets the stream as an argument
        }


class Intact:
    """The functions and classes that measure, as they were before a user-supplied call."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._before = dict(self._callables())

    def check(self, name: str) -> None:
        """Raise CellError if the call in the file `name` replaced one of them."""
        now = dict(self._callables())
        changed = [place for place, value in self._before.items() if now.get(place) != value]
        if changed:
            raise CellError(f"refused: {name} replaced {'.'.join(changed[0])}; leave it unchanged")

    def _callables(self) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
        """Yield module and name of functions and classes, with their identities.

        Of classes, only those of this program and of CUDA are checked with their members. Libraries
        may install hooks of `sys`, and replace what only the command line imports, as PyTorch does
        with `inspect.getfile`.
        """
        loaded = [(name.split(".")[0], module) for name, module in list(sys.modules.items())]
        ours = [module for folder, module in loaded if folder in FOLDERS]
        measuring = [module for folder, module in loaded if folder in _MEASURING]
        values = [value for module in measuring for value in list(vars(module).values())]
        imported_modules = {value for value in values if isinstance(value, ModuleType)}
        for module in {*ours, *imported_modules, self._cuda}:
            name = str(getattr(module, "__name__", "cuda"))
            is_whole = module is self._cuda or name.split(".")[0] in FOLDERS
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and is_whole:
                    for inner, member in list(vars(value).items()):
                        if callable(member) or isinstance(member, property):
                            yield (name, f"{key}.{inner}"), _identity(member)
                if callable(value) and not key.endswith("hook"):
                    yield (name, key), _identity(value)


def _identity(value: Any) -> tuple[int, int]:
    return id(value), id(getattr(value, "__code__", None))


# The modules of this process before its first call, and the modules that its calls name.
_before: set[str] = set()
_named: set[str] = set()


def load_call(path: Path, facts: CallFacts | None = None) -> Callable[..., None]:
    """Run a file, or what one of its functions needs; return the function that enqueues a product.

    The returned function takes three `DeviceMatrix` and a stream. All errors of the file and of the
    function are raised as CellError.
    """
    if not _before:
        _before.update(sys.modules)
    try:
        names = _run(path, facts.function) if facts else runpy.run_path(str(path))
        function = _enqueuing(names[facts.function], facts) if facts else names[CALL]
    except Exception as error:  # user's code
        raise _failed(path, error) from error
    _named.update(value.__name__ for value in names.values() if isinstance(value, ModuleType))

    def call(*arguments: object) -> None:
        try:
            function(*arguments)
        except Exception as error:
            raise _failed(path, error) from error

    return call


def _run(path: Path, function: str) -> dict[str, Any]:
    """Run the statements that a function needs; return the names that they bind."""
    statements = needed(ast.parse(path.read_text(encoding="utf-8")), function)
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(ast.Module(statements, []), str(path), "exec"), names)
    return names


def _enqueuing(function: Any, facts: CallFacts) -> Callable[..., None]:
    """Return a function of three `DeviceMatrix` and a stream; it calls `function` in the stream."""
    enqueue = {"torch": _with_torch, "cupy": _with_cupy, "numba": _with_numba}[facts.library]
    return lambda *arguments: enqueue(function, facts, *arguments)


def _with_torch(
    function: Any, facts: CallFacts, a: object, b: object, c: object, stream: int
) -> None:
    import torch

    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        left, right, product = (torch.as_tensor(each, device="cuda") for each in (a, b, c))
        dtype = getattr(torch, facts.elements)
        left, right = left.to(dtype), right.to(dtype)
        if facts.form == "stores":
            result = product.to(dtype)
            function(left, right, result)
        else:
            result = function(left, right)
        if result is not product:
            product.copy_(result)


def _with_cupy(
    function: Any, facts: CallFacts, a: object, b: object, c: object, stream: int
) -> None:
    import cupy

    with cupy.cuda.ExternalStream(stream):
        left, right, product = (cupy.asarray(each) for each in (a, b, c))
        left, right = (each.astype(facts.elements, copy=False) for each in (left, right))
        if facts.form == "stores":
            result = product.astype(facts.elements, copy=False)
            function(left, right, result)
        else:
            result = function(left, right)
        if result is not product:
            product[...] = cupy.asarray(result)


def _with_numba(
    function: Any, facts: CallFacts, a: object, b: object, c: object, stream: int
) -> None:
    """Launch a Numba kernel in the stream, or call a function in CUDA's default stream.

    Work in the default stream waits for earlier work in the stream, and later work waits for it.
    """
    from numba import cuda

    left, right, product = (cuda.as_cuda_array(each) for each in (a, b, c))
    ours = cuda.external_stream(stream)
    if facts.form == "kernel":
        m, n = product.shape
        arguments = [left, right]
        arguments.insert(facts.result, product)
        function[_grid(facts, m, n), facts.threads, ours](*arguments)
        return
    result = function(left, right, *([product] if facts.form == "stores" else []))
    if facts.form == "returns":
        values = result.copy_to_host() if hasattr(result, "copy_to_host") else result
        product.copy_to_device(np.ascontiguousarray(values, np.float32), stream=ours)
        ours.synchronize()  # the copy reads memory that is freed at the end of this function


def _grid(facts: CallFacts, m: int, n: int) -> tuple[int, ...]:
    """Return a grid that covers C, whichever index counts rows if that is unknown."""
    if len(facts.threads) == 1:
        return (ceil(m * n / facts.threads[0]),)
    edges = {True: (m, n), False: (n, m), None: (max(m, n),) * 2}[facts.x_is_row]
    return tuple(ceil(edge / width) for edge, width in zip(edges, facts.threads, strict=True))


def imported() -> dict[str, str | None]:
    """Return the packages imported by calls in this process, with their versions.

    These include packages that other packages import, but no modules of Python itself.
    """
    new = _named | (set(sys.modules) - _before if _before else set())
    names = {name.split(".")[0] for name in new} - sys.stdlib_module_names
    versions = {}
    for name in sorted(name for name in names if _NAME.fullmatch(name)):
        version = str(getattr(sys.modules.get(name), "__version__", ""))
        versions[name] = version if _VERSION.fullmatch(version) else None
    return versions


def _failed(path: Path, error: Exception) -> CellError:
    first = str(error).strip().split("\n")[0]
    return CellError(f"{path.name}: {type(error).__name__}: {first}")
