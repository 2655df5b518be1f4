"""``python -m analysis advise``: predicted time, throughput and speedup of one product on a GPU.

It reads the CSV tables of a report and imports only numpy, so that it starts quickly.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from analysis.decide.predictors import (
    ELEMENT_BYTES,
    CsvRow,
    Curve,
    Kernel,
    Prediction,
    Predictor,
    combined,
    curves,
    on_curve,
    predictor,
    ratio,
    sizes,
    within_reach,
)
from base.command_line import aligned
from base.errors import StudyError
from base.paths import MAKE_REPORT
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import AS_GRAPH, IN_PIECES, MAPPED, ON_TWO_GPUS, STAGED
from kernels.products.shape import LARGEST_SIZE

TABLES = ("predictors", "transfers", "curves", "break_even", "pieces")
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
Implementation = tuple[str, Curve]  # on the CPU: its name, and the curve of its times
Baselines = Mapping[str, Sequence[Implementation]]
Tables = Mapping[str, Sequence[CsvRow]]


def advise(tables: Path, gpu: str, n: int, memory: str, products: int = 1) -> str:
    """Return the answer as text; raise StudyError for an unknown GPU, size or table.

    The time is for an end-to-end run of float32 matrices of size `n`, with host memory of the
    kind `memory` (``pinned`` or ``pageable``). The `products` of a run use the same matrices.
    """
    found, baselines, read = _inputs(tables, gpu, n, memory, products)
    return "\n".join(_lines(found, baselines, read, n, memory, products))


def answer(tables: Path, gpu: str, n: int, memory: str, products: int = 1) -> dict[str, object]:
    """Return the answer of `advise` for programs: times in s, with their intervals.

    `implementations`: the fastest of this study and of libraries; `break_even`: its table's row.
    """
    found, baselines, read = _inputs(tables, gpu, n, memory, products)
    fastest = [pair for lib in (False, True) if (pair := found.fastest(n, lib, products))]
    named = [_data(predicted, kernel.name) for kernel, predicted in fastest]
    floor_s = _floor_s(baselines)
    break_even = _break_even_rows(found, baselines, read["break_even"], memory, products)
    compared = []
    for name, own in baselines.items():
        implementation, curve, cpu = on_cpu(own, n, floor_s, products)
        speedup = dict(zip(("speedup", "low", "high"), ratio(cpu, fastest[0][1]), strict=True))
        compared.append(
            {"cpu_baseline": name, **_data(cpu, implementation), "speedup": speedup}
            | {"extrapolated": not curve.covers(n), "break_even": break_even[name]}
        )
    facts = {"gpu": gpu, "gpu_name": found.name, "n": n, "host_memory": memory}
    results = {"implementations": named, "cpu_baselines": compared}
    return facts | {"products": products} | results


def _data(predicted: Prediction, name: str) -> dict[str, object]:
    times = {"time_s": predicted.time_s, "low_s": predicted.low_s, "high_s": predicted.high_s}
    return {"implementation": name, **times}


def _inputs(
    tables: Path, gpu: str, n: int, memory: str, products: int
) -> tuple[Predictor, dict[str, list[Implementation]], Tables]:
    """Return predictor, CPU baselines and tables; raise StudyError."""
    if products < 1:
        raise StudyError(f"--products {products}: use 1 or more")
    if not 1 <= n <= LARGEST_SIZE:
        raise StudyError(f"--n {n} is not a matrix size of the study; use 1 to {LARGEST_SIZE}")
    read = {name: read_table(tables / f"{name}.csv") for name in TABLES}
    try:
        gpus = [row["gpu"] for row in read["predictors"]]
        if gpu not in gpus:
            raise StudyError(f"--gpu {gpu!r}: unknown GPU; use one of: {', '.join(gpus) or 'none'}")
        found = predictor(gpu, memory, read["predictors"], read["transfers"], read["curves"])
        baselines = cpu_baselines(read, gpu)
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{tables}: the tables are invalid ({error}); write them again with {MAKE_REPORT}"
        ) from None
    if found is None or not found.fastest(n, False, products):
        raise StudyError(
            f"--gpu {gpu!r}: {tables} has no fit for {memory} host memory; record more sizes"
        )
    largest = math.isqrt(found.memory_bytes // (3 * ELEMENT_BYTES))
    if n > largest:
        raise StudyError(
            f"--n {n}: three matrices of this size do not fit into the "
            f"{found.memory_bytes / 1e9:.3g} GB of {gpu}; use {largest} or less"
        )
    return found, baselines, read


def read_table(path: Path) -> list[CsvRow]:
    """Return the rows of a CSV table; raise StudyError if it is missing."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except OSError:
        raise StudyError(f"{path} is missing; make it with {MAKE_REPORT}") from None


def _lines(
    found: Predictor, baselines: Baselines, read: Tables, n: int, memory: str, products: int
) -> Iterator[str]:
    """Yield the lines of the answer."""
    fastest = [pair for lib in (False, True) if (pair := found.fastest(n, lib, products))]
    kernel, predicted = fastest[0]
    title = f"{found.name} ({found.label}), two float32 matrices, N = {n}, {memory} host memory"
    yield title + (f", {products} products of the same matrices" if products > 1 else "")
    yield ""
    for candidate, time in fastest:
        copies_s = products == 1 and _copies_s(read["pieces"], found.label, candidate, n, memory)
        over = f", {_three_digits(time.time_s / copies_s)}× {_FLOOR}" if copies_s else ""
        interval = _bounds((time.low_s, time.high_s), _seconds)
        rate = _throughput(n, time, products)
        yield f"{candidate.name}: {_seconds(time.time_s)} ({interval}), {rate}{over}"
    if split := found.split(kernel, n, products):
        parts = (f"{text} {_seconds(split[part])}" for part, text in PARTS.items())
        yield f"{kernel.variant}: {', '.join(parts)}"
    yield f"{len(found.candidates(n, products))} implementations compared, each with its block size"
    yield ""
    outside: dict[str, list[str]] = {}  # CPU baselines by their range of measured sizes
    rows = [("CPU baseline", "fastest", "CPU time", "speedup of the GPU", "GPU faster from")]
    floor_s = _floor_s(baselines)
    break_even = _break_even_rows(found, baselines, read["break_even"], memory, products)
    for name, own in baselines.items():
        implementation, curve, cpu = on_cpu(own, n, floor_s, products)
        mark = "" if curve.covers(n) else "*"
        value, *ends = ratio(cpu, predicted)
        speedup = f"{_three_digits(value)} ({_bounds(ends, _three_digits)})"
        row = break_even[name]
        size = break_even_text(row) if row else "not measured"
        cells = (implementation, _seconds(cpu.time_s) + mark, speedup + mark, size)
        rows.append((CPU_BASELINES[name], *cells))
        if mark:
            outside.setdefault(_outside(curve, n), []).append(CPU_BASELINES[name])
    yield from (
        aligned(rows) if baselines else ["No CPU baseline has enough measured sizes for a fit."]
    )
    yield ""
    yield from _kernel_notes(kernel, n)
    for reason, names in outside.items():
        whose = f" ({'; '.join(names)})" if len(outside) > 1 else ""
        yield f"* extrapolated{whose}: {reason}"
    if outside:
        yield f"No CPU time is predicted below {_seconds(floor_s)}, the shortest time measured."
    yield "Parentheses: 95 % prediction intervals (times, speedups), confidence intervals (sizes)."


def _floor_s(baselines: Baselines) -> float:
    """Return the shortest time measured on the CPU; no shorter time is predicted."""
    every = [curve for own in baselines.values() for _, curve in own]
    return min((math.exp(curve.log_s.min()) for curve in every), default=0.0)


def _copies_s(
    rows: Sequence[CsvRow], label: str, kernel: Kernel, n: int, memory: str
) -> float | None:
    """Return the least time of copies without a product; None outside the measured sizes."""
    key = (label, memory, str(VARIANTS[kernel.variant].gpus))
    times: dict[int, float] = {}
    for row in rows:
        size = int(row["n"])
        is_square = row["m"] == row["n"] == row["k"]
        if is_square and key == (row["gpu"], row["host_memory"], row["gpus"]):
            times[size] = min(float(row["copies_s"]), times.get(size, math.inf))
    known = sorted(times)
    if not known or not known[0] <= n <= known[-1]:
        return None
    logs = np.log(known), np.log([times[size] for size in known])
    return math.exp(np.interp(math.log(n), *logs))


def _kernel_notes(kernel: Kernel, n: int) -> Iterator[str]:
    measured = kernel.runs or kernel.curve
    assert measured
    if not measured.covers(n):
        yield f"note: extrapolated: {_outside(measured, n)} on the GPU"
    if mode := MODES.get(VARIANTS[kernel.variant].flow):
        yield f"note: {kernel.variant} {mode}"
    if not kernel.divides(n):
        yield (
            f"note: the tiles of {kernel.variant} do not divide N = {n}: "
            "the bounds-checked build runs and may be slower"
        )


def _outside(curve: Curve, n: int) -> str:
    least, most = (round(math.exp(curve.log_n[end])) for end in (0, -1))
    if least == most:
        return f"N = {n} differs from the only measured size, N = {most}"
    return f"N = {n} is outside the measured sizes, N = {least} to {most}"


def cpu_baselines(read: Tables, label: str) -> dict[str, list[Implementation]]:
    """Return the implementations on a GPU's host, in the sequence of `CPU_BASELINES`."""
    recording = next(row["recording"] for row in read["predictors"] if row["gpu"] == label)
    own = [row for row in read["curves"] if row["cpu_baseline"] and row["recording"] == recording]
    found: dict[str, list[Implementation]] = {}
    for first, curve in curves(own):
        block = f" (B = {first['block_size']})" if first["block_size"] else ""
        name = f"{first['variant']}{block}"
        found.setdefault(first["cpu_baseline"], []).append((name, curve))
    return {name: found[name] for name in CPU_BASELINES if name in found}


def on_cpu(
    implementations: Sequence[Implementation], n: int, floor_s: float, products: int = 1
) -> tuple[str, Curve, Prediction]:
    """Return the fastest implementation on the CPU, its curve, and the time of `products` products.

    A product takes at least `floor_s`.
    """
    known = within_reach([sizes(curve) for _, curve in implementations], n)
    chosen = [(*implementations[at], on_curve(implementations[at][1], n)) for at in known]
    name, curve, _ = min(chosen, key=lambda each: each[2].time_s)
    one = on_curve(curve, n, floor_s)
    return name, curve, combined({"product": one.time_s * products}, {"product": one.half_width})


def _break_even_rows(
    found: Predictor, baselines: Baselines, rows: Sequence[CsvRow], memory: str, products: int
) -> dict[str, CsvRow | None]:
    """Return the break-even row of a GPU over each CPU baseline; None if not measured."""

    @cache
    def gpu_s(size: int) -> float:
        least = found.fastest(size, False, products)
        return least[1].time_s if least else math.inf

    if products > 1:
        return {
            name: _break_even_of_products(found, own, products, gpu_s)
            for name, own in baselines.items()
        }
    key = (found.label, memory, "study")
    known = {
        row["cpu_baseline"]: row
        for row in rows
        if (row["gpu"], row["host_memory"], row["kernels"]) == key
    }
    return {name: known.get(name) for name in baselines}


def _break_even_of_products(
    found: Predictor, own: Sequence[Implementation], products: int, gpu_s: Callable[[int], float]
) -> CsvRow:
    """Return the size from which the predicted time of `products` products is shorter on the GPU.

    The range is measured on both sides. Sizes are compared at 8 per octave, then by bisection.
    """
    ranges = [kernel.sizes for kernel in found.kernels if kernel.again and not kernel.is_library]
    sides = ranges, [sizes(curve) for _, curve in own]
    least = max(min(low for low, _ in side) for side in sides)
    largest = min(max(high for _, high in side) for side in sides)
    steps = range(math.floor(8 * math.log2(largest / least)) + 1) if least <= largest else ()
    grid = [*(math.floor(least * 2 ** (step / 8)) for step in steps), largest]

    def is_slower(n: int) -> bool:
        return gpu_s(n) >= on_cpu(own, n, 0.0, products)[2].time_s

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
