"""Questions about a product, and their answers from the tables of predictions.

One square product with its matrices in host memory, or on the CPU, has predictions of every
implementation, by size (`analysis.decide.lookup`). Other products have predictions of those
implementations that were measured at many shapes (`analysis.decide.surfaces`). Several square
products in host memory may also be runs one after the other, each with all of its copies. This
module imports no slow library.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from analysis.decide.lookup import CsvRow, Implementation, Prediction, Rows, named
from analysis.decide.surfaces import (
    STREAMED,
    FloatArray,
    Limit,
    OnCpu,
    Run,
    Shaped,
    Surface,
    Surfaces,
    break_even_row,
    limits,
    scaled,
)
from kernels.catalog.baselines import BEST, CPU_BASELINES
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.locations import HOST_MEMORY, LOCATIONS, bounding
from kernels.catalog.variant import PREPARED
from kernels.products.shape import Shape

Tables = Mapping[str, Sequence[CsvRow]]
# Arithmetic of a float32 product: strict FP32, or 16-bit products on tensor cores.
ANY, STRICT, TENSOR = ARITHMETIC = ("any", "fp32", "tensor")
ON_TENSOR_CORES = "tensor cores"  # value of the column kernels in `choices`; others are strict FP32
FAMILIES = ("square", "matrix-vector")  # all shapes of such a family have the same proportions
# After the name of an implementation: how its products run, and that such a batch was measured.
IN_SEQUENCE, MEASURED = ", one run after the other", ", measured"
BATCH = ("gpu", "m", "n", "k", "streams", "products", "same_a")  # key of the table throughput


@dataclass(frozen=True)
class Question:
    """A question about a product on a GPU; `arithmetic` is one of `ARITHMETIC`."""

    gpu: str
    shape: Shape
    run: Run
    arithmetic: str = ANY

    @property
    def is_simple(self) -> bool:
        """Whether it asks for one square product in host memory, as in `predicted_times`."""
        return self.run.products == self.run.streams == 1 and self.has_runs

    @property
    def has_runs(self) -> bool:
        """Whether runs of one product were measured in every implementation."""
        return self.shape.is_square and self.run.location in HOST_MEMORY

    def takes(self, variant: str) -> bool:
        """Return whether an implementation computes with the arithmetic that is asked for."""
        uses_tensor_cores = variant in VARIANTS and VARIANTS[variant].tensor_cores
        return self.arithmetic == ANY or uses_tensor_cores == (self.arithmetic == TENSOR)

    @property
    def products(self) -> str:
        """The number of products as text."""
        run = self.run
        kind = "independent products" if run.independent else "products with the same A"
        streams = f" over {run.streams} streams" if run.streams > 1 else ""
        return f", {run.products} {kind}{streams}" if run.products > 1 else ""


@dataclass(frozen=True)
class Answer:
    """A predicted time: its implementation, its parts in s by `PARTS`, and why it is extrapolated.

    `is_bound`: the time is an upper bound, because this run copies more than the one asked for.
    `is_measured`: the time is that of this shape, not a prediction.
    """

    variant: str
    name: str
    time: Prediction
    parts: Mapping[str, float]
    extrapolated: str | None
    candidates: int
    block_size: int | None = None
    is_bound: bool = False
    is_measured: bool = False


@dataclass(frozen=True)
class Runs:
    """Runs of one square product each, one after the other, with the fastest implementation.

    They are on a GPU or of a CPU baseline. `missing_s` is the time where none is predicted.
    """

    rows: Rows
    missing_s: float
    in_sequence: str = ""
    limits: Mapping[bool, Limit] = field(default_factory=dict)

    def predict(self, shapes: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the times in s, and their half-widths, at square `shapes`."""
        fastest = [self.rows.fastest(int(n)) for n in shapes[:, 0]]
        none = Prediction(self.missing_s, 0.0)
        times = [one.time if one else none for one in fastest]
        time_s, half_width = (
            np.array([getattr(time, name) for time in times]) for name in ("time_s", "half_width")
        )
        return run.products * time_s, half_width

    @property
    def longest_edges(self) -> tuple[int, int]:
        """The smallest and the largest measured size."""
        return self.rows.measured_sizes

    def answer(self, asked: Question) -> Answer | None:
        """Return the answer to the question; None if no time is predicted."""
        n, products = asked.shape.n, asked.run.products
        if (one := self.rows.fastest(n)) is None:
            return None
        limit = self.limits.get(VARIANTS[one.variant].tensor_cores) if self.limits else None
        time = replace(one.time, time_s=products * one.time.time_s)
        return Answer(
            one.variant,
            one.name + self.in_sequence * (products > 1),
            within(time, asked, limit, not one.covers(n), one.parts.get("kernel", 0.0)),
            one.parts if products == 1 else {},
            None if one.covers(n) else _outside(one, n),
            one.candidates,
            one.block_size,
        )


def within(
    time: Prediction, asked: Question, limit: Limit | None, outside: bool, kernel_s: float
) -> Prediction:
    """Return a prediction raised to what kernels can reach; `outside`: only what they sustain.

    `kernel_s` is the time of one kernel, if it is known. The interval includes the unknown effect
    of a size of square products to which loads cannot be aligned.
    """
    limit, products = limit or Limit(), asked.run.products
    kernels_s = products * asked.shape.flop / limit.flop_per_s
    least_s = kernels_s / limit.sustained_share if outside else float(limit.sustained_s(kernels_s))
    time = replace(time, time_s=max(time.time_s, least_s), least_s=kernels_s)
    if not (asked.shape.is_square and limit.is_unaligned(asked.shape.n)):
        return time
    of_kernels = limit.half_width(max(products * kernel_s, kernels_s) / time.time_s)
    return replace(time, half_width=math.hypot(time.half_width, of_kernels), lower=None)


def runs_on_gpu(asked: Question, tables: Tables) -> list[Runs]:
    """Return the runs of this study's implementations and of libraries, from `predicted_times`."""
    key = (asked.gpu, asked.run.location)
    on_gpu = [
        row
        for row in tables["predicted_times"]
        if (row["gpu"], row["host_memory"]) == key and asked.takes(row["variant"])
    ]
    sides = [
        Rows(row for row in on_gpu if (row["variant"] in LIBRARIES) == is_library)
        for is_library in (False, True)
    ]
    of_gpu = limits(tables, asked.gpu)
    return [Runs(rows, math.inf, IN_SEQUENCE, of_gpu) for rows in sides if rows.has_times]


def measured_later(runs: Iterable[Runs]) -> Iterator[tuple[int, str]]:
    """Yield sizes on a GPU from which variants were measured, each with a note for smaller ones."""
    for one in runs:
        for variant, n in one.rows.measured_later.items():
            yield n, f"{variant} was measured from N = {n} only; below, it may be faster."


def runs_on_cpu(tables: Tables, recording: str) -> dict[str, Runs]:
    """Return the runs on the CPU of a recording's host, in the order of `CPU_BASELINES`.

    A time that is shorter than any measured one is not predicted; it counts as 0.
    """
    on_host = [row for row in tables["predicted_times"] if row["recording"] == recording]
    sides = {
        name: Rows(row for row in on_host if row["cpu_baseline"] == name) for name in CPU_BASELINES
    }
    return {name: Runs(rows, 0.0) for name, rows in sides.items() if rows.has_times}


class BySize:
    """Answers for one square product in host memory, from `predicted_times`."""

    def __init__(self, asked: Question, tables: Tables, recording: str) -> None:
        self._asked, self._tables = asked, tables
        self._runs = runs_on_gpu(asked, tables)
        self._on_cpu = runs_on_cpu(tables, recording)
        self.baselines = list(self._on_cpu)

    @cached_property
    def on_gpu(self) -> list[Answer]:
        """The fastest implementations of this study and of a library, the faster one first."""
        return _by_time(one.answer(self._asked) for one in self._runs)

    def on_cpu(self, baseline: str) -> Answer | None:
        """Return the answer for the fastest implementation of a CPU baseline."""
        return self._on_cpu[baseline].answer(self._asked)

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
    def later(self) -> Iterator[str]:
        """Notes on variants that may be faster than the answer, but were not measured here."""
        return (note for n, note in measured_later(self._runs) if self._asked.shape.n < n)

    @property
    def shortest_s(self) -> float:
        """The shortest time measured on the CPU."""
        return min(one.rows.shortest_s for one in self._on_cpu.values())


@dataclass(frozen=True)
class Placed:
    """An implementation with a run at the asked location, or at one whose time bounds it."""

    one: Shaped | Runs
    run: Run

    @property
    def variant(self) -> str:
        """The variant with a surface; blank for several."""
        return "" if isinstance(self.one, Runs) else self.one.variant

    def predict(self, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the times in s, and their half-widths, at `shapes`."""
        return self.one.predict(shapes, self.run)


class ByShape:
    """Answers for any product, from measured times, surfaces and runs of square products.

    A run at a location takes no longer than one that copies more (`bounding`).
    """

    def __init__(self, asked: Question, tables: Tables, recording: str) -> None:
        self._asked, self._tables, surfaces = asked, tables, Surfaces(tables)
        edges = asked.shape
        self._shape = np.array([[edges.m, edges.n, edges.k]], float)
        self._placed = [*self._at_locations(surfaces.on_gpu(asked.gpu))]
        self._on_cpu: Mapping[str, OnCpu | Runs] = (
            runs_on_cpu(tables, recording)
            if edges.is_square
            else {n: one for n, one in surfaces.on_cpu(recording).items() if one.surface.has_shapes}
        )
        self.baselines = [name for name in CPU_BASELINES if name in self._on_cpu]

    def _at_locations(self, on_gpu: list[Shaped]) -> Iterator[Placed]:
        for location in bounding(self._asked.run.location):
            run = replace(self._asked.run, location=location)
            there = replace(self._asked, run=run)
            for one in implementations(on_gpu, there):
                yield Placed(one, run)
            for runs in runs_on_gpu(there, self._tables) if there.has_runs else ():
                yield Placed(runs, run)

    @cached_property
    def on_gpu(self) -> list[Answer]:
        """The fastest implementations of this study and of a library, the faster one first."""
        predicted = [
            self._answer(placed)
            for placed in self._placed
            if not (placed.run.location == STREAMED and placed.variant in self._batches)
        ]
        by_time = _by_time([*predicted, *self._batches.values()])
        sides = [
            [one for one in by_time if (one.variant in LIBRARIES) == is_library]
            for is_library in (False, True)
        ]
        return _by_time(side[0] for side in sides if side)

    def on_cpu(self, baseline: str) -> Answer | None:
        """Return the answer for a CPU baseline; None if no time is predicted."""
        one = self._on_cpu[baseline]
        if isinstance(one, Runs):
            return one.answer(self._asked)
        name, far = one.name(self._shape), self._far(one.surface)
        time = self._predicted(one, self._asked.run)
        measured = next(iter(self._measured.values()), None)
        if baseline == BEST and measured and measured["cpu_s"]:
            time = replace(time, time_s=self._asked.run.products * float(measured["cpu_s"]))
        return Answer("", name, time, {}, far, 1)

    def break_even(self) -> dict[str, CsvRow | None]:
        """Return the break-even sizes of products with these proportions."""
        return {name: self._break_even(name, one) for name, one in self._on_cpu.items()}

    @property
    def shortest_s(self) -> float:
        """The shortest time measured on the CPU, of square products."""
        every = [one.rows.shortest_s for one in self._on_cpu.values() if isinstance(one, Runs)]
        return min(every, default=math.nan)

    def _predicted(self, one: Shaped | OnCpu, run: Run) -> Prediction:
        (time_s,), (half_width,) = one.predict(self._shape, run)
        return Prediction(float(time_s), float(half_width))

    @cached_property
    def _measured(self) -> dict[tuple[str, str], CsvRow]:
        """The rows of the table locations with this shape, by variant and location."""
        asked = (self._asked.gpu, *(str(getattr(self._asked.shape, edge)) for edge in "mnk"))
        return {
            (row["variant"], row["host_memory"]): row
            for row in self._tables["locations"]
            if asked == (row["gpu"], row["m"], row["n"], row["k"]) and row["total_high_s"]
        }

    @cached_property
    def _batches(self) -> dict[str, Answer]:
        """Answers from measured batches of these products in pinned memory, by variant."""
        run, edges = self._asked.run, self._asked.shape
        values = (self._asked.gpu, edges.m, edges.n, edges.k, run.streams, run.products)
        asked = [*map(str, (*values, not run.independent))]
        is_batch = run.products > 1 and STREAMED in bounding(run.location)
        return {
            row["variant"]: self._of_batch(row)
            for row in (self._tables["throughput"] if is_batch else ())
            if [row[name] for name in BATCH] == asked and self._asked.takes(row["variant"])
        }

    def _of_batch(self, row: CsvRow) -> Answer:
        time = Prediction.measured(row, "run", self._asked.run.products)
        block_size = int(row["block_size"]) if row["block_size"] else None
        name = named(row["variant"], block_size) + MEASURED
        count = len(self._placed)
        answer = Answer(row["variant"], name, time, {}, None, count, block_size, is_measured=True)
        return self._bounding(answer, STREAMED)

    def _answer(self, placed: Placed) -> Answer | None:
        one, run = placed.one, placed.run
        if isinstance(one, Runs):
            runs = one.answer(self._asked)
            return runs and self._bounding(runs, run.location)
        time, far = self._predicted(one, run), self._far(one.runs[run.location])
        row = self._measured.get((one.variant, run.location)) if run.products == 1 else None
        if row:
            time = Prediction.measured(row, "total")
        kernel_s = float(one.kernel.time_s(self._shape)[0])
        time = within(time, self._asked, one.limit, far is not None, kernel_s)
        name, count, is_measured = one.variant, len(self._placed), row is not None
        answer = Answer(name, name, time, {}, far, count, is_measured=is_measured)
        return self._bounding(answer, run.location)

    def _bounding(self, answer: Answer, location: str) -> Answer:
        """Return the answer, marked as a bound if its run copies or launches more than asked."""
        place, run = LOCATIONS[location], self._asked.run
        if location != run.location:
            return replace(answer, name=f"{answer.name}, as from {place.title}", is_bound=True)
        return replace(answer, is_bound=run.products > 1 and not place.has_copies)

    def _far(self, surface: Surface) -> str | None:
        is_far = surface.is_far(self._shape)
        return f"{self._asked.shape} is far from the shapes measured" if is_far else None

    def _break_even(self, baseline: str, cpu: OnCpu | Runs) -> CsvRow:
        if baseline == BEST and (measured := self._measured_break_even()):
            return min(measured, key=size_of)

        def gpu(shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
            times_s, halves = map(
                np.array, zip(*(placed.predict(shapes) for placed in self._placed), strict=True)
            )
            fastest = times_s.argmin(axis=0), np.arange(len(shapes))
            return times_s[fastest], halves[fastest]

        ranges = [
            placed.one.runs[placed.run.location].longest_edges
            for placed in self._placed
            if isinstance(placed.one, Shaped)
        ]
        predicted_cpu = partial(cpu.predict, run=self._asked.run)
        row = break_even_row(self._shape[0], gpu, predicted_cpu, [*ranges, cpu.longest_edges])
        return row | {"host_memory": self._location_at(row["n"])} if row["n"] else row

    def _location_at(self, size: str) -> str:
        """Return the location of the fastest run at the longest edge `size`."""
        shape = scaled(self._shape[0], np.array([float(size)]))
        return min(self._placed, key=lambda placed: placed.predict(shape)[0][0]).run.location

    def _measured_break_even(self) -> list[CsvRow]:
        """Return the measured break-even rows at the locations that bound that of the question."""
        run, shape = self._asked.run, self._asked.shape
        if run.products > 1 or self._asked.arithmetic != ANY or shape.family not in FAMILIES:
            return []
        return measured_break_even(self._tables, self._asked.gpu, run.location, shape.family)


def measured_break_even(tables: Tables, gpu: str, location: str, family: str) -> list[CsvRow]:
    """Return measured break-even rows over `BEST` for a family, at locations that bound one."""
    rows = [row for row in tables["location_break_even"] if row["family"] == family]
    if family == "square":
        rows += [row for row in tables["break_even"] if row["host_memory"] in HOST_MEMORY]
    places = bounding(location)
    return [
        row
        for row in rows
        if (row["gpu"], row["cpu_baseline"]) == (gpu, BEST) and row["host_memory"] in places
    ]


def break_even_sizes(
    break_even: Iterable[CsvRow], choices: Iterable[CsvRow]
) -> Iterator[dict[str, str]]:
    """Yield the rows of break_even, and those rows of choices that compare with the fastest CPU.

    Each gets the column `arithmetic`.
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
    """Return the break-even size of a row; 0 below, infinite above the measured range."""
    outside = {"below": 0.0, "above": math.inf}
    return outside[row["location"]] if row["location"] in outside else float(row["n"])


def _by_time(answered: Iterable[Answer | None]) -> list[Answer]:
    return sorted(filter(None, answered), key=lambda one: one.time.time_s)


def answers(asked: Question, tables: Tables, recording: str) -> BySize | ByShape:
    """Return what answers a question; `recording` is the recording of the question's GPU."""
    kind = BySize if asked.is_simple else ByShape
    return kind(asked, tables, recording)


def implementations(known: Iterable[Shaped], asked: Question) -> list[Shaped]:
    """Return the implementations in `known` that were measured for such a question.

    Only some were measured with products over several streams. Kernels that prepare their operands
    share that memory between streams, so they use one stream.
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


def _outside(one: Implementation, n: int) -> str:
    if one.least_n == one.largest_n:
        return f"N = {n} differs from the only size of its fit, N = {one.largest_n}"
    return f"N = {n} is outside the sizes of its fit, N = {one.least_n} to {one.largest_n}"
