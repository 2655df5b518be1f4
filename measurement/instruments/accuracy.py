"""The errors of each kernel's products for several kinds of matrices, added to a recording.

The gate compares products of uniform matrices with an error bound. This module measures the errors
themselves, including harder matrices. Their unit is 2⁻²⁴·|A|·|B|, as in the bound of a float32 sum
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.5).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from kernels.catalog.baselines import NAIVE_BLOCK
from kernels.catalog.entries import REFERENCE, has_own_source
from kernels.cubins.build import Build
from kernels.products.matrices import Inputs, Matrix, reference
from measurement.devices.gpu import GpuSession
from measurement.devices.session import DeviceSession
from measurement.instruments.addition import add, bench
from measurement.instruments.check import builds_of, plan
from measurement.recorder import provenance
from measurement.recording.recording import Recording
from study.cells import Cell

ORDER = 4096
_DTYPE = "float32"
_TABLE = "accuracy.csv"
_DECADES = 6  # decades of magnitudes above 1, and below 1
_NEARLY = 2.0**-10
_UNIT = 2.0**-24
_Open = Callable[[Inputs], AbstractContextManager[DeviceSession]]


def _uniform(a: Matrix, b: Matrix) -> None:
    """Leave the matrices uniform in [−1, 1)."""


def _scaled(a: Matrix, b: Matrix) -> None:
    """Multiply the elements by random factors, log-uniform from 1e-6 to 1e6."""
    for matrix in (a, b):
        decades = _DECADES * (2 * np.abs(matrix) - 1)
        np.copysign(np.power(np.float32(10), decades), matrix, out=matrix)


def _cancelling(a: Matrix, b: Matrix) -> None:
    """Make the second half of each sum cancel the first half up to about a thousandth of it."""
    half = a.shape[-1] // 2
    a[..., half : 2 * half] = -a[..., :half] * (1 + _NEARLY * a[..., half : 2 * half])
    b[..., half : 2 * half, :] = b[..., :half, :]


MATRICES = {"uniform": _uniform, "scaled": _scaled, "cancelling": _cancelling}


def add_accuracy(path: Path, device_index: int) -> Recording:
    """Add the errors of the recording's kernels, measured on a GPU of this host; return it.

    Raise StudyError if the GPU model differs from the recorded one, or a kernel's build differs.
    """

    def wanted(recorded: Recording) -> list[Build]:
        return builds_of(_cells_of(recorded))

    with bench(path, device_index, "measuring errors", wanted) as place:

        def open_session(inputs: Inputs) -> GpuSession:
            return GpuSession(place.device, inputs, place.built, place.folder)

        seed = place.recorded.provenance["seed"]
        rows = list(rows_of(open_session, _cells_of(place.recorded), seed))
    facts = {"accuracy": {"added_utc": provenance.utc_now()}}
    made = add(place, _TABLE, rows, facts)
    print(f"{path}: errors of {len(rows) // len(MATRICES)} kernels", file=sys.stderr)
    return made


def _cells_of(recorded: Recording) -> list[Cell]:
    return cells_of(recorded.provenance["configuration"]["variants"])


def cells_of(variants: list[str], order: int = ORDER) -> list[Cell]:
    """Return one float32 cell per kernel, at the baseline's block size."""
    names = [name for name in variants if name == REFERENCE or has_own_source(name)]
    return plan(names, [NAIVE_BLOCK], [str(order)])


def rows_of(open_session: _Open, cells: list[Cell], seed: int) -> Iterator[dict[str, Any]]:
    """Yield one row of accuracy.csv per kind of matrices and cell, if the device can run the cell.

    worst_units is the largest error of an element, rms_units the root mean square error.
    """
    shape = cells[0].shape
    for kind, make in MATRICES.items():
        inputs = Inputs([(_DTYPE, shape)], seed)
        a, b = inputs.pair(_DTYPE, shape)
        make(a, b)
        expected, bound = reference(a, b)
        unit = bound * (1 / shape.k - _UNIT)  # the bound is k·u/(1 − k·u), from which u follows
        with open_session(inputs) as session:
            for cell in cells:
                if session.not_launchable(cell):
                    continue
                session.poison(cell)
                session.run(cell)
                errors = np.abs(session.product(cell) - expected) / unit
                yield cell.row() | {
                    "matrices": kind,
                    "worst_units": float(errors.max()),
                    "rms_units": float(np.sqrt(np.square(errors).mean())),
                }
