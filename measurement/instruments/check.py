"""The correctness gate alone, in one process: what ``measurement sanitize`` lets a tool watch.

    python -m measurement.instruments.check --device 0 --cubins DIR --variants block --block-sizes 8 --sizes 17

Runs every cell once, from pinned memory, on a poisoned C, and judges its product. Prints a line a
cell that fails and one in the end; the exit status is 1 if any failed.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from base.errors import exit_status
from kernels.catalog.product import products_of
from kernels.cubins.build import Build, build_for
from kernels.cubins.compile import architecture, read_result
from kernels.products.gate import evaluate
from kernels.products.matrices import Inputs, Problem, reference
from kernels.products.shape import Shape
from measurement.devices.discovery import select
from measurement.devices.gpu import GpuSession
from measurement.devices.session import CellError, DeviceError, DeviceSession
from study.cells import Cell, cell, problems

_SEED = 1
_DTYPES = ("float32",)


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


def plan(
    variants: list[str],
    block_sizes: list[int],
    sizes: list[str],
    dtypes: tuple[str, ...] = _DTYPES,
) -> list[Cell]:
    """Return the cells of these variants; each takes the block sizes, shapes, types that it can."""
    shapes = [Shape.parse(text) for text in sizes]
    return [
        cell("gpu", product.variant, product.dtype, product.shape, product.block_size, "pinned")
        for product in products_of(variants, dtypes, block_sizes, shapes)
    ]


def builds_of(cells: list[Cell]) -> list[Build]:
    """Return the builds that the cells need, without repeats."""
    found = (build_for(c.variant, c.shape, c.block_size, c.dtype) for c in cells)
    return list(dict.fromkeys(build for build in found if build))


def check(session: DeviceSession, cells: list[Cell], inputs: Inputs, outcome: Outcome) -> bool:
    """Run and judge cells of one product; print those that fail, count all.

    Returns whether all were run: after an error of the device nothing else would be answered.
    """
    expected, bound = reference(*inputs.pair(cells[0].dtype, cells[0].shape))
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
            print(f"{each}: {error}; the rest was not run")
            outcome.failed += 1
            return False
        except CellError as error:
            reason = str(error)
        if reason:
            print(f"{each}: {reason}")
            outcome.failed += 1
    return True


def main() -> int:
    """Check the cells that the command line names; raises StudyError."""
    parser = argparse.ArgumentParser(prog="python -m measurement.instruments.check")
    parser.add_argument("--device", required=True, type=int, help="index of the GPU")
    parser.add_argument("--cubins", required=True, type=Path, help="folder with the cubins")
    parser.add_argument("--variants", required=True, nargs="+")
    parser.add_argument("--block-sizes", required=True, nargs="+", type=int)
    parser.add_argument("--sizes", required=True, nargs="+", help="N, MxKxN or BATCHxMxKxN")
    parser.add_argument("--dtypes", nargs="+", default=_DTYPES, help="types of elements")
    arguments = parser.parse_args()
    cells = plan(
        arguments.variants, arguments.block_sizes, arguments.sizes, tuple(arguments.dtypes)
    )
    device = select(arguments.device)[0]
    folder = arguments.cubins / architecture(device.compute_capability)
    builds = [read_result(folder / f"{build.stem}.cubin") for build in builds_of(cells)]
    outcome = Outcome()
    # Buffers of these very matrices: behind those of larger ones nothing could be out of bounds.
    for needed, group in _by_buffers(cells).items():
        inputs = Inputs(needed, _SEED)
        with GpuSession(device, inputs, builds, arguments.cubins) as session:
            finished = check(session, group, inputs, outcome)
        if not finished:
            break
    print(outcome)
    return int(outcome.failed > 0 or outcome.run == 0)


def _by_buffers(cells: list[Cell]) -> dict[tuple[Problem, ...], list[Cell]]:
    """Return the cells by the matrices that each needs."""
    groups: dict[tuple[Problem, ...], list[Cell]] = {}
    for each in sorted(cells, key=lambda each: each.shape.flop):
        groups.setdefault(problems([each]), []).append(each)
    return groups


if __name__ == "__main__":
    sys.exit(exit_status(main))
