"""Predicted times looked up in the table `predicted_times`, by `advise` and by the page.

Between two sizes of the table, log time and half-width are interpolated linearly in log N. The
page's `report/calculator.js` uses the same rule. This module imports only the catalog, so that
`gemm-study advise` starts quickly.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.shape import Shape

ELEMENT_BYTES = 4
# Rows of so many elements start at multiples of 16 bytes, which the widest loads need.
ALIGNED = 4
WIDEST = math.log(1000)  # largest half-width of an interval that is shown
PARTS = {"h2d": "copies in", "kernel": "kernel", "d2h": "copy back", "overhead": "overhead"}
CsvRow = Mapping[str, str]


@dataclass(frozen=True)
class Prediction:
    """A predicted time in seconds, and its 95 % prediction interval.

    `half_width` is half the width of the interval in logarithms; above `WIDEST` the prediction is
    useless. Below the time, measured times may have another half-width, `lower`. The interval does
    not begin below `least_s`.
    """

    time_s: float
    half_width: float
    least_s: float = 0.0
    lower: float | None = None

    @property
    def below(self) -> float:
        """The half-width below the time."""
        return self.half_width if self.lower is None else self.lower

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the interval, in seconds."""
        if self.half_width > WIDEST:
            return 0.0, math.inf
        low_s = self.time_s * math.exp(-self.below)
        return max(low_s, self.least_s), self.time_s * math.exp(self.half_width)

    @classmethod
    def measured(cls, row: CsvRow, stem: str, products: int = 1) -> "Prediction":
        """Return the time of several products, measured each as the columns `stem` of a row say."""
        time_s, high_s = float(row[f"{stem}_s"]), float(row[f"{stem}_high_s"] or "inf")
        low_s = float(row[f"{stem}_low_s"] or time_s)
        widths = math.log(high_s / time_s), math.log(time_s / low_s)
        return cls(products * time_s, widths[0], lower=widths[1])

    def over(self, other: "Prediction") -> "Prediction":
        """Return the ratio to another, independent time; the squares of half-widths add up.

        Source: Zou and Donner, Statistics in Medicine 27 (2008) 1693.
        """
        half_width = math.hypot(self.half_width, other.below)
        lower = math.hypot(self.below, other.half_width)
        return Prediction(self.time_s / other.time_s, half_width, lower=lower)


@dataclass(frozen=True)
class Implementation:
    """An implementation at one size, with the times of a run and of its parts.

    It was measured from `least_n` to `largest_n`.
    """

    variant: str
    block_size: int | None
    time: Prediction
    parts: Mapping[str, float]
    least_n: int
    largest_n: int
    candidates: int

    @property
    def name(self) -> str:
        """The variant with its block size: "block (B = 32)", "sgemm_top (64×32)"."""
        return named(self.variant, self.block_size)

    def covers(self, n: int) -> bool:
        """Return whether `n` is within the measured sizes."""
        return self.least_n <= n <= self.largest_n


def named(variant: str, block_size: int | None) -> str:
    """Return the name of a variant with its block size or tile shape."""
    if variant in VARIANTS:
        block = VARIANTS[variant].block_size(block_size)
        text = f"B = {block}" if isinstance(block, int) else str(block)
    else:
        block, text = block_size, f"B = {block_size}"
    return variant + (f" ({text})" if block is not None else "")


def square(variant: str, number: int | None, n: int) -> Product:
    """Return the product of square float32 matrices; `number` denotes its block size in tables."""
    return Product(variant, "float32", Shape.square(n), VARIANTS[variant].block_size(number))


class Rows:
    """The rows of `predicted_times` that one answer compares: GPU kernels, or a CPU baseline."""

    def __init__(self, rows: Iterable[CsvRow]) -> None:
        self._by_size: dict[int, dict[tuple[str, str], Implementation]] = {}
        for row in rows:
            if row["time_high_s"]:  # a row without interval is never the fastest
                name = (row["variant"], row["block_size"]) if row["gpu"] else ("", "")
                self._by_size.setdefault(int(row["n"]), {})[name] = _implementation(row)
        self._sizes = sorted(self._by_size)

    @property
    def has_times(self) -> bool:
        """Whether a time is predicted at any size."""
        return bool(self._by_size)

    @property
    def measured_sizes(self) -> tuple[int, int]:
        """The smallest and the largest measured size."""
        every = [one for at_n in self._by_size.values() for one in at_n.values()]
        return min(one.least_n for one in every), max(one.largest_n for one in every)

    @cached_property
    def shortest_s(self) -> float:
        """The shortest time of a run in the table."""
        every = (one for at_n in self._by_size.values() for one in at_n.values())
        return min(one.time.time_s for one in every)

    @property
    def measured_later(self) -> dict[str, int]:
        """The smallest measured size of variants that are the fastest at some size.

        Variants that were measured from the smallest size on are excluded.
        """
        fastest = {one.variant for n in self._sizes if (one := self.fastest(n))}
        least = dict[str, int]()
        for one in (one for at_n in self._by_size.values() for one in at_n.values()):
            least[one.variant] = min(one.least_n, least.get(one.variant, one.least_n))
        first, _ = self.measured_sizes
        return {name: least[name] for name in sorted(fastest) if least[name] > first}

    def at(self, n: int) -> dict[tuple[str, str], Implementation]:
        """Return the implementations at size `n`, by variant and block size."""
        if n in self._by_size:
            return self._by_size[n]
        place = bisect_left(self._sizes, n)
        if place in (0, len(self._sizes)):
            return {}
        sizes = self._sizes[place - 1 : place + 1]
        low, high = (self._by_size[size] for size in sizes)
        share = math.log(n / sizes[0], sizes[1] / sizes[0])
        return {key: _between(low[key], high[key], share) for key in low if key in high}

    def fastest(self, n: int) -> Implementation | None:
        """Return the fastest implementation at size `n`; None if no time is predicted.

        Outside the measured sizes it is that at the nearest one, as extrapolated times may cross.
        """
        at_n = near = self.at(n)
        if not at_n:
            return None
        least = max(one.least_n for one in at_n.values())
        nearest = min(max(n, least), min(one.largest_n for one in at_n.values()))
        if nearest != n:
            near = self.at(nearest)
        common = [key for key in at_n if key in near]
        best = min(common, key=lambda key: near[key].time.time_s, default=None)
        return at_n[best] if best else None


def _implementation(row: CsvRow) -> Implementation:
    time_s = float(row["time_s"])
    return Implementation(
        variant=row["variant"],
        block_size=int(row["block_size"]) if row["block_size"] else None,
        time=Prediction(time_s, math.log(float(row["time_high_s"]) / time_s)),
        parts={part: float(row[f"{part}_s"]) for part in PARTS if row[f"{part}_s"]},
        least_n=int(row["least_n"]),
        largest_n=int(row["largest_n"]),
        candidates=int(row["candidates"]),
    )


def _between(low: Implementation, high: Implementation, share: float) -> Implementation:
    """Return the implementation between two sizes, at this share of the distance in log N."""

    def mixed(ends: tuple[float, float]) -> float:
        return ends[0] ** (1 - share) * ends[1] ** share

    half_width = (1 - share) * low.time.half_width + share * high.time.half_width
    return replace(
        high,
        time=Prediction(mixed((low.time.time_s, high.time.time_s)), half_width),
        parts={part: mixed((low.parts[part], time_s)) for part, time_s in high.parts.items()},
    )
