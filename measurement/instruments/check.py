"""The correctness check without timing, as a process for compute-sanitizer, ncu and others.

The process runs each cell once, from pinned memory, on a poisoned C, and checks the product. It
prints one line per failed cell and a summary. The exit status is 1 if a cell failed.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from base.errors import exit_status
from kernels.catalog.product import products_of
from kernels.cubins.build import Build, builds_for
from kernels.cubins.compile import architecture, read_result
from kernels.products.elements import exact
from kernels.products.gate import evaluate
from kernels.products.matrices import Inputs, Problem, reference
from kernels.products.shape import Shape
from measurement.devices.discovery import select
from measurement.devices.errors import CellError, DeviceError
from measurement.devices.gpu import GpuSession
from measurement.devices.session import DeviceSession
from study.cells import Cell, problems

_SEED = 1
_DTYPES = ("float32",)


@dataclass
class Outcome:
    """How many cells ran, how many failed, and how many the device cannot launch."""

    run: int = 0
    failed: int = 0
    not_launchable: int = 0

    def __str__(self) -> str:
        return (
            f"check: {self.run} cells run, {self.failed} failed, "
            f"{self.not_launchable} not launchable"
        )


def plan(
    variants: list[str], block_sizes: list[int], sizes: list[str], dtypes: tuple[str, ...] = _DTYPES
) -> list[Cell]:
    """Return the cells of these variants, for the block sizes, shapes and dtypes each supports."""
    shapes = [Shape.parse(text) for text in sizes]
    return [
        Cell("gpu", product, "pinned")
        for product in products_of(variants, dtypes, block_sizes, shapes)
    ]


def builds_of(cells: list[Cell]) -> list[Build]:
    """Return the distinct builds of the cells."""
    return builds_for(cell.product for cell in cells)


def check(session: DeviceSession, cells: list[Cell], inputs: Inputs, outcome: Outcome) -> bool:
    """Run and check the cells of one product; print the failed ones and count all in `outcome`.

    Return False after a device error: no other cell can run then.
    """
    expected, bound = reference(*inputs.pair(exact(cells[0].dtype), cells[0].shape))
    for each in cells:
        if session.not_launchable(each):
            outcome.not_launchable += 1
            continue
        outcome.run += 1
        try:
            session.poison(each)
            session.run(each)
            product = session.product(each)
            reason = evaluate(product, expected, bound, each.bound_multiple).reason
        except DeviceError as error:
            print(f"{each}: {error}; skipping the remaining cells")
            outcome.failed += 1
            return False
        except CellError as error:
            reason = str(error)
        if reason:
            print(f"{each}: {reason}")
            outcome.failed += 1
    return True


def main() -> int:
    """Check the cells that the command line names; raise StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m measurement.instruments.check", description="Check products on a GPU."
    )
    parser.add_argument("--device", required=True, type=int, help="CUDA index")
    parser.add_argument("--cubins", required=True, type=Path, help="folder of the cubins")
    parser.add_argument("--variants", required=True, nargs="+")
    parser.add_argument("--block-sizes", required=True, nargs="+", type=int)
    parser.add_argument("--sizes", required=True, nargs="+", help="N, MxKxN or BATCHxMxKxN")
    parser.add_argument("--dtypes", nargs="+", default=_DTYPES)
    arguments = parser.parse_args()
    cells = plan(
        arguments.variants, arguments.block_sizes, arguments.sizes, tuple(arguments.dtypes)
    )
    device = select(arguments.device)[0]
    folder = arguments.cubins / architecture(device.compute_capability)
    builds = [read_result(folder / f"{build.stem}.cubin") for build in builds_of(cells)]
    outcome = Outcome()
    # Buffers of exactly this size: in larger buffers out-of-bounds accesses would go unnoticed.
    for needed, group in _by_buffers(cells).items():
        inputs = Inputs(needed, _SEED)
        with GpuSession(device, inputs, builds, arguments.cubins) as session:
            finished = check(session, group, inputs, outcome)
        if not finished:
            break
    print(outcome)
    return int(outcome.failed > 0 or outcome.run == 0)


def _by_buffers(cells: list[Cell]) -> dict[tuple[Problem, ...], list[Cell]]:
    groups: dict[tuple[Problem, ...], list[Cell]] = {}
    for each in sorted(cells, key=lambda each: each.shape.flop):
        groups.setdefault(problems([each]), []).append(each)
    return groups


if __name__ == "__main__":
    sys.exit(exit_status(main))
