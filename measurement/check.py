"""The correctness gate alone, in one process: what ``measurement sanitize`` lets a tool watch.

    python -m measurement.check --device 0 --cubins DIR --variants block --block-sizes 8 --sizes 17

Runs every cell once, from pinned memory, on a poisoned C, and judges its product. Prints a line a
cell that fails and one in the end; the exit status is 1 if any failed.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from kernels.build import architecture, read_result
from kernels.catalog import Build, build_for
from measurement.cells import Cell, gpu_cells
from measurement.discovery import select
from measurement.errors import exit_status
from measurement.gate import judge
from measurement.gpu import GpuSession
from measurement.matrices import Inputs, reference
from measurement.session import CellError, DeviceError, Session

_SEED = 1


@dataclass
class Outcome:
    """How many cells ran, how many of them failed, and how many the device cannot launch."""

    run: int = 0
    failed: int = 0
    not_launchable: int = 0

    def __str__(self) -> str:
        return (
            f"check: {self.run} cells run, {self.failed} failed, "
            f"{self.not_launchable} not launchable"
        )


def plan(variants: list[str], block_sizes: list[int], sizes: list[int]) -> list[Cell]:
    """Return the cells of these variants, block sizes (where a variant takes them) and orders."""
    study = {
        "dtypes": ["float32"],
        "variants": variants,
        "block_sizes": block_sizes,
        "sizes": sizes,
        "holdout_sizes": [],
        "host_memory": ["pinned"],
    }
    return gpu_cells(study, "gpu")


def builds_of(cells: list[Cell]) -> list[Build]:
    """Return the builds that the cells need, without repeats."""
    return list(dict.fromkeys(build_for(c.variant, c.n, c.block_size) for c in cells))


def check(session: Session, cells: list[Cell], inputs: Inputs, outcome: Outcome) -> bool:
    """Run and judge cells of the largest order of `inputs`; print those that fail, count all.

    Returns whether all were run: after an error of the device nothing else would be answered.
    """
    expected, bound = reference(*inputs.pair(inputs.max_order))
    for cell in cells:
        if session.not_launchable(cell):
            outcome.not_launchable += 1
            continue
        outcome.run += 1
        try:
            session.poison(cell)
            session.run(cell)
            reason = judge(session.product(cell), expected, bound).reason
        except DeviceError as error:
            print(f"{cell}: {error}; the rest was not run")
            outcome.failed += 1
            return False
        except CellError as error:
            reason = str(error)
        if reason:
            print(f"{cell}: {reason}")
            outcome.failed += 1
    return True


def main() -> int:
    """Check the cells that the command line names; raises StudyError."""
    parser = argparse.ArgumentParser(prog="python -m measurement.check")
    parser.add_argument("--device", required=True, type=int, help="index of the GPU")
    parser.add_argument("--cubins", required=True, type=Path, help="folder with the cubins")
    parser.add_argument("--variants", required=True, nargs="+")
    parser.add_argument("--block-sizes", required=True, nargs="+", type=int)
    parser.add_argument("--sizes", required=True, nargs="+", type=int, help="matrix orders")
    arguments = parser.parse_args()
    cells = plan(arguments.variants, arguments.block_sizes, arguments.sizes)
    device = select(arguments.device)[0]
    folder = arguments.cubins / architecture(device.compute_capability)
    builds = [read_result(folder / f"{build.stem}.cubin") for build in builds_of(cells)]
    outcome = Outcome()
    for n in sorted(set(arguments.sizes)):
        # Buffers of this very order: behind those of a larger one nothing could be out of bounds.
        inputs = Inputs([n], _SEED)
        with GpuSession(device, inputs, builds, arguments.cubins) as session:
            finished = check(session, [cell for cell in cells if cell.n == n], inputs, outcome)
        if not finished:
            break
    print(outcome)
    return int(outcome.failed > 0 or outcome.run == 0)


if __name__ == "__main__":
    sys.exit(exit_status(main))
