"""User-supplied Python functions that multiply on a GPU, for example by PyTorch or CuPy.

Their file format: see `kernels.catalog.user_supplied`.
"""

import re
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from base.paths import FOLDERS
from kernels.catalog.user_supplied import CALL
from measurement.devices.errors import CellError

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
    """The functions and classes of this program, and of all that it imports, before a call."""

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

        Members of classes belong to this program and to CUDA. Libraries may install hooks of `sys`.
        """
        loaded = list(sys.modules.items())
        ours = [module for name, module in loaded if name.split(".")[0] in FOLDERS]
        values = [value for module in ours for value in list(vars(module).values())]
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


def load_call(path: Path) -> Callable[..., None]:
    """Run a file; return its function that enqueues a product.

    All errors of the file and of the function are raised as CellError.
    """
    if not _before:
        _before.update(sys.modules)
    try:
        function = runpy.run_path(str(path))[CALL]
    except Exception as error:  # user's code
        raise _failed(path, error) from error
    values = list(function.__globals__.values())
    _named.update(value.__name__ for value in values if isinstance(value, ModuleType))

    def call(*arguments: object) -> None:
        try:
            function(*arguments)
        except Exception as error:
            raise _failed(path, error) from error

    return call


def imported() -> dict[str, str | None]:
    """Return the packages that calls have imported in this process, and their versions.

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
