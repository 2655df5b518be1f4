"""The time that a recording still needs."""

from collections.abc import Iterable, Mapping

from study.cells import Cell


class TimeLeft:
    """Estimates the time that a device's cells still need, from the runs seen so far."""

    def __init__(self) -> None:
        self._pass_s: dict[Cell, float] = {}

    def saw(self, cell: Cell, total_s: float) -> None:
        """Note the time of a run of `cell`."""
        self._pass_s[cell] = total_s

    def left_s(self, passes: Mapping[Cell, int]) -> float:
        """Return the seconds that so many runs of each cell take."""
        return sum(count * self._pass_s.get(cell, 0.0) for cell, count in passes.items())

    def first_passes_s(self, cells: Iterable[Cell]) -> float | None:
        """Return the seconds that first runs of these cells take, None before anything is known.

        A run is expected to take the time of the same variant's nearest product, scaled by work.
        """
        times = [self._expected_s(cell) for cell in cells]
        known = [time_s for time_s in times if time_s is not None]
        return sum(known) if known and len(known) == len(times) else None

    def _expected_s(self, cell: Cell) -> float | None:
        alike = [seen for seen in self._pass_s if seen.variant == cell.variant]
        if not alike:
            return None
        flop = cell.shape.flop
        nearest = min(
            alike,
            key=lambda seen: (seen.block_size != cell.block_size, abs(seen.shape.flop - flop)),
        )
        return self._pass_s[nearest] * (flop / nearest.shape.flop)
