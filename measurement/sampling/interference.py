"""Interference: how traffic of the host's other GPUs changes the runs on one GPU."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from base.progress import Progress
from measurement.devices.errors import CellError
from measurement.devices.session import Timing
from measurement.recording.journal import PHASES, Journal
from measurement.sampling.protocol import rounded
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.worker import Opening
from study.cells import Cell
from study.config import Interference, Study

# Names of the table and of the phase in recordings.
_TABLE, _PHASE = "neighbours.csv", "neighbours"
# Time until the other GPUs produce traffic; the message to start takes 0.1 ms.
_SETTLE_S = 0.005


def measure_interference(
    openings: dict[str, Opening], cells: list[Cell], study: Study, journal: Journal
) -> None:
    """Time each cell in pairs of runs: without, then with other GPUs running the same cell.

    `openings` maps GPU labels to openings; `cells` passed the gate on these GPUs. Both runs of a
    pair are consecutive, so only the traffic differs. There are 2·`samples` rounds, each in a new
    random order. Pairs in the journal are not measured again.
    """
    done = {(Cell.of(row), row["round"]) for row in journal.rows[_TABLE]}
    rounds = range(1, 2 * study.protocol.samples + 1)
    left = [
        (cell, number)
        for number in rounds
        for cell in _shuffled(cells, (study.seed, number))
        if (cell, number) not in done
    ]
    if not left:
        return
    begin = time.perf_counter()
    progress = Progress("interference", len(cells) * len(rounds), "pairs")
    with ExitStack() as stack:
        devices = {
            label: stack.enter_context(Supervisor(label, opening, study.protocol.hang_limit_s))
            for label, opening in openings.items()
        }
        for device in devices.values():
            device.start()
        for index, (cell, number) in enumerate(left):
            progress.show(cell, len(cells) * len(rounds) - len(left) + index, lambda: None)
            try:
                pair = _pair(devices, cell)
            except CellError:
                continue  # the cell passed the gate; only this pair is lost
            rows = [_row(cell, number, count, timing) for count, timing in pair]
            journal.add(_TABLE, *rows)
        for label, device in devices.items():
            phase = {"device": label, "phase": _PHASE, "busy_s": round(device.busy_s, 6)}
            journal.add(PHASES, phase | {"wall_s": round(time.perf_counter() - begin, 6)})
    progress.end()


def interference_cells(wanted: Interference, passed: list[Cell]) -> list[Cell]:
    """Return the cells with the wanted variant and block size, and square matrices."""
    return [
        cell
        for cell in passed
        if (cell.variant, cell.block_size) == (wanted.variant, wanted.block_size)
        and cell.shape.is_square
    ]


def _pair(devices: dict[str, Supervisor], cell: Cell) -> list[tuple[int, Timing]]:
    """Time a cell without and with traffic; return (number of other GPUs, times) for both."""
    others = {label: device for label, device in devices.items() if label != cell.device}
    alone = devices[cell.device].sample(cell).timing
    for label, device in others.items():
        device.begin_repeat(replace(cell, device=label))
    try:
        time.sleep(_SETTLE_S)
        beside = devices[cell.device].sample(cell).timing
    finally:
        for label, device in others.items():
            device.end_repeat(replace(cell, device=label))
    return [(0, alone), (len(others), beside)]


def _row(cell: Cell, number: int, others: int, timing: Timing) -> dict[str, Any]:
    seconds = {name: rounded(value) for name, value in asdict(timing).items()}
    return {**cell.row(), "round": number, "neighbours": others, **seconds}


def _shuffled(cells: list[Cell], seed: tuple[int, int]) -> Iterator[Cell]:
    for index in np.random.default_rng(seed).permutation(len(cells)):
        yield cells[index]
