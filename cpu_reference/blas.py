"""BLAS libraries as CPU variants, with which the C variants are compared.

They are NumPy's BLAS and, if installed, MKL and BLIS from PyPI. If the package of MKL is missing,
MKL is taken from PyTorch, which contains it. Each library multiplies C-contiguous float32 matrices
on a given number of threads.
"""

import ctypes
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from base.errors import StudyError
from base.paths import remedy
from cpu_reference.catalog import BLAS, BLIS, MKL

Matrix = npt.NDArray[np.float32]
# How long idle threads of OpenBLAS (2^21 cycles) and MKL (1 ms) occupy their CPUs. The run of
# another variant waits for them; their defaults are 0.1 s and 0.2 s.
_IDLE = {"OPENBLAS_THREAD_TIMEOUT": "21", "KMP_BLOCKTIME": "1"}


def shorten_idle_time() -> None:
    """Let idle BLAS threads sleep after 1 ms, in processes that start after this call.

    A run starts a few µs after its warm-up, so this changes no measured time.
    """
    for name, value in _IDLE.items():
        os.environ.setdefault(name, value)


class Blas(Protocol):
    """A BLAS library."""

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b`` on `threads` threads.

        The number of threads stays set, because resetting it takes as long as a small product.
        """


class NumpyBlas:
    """The BLAS bundled with NumPy."""

    def __init__(self) -> None:
        """Find the library; raise StudyError if its number of threads cannot be set."""
        # SciPy bundles a second copy, which threadpoolctl finds only if SciPy is loaded.
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
    """Intel's Math Kernel Library, from the PyPI package mkl or inside PyTorch."""

    def __init__(self) -> None:
        """Load the library; raise StudyError if it is not installed."""
        try:
            library = ctypes.CDLL(str(mkl_file()))
            library.MKL_Set_Dynamic(0)  # exactly the requested number of threads
            self._product = library.sgemm_
            # In PyTorch, MKL exports only the function that MKL_Set_Num_Threads calls.
            name = "MKL_Set_Num_Threads"
            inner = "mkl_serv_set_num_threads"
            self._set_threads = getattr(library, name if hasattr(library, name) else inner)
        except (AttributeError, OSError) as error:
            raise _missing("mkl", error) from None
        self._threads = 0

    def prepare(self, a: Matrix, b: Matrix, c: Matrix, threads: int) -> Callable[[], None]:
        """Return a function that computes ``c = a·b``; see `Blas`."""
        m, k, n = (ctypes.byref(ctypes.c_int(edge)) for edge in (*a.shape, b.shape[1]))
        one, zero = (ctypes.byref(ctypes.c_float(value)) for value in (1.0, 0.0))
        at_a, at_b, at_c = (ctypes.c_void_p(matrix.ctypes.data) for matrix in (a, b, c))
        as_is = ctypes.c_char_p(b"N")
        # SGEMM is column-major, so it sees the transposed matrices: cᵀ = bᵀ·aᵀ.
        arguments = (as_is, as_is, n, m, k, one, at_b, n, at_a, k, zero, at_c, n)

        def multiply(matrices: tuple[Matrix, ...] = (a, b, c)) -> None:  # keeps the matrices alive
            if threads != self._threads:
                self._set_threads(threads)
                self._threads = threads
            self._product(*arguments)

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


def mkl_file() -> Path:
    """Return the file of MKL; raise FileNotFoundError if neither package contains it."""
    for file in _files("mkl"):
        if file.name.startswith("libmkl_rt.so"):
            return Path(str(file.locate()))
    torch = find_spec("torch")  # importing it takes seconds
    inside = Path(torch.origin).parent / "lib/libtorch_cpu.so" if torch and torch.origin else None
    if inside and inside.exists():
        return inside
    raise FileNotFoundError("neither libmkl_rt.so nor PyTorch's libtorch_cpu.so")


def _files(package: str) -> list[metadata.PackagePath]:
    try:
        return metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return []


def _missing(package: str, error: Exception) -> StudyError:
    reason = f" ({error})" if _files(package) else ""
    command = remedy("make setup LAYERS=blas", package)
    return StudyError(f"{package}: not installed{reason}; run {command}")
