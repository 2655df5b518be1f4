"""Estimating the remaining time of a recording."""

from collections.abc import Iterable, Mapping

from study.cells import Cell


class TimeLeft:
    """Estimates how long a device's cells still take, from the runs so far."""

    def __init__(self) -> None:
        self._run_s: dict[Cell, float] = {}

    def add(self, cell: Cell, total_s: float) -> None:
        """Add the time of a run of `cell`."""
        self._run_s[cell] = total_s

    def left_s(self, runs: Mapping[Cell, int]) -> float:
        """Return how many seconds these numbers of runs per cell will take."""
        return sum(count * self._run_s.get(cell, 0.0) for cell, count in runs.items())

    def first_runs_s(self, cells: Iterable[Cell]) -> float | None:
        """Return how many seconds the first runs of these cells will take; None if one is unknown.

        The estimate for a cell is the time of the same variant's nearest product, scaled by flop.
        """
        times = [self._expected_s(cell) for cell in cells]
        known_s = [time_s for time_s in times if time_s is not None]
        return sum(known_s) if known_s and len(known_s) == len(times) else None

    def _expected_s(self, cell: Cell) -> float | None:
        same_variant = [other for other in self._run_s if other.variant == cell.variant]
        if not same_variant:
            return None
        flop = cell.shape.flop
        nearest = min(
            same_variant,
            key=lambda other: (other.block_size != cell.block_size, abs(other.shape.flop - flop)),
        )
        return self._run_s[nearest] * (flop / nearest.shape.flop)
