"""``gemm-study advise``: predicted time, throughput and speedup of one product on a GPU.

It looks up the tables of a report (`analysis.decide.lookup`) and imports only the catalog, so that
it starts quickly.
"""

import csv
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from analysis.decide.lookup import (
    ELEMENT_BYTES,
    PARTS,
    CsvRow,
    Implementation,
    Prediction,
    Rows,
    square,
)
from base.command_line import aligned
from base.errors import StudyError
from base.paths import MAKE_REPORT
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import AS_GRAPH, IN_PIECES, MAPPED, ON_TWO_GPUS, STAGED, Library
from kernels.products.shape import LARGEST_SIZE

TABLES = ("predictors", "predicted_times", "break_even", "pieces")
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
class Question:
    """What is asked, and the rows of `predicted_times` that answer it.

    `kernels` are those of this study, `libraries` those of libraries; `baselines` are the rows of
    the GPU's host by CPU baseline.
    """

    gpu: CsvRow
    n: int
    memory: str
    products: int
    kernels: Rows
    libraries: Rows
    baselines: Mapping[str, Rows]
    tables: Tables

    def on_gpu(self) -> list[Implementation]:
        """Return the fastest implementation of this study, and that of a library."""
        sides = (self.kernels, self.libraries)
        return [one for rows in sides if (one := rows.fastest(self.n, self.products))]

    def on_cpu(self, baseline: str, n: int) -> tuple[Implementation, Prediction] | None:
        """Return the fastest implementation at size `n` and the time of the products."""
        one = self.baselines[baseline].fastest(n)
        return (one, one.first.times(self.products)) if one else None


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
    for name in asked.baselines:
        row: dict[str, object] = {"cpu_baseline": name, "break_even": break_even[name]}
        if found := asked.on_cpu(name, n):
            one, cpu = found
            speedup = cpu.over(on_gpu[0].total(products))
            row |= {**_data(cpu, one.name), "extrapolated": not one.covers(n)}
            values = (speedup.time_s, *speedup.bounds)
            row["speedup"] = dict(zip(("speedup", "low", "high"), values, strict=True))
        compared.append(row)
    facts = {"gpu": gpu, "gpu_name": asked.gpu["gpu_name"], "n": n, "host_memory": memory}
    named = [_data(one.total(products), one.name) for one in on_gpu]
    results = {"implementations": named, "cpu_baselines": compared}
    return facts | {"products": products} | results


def _data(predicted: Prediction, name: str) -> dict[str, object]:
    low_s, high_s = predicted.bounds
    return {"implementation": name, "time_s": predicted.time_s, "low_s": low_s, "high_s": high_s}


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
        sides: tuple[list[CsvRow], list[CsvRow]] = ([], [])
        for row in rows:
            if (row["gpu"], row["host_memory"]) == (gpu, memory):
                sides[isinstance(VARIANTS[row["variant"]], Library)].append(row)
        kernels, libraries = (Rows(side, products > 1) for side in sides)
        baselines = _cpu_baselines(rows, gpus[gpu]["recording"])
        asked = Question(gpus[gpu], n, memory, products, kernels, libraries, baselines, read)
        largest = largest_n(gpus[gpu])
        has_answer = kernels.fastest(min(n, largest), products)
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


def largest_n(gpu: CsvRow) -> int:
    """Return the largest size of which three matrices fit into the memory of a GPU."""
    return math.isqrt(int(gpu["memory_bytes"]) // (3 * ELEMENT_BYTES))


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
        interval, rate = _bounds(time, _seconds), _throughput(n, time, products)
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
    rows = [("CPU baseline", "fastest", "CPU time", "speedup of the GPU", "GPU faster from")]
    for baseline, row in _break_even_rows(asked).items():
        title, size = CPU_BASELINES[baseline], break_even_text(row) if row else "not measured"
        found = asked.on_cpu(baseline, asked.n)
        if found is None:
            rows.append((title, "–", "not predicted", "–", size))
            continue
        one, cpu = found
        mark = "" if one.covers(asked.n) else "*"
        ratio = cpu.over(on_gpu.total(asked.products))
        speedup = f"{_three_digits(ratio.time_s)} ({_bounds(ratio, _three_digits)})"
        rows.append((title, one.name, _seconds(cpu.time_s) + mark, speedup + mark, size))
        if mark:
            outside.setdefault(_outside(one, asked.n), []).append(title)
    yield from aligned(rows) if len(rows) > 1 else [_NO_BASELINE]
    yield ""
    yield from _kernel_notes(on_gpu, asked.n)
    for reason, names in outside.items():
        whose = f" ({'; '.join(names)})" if len(outside) > 1 else ""
        yield f"* extrapolated{whose}: {reason}"
    if any("not predicted" in row for row in rows):
        shortest_s = min(one.shortest_s for one in asked.baselines.values())
        yield (
            f"Not predicted: less than {_seconds(shortest_s)}, the shortest time measured on "
            "the CPU."
        )


def _copies_s(asked: Question, one: Implementation) -> float | None:
    """Return the least time of copies without a product; None outside the measured sizes."""
    key = (asked.gpu["gpu"], asked.memory, str(VARIANTS[one.variant].gpus))
    times: dict[int, float] = {}
    for row in asked.tables["pieces"]:
        size = int(row["n"])
        is_square = row["m"] == row["n"] == row["k"]
        if is_square and key == (row["gpu"], row["host_memory"], row["gpus"]):
            times[size] = min(float(row["copies_s"]), times.get(size, math.inf))
    sizes = sorted(times)
    if not sizes or not sizes[0] <= asked.n <= sizes[-1]:
        return None
    high = sizes[bisect_left(sizes, asked.n)]
    low = sizes[bisect_right(sizes, asked.n) - 1]
    share = math.log(asked.n / low, high / low) if high > low else 0.0
    return times[low] ** (1 - share) * times[high] ** share


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


def _cpu_baselines(rows: Sequence[CsvRow], recording: str) -> dict[str, Rows]:
    """Return the rows of a recording's host, in the sequence of `CPU_BASELINES`."""
    on_host = [row for row in rows if row["recording"] == recording]
    sides = {
        name: [row for row in on_host if row["cpu_baseline"] == name] for name in CPU_BASELINES
    }
    return {name: Rows(side) for name, side in sides.items() if side}


def _break_even_rows(asked: Question) -> dict[str, CsvRow | None]:
    """Return the break-even row of a GPU over each CPU baseline; None if not measured."""
    if asked.products > 1:
        gpu_s = cache(lambda n: _least_s(asked.kernels, n, asked.products))
        return {name: _break_even_of_products(asked, name, gpu_s) for name in asked.baselines}
    key = (asked.gpu["gpu"], asked.memory, "study")
    known = {
        row["cpu_baseline"]: row
        for row in asked.tables["break_even"]
        if (row["gpu"], row["host_memory"], row["kernels"]) == key
    }
    return {name: known.get(name) for name in asked.baselines}


def _least_s(rows: Rows, n: int, products: int = 1) -> float:
    one = rows.fastest(n, products)
    return one.total(products).time_s if one else math.inf


def _break_even_of_products(
    asked: Question, baseline: str, gpu_s: Callable[[int], float]
) -> CsvRow:
    """Return the size from which the predicted time of the products is shorter on the GPU.

    The range is measured on both sides.
    """
    on_cpu = asked.baselines[baseline]
    (least, largest), others = asked.kernels.measured, on_cpu.measured
    least, largest = max(least, others[0]), min(largest, others[1])
    sizes = range(largest, least - 1, -1)
    slower = (n for n in sizes if gpu_s(n) >= asked.products * _least_s(on_cpu, n))
    n = next(slower, 0)
    ends = {"least_n": str(least), "largest_n": str(largest), "n": "", "n_low": "", "n_high": ""}
    if n in (0, largest):
        return ends | {"location": "above" if n else "below"}
    return ends | {"location": "measured", "n": str(n + 1)}


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


def _bounds(predicted: Prediction, text: Callable[[float], str]) -> str:
    low, high = predicted.bounds
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
