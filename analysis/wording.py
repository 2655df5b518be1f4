"""The words and numbers that sentences and captions are made of."""

import math
from dataclasses import dataclass

from analysis.results import COUNT, Number, Results, Unit


@dataclass(frozen=True)
class Code:
    """A name to be set in a fixed-width face, such as that of a variant."""

    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Number | Code

# Verdicts. STATED: a sentence that gives numbers and judges nothing.
GAIN = "gain"
LOSS = "loss"
UNDECIDED = "undecided"
NO_INTERVAL = "no interval"
NOT_MEASURED = "not measured"
STATED = "stated"


def verdict(gain: float, low: float, high: float) -> str:
    """Return what a gain with this interval says; NaN stands for what was not measured."""
    if math.isnan(gain):
        return NOT_MEASURED
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    if low > 1:
        return GAIN
    return LOSS if high < 1 else UNDECIDED


def variant(results: Results, table: str, row: int, prefix: str = "") -> list[Part]:
    """Return the parts that name a variant and, where it has one, its block size."""
    name = Code(results.text(table, row, f"{prefix}variant"))
    size = results.cell(table, row, f"{prefix}block_size", COUNT)
    return [name, " (B\u00a0=\u00a0", size, ")"] if size else [name]


def measured(
    results: Results, table: str, row: int, column: str, unit: Unit, brackets: str = " ("
) -> list[Part]:
    """Return value and interval as parts: "1.234 ms (1.230 to 1.240)", or that there is none."""
    close = ")" if brackets == " (" else ""
    value = cell(results, table, row, column, unit)
    found = bounds(results, table, row, column, unit)
    return [value, brackets, *(found or [NO_INTERVAL]), close]


def bounds(results: Results, table: str, row: int, column: str, unit: Unit) -> list[Part]:
    """Return the interval beside `column` as parts: "1.230 to 1.240"; none where there is none."""
    interval = results.interval(table, row, column, unit)
    return [interval[0].bare(), " to ", interval[1].bare()] if interval else []


def cell(results: Results, table: str, row: int, column: str, unit: Unit) -> Part:
    """Return the number in one cell, or that it was not measured."""
    return results.cell(table, row, column, unit) or NOT_MEASURED


def order(results: Results, table: str, row: int, column: str = "n") -> Part:
    """Return a matrix order (or, by its `column`, another whole number)."""
    return cell(results, table, row, column, COUNT)
