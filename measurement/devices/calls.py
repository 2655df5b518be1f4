"""User-supplied Python functions that multiply on a GPU, for example by PyTorch or CuPy.

Their file format: see `kernels.catalog.user_supplied`.
"""

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.catalog.user_supplied import CALL
from measurement.devices.session import CellError


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
