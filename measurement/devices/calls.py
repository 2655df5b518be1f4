"""What a user's Python calls for a product on a GPU, as PyTorch or CuPy do (`kernels.catalog.user_supplied`)."""

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.catalog.user_supplied import CALL
from measurement.devices.session import CellError


@dataclass(frozen=True)
class OnDevice:
    """A matrix in a GPU's memory, for every library that knows the CUDA array interface.

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
            "stream": None,  # the work is put into the stream that the call is given
        }


def load_call(path: Path) -> Callable[..., None]:
    """Run a file and return the function that queues a product; raises CellError.

    What the function raises, it raises as CellError too.
    """
    try:
        function = runpy.run_path(str(path))[CALL]
    except Exception as error:  # it is the user's code
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
