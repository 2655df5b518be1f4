"""The share of a recording's time that the second check takes.

    python -m benchmarks.second_check_cost [--every COUNT] [RECORDING ...]

Recordings since the second check contain its time as a phase. For older recordings, the checks of
each COUNT-th cell are repeated on this CPU, and their time is scaled to all cells. The checks are
of the last run of a cell and, on a GPU, of the last kernel-only sample. The right product is not
timed, so its copy is missing, and the projection uses other numbers.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from base.command_line import aligned
from base.errors import exit_status
from base.paths import ROOT
from kernels.catalog.variant import SEQUENTIAL
from kernels.products.change import Change, digest, project, thinned
from kernels.products.matrices import Matrix
from measurement.devices.session import Rows, step_bytes
from measurement.recording.recording import Recording, read
from measurement.sampling.second_check import SecondCheck
from study.cells import CPU, Cell, problems

COMMITTED = tuple(f"data/recordings/h200-sxm-{number}" for number in (5, 6))
_PHASE = "second_check"


def cells_of(recording: Recording) -> list[Cell]:
    """Return the cells that passed."""
    rows = recording.checks[recording.checks["status"] == "passed"].astype(object)
    return [Cell.of(row) for row in rows.where(rows.notna(), None).to_dict("records")]


def check_s(second: SecondCheck, cell: Cell, launches: int) -> float:
    """Return the time of one second check of a right product, without that product."""
    change = second.draw(cell, last=True)
    assert change
    others_s = 0.0

    def evidence(change: Change, rows: Rows, later: int) -> tuple[Matrix, str]:
        nonlocal others_s
        begin = time.perf_counter()
        begins = [each + later for each in change.begins]
        a, b = second.inputs.pair(cell.dtype, cell.shape, begins)
        own = (tuple(row for row in rows[0] if row not in change.thin), rows[1])
        hashed = digest(a, b, *own)
        m = cell.shape.m
        with thinned(a, change):
            product = np.array([a[row // m, row % m] @ b[row // m] for row in rows[0]])
        others_s += time.perf_counter() - begin
        return product, hashed

    def projection(vector: Matrix) -> Matrix:
        nonlocal others_s
        shape = cell.shape
        begin = time.perf_counter()
        c = np.ones((shape.batch, shape.m, shape.n), cell.dtype)
        others_s += time.perf_counter() - begin
        project(c, vector)
        begin = time.perf_counter()
        later = step_bytes(cell) * launches if launches else 0
        a, b = second.inputs.pair(cell.dtype, shape, [each + later for each in change.begins])
        found: Matrix = (a @ (b @ vector)[:, :, None])[:, :, 0]
        others_s += time.perf_counter() - begin
        return found

    before = second.seconds
    second.check(cell, change, evidence, launches, projection)
    return second.seconds - before - others_s


def cost_s(recording: Recording, every: int) -> tuple[float, int]:
    """Return the time of all second checks of a recording, and their number."""
    phases = recording.provenance["phases"]
    if any(phase["phase"] == _PHASE for phase in phases):
        return sum(phase["wall_s"] for phase in phases if phase["phase"] == _PHASE), 0
    cells = cells_of(recording)
    total = 0.0
    checks = 0
    for own in (
        [cell for cell in cells if cell.device == CPU],
        [c for c in cells if c.device != CPU],
    ):
        second = SecondCheck(problems(own), recording.provenance["seed"])
        _ = second.inputs  # made before the first sample
        kernels = set()
        for cell in own[::every]:
            total += check_s(second, cell, 0)
            checks += 1
            if cell.device == CPU or cell.product.entry.flow not in SEQUENTIAL:
                continue
            if cell.product not in kernels:
                kernels.add(cell.product)
                total += check_s(second, cell, 1)
                checks += 1
    return total * every, checks * every


def _rows(recordings: Sequence[Recording], every: int) -> list[list[str]]:
    rows = [["recording", "checks", "second check", "recording", "share"]]
    for recording in recordings:
        seconds, checks = cost_s(recording, every)
        whole_s = sum(phase["wall_s"] for phase in recording.provenance["phases"])
        count = str(checks) if checks else "recorded"
        name = recording.path.name
        rows.append(
            [name, count, f"{seconds:.1f} s", f"{whole_s:.0f} s", f"{seconds / whole_s:.2%}"]
        )
    return rows


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.second_check_cost")
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=20, metavar="COUNT")
    arguments = parser.parse_args()
    paths = arguments.recordings or [ROOT / path for path in COMMITTED]
    print("\n".join(aligned(_rows([read(path) for path in paths], arguments.every))))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(exit_status(main))
