"""BLAS libraries as CPU variants: the baselines of the C variants.

They are NumPy's BLAS and, if installed, MKL and BLIS from PyPI. Each multiplies C-contiguous
float32 matrices on a given number of threads.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from base.errors import StudyError
from base.paths import remedy
from cpu_reference.catalog import BLAS, BLIS, MKL

Matrix = npt.NDArray[np.float32]


class Blas(Protocol):
    """A BLAS library."""

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b`` on `threads` threads.

        The number of threads stays set in the whole process: resetting it takes about as long as a
        small product.
        """


class NumpyBlas:
    """The BLAS bundled with NumPy."""

    def __init__(self) -> None:
        """Find the library; raise StudyError if its number of threads cannot be set."""
        # SciPy bundles another copy; threadpoolctl finds it only if SciPy is loaded.
        controllers = ThreadpoolController().select(user_api="blas").lib_controllers
        self._libraries = [
            each for each in controllers if each.internal_api != "mkl"
        ] or controllers
        if not self._libraries:
            raise StudyError(
                "numpy: threadpoolctl cannot set the threads of its BLAS; install numpy from PyPI, "
                "which includes OpenBLAS"
            )

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b``; see `Blas`."""

        def multiply() -> None:
            for library in self._libraries:
                if library.num_threads != threads:
                    library.set_num_threads(threads)
            np.matmul(a, b, out=c)

        return multiply

    def facts(self) -> dict[str, Any]:
        """Return the library's name, its version and the CPU architecture of its code."""
        build = self._libraries[0].info()
        return {
            "blas": build["internal_api"],
            "blas_version": build["version"],
            "blas_architecture": build.get("architecture"),
        }


class Mkl:
    """Intel's Math Kernel Library, from the PyPI package mkl."""

    # CBLAS_LAYOUT and CBLAS_TRANSPOSE
    _ROW_MAJOR, _NOT_TRANSPOSED = 101, 111

    def __init__(self) -> None:
        """Load the library; raise StudyError if it is not installed."""
        names = [file for file in _files("mkl") if file.name.startswith("libmkl_rt.so")]
        try:
            self._library = ctypes.CDLL(str(names[0].locate()))
        except (IndexError, OSError) as error:
            raise _missing("mkl", error) from None
        self._library.MKL_Set_Dynamic(0)  # exactly the requested number of threads
        self._threads = 0

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b``; see `Blas`."""
        m, k, n = (ctypes.c_int(edge) for edge in (*a.shape, b.shape[1]))
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        at_a, at_b, at_c = (ctypes.c_void_p(matrix.ctypes.data) for matrix in (a, b, c))
        layout = map(ctypes.c_int, (self._ROW_MAJOR, self._NOT_TRANSPOSED, self._NOT_TRANSPOSED))
        arguments = (*layout, m, n, k, one, at_a, k, at_b, n, zero, at_c, n)

        def multiply(matrices: tuple[Matrix, ...] = (a, b, c)) -> None:  # keeps the matrices alive
            if threads != self._threads:
                self._library.MKL_Set_Num_Threads(threads)
                self._threads = threads
            self._library.cblas_sgemm(*arguments)

        return multiply


class Blis:
    """BLIS, from the PyPI package blis, which is built without threads."""

    def __init__(self) -> None:
        """Load the library; raise StudyError if it is not installed."""
        try:
            self._gemm = import_module("blis.py").gemm
        except ImportError as error:
            raise _missing("blis", error) from None

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b`` on one thread."""
        return partial(self._gemm, a, b, out=c, beta=0.0)


LIBRARIES: dict[str, Callable[[], Blas]] = {BLAS: NumpyBlas, MKL: Mkl, BLIS: Blis}


def _files(package: str) -> list[metadata.PackagePath]:
    try:
        return metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return []


def _missing(package: str, error: Exception) -> StudyError:
    reason = f" ({error})" if _files(package) else ""
    command = remedy("make setup LAYERS=blas", package)
    return StudyError(f"{package}: not installed{reason}; run {command}")
