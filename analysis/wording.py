"""The words and numbers that sentences and captions are made of."""

import math
import re
from dataclasses import dataclass

from analysis.results import COUNT, Number, Results, Unit
from kernels.shape import Shape


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


# Control characters, and marks that turn the direction of all text after them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
)


def visible(text: str) -> str:
    """Return `text` with what acts unseen written out, as in "[U+202E]"."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found.group()):04X}]", text)


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


def threads(results: Results, table: str, row: int, column: str = "threads") -> list[Part]:
    """Return the parts that say on how many threads a CPU cell ran; none where that is not told."""
    count = results.cell(table, row, column, COUNT)
    if count is None:
        return []
    return ["one thread"] if float(count.value) == 1 else [count, " threads"]


def opponent(results: Results, table: str, row: int, prefix: str = "") -> list[Part]:
    """Return the parts that name a CPU cell: "blas, on 16 threads"."""
    on = threads(results, table, row, f"{prefix}threads")
    return [*variant(results, table, row, prefix), *([", on ", *on] if on else [])]


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


def shape(results: Results, table: str, row: int) -> list[Part]:
    """Return a product's shape as parts: "512", "17×33×65" (m×k×n) or "3×17×33×65" (a batch)."""
    found = shape_of(results, table, row)
    edges = ["m", "k", "n"] if found.batch == 1 else ["batch", "m", "k", "n"]
    parts: list[Part] = []
    for edge in ["n"] if found.is_square else edges:
        parts += ["×" if parts else "", cell(results, table, row, edge, COUNT)]
    return parts


def size(results: Results, table: str, row: int) -> list[Part]:
    """Return a product's size as parts for a sentence: "N = 512", or its shape."""
    square = shape_of(results, table, row).is_square
    return ["N\u00a0=\u00a0" if square else "", *shape(results, table, row)]


def shape_of(results: Results, table: str, row: int) -> Shape:
    """Return the shape of the product that a row is of."""
    frame = results.frame(table)
    return Shape(*(int(frame.at[row, edge]) for edge in ("batch", "m", "n", "k")))


def order(results: Results, table: str, row: int, column: str = "n") -> Part:
    """Return a matrix order (or, by its `column`, another whole number)."""
    return cell(results, table, row, column, COUNT)
