"""How accurate each kernel's products are, on matrices of several kinds, added to a recording.

The gate judges products of uniform matrices against a bound. Here the error itself is taken, and of
matrices that are harder too. Its unit is that of a float32 sum's bound: 2⁻²⁴ of the sum of the
products' magnitudes, |A|·|B| (Higham, Accuracy and Stability of Numerical Algorithms, section 3.5).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import BASELINE_BLOCK
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
_DECADES = 6  # from one on, in both directions
_NEARLY = 2.0**-10
_UNIT = 2.0**-24
_Open = Callable[[Inputs], AbstractContextManager[DeviceSession]]


def _uniform(a: Matrix, b: Matrix) -> None:
    """Leave the matrices as they are: uniform in [−1, 1)."""


def _scaled(a: Matrix, b: Matrix) -> None:
    """Spread the magnitudes of all elements evenly over twelve decades, 1e-6 to 1e6."""
    for matrix in (a, b):
        decades = _DECADES * (2 * np.abs(matrix) - 1)
        np.copysign(np.power(np.float32(10), decades), matrix, out=matrix)


def _cancelling(a: Matrix, b: Matrix) -> None:
    """Let the second half of every sum take away the first, but for a thousandth."""
    half = a.shape[-1] // 2
    a[..., half : 2 * half] = -a[..., :half] * (1 + _NEARLY * a[..., half : 2 * half])
    b[..., half : 2 * half, :] = b[..., :half, :]


MATRICES = {"uniform": _uniform, "scaled": _scaled, "cancelling": _cancelling}


def add_accuracy(path: Path, device_index: int) -> Recording:
    """Add the errors of the recording's kernels, run on a GPU of this host; return it.

    Raises StudyError where the GPU is another than the recorded one, or the kernels built here are
    not those recorded.
    """

    def wanted(recorded: Recording) -> list[Build]:
        return builds_of(_cells_of(recorded))

    with bench(path, device_index, "taking errors", wanted) as place:

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
    """Return one cell a kernel of float32 and shape of its tiles; of block sizes the baseline's."""
    names = [name for name in variants if VARIANTS[name].kernel in (name, None)]
    return plan(names, [BASELINE_BLOCK], [str(order)])


def rows_of(open_session: _Open, cells: list[Cell], seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row of accuracy.csv for every kind of matrices and cell that the device can run.

    worst_units and rms_units are the largest error of an element and the root of the mean square.
    """
    shape = cells[0].shape
    for kind, make in MATRICES.items():
        inputs = Inputs([(_DTYPE, shape)], seed)
        a, b = inputs.pair(_DTYPE, shape)
        make(a, b)
        expected, bound = reference(a, b)
        unit = bound * (1 / shape.k - _UNIT)  # the bound is k units over 1 - k units
        with open_session(inputs) as session:
            for cell in cells:
                if session.not_launchable(cell):
                    continue
                session.poison(cell)
                session.run(cell)
                errors = np.abs(session.product(cell) - expected) / unit
                yield asdict(cell) | {
                    "matrices": kind,
                    "worst_units": float(errors.max()),
                    "rms_units": float(np.sqrt(np.square(errors).mean())),
                }
