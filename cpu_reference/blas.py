"""BLAS libraries as CPU variants: the anchors that the C files are compared with.

numpy's own and, where they are installed, two more from PyPI. Each multiplies (n, n), C-contiguous
float32 on as many threads as a product asks for.
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
from cpu_reference.catalog import BLAS, BLIS, MKL

Matrix = npt.NDArray[np.float32]


class Blas(Protocol):
    """A library that multiplies matrices."""

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b`` on `threads` threads.

        The number stays set for whatever else of this process uses the library: to set it costs
        about as long as a small product, which is why it is not set back.
        """


class NumpyBlas:
    """The BLAS that numpy carries."""

    def __init__(self) -> None:
        """Find it; raises StudyError if its threads cannot be set."""
        # scipy carries a copy of its own, which is found only where scipy is loaded.
        found = ThreadpoolController().select(user_api="blas").lib_controllers
        self._libraries = [each for each in found if each.internal_api != "mkl"] or found
        if not self._libraries:
            raise StudyError(
                "numpy's BLAS is none of which threadpoolctl can set the threads; install numpy "
                "from PyPI, which carries OpenBLAS"
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
        """Return which BLAS this is: its name, version and the kind of CPU whose code it runs."""
        found = self._libraries[0].info()
        return {
            "blas": found["internal_api"],
            "blas_version": found["version"],
            "blas_architecture": found.get("architecture"),
        }


class Mkl:
    """Intel's Math Kernel Library, of the package mkl."""

    # CBLAS_LAYOUT and CBLAS_TRANSPOSE
    _ROW_MAJOR, _NOT_TRANSPOSED = 101, 111

    def __init__(self) -> None:
        """Load it; raises StudyError where it is not installed."""
        names = [file for file in _files("mkl") if file.name.startswith("libmkl_rt.so")]
        try:
            self._library = ctypes.CDLL(str(names[0].locate()))
        except (IndexError, OSError) as error:
            raise _missing("mkl", error) from None
        self._library.MKL_Set_Dynamic(0)  # as many threads as asked for, not fewer
        self._threads = 0

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b``; see `Blas`."""
        n = ctypes.c_int(len(a))
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        at_a, at_b, at_c = (ctypes.c_void_p(matrix.ctypes.data) for matrix in (a, b, c))
        layout = map(ctypes.c_int, (self._ROW_MAJOR, self._NOT_TRANSPOSED, self._NOT_TRANSPOSED))
        arguments = (*layout, n, n, n, one, at_a, n, at_b, n, zero, at_c, n)

        def multiply(matrices: tuple[Matrix, ...] = (a, b, c)) -> None:  # keeps them alive
            if threads != self._threads:
                self._library.MKL_Set_Num_Threads(threads)
                self._threads = threads
            self._library.cblas_sgemm(*arguments)

        return multiply


class Blis:
    """BLIS of the package blis, which is built without threads."""

    def __init__(self) -> None:
        """Load it; raises StudyError where it is not installed."""
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
    return StudyError(
        f"{package}: not installed{reason}; run `pip install -r requirements-blas.lock`"
    )
