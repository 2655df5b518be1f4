"""``python -m analysis advise``: predicted time, throughput and speedup of one product on a GPU.

It looks up the tables of a report (`analysis.decide.tabulated`) and imports only numpy, so that it
starts quickly.
"""

import csv
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from analysis.decide.predictors import ELEMENT_BYTES, CsvRow, Prediction, combined, ratio, square
from base.command_line import aligned
from base.errors import StudyError
from base.paths import MAKE_REPORT
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import AS_GRAPH, IN_PIECES, MAPPED, ON_TWO_GPUS, STAGED, Library
from kernels.products.shape import LARGEST_SIZE

TABLES = ("predictors", "predicted_times", "break_even", "pieces")
PARTS = {"h2d": "copies in", "kernel": "kernel", "d2h": "copy back", "overhead": "overhead"}
# What a run needs besides its kernel.
MODES = {
    IN_PIECES: "overlaps copies and kernel, which needs pinned memory and streams",
    STAGED: "copies through pinned memory by 6 to 24 host threads, which need as many cores",
    ON_TWO_GPUS: "uses two GPUs and needs pinned memory",
    AS_GRAPH: "is one launch of a CUDA graph, which must be prepared for this size",
    MAPPED: "reads and writes host memory, which must be pinned",
}
_FLOOR = "the copies without the product"
_NO_BASELINE = "No CPU baseline has enough measured sizes for a fit."
Tables = Mapping[str, Sequence[CsvRow]]


@dataclass(frozen=True)
class Implementation:
    """An implementation at one size: rows of `predicted_times`, interpolated.

    `first` is the time of a run, `further` of each product after the first (None if a run cannot
    repeat the product), `parts` of the first one. It was measured from `least_n` to `largest_n`.
    """

    variant: str
    block_size: int | None
    first: Prediction
    further: Prediction | None
    parts: Mapping[str, float]
    least_n: int
    largest_n: int
    candidates: int

    @property
    def name(self) -> str:
        """The variant with its block size: "block (B = 32)", "sgemm_top (64×32)"."""
        if self.variant not in VARIANTS:
            return self.variant + (f" (B = {self.block_size})" if self.block_size else "")
        block = VARIANTS[self.variant].block_size(self.block_size)
        text = f"B = {block}" if isinstance(block, int) else str(block)
        return self.variant + (f" ({text})" if block is not None else "")

    def covers(self, n: int) -> bool:
        """Return whether `n` is within the measured sizes."""
        return self.least_n <= n <= self.largest_n

    def total(self, products: int) -> Prediction:
        """Return the time of a run of `products` products."""
        times = {"first": self.first.time_s}
        widths = {"first": self.first.half_width}
        if products > 1:
            assert self.further
            times["further"] = (products - 1) * self.further.time_s
            widths["further"] = self.further.half_width
        return combined(times, widths)


@dataclass(frozen=True)
class Question:
    """What is asked, and the rows of `predicted_times` that answer it.

    `libraries` and `kernels` are rows of the GPU, `baselines` rows of its host by CPU baseline.
    """

    gpu: CsvRow
    n: int
    memory: str
    products: int
    kernels: Sequence[CsvRow]
    libraries: Sequence[CsvRow]
    baselines: Mapping[str, Sequence[CsvRow]]
    tables: Tables

    def on_gpu(self) -> list[Implementation]:
        """Return the fastest implementation of this study, and that of a library."""
        sides = (self.kernels, self.libraries)
        return [one for rows in sides if (one := fastest(rows, self.n, self.products))]

    @property
    def shortest_s(self) -> float:
        """The shortest time measured on the CPU; a shorter one is not predicted."""
        every = (float(row["time_s"]) for rows in self.baselines.values() for row in rows)
        return min(every, default=0.0)


def look_up(rows: Iterable[CsvRow], n: int, is_repeated: bool = False) -> list[Implementation]:
    """Return the implementations of rows of `predicted_times` at size `n`, those that repeat.

    Between two sizes of the table, log time is linear in log N.
    """
    by_size: dict[int, dict[tuple[str, str], CsvRow]] = {}
    for row in rows:
        if row["further_s"] or not is_repeated:
            by_size.setdefault(int(row["n"]), {})[row["variant"], row["block_size"]] = row
    known = sorted(by_size)
    place = bisect_left(known, n)
    if place == len(known) or (place == 0 and known[0] != n):
        return []
    high = by_size[known[place]]
    low = high if known[place] == n else by_size[known[place - 1]]
    share = 1.0 if low is high else math.log(n / known[place - 1], known[place] / known[place - 1])
    return [_between(low[key], high[key], share) for key in low if key in high]


def _between(low: CsvRow, high: CsvRow, share: float) -> Implementation:
    """Return the implementation at a share of the way from one row to another in log N."""

    def log_at(name: str) -> float:
        ends = math.log(float(low[name])), math.log(float(high[name]))
        return ends[0] + share * (ends[1] - ends[0])

    def half_width(name: str) -> float:
        low_name, high_name = name.replace("_s", "_low_s"), name.replace("_s", "_high_s")
        ends = [float(row[high_name]) for row in (low, high)]
        if math.inf in ends:
            return math.inf
        lows = (float(row[low_name]) for row in (low, high))
        widths = [math.log(end / least) / 2 for end, least in zip(ends, lows, strict=True)]
        return widths[0] + share * (widths[1] - widths[0])

    def predicted(name: str) -> Prediction:
        return combined({"": math.exp(log_at(name))}, {"": half_width(name)})

    repeats = bool(low["further_s"])
    return Implementation(
        variant=low["variant"],
        block_size=int(low["block_size"]) if low["block_size"] else None,
        first=predicted("time_s"),
        further=predicted("further_s") if repeats else None,
        parts={part: math.exp(log_at(f"{part}_s")) for part in PARTS} if repeats else {},
        least_n=int(low["least_n"]),
        largest_n=int(low["largest_n"]),
        candidates=int(high["candidates"]),
    )


def fastest(rows: Sequence[CsvRow], n: int, products: int = 1) -> Implementation | None:
    """Return the fastest implementation at size `n`; None if no time is predicted.

    Outside the measured sizes it is the fastest at the nearest one: extrapolated times may cross.
    """
    at_n = {(one.variant, one.block_size): one for one in look_up(rows, n, products > 1)}
    if not at_n:
        return None
    least = max(one.least_n for one in at_n.values())
    nearest = min(max(n, least), min(one.largest_n for one in at_n.values()))
    near = {(one.variant, one.block_size): one for one in look_up(rows, nearest, products > 1)}
    common = [key for key in at_n if key in near]
    return at_n[min(common, key=lambda key: near[key].total(products).time_s)] if common else None


def advise(tables: Path, gpu: str, n: int, memory: str, products: int = 1) -> str:
    """Return the answer as text; raise StudyError for an unknown GPU, size or table.

    The time is for an end-to-end run of float32 matrices of size `n`, with host memory of the
    kind `memory` (``pinned`` or ``pageable``). The `products` of a run use the same matrices.
    """
    return "\n".join(_lines(_question(tables, gpu, n, memory, products)))


def answer(tables: Path, gpu: str, n: int, memory: str, products: int = 1) -> dict[str, object]:
    """Return the answer of `advise` for programs: times in s, with their intervals.

    `implementations`: the fastest of this study and of libraries; `break_even`: its table's row.
    The times of a CPU baseline are missing if no time is predicted.
    """
    asked = _question(tables, gpu, n, memory, products)
    on_gpu = asked.on_gpu()
    break_even = _break_even_rows(asked)
    compared: list[dict[str, object]] = []
    for name, rows in asked.baselines.items():
        row: dict[str, object] = {"cpu_baseline": name, "break_even": break_even[name]}
        if one := fastest(rows, n):
            cpu = _repeated(one, products)
            values = ratio(cpu, on_gpu[0].total(products))
            row |= {**_data(cpu, one.name), "extrapolated": not one.covers(n)}
            row["speedup"] = dict(zip(("speedup", "low", "high"), values, strict=True))
        compared.append(row)
    facts = {"gpu": gpu, "gpu_name": asked.gpu["gpu_name"], "n": n, "host_memory": memory}
    named = [_data(one.total(products), one.name) for one in on_gpu]
    results = {"implementations": named, "cpu_baselines": compared}
    return facts | {"products": products} | results


def _data(predicted: Prediction, name: str) -> dict[str, object]:
    times = {"time_s": predicted.time_s, "low_s": predicted.low_s, "high_s": predicted.high_s}
    return {"implementation": name, **times}


def _repeated(one: Implementation, products: int) -> Prediction:
    """Return the time of `products` products on a CPU, where each takes as long as the first."""
    return combined({"": one.first.time_s * products}, {"": one.first.half_width})


def _question(tables: Path, gpu: str, n: int, memory: str, products: int) -> Question:
    """Return the question with its tables; raise StudyError."""
    if products < 1:
        raise StudyError(f"--products {products}: use 1 or more")
    if not 1 <= n <= LARGEST_SIZE:
        raise StudyError(f"--n {n} is not a matrix size of the study; use 1 to {LARGEST_SIZE}")
    read = {name: read_table(tables / f"{name}.csv") for name in TABLES}
    try:
        gpus = {row["gpu"]: row for row in read["predictors"]}
        if not gpus:
            raise ValueError("predictors.csv has no GPU")
        if gpu not in gpus:
            raise StudyError(f"--gpu {gpu!r}: unknown GPU; use one of: {', '.join(gpus) or 'none'}")
        rows = read["predicted_times"]
        known = [row for row in rows if (row["gpu"], row["host_memory"]) == (gpu, memory)]
        is_library = [isinstance(VARIANTS[row["variant"]], Library) for row in known]
        asked = Question(
            gpu=gpus[gpu],
            n=n,
            memory=memory,
            products=products,
            kernels=[row for row, library in zip(known, is_library, strict=True) if not library],
            libraries=[row for row, library in zip(known, is_library, strict=True) if library],
            baselines=cpu_baselines(rows, gpus[gpu]["recording"]),
            tables=read,
        )
        largest = math.isqrt(int(gpus[gpu]["memory_bytes"]) // (3 * ELEMENT_BYTES))
        has_answer = fastest(asked.kernels, min(n, largest), products)
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{tables}: the tables are invalid ({error}); delete them and use {MAKE_REPORT}"
        ) from None
    if not has_answer:
        raise StudyError(
            f"--gpu {gpu!r}: {tables} has no fit for {memory} host memory; record more sizes"
        )
    if n > largest:
        raise StudyError(
            f"--n {n}: three matrices of this size do not fit into the "
            f"{int(gpus[gpu]['memory_bytes']) / 1e9:.3g} GB of {gpu}; use {largest} or less"
        )
    return asked


def read_table(path: Path) -> list[CsvRow]:
    """Return the rows of a CSV table; raise StudyError if it is missing."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except OSError:
        raise StudyError(f"{path} is missing; make it with {MAKE_REPORT}") from None


def _lines(asked: Question) -> Iterator[str]:
    """Yield the lines of the answer."""
    on_gpu, n, products = asked.on_gpu(), asked.n, asked.products
    label = f"{asked.gpu['gpu_name']} ({asked.gpu['gpu']})"
    title = f"{label}, two float32 matrices, N = {n}, {asked.memory} host memory"
    yield title + (f", {products} products of the same matrices" if products > 1 else "")
    yield ""
    for one in on_gpu:
        time = one.total(products)
        copies_s = products == 1 and _copies_s(asked, one)
        over = f", {_three_digits(time.time_s / copies_s)}× {_FLOOR}" if copies_s else ""
        interval = _bounds((time.low_s, time.high_s), _seconds)
        rate = _throughput(n, time, products)
        yield f"{one.name}: {_seconds(time.time_s)} ({interval}), {rate}{over}"
    if on_gpu[0].parts:
        yield f"{on_gpu[0].variant}: {', '.join(_parts(on_gpu[0], products))}"
    if products == 1:
        yield f"{on_gpu[0].candidates} implementations compared, each with its block size"
    yield ""
    yield from _cpu_lines(asked, on_gpu[0])
    yield "Parentheses: 95 % prediction intervals (times, speedups), confidence intervals (sizes)."


def _parts(one: Implementation, products: int) -> Iterator[str]:
    assert one.further
    for part, text in PARTS.items():
        further_s = (products - 1) * one.further.time_s if part == "kernel" else 0.0
        yield f"{text} {_seconds(one.parts[part] + further_s)}"


def _cpu_lines(asked: Question, on_gpu: Implementation) -> Iterator[str]:
    """Yield the table of CPU baselines, and the notes."""
    outside: dict[str, list[str]] = {}  # CPU baselines by their range of measured sizes
    unknown = []
    rows = [("CPU baseline", "fastest", "CPU time", "speedup of the GPU", "GPU faster from")]
    break_even = _break_even_rows(asked)
    for name, own in asked.baselines.items():
        row = break_even[name]
        size = break_even_text(row) if row else "not measured"
        one = fastest(own, asked.n)
        if one is None:
            unknown.append(CPU_BASELINES[name])
            rows.append((CPU_BASELINES[name], "–", "not predicted", "–", size))
            continue
        cpu = _repeated(one, asked.products)
        mark = "" if one.covers(asked.n) else "*"
        value, *ends = ratio(cpu, on_gpu.total(asked.products))
        speedup = f"{_three_digits(value)} ({_bounds(ends, _three_digits)})"
        cells = (one.name, _seconds(cpu.time_s) + mark, speedup + mark, size)
        rows.append((CPU_BASELINES[name], *cells))
        if mark:
            outside.setdefault(_outside(one, asked.n), []).append(CPU_BASELINES[name])
    yield from aligned(rows) if len(rows) > 1 else [_NO_BASELINE]
    yield ""
    yield from _kernel_notes(on_gpu, asked.n)
    for reason, names in outside.items():
        whose = f" ({'; '.join(names)})" if len(outside) > 1 else ""
        yield f"* extrapolated{whose}: {reason}"
    if unknown:
        shortest = _seconds(asked.shortest_s)
        yield f"Not predicted: less than {shortest}, the shortest time measured on the CPU."


def _copies_s(asked: Question, one: Implementation) -> float | None:
    """Return the least time of copies without a product; None outside the measured sizes."""
    key = (asked.gpu["gpu"], asked.memory, str(VARIANTS[one.variant].gpus))
    times: dict[int, float] = {}
    for row in asked.tables["pieces"]:
        size = int(row["n"])
        is_square = row["m"] == row["n"] == row["k"]
        if is_square and key == (row["gpu"], row["host_memory"], row["gpus"]):
            times[size] = min(float(row["copies_s"]), times.get(size, math.inf))
    known = sorted(times)
    if not known or not known[0] <= asked.n <= known[-1]:
        return None
    logs = np.log(known), np.log([times[size] for size in known])
    return math.exp(np.interp(math.log(asked.n), *logs))


def _kernel_notes(one: Implementation, n: int) -> Iterator[str]:
    if not one.covers(n):
        yield f"note: extrapolated: {_outside(one, n)} on the GPU"
    if mode := MODES.get(VARIANTS[one.variant].flow):
        yield f"note: {one.variant} {mode}"
    if square(one.variant, one.block_size, n).is_guarded:
        yield (
            f"note: the tiles of {one.variant} do not divide N = {n}: "
            "the bounds-checked build runs and may be slower"
        )


def _outside(one: Implementation, n: int) -> str:
    if one.least_n == one.largest_n:
        return f"N = {n} differs from the only measured size, N = {one.largest_n}"
    return f"N = {n} is outside the measured sizes, N = {one.least_n} to {one.largest_n}"


def cpu_baselines(rows: Sequence[CsvRow], recording: str) -> dict[str, list[CsvRow]]:
    """Return the rows of a recording's host, in the sequence of `CPU_BASELINES`."""
    own = [row for row in rows if row["recording"] == recording]
    found = {name: [row for row in own if row["cpu_baseline"] == name] for name in CPU_BASELINES}
    return {name: rows for name, rows in found.items() if rows}


def _break_even_rows(asked: Question) -> dict[str, CsvRow | None]:
    """Return the break-even row of a GPU over each CPU baseline; None if not measured."""
    if asked.products > 1:
        gpu_s = cache(lambda n: _least_s(asked.kernels, n, asked.products))
        rows = asked.baselines.items()
        return {name: _break_even_of_products(asked, own, gpu_s) for name, own in rows}
    key = (asked.gpu["gpu"], asked.memory, "study")
    known = {
        row["cpu_baseline"]: row
        for row in asked.tables["break_even"]
        if (row["gpu"], row["host_memory"], row["kernels"]) == key
    }
    return {name: known.get(name) for name in asked.baselines}


def _least_s(rows: Sequence[CsvRow], n: int, products: int) -> float:
    one = fastest(rows, n, products)
    return one.total(products).time_s if one else math.inf


def _break_even_of_products(
    asked: Question, cpu_rows: Sequence[CsvRow], gpu_s: Callable[[int], float]
) -> CsvRow:
    """Return the size from which the predicted time of `products` products is shorter on the GPU.

    The range is measured on both sides. Sizes are compared at 8 per octave, then by bisection.
    """
    sides = [row for row in asked.kernels if row["further_s"]], cpu_rows
    least = max(min(int(row["least_n"]) for row in side) for side in sides)
    largest = min(max(int(row["largest_n"]) for row in side) for side in sides)
    steps = range(math.floor(8 * math.log2(largest / least)) + 1) if least <= largest else ()
    grid = [*(math.floor(least * 2 ** (step / 8)) for step in steps), largest]

    @cache
    def is_slower(n: int) -> bool:
        return gpu_s(n) >= asked.products * _least_s(cpu_rows, n, 1)

    at = next((place for place in range(len(grid) - 1, -1, -1) if is_slower(grid[place])), -1)
    ends = {"least_n": str(least), "largest_n": str(largest), "n": "", "n_low": "", "n_high": ""}
    if at in (-1, len(grid) - 1):
        return ends | {"location": "below" if at < 0 else "above"}
    slower, faster = grid[at : at + 2]
    while faster - slower > 1:
        middle = (slower + faster) // 2
        slower, faster = (middle, faster) if is_slower(middle) else (slower, middle)
    return ends | {"location": "measured", "n": str(faster)}


def break_even_text(row: CsvRow) -> str:
    """Return a row of break_even.csv in words."""
    location, least, largest = (row[name] for name in ("location", "least_n", "largest_n"))
    if location == "below":
        return f"below N = {least}, the smallest size measured"
    if location == "above":
        return f"above N = {largest}, the largest size measured"
    low, high = (float(row[name] or "nan") for name in ("n_low", "n_high"))
    text = f"N = {float(row['n']):.0f}"
    if math.isnan(low) or math.isnan(high):
        return text
    ends = (f"{low:.0f}" if low else f"below {least}"), f"{high:.0f}"
    return f"{text} ({ends[0]} to {ends[1] if high < math.inf else f'above {largest}'})"


def _bounds(ends: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = ends
    return f"{text(low)} to {text(high)}" if high < math.inf else "no interval"


def _seconds(time_s: float) -> str:
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if float(text := f"{time_s * factor:.3g}") < 1000:
            return f"{text} {unit}"
    return f"{time_s:.3g} s" if time_s < 1000 else f"{time_s:.0f} s"


def _throughput(n: int, predicted: Prediction, products: int) -> str:
    flop_per_s = 2.0 * n**3 * products / predicted.time_s
    if flop_per_s >= 1e12:
        return f"{flop_per_s / 1e12:.3g} TFLOP/s"
    return f"{flop_per_s / 1e9:.3g} GFLOP/s"


def _three_digits(value: float) -> str:
    """Return a number with three digits: 0.0123, 184, 33,600."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if 1000 <= value < 1e9 else text
