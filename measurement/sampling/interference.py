"""Interference: GPUs of one host measured alone and beside the traffic of the others."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from base.progress import Progress
from measurement.devices.session import CellError, Timing
from measurement.recording.journal import Journal
from measurement.recording.recording import CELL
from measurement.sampling.protocol import rounded
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.worker import Opening
from study.cells import Cell
from study.config import Interference, Study

# A recording's names for the table and for the phase.
_TABLE, _PHASE = "neighbours.csv", "neighbours"
# Until the others' traffic flows: the message to begin takes a tenth of a millisecond.
_SETTLE_S = 0.005


def measure_interference(
    openings: dict[str, Opening], cells: list[Cell], study: Study, journal: Journal
) -> None:
    """Time the cells of every GPU in pairs: alone, and while the other GPUs run the same cell.

    `openings` are the GPUs by label; `cells` are cells of theirs that passed the gate. The two
    passes of a pair follow each other, so that nothing but the traffic differs; the pairs are taken
    in rounds, each in an order shuffled anew, twice as many as a median needs for its interval
    (`min_samples`). What the journal has is not taken again.
    """
    done = {(row["device"], _key(row), row["round"]) for row in journal.rows[_TABLE]}
    rounds = range(1, 2 * study.protocol.min_samples + 1)
    left = [
        (cell, number)
        for number in rounds
        for cell in _shuffled(cells, (study.seed, number))
        if (cell.device, _key(asdict(cell)), number) not in done
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
                continue  # it passed the gate: what failed here costs this pair
            rows = [_row(cell, number, count, timing) for count, timing in pair]
            journal.add(_TABLE, *rows)
        for label, device in devices.items():
            phase = {"device": label, "phase": _PHASE, "busy_s": round(device.busy_s, 6)}
            journal.add_phase(phase | {"wall_s": round(time.perf_counter() - begin, 6)})
    progress.end()


def interference_cells(wanted: Interference, passed: list[Cell]) -> list[Cell]:
    """Return those cells that passed and that are wanted beside the traffic of other GPUs."""
    return [
        cell
        for cell in passed
        if (cell.variant, cell.block_size) == (wanted.variant, wanted.block_size)
        and cell.shape.is_square
    ]


def _pair(devices: dict[str, Supervisor], cell: Cell) -> list[tuple[int, Timing]]:
    """Time a cell alone and beside the traffic of all other GPUs; return (others, times)."""
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
    """Return one run as a row of the table."""
    seconds = {name: rounded(value) for name, value in asdict(timing).items()}
    return {**asdict(cell), "round": number, "neighbours": others, **seconds}


def _shuffled(cells: list[Cell], seed: tuple[int, int]) -> Iterator[Cell]:
    for index in np.random.default_rng(seed).permutation(len(cells)):
        yield cells[index]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in CELL if name != "device")
