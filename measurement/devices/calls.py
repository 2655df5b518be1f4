"""User-supplied Python functions that multiply on a GPU, for example by PyTorch or CuPy.

Their file format: see `kernels.catalog.user_supplied`.
"""

import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from base.paths import FOLDERS
from kernels.catalog.user_supplied import CALL
from measurement.devices.session import CellError

# Packages whose functions a call may not replace.
_GUARDED = frozenset({*FOLDERS, "time", "pycuda", "pynvml"})


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
    """The functions and classes of this program, its clock and its CUDA, as they were before."""

    def __init__(self) -> None:
        self._before = dict(_callables())

    def check(self, name: str) -> None:
        """Raise CellError if the call in the file `name` replaced one of them."""
        found = dict(_callables())
        changed = [place for place, value in self._before.items() if found.get(place) != value]
        if changed:
            raise CellError(f"refused: {name} replaced {'.'.join(changed[0])}; a call may not")


def _callables() -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    """Yield module and name of functions and classes, with their identities."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in _GUARDED:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, type):
                for inner, member in list(vars(value).items()):
                    if callable(member) or isinstance(member, property):
                        yield (name, f"{key}.{inner}"), _identity(member)
            if callable(value):
                yield (name, key), _identity(value)


def _identity(value: Any) -> tuple[int, int]:
    return id(value), id(getattr(value, "__code__", None))


def load_call(path: Path) -> Callable[..., None]:
    """Run a file; return its function that enqueues a product.

    All errors of the file and of the function are raised as CellError.
    """
    try:
        function = runpy.run_path(str(path))[CALL]
    except Exception as error:  # user's code
        raise _failed(path, error) from error

    def call(*arguments: object) -> None:
        try:
            function(*arguments)
        except Exception as error:
            raise _failed(path, error) from error

    return call


def _failed(path: Path, error: Exception) -> CellError:
    first = str(error).strip().split("\n")[0]
    return CellError(f"{path.name}: {type(error).__name__}: {first}")
