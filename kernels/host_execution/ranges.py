"""Errors of float32 products of unusual values: a limit of kernels that split floats in two.

Tensor cores multiply 16-bit floats, so their kernels scale each row of A and column of B and split
it into parts. That covers large and small matrices, but not a row with very different magnitudes,
and no infinity. The kernels run unchanged on the host. TF32 exists only in a library, so here its
operands are rounded and its sums are exact.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from base.files import write_atomic
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.host_execution.binding import Array
from kernels.host_execution.check import execute, inputs_of
from kernels.host_execution.compiler import BUILDS
from kernels.products.matrices import reference
from kernels.products.shape import Shape

N = 128
STRICT, TENSOR, TF32 = "sgemm_top", ("sgemm_tensor", "sgemm_tensor_tma"), "cublas_tf32"
COLUMNS = ("variant", "matrices", "worst_units", "nonfinite_wrong")
_UNIT = 2.0**-24
_TF32_DROPPED = 13  # bits that TF32 drops from the 23 stored bits of a float32 significand


def _scaled(a: Array, b: Array, exponent: int) -> None:
    a *= np.float32(2.0**exponent)
    b *= np.float32(2.0**exponent)


def _graded(a: Array, b: Array) -> None:
    """Scale columns of A from 2^20 to 2^-20 and rows of B inversely; terms keep their size."""
    exponents = np.round(np.linspace(20, -20, a.shape[-1]))
    a *= np.exp2(exponents).astype(np.float32)
    b *= np.exp2(-exponents).astype(np.float32)[:, None]


def _with_one(a: Array, value: float) -> None:
    a[0, N // 2, N // 3] = value


MATRICES = {
    "uniform in [-1, 1)": lambda a, b: None,
    "times 2^40": lambda a, b: _scaled(a, b, 40),
    "times 2^-40": lambda a, b: _scaled(a, b, -40),
    "rows of A graded from 2^20 to 2^-20": _graded,
    "one infinity in A": lambda a, b: _with_one(a, np.inf),
    "one NaN in A": lambda a, b: _with_one(a, np.nan),
}


def rows(folder: Path = BUILDS) -> Iterator[dict[str, object]]:
    """Yield the error of each variant for each kind of matrices; `folder` contains the builds.

    Columns: worst_units, the largest error in units of 2⁻²⁴·|A|·|B|, without infinite elements and
    NaN; nonfinite_wrong, the number of elements that are finite instead of infinite or NaN, or the
    reverse. Raise KernelFault, and StudyError if a kernel cannot be built.
    """
    for name in (STRICT, *TENSOR, TF32):
        block = None if name == TF32 else next(iter(variant(name).block_sizes or [None]))
        product = Product(name, "float32", Shape.square(N), block)
        for kind, change in MATRICES.items():
            a, b = (matrix.copy() for matrix in inputs_of(product))
            change(a, b)
            with np.errstate(invalid="ignore"):
                if name == TF32:
                    c = _tf32(a).astype(np.float64) @ _tf32(b).astype(np.float64)
                else:
                    c, _ = execute(product, "separate", folder=folder, matrices=(a, b))
                yield {"variant": name, "matrices": kind, **_errors(c, a, b)}


def write(out: Path, folder: Path = BUILDS) -> None:
    """Write `rows` to `out` as CSV."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows(folder))
    write_atomic(out, text.getvalue())


def _errors(c: Array, a: Array, b: Array) -> dict[str, float]:
    expected, bound = reference(a, b)
    unit = bound * (1 / a.shape[-1] - _UNIT)  # the bound is k·u/(1 − k·u), from which u follows
    both = np.isfinite(c) & np.isfinite(expected)
    worst = float(np.max(np.abs(c - expected)[both] / unit[both]))
    return {"worst_units": worst, "nonfinite_wrong": int((_kind(c) != _kind(expected)).sum())}


def _kind(c: Array) -> npt.NDArray[np.int64]:
    """Return 0 for finite elements, ±1 for infinite ones and 2 for NaN."""
    signs = np.where(np.isinf(c), np.sign(np.nan_to_num(c)), 0)
    return np.asarray(np.where(np.isnan(c), 2, signs), np.int64)


def _tf32(matrix: Array) -> Array:
    """Return float32 numbers rounded to the 10 stored bits of TF32, to nearest even."""
    bits = matrix.view(np.uint32).astype(np.uint64)
    half = (1 << (_TF32_DROPPED - 1)) - 1 + ((bits >> _TF32_DROPPED) & 1)
    rounded = ((bits + half) >> _TF32_DROPPED << _TF32_DROPPED).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(matrix), rounded, matrix)
