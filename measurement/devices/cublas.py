"""Products by NVIDIA's cuBLAS: the reference of the study's kernels, and its faster modes.

The library is optional and bound with ctypes. It uses the current CUDA context, including contexts
created by the driver API, as by PyCUDA.
"""

import ctypes
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from measurement.devices.errors import CellError, DeviceError

MISSING = "cuBLAS: not found; install the CUDA toolkit, or run `pip install nvidia-cublas`"

_SONAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")
_TOOLKIT = Path("/usr/local/cuda")  # where NVIDIA's installers put it
# Folders of the wheels nvidia-cublas and nvidia-cublas-cu12 in site-packages.
_WHEELS = ("nvidia/cu13/lib", "nvidia/cublas/lib")

# cublasStatus_t
_STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}
_NOT_TRANSPOSED = 0  # CUBLAS_OP_N


@dataclass(frozen=True)
class Mode:
    """An arithmetic mode of cuBLAS: a cublasMath_t, and the cudaDataType of 16-bit operands."""

    math: int
    operands: int | None = None


# The modes by name. Pedantic: FP32 arithmetic throughout, as in the study's kernels. The default
# mode does not use TF32 either, but it may use tensor cores at FP32 precision or better, and
# CUBLAS_EMULATE_SINGLE_PRECISION makes it emulate FP32 by BF16. Operands in 16 bits have a float32
# product, with sums in FP32.
PEDANTIC = Mode(2)
MODES = {
    "pedantic FP32": PEDANTIC,
    "default FP32": Mode(0),
    "TF32": Mode(3),
    "BF16": Mode(0, 14),  # CUDA_R_16BF
    "FP16": Mode(0, 2),  # CUDA_R_16F
}
_FLOAT32, _COMPUTE_32F, _ANY_ALGORITHM = 0, 68, -1  # CUDA_R_32F, CUBLAS_COMPUTE_32F
_VERSION_PARTS = range(3)  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL

_POINTER = ctypes.c_void_p
_INT = ctypes.c_int
_FLOAT_ON_HOST = ctypes.POINTER(ctypes.c_float)
_PROTOTYPES: dict[str, list[Any]] = {
    "cublasCreate_v2": [ctypes.POINTER(_POINTER)],
    "cublasDestroy_v2": [_POINTER],
    "cublasGetProperty": [_INT, ctypes.POINTER(_INT)],
    "cublasSetMathMode": [_POINTER, _INT],
    "cublasSetStream_v2": [_POINTER, _POINTER],
    # handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc
    "cublasSgemm_v2": [
        *(_POINTER, _INT, _INT, _INT, _INT, _INT),
        *(_FLOAT_ON_HOST, _POINTER, _INT, _POINTER, _INT),
        *(_FLOAT_ON_HOST, _POINTER, _INT),
    ],
    # the same, with the type after each matrix, and computeType, algo
    "cublasGemmEx": [
        *(_POINTER, _INT, _INT, _INT, _INT, _INT),
        *(_FLOAT_ON_HOST, _POINTER, _INT, _INT, _POINTER, _INT, _INT),
        *(_FLOAT_ON_HOST, _POINTER, _INT, _INT, _INT, _INT),
    ],
}


class Gemm:
    """Products with float32 results by cuBLAS, in a stream of the current CUDA context.

    Close it before that context is destroyed. The constructor raises CellError if the library is
    missing or does not start (driver too old, not enough memory for its workspace).
    """

    def __init__(self, stream: int) -> None:
        """Start cuBLAS for a CUDA stream, whose handle is `stream`."""
        library = find_library()
        if library is None:
            raise CellError(MISSING)
        self._library = library
        self._handle = ctypes.c_void_p()
        # cuBLAS reads alpha and beta of C = alpha·A·B + beta·C from host memory at each call.
        self._alpha, self._beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._start("cublasCreate_v2", self._handle)
        try:
            self._start("cublasSetStream_v2", self._handle, stream)
            self._use(PEDANTIC)
        except CellError:
            self.close()
            raise

    def multiply(self, mode: Mode, a: int, b: int, c: int, m: int, n: int, k: int) -> None:
        """Enqueue C = A·B in the stream: A (m, k), B (k, n), C (m, n), row-major on the device.

        `a`, `b` and `c` are device addresses. C is not read. Raise DeviceError.
        """
        if mode != self._mode:
            self._use(mode)
        # cuBLAS is column-major: it reads the same memory as Aᵀ and Bᵀ and writes Cᵀ = Bᵀ·Aᵀ.
        same = (self._handle, _NOT_TRANSPOSED, _NOT_TRANSPOSED, n, m, k, self._alpha)
        if mode.operands is None:
            function = "cublasSgemm_v2"
            status = self._library.cublasSgemm_v2(*same, b, n, a, k, self._beta, c, n)
        else:
            function, form = "cublasGemmEx", mode.operands
            operands = (b, form, n, a, form, k, self._beta, c, _FLOAT32, n)
            status = self._library.cublasGemmEx(*same, *operands, _COMPUTE_32F, _ANY_ALGORITHM)
        if status:
            raise DeviceError(_failure(function, status))

    def _use(self, mode: Mode) -> None:
        self._start("cublasSetMathMode", self._handle, mode.math)
        self._mode = mode

    def close(self) -> None:
        """Free the library's device memory."""
        # The status is ignored: it could only repeat an error that was raised before.
        self._library.cublasDestroy_v2(self._handle)

    def _start(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise CellError(_failure(function, status))


def version() -> str | None:
    """Return the version of cuBLAS, for example ``13.1.0``; None if it is not installed."""
    library = find_library()
    if library is None:
        return None
    part = ctypes.c_int()
    parts = []
    for which in _VERSION_PARTS:
        library.cublasGetProperty(which, part)
        parts.append(str(part.value))
    return ".".join(parts)


@cache
def find_library() -> Any | None:
    """Return the loaded cuBLAS; None if none loads.

    The search order is: the loader's path, CUDA toolkits, wheels in this Python environment.
    """
    for candidate in _candidates():
        try:
            library = ctypes.CDLL(candidate)
        except OSError:
            continue
        for name, types in _PROTOTYPES.items():
            getattr(library, name).argtypes = types
        return library
    return None


def _candidates() -> Iterator[str]:
    """Yield possible cuBLAS libraries in search order: names for the loader, then files."""
    yield from _SONAMES
    for folder in _folders():
        for soname in _SONAMES:
            if (folder / soname).exists():
                yield str(folder / soname)


def _folders() -> Iterator[Path]:
    nvcc = shutil.which("nvcc")
    programs = [Path(nvcc), Path(nvcc).resolve()] if nvcc else []
    for toolkit in (*(program.parent.parent for program in programs), _TOOLKIT):
        yield toolkit / "lib64"
        yield toolkit / "lib"
        yield from sorted(toolkit.glob("targets/*/lib"))
    for entry in sys.path:
        for wheel in _WHEELS:
            yield Path(entry, wheel)


def _failure(function: str, status: int) -> str:
    return f"cuBLAS {version()}: {function} returned {_STATUS.get(status, f'status {status}')}"
