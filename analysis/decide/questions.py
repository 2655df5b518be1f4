"""Questions about a product and their answers, from the tables of predictions.

A square product with its matrices in host memory has predictions of every implementation, by size
(`analysis.decide.lookup`). Others have those of the implementations that were measured at many
shapes (`analysis.decide.surfaces`). This module imports no slow library.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.decide.lookup import CsvRow, Implementation, Prediction, Rows
from analysis.decide.surfaces import (
    FAR_OCTAVES,
    STREAMED,
    FloatArray,
    OnCpu,
    Run,
    Shaped,
    Surface,
    Surfaces,
    break_even_row,
)
from kernels.catalog.baselines import BEST, CPU_BASELINES
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.locations import HOST_MEMORY
from kernels.catalog.variant import PREPARED
from kernels.products.shape import Shape

Tables = Mapping[str, Sequence[CsvRow]]
# Arithmetic of a float32 product: strict FP32, or 16-bit products on tensor cores.
ANY, STRICT, TENSOR = ARITHMETIC = ("any", "fp32", "tensor")
ON_TENSOR_CORES = "tensor cores"  # in the column kernels of `choices`; others are strict FP32


@dataclass(frozen=True)
class Question:
    """A product on a GPU; `arithmetic` is one of `ARITHMETIC`."""

    gpu: str
    shape: Shape
    run: Run
    arithmetic: str = ANY

    @property
    def is_simple(self) -> bool:
        """Whether it is one square product in host memory, which `predicted_times` answers."""
        is_single = self.run.products == self.run.streams == 1
        return is_single and self.shape.is_square and self.run.location in HOST_MEMORY

    def takes(self, variant: str) -> bool:
        """Return whether an implementation has the arithmetic."""
        return self.arithmetic == ANY or VARIANTS[variant].tensor_cores == (
            self.arithmetic == TENSOR
        )

    @property
    def products(self) -> str:
        """The number of products in words."""
        run = self.run
        kind = "independent products" if run.independent else "products with the same A"
        streams = f" over {run.streams} streams" if run.streams > 1 else ""
        return f", {run.products} {kind}{streams}" if run.products > 1 else ""


@dataclass(frozen=True)
class Answer:
    """A predicted time: implementation, parts in s by `PARTS`, and why it is extrapolated."""

    variant: str
    name: str
    time: Prediction
    parts: Mapping[str, float]
    extrapolated: str | None
    candidates: int
    block_size: int | None = None


class BySize:
    """Answers for one square product in host memory, from `predicted_times`."""

    def __init__(self, asked: Question, tables: Tables, recording: str) -> None:
        self._asked, self._tables, rows = asked, tables, tables["predicted_times"]
        key = (asked.gpu, asked.run.location)
        on_gpu = [row for row in rows if (row["gpu"], row["host_memory"]) == key]
        on_gpu = [row for row in on_gpu if asked.takes(row["variant"])]
        self._sides = [
            Rows(row for row in on_gpu if (row["variant"] in LIBRARIES) == is_library)
            for is_library in (False, True)
        ]
        self._baselines = _cpu_baselines(rows, recording)
        self.baselines = list(self._baselines)

    @cached_property
    def on_gpu(self) -> list[Answer]:
        """The fastest implementations of this study and of a library, the faster one first."""
        n = self._asked.shape.n
        return _by_time(_answer(one, n) for rows in self._sides if (one := rows.fastest(n)))

    def on_cpu(self, baseline: str) -> Answer | None:
        """Return the fastest implementation of a CPU baseline."""
        one = self._baselines[baseline].fastest(self._asked.shape.n)
        return _answer(one, self._asked.shape.n) if one else None

    def break_even(self) -> dict[str, CsvRow | None]:
        """Return the break-even row of each CPU baseline; None if not measured."""
        key = (self._asked.gpu, self._asked.run.location, self._asked.arithmetic)
        sizes = break_even_sizes(self._tables["break_even"], self._tables["choices"])
        of_gpu = [
            row for row in sizes if (row["gpu"], row["host_memory"], row["arithmetic"]) == key
        ]
        rows = {row["cpu_baseline"]: row for row in sorted(of_gpu, key=size_of, reverse=True)}
        return {name: rows.get(name) for name in self.baselines}

    @property
    def shortest_s(self) -> float:
        """The shortest time measured on the CPU."""
        return min(rows.shortest_s for rows in self._baselines.values())


class ByShape:
    """Answers for any product, from the surfaces of a GPU and its host."""

    shortest_s = math.nan

    def __init__(self, asked: Question, tables: Tables, recording: str) -> None:
        self._asked, surfaces = asked, Surfaces(tables)
        edges = asked.shape
        self._shape = np.array([[edges.m, edges.n, edges.k]], float)
        self._kernels = implementations(surfaces.on_gpu(asked.gpu), asked)
        self._on_cpu = {
            name: one
            for name, one in surfaces.on_cpu(recording).items()
            if edges.is_square or one.surface.has_shapes
        }
        self.baselines = [name for name in CPU_BASELINES if name in self._on_cpu]

    @cached_property
    def on_gpu(self) -> list[Answer]:
        """The fastest implementations of this study and of a library, the faster one first."""
        return _by_time(self._answer(one) for side in self._sides() if (one := self._fastest(side)))

    def on_cpu(self, baseline: str) -> Answer:
        """Return the prediction of a CPU baseline."""
        one = self._on_cpu[baseline]
        name, far = one.name(self._shape), self._far(one.surface)
        return Answer("", name, self._predicted(one), {}, far, 1)

    def break_even(self) -> dict[str, CsvRow | None]:
        """Return the break-even sizes of products with these proportions."""
        return {name: self._break_even(self._on_cpu[name]) for name in self.baselines}

    def _sides(self) -> list[list[Shaped]]:
        of_library = [one for one in self._kernels if one.variant in LIBRARIES]
        return [[one for one in self._kernels if one not in of_library], of_library]

    def _fastest(self, side: list[Shaped]) -> Shaped | None:
        return min(side, key=lambda one: self._predicted(one).time_s, default=None)

    def _predicted(self, one: Shaped | OnCpu) -> Prediction:
        (time_s,), (half_width,) = one.predict(self._shape, self._asked.run)
        return Prediction(float(time_s), float(half_width))

    def _answer(self, one: Shaped) -> Answer:
        run = self._asked.run
        parts = one.parts(self._shape, run) if run.products == 1 else {}
        far = self._far(one.runs[run.location])
        return Answer(
            one.variant, one.variant, self._predicted(one), parts, far, len(self._kernels)
        )

    def _far(self, surface: Surface) -> str | None:
        octaves = surface.distances(self._shape).min()
        shape = self._asked.shape
        return f"{shape} is far from the shapes measured" if octaves > FAR_OCTAVES else None

    def _break_even(self, cpu: OnCpu) -> CsvRow:
        def gpu_s(shapes: FloatArray) -> FloatArray:
            times = [one.predict(shapes, self._asked.run)[0] for one in self._kernels]
            return np.min(times, axis=0)

        def cpu_s(shapes: FloatArray) -> FloatArray:
            return cpu.predict(shapes, self._asked.run)[0]

        surfaces = [one.runs[self._asked.run.location] for one in self._kernels]
        return break_even_row(self._shape[0], gpu_s, cpu_s, [*surfaces, cpu.surface])


def break_even_sizes(
    break_even: Iterable[CsvRow], choices: Iterable[CsvRow]
) -> Iterator[dict[str, str]]:
    """Yield the rows of break_even, and those of choices over the fastest CPU implementation.

    Each has its `arithmetic`.
    """
    for row in break_even:
        yield {**row, "arithmetic": ANY}
    of_size = "break_even_"
    for row in choices:
        if row["cpu_baseline"] == BEST:
            arithmetic = TENSOR if row["kernels"] == ON_TENSOR_CORES else STRICT
            names = {name: row[name] for name in ("gpu", "host_memory", "cpu_baseline")}
            size = {n.removeprefix(of_size): v for n, v in row.items() if n.startswith(of_size)}
            yield names | size | {"arithmetic": arithmetic}


def size_of(row: CsvRow) -> float:
    """Return a break-even size: 0 below, infinite above the measured range."""
    outside = {"below": 0.0, "above": math.inf}
    return outside[row["location"]] if row["location"] in outside else float(row["n"])


def _by_time(found: Iterable[Answer]) -> list[Answer]:
    return sorted(found, key=lambda one: one.time.time_s)


def answers(asked: Question, tables: Tables, recording: str) -> BySize | ByShape:
    """Return the rows that answer a question; `recording` is the recording of the GPU."""
    kind = BySize if asked.is_simple else ByShape
    return kind(asked, tables, recording)


def implementations(known: Iterable[Shaped], asked: Question) -> list[Shaped]:
    """Return the implementations in `known` that were measured for such a question.

    Products over several streams were measured of some. Kernels that prepare their operands share
    memory between streams, so they run in one.
    """
    run, shape = asked.run, asked.shape
    return [
        one
        for one in known
        if run.location in one.runs and asked.takes(one.variant)
        if shape.is_square or one.runs[run.location].has_shapes
        if run.products == 1 or run.location != STREAMED or VARIANTS[one.variant].flow != PREPARED
        if run.streams == 1 or one.batch
    ]


def _answer(one: Implementation, n: int) -> Answer:
    outside = None if one.covers(n) else _outside(one, n)
    return Answer(
        one.variant, one.name, one.time, one.parts, outside, one.candidates, one.block_size
    )


def _outside(one: Implementation, n: int) -> str:
    if one.least_n == one.largest_n:
        return f"N = {n} differs from the only size of its fit, N = {one.largest_n}"
    return f"N = {n} is outside the sizes of its fit, N = {one.least_n} to {one.largest_n}"


def _cpu_baselines(rows: Sequence[CsvRow], recording: str) -> dict[str, Rows]:
    """Return the rows of a recording's host, in the sequence of `CPU_BASELINES`."""
    on_host = [row for row in rows if row["recording"] == recording]
    sides = {
        name: [row for row in on_host if row["cpu_baseline"] == name] for name in CPU_BASELINES
    }
    return {name: Rows(side) for name, side in sides.items() if side}
