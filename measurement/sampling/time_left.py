"""Estimating the remaining time of a recording."""

from collections.abc import Iterable, Mapping

from study.cells import Cell


class TimeLeft:
    """Estimates how long a device's cells still take, from the runs so far."""

    def __init__(self) -> None:
        self._run_s: dict[Cell, float] = {}
        self._last: dict[object, Cell] = {}  # by variant, and by variant and block size

    def add(self, cell: Cell, total_s: float) -> None:
        """Add the time of a run of `cell`."""
        self._run_s[cell] = total_s
        self._last[cell.variant] = self._last[cell.variant, cell.block_size] = cell

    def left_s(self, runs: Mapping[Cell, int]) -> float:
        """Return how many seconds these numbers of runs per cell will take."""
        return sum(count * self._run_s.get(cell, 0.0) for cell, count in runs.items())

    def first_runs_s(self, cells: Iterable[Cell]) -> float | None:
        """Return how many seconds the first runs of these cells will take; None if one is unknown.

        The estimate for a cell is the time of the same variant's last product, scaled by flop.
        First runs are in the order of flop, so the last product is the nearest.
        """
        times = [self._expected_s(cell) for cell in cells]
        known_s = [time_s for time_s in times if time_s is not None]
        return sum(known_s) if known_s and len(known_s) == len(times) else None

    def _expected_s(self, cell: Cell) -> float | None:
        last = self._last.get((cell.variant, cell.block_size)) or self._last.get(cell.variant)
        return self._run_s[last] * (cell.shape.flop / last.shape.flop) if last else None
