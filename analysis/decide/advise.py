"""``gemm-study advise``: predicted time, throughput and speedup of products on a GPU.

It looks up the tables of a report (`analysis.decide.questions`) and imports only the catalog, so
that it starts quickly.
"""

import csv
import io
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from analysis.decide.lookup import ALIGNED, ELEMENT_BYTES, PARTS, CsvRow, Prediction, square
from analysis.decide.questions import Answer, ByShape, BySize, Question, Tables, answers
from analysis.decide.surfaces import STREAMED, limits
from base.command_line import aligned
from base.errors import StudyError
from base.paths import MAKE_REPORT
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS
from kernels.catalog.locations import LOCATIONS
from kernels.catalog.variant import AS_GRAPH, IN_PIECES, MAPPED, ON_TWO_GPUS, STAGED
from kernels.products.shape import Shape

TABLES: tuple[str, ...] = ("predictors", "predicted_times", "break_even", "choices", "pieces")
TABLES += ("surfaces", "surface_nodes", "batches", "locations", "location_break_even")
TABLES += ("sustained", "cold_starts", "throughput", "unseen_sessions")
# The parts of a run besides its kernel.
MODES = {
    IN_PIECES: "overlaps copies and kernel, which needs pinned memory and streams",
    STAGED: "copies through pinned buffers, with several threads of the host",
    ON_TWO_GPUS: "uses two GPUs and needs pinned memory",
    AS_GRAPH: "is one launch of a CUDA graph, which must be prepared for this size",
    MAPPED: "reads and writes host memory, which must be pinned",
}
LONGEST_EDGE = 1_000_000  # of a matrix in a question
_FLOOR = "the copies without the product"
BATCHES = (
    "Several products are predicted from batches of the fitted sessions, all in pinned memory; no "
    "other session or location was compared."
)
NO_BREAK_EVEN = "not computed for this baseline and arithmetic"
REVERSED = "In a new process, the CPU is therefore faster, unless its own start takes as long"
_NO_BASELINE = "No CPU baseline has enough measured sizes for a fit."


def advise(tables: Path, asked: Question) -> str:
    """Return the answer as text; raise StudyError for an unknown GPU, size or table."""
    return "\n".join(_lines(asked, *_looked_up(tables, asked)))


def answer(tables: Path, asked: Question) -> dict[str, object]:
    """Return the answer of `advise` for programs: times in s, with their intervals.

    `implementations` has the fastest of this study and of libraries; `break_even` has the row of
    the table break_even. The times of a CPU baseline are missing if no time is predicted.
    """
    found, gpu, _ = _looked_up(tables, asked)
    on_gpu, break_even = found.on_gpu, found.break_even()
    compared: list[dict[str, object]] = []
    for name in found.baselines:
        row: dict[str, object] = {"cpu_baseline": name, "break_even": break_even[name]}
        if cpu := found.on_cpu(name):
            speedup = cpu.time.over(on_gpu[0].time)
            row |= {**_data(cpu), "extrapolated": bool(cpu.extrapolated)}
            values = (speedup.time_s, *speedup.bounds)
            row["speedup"] = dict(zip(("speedup", "low", "high"), values, strict=True))
        compared.append(row)
    shape, run = asked.shape, asked.run
    facts = {"gpu": asked.gpu, "gpu_name": gpu["gpu_name"], "m": shape.m, "n": shape.n}
    facts |= {"k": shape.k, "arithmetic": asked.arithmetic, "host_memory": run.location}
    facts |= {"products": run.products, "independent": run.independent, "streams": run.streams}
    return facts | {"implementations": [_data(one) for one in on_gpu], "cpu_baselines": compared}


def _data(one: Answer) -> dict[str, object]:
    low_s, high_s = one.time.bounds
    times = {"time_s": one.time.time_s, "low_s": low_s, "high_s": high_s}
    return {"implementation": one.name, **times}


def _looked_up(tables: Path, asked: Question) -> tuple[BySize | ByShape, CsvRow, Tables]:
    """Return the answers to a question, the row of its GPU, and all tables; raise StudyError."""
    _check(asked)
    try:
        read = {name: read_table(tables / f"{name}.csv") for name in TABLES}
        gpus = {row["gpu"]: row for row in read["predictors"]}
        if not gpus:
            raise ValueError("predictors.csv has no GPU")
        if asked.gpu not in gpus:
            known = ", ".join(gpus) or "none"
            raise StudyError(f"--gpu {asked.gpu!r}: unknown GPU; use one of: {known}")
        gpu = gpus[asked.gpu]
        found = answers(asked, read, gpu["recording"])
        is_answered = bool(found.on_gpu)
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{tables}: the tables are invalid ({error}); delete them and use {MAKE_REPORT}"
        ) from None
    _check_memory(asked, gpu)
    if not is_answered:
        raise StudyError(
            f"--gpu {asked.gpu!r}: {tables} has no fit for {_what(asked)}; squares in "
            "pinned or pageable memory need several sizes, and make report STUDY=full does the rest"
        )
    return found, gpu, read


def _check(asked: Question) -> None:
    """Raise StudyError if a product as asked cannot exist."""
    run = asked.run
    for name in "nmk":
        if not 1 <= (edge := getattr(asked.shape, name)) <= LONGEST_EDGE:
            raise StudyError(
                f"--{name} {edge} is not a matrix size of the study; use 1 to {LONGEST_EDGE}"
            )
    Shape.parse(str(asked.shape))  # raises StudyError if a matrix has too many elements
    for name, count in (("products", run.products), ("streams", run.streams)):
        if count < 1:
            raise StudyError(f"--{name} {count}: use 1 or more")
    if run.streams > 1 and run.location != STREAMED:
        raise StudyError(f"--streams {run.streams}: copies overlap only from {STREAMED} memory")


def _check_memory(asked: Question, gpu: CsvRow) -> None:
    shape, size = asked.shape, int(gpu["memory_bytes"])
    if ELEMENT_BYTES * (shape.a_elements + shape.b_elements + shape.c_elements) <= size:
        return
    remedy = f"; use {largest_n(gpu)} or less" if shape.is_square else ""
    raise StudyError(
        f"--n {shape.n}: three matrices of this size do not fit into the {size / 1e9:.3g} GB of "
        f"{asked.gpu}{remedy}"
    )


def _what(asked: Question) -> str:
    """Return the product of the question in words, for a message that tables lack it."""
    shape = "" if asked.shape.is_square else "this shape and "
    return f"{shape}{LOCATIONS[asked.run.location].title}"


def read_table(path: Path) -> list[CsvRow]:
    """Return the rows of a CSV table; raise StudyError without it, ValueError if it is damaged."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise StudyError(f"{path} is missing; make it with {MAKE_REPORT}") from None
    if not text.endswith("\n"):
        raise ValueError(f"{path.name} is truncated")
    return list(csv.DictReader(io.StringIO(text)))


def largest_n(gpu: CsvRow) -> int:
    """Return the largest size at which three matrices fit into the memory of a GPU."""
    return math.isqrt(int(gpu["memory_bytes"]) // (3 * ELEMENT_BYTES))


def _lines(asked: Question, found: BySize | ByShape, gpu: CsvRow, tables: Tables) -> Iterator[str]:
    """Yield the lines that answer the question."""
    on_gpu, shape, products = found.on_gpu, asked.shape, asked.run.products
    size = f"N = {shape.n}" if shape.is_square else f"M×K×N = {shape.m}×{shape.k}×{shape.n}"
    label, place = f"{gpu['gpu_name']} ({asked.gpu})", LOCATIONS[asked.run.location].title
    yield f"{label}, two float32 matrices, {size}, {place}{asked.products}"
    yield ""
    for one in on_gpu:
        copies_s = asked.is_simple and _copies_s(asked, one, tables)
        over = f", {_three_digits(one.time.time_s / copies_s)}× {_FLOOR}" if copies_s else ""
        interval, rate = _bounds(one.time, _seconds), _throughput(shape.flop * products, one.time)
        most = "at most " * one.is_bound
        yield f"{one.name}: {most}{_seconds(one.time.time_s)} ({interval}), {rate}{over}"
    if parts := on_gpu[0].parts:
        shown = (f"{text} {_seconds(parts[part])}" for part, text in PARTS.items())
        yield f"{on_gpu[0].variant}: {', '.join(shown)}"
    if asked.is_simple:
        yield f"{on_gpu[0].candidates} implementations compared, each with its block size"
    yield ""
    yield from _cpu_lines(asked, found)
    yield from (f"note: {text}" for text in _notes(asked, found, tables))
    yield (
        "Parentheses: 95 % prediction intervals, but confidence intervals at measured sizes and of "
        "break-even sizes."
    )


def _cpu_lines(asked: Question, found: BySize | ByShape) -> Iterator[str]:
    """Yield the lines with the times of CPU baselines, and the notes."""
    outside: dict[str, list[str]] = {}  # the extrapolated CPU baselines, by reason
    rows = [("CPU baseline", "fastest", "CPU time", "speedup of the GPU", "GPU faster from")]
    on_gpu = found.on_gpu[0]
    for baseline, row in found.break_even().items():
        title = CPU_BASELINES[baseline]
        edge = "N" if asked.shape.is_square else "longest edge"
        is_bound = on_gpu.is_bound or (row is not None and is_elsewhere(row, asked.run.location))
        size = break_even_text(row, edge, is_bound) if row else NO_BREAK_EVEN
        cpu = found.on_cpu(baseline)
        if cpu is None:
            rows.append((title, "–", "not predicted", "–", size))
            continue
        mark = "*" if cpu.extrapolated else ""
        ratio = cpu.time.over(on_gpu.time)
        speedup = "at least " * on_gpu.is_bound + _three_digits(ratio.time_s)
        speedup += f" ({_bounds(ratio, _three_digits)})"
        rows.append((title, cpu.name, _seconds(cpu.time.time_s) + mark, speedup + mark, size))
        if cpu.extrapolated:
            outside.setdefault(cpu.extrapolated, []).append(title)
    yield from aligned(rows) if len(rows) > 1 else [_NO_BASELINE]
    yield ""
    yield from _kernel_notes(on_gpu, asked)
    for reason, names in outside.items():
        whose = f" ({'; '.join(names)})" if len(outside) > 1 else ""
        yield f"* extrapolated{whose}: {reason}"
    if any("not predicted" in row for row in rows):
        yield (
            f"Not predicted: less than {_seconds(found.shortest_s)}, the shortest time measured on "
            "the CPU."
        )


def _notes(asked: Question, found: BySize | ByShape, tables: Tables) -> Iterator[str]:
    """Yield notes on what the predicted times do not include, and how sure they are."""
    one, of_gpu = found.on_gpu[0], notes_of(tables, asked.gpu)
    if one.is_bound:
        yield (
            "this run copies more than asked for, or launches as slowly as one with copies; "
            "parentheses give intervals of its bounds"
        )
    if isinstance(found, BySize):
        yield from found.later
    elif asked.run.products > 1 and not one.is_measured:
        yield BATCHES
    elif asked.run.location in of_gpu["unseen"] and not (one.is_measured or one.extrapolated):
        yield of_gpu["unseen"][asked.run.location]
    if asked.shape.is_square and limits(tables, asked.gpu)[False].is_unaligned(asked.shape.n):
        yield of_gpu["unaligned"]
    if of_gpu["start"]:
        yield of_gpu["start"]
        in_process_s = one.time.time_s + of_gpu["start_s"]
        cpus = {name: cpu.time.time_s for name in found.baselines if (cpu := found.on_cpu(name))}
        faster = [n for n, cpu_s in cpus.items() if one.time.time_s < cpu_s < in_process_s]
        if faster:
            yield f"{REVERSED} ({'; '.join(CPU_BASELINES[name] for name in faster)})."


def notes_of(tables: Tables, gpu: str) -> dict[str, Any]:
    """Return notes on a GPU's predictions, which the page shows too.

    "start": the time of a process's start, which is "start_s"; "unaligned": sizes that are not
    multiples of 4; "unseen", by location: a test on other sessions. A note without data is blank.
    """
    starts, unseen = (
        [row for row in tables[name] if row["gpu"] == gpu]
        for name in ("cold_starts", "unseen_sessions")
    )
    starts = [row for row in starts if row["part"] == "total"]
    longest = max(starts, key=lambda row: float(row["time_s"]), default=None)
    notes: dict[str, Any] = {"start": "", "start_s": 0.0, "unseen": {}}
    if longest:
        notes["start_s"] = time_s = float(longest["time_s"])
        of = f"{longest['variant']}, N = {longest['n']}"
        notes["start"] = f"Starting a process adds about {_seconds(time_s)} (measured with {of})."
    for row in unseen:
        inside, error = (100 * float(row[name]) for name in ("inside_share", "median_error"))
        notes["unseen"][row["host_memory"]] = (
            "Predicted from measured shapes. When the last session was predicted from the others, "
            f"{inside:.0f} % of its {row['cells']} runs at this data location were inside their "
            f"intervals; the median error was {error:.0f} %."
        )
    limit = limits(tables, gpu)[False]
    sizes, factor = sorted(limit.unaligned), math.exp(limit.unaligned_half_width)
    notes["unaligned"] = f"N is not a multiple of {ALIGNED}, so loads cannot be aligned. " + (
        f"Of such sizes, only {' and '.join(map(str, sizes))} were measured, where kernel times "
        f"differ by up to {_three_digits(factor)}× from predicted ones. The interval includes this."
        if sizes
        else "No such size was measured, so the time may be longer than the interval says."
    )
    return notes


def _copies_s(asked: Question, one: Answer, tables: Tables) -> float | None:
    """Return the least time of the copies alone; None outside the measured sizes."""
    key, n = (asked.gpu, asked.run.location, str(VARIANTS[one.variant].gpus)), asked.shape.n
    times: dict[int, float] = {}
    for row in tables["pieces"]:
        size = int(row["n"])
        is_square = row["m"] == row["n"] == row["k"]
        if is_square and key == (row["gpu"], row["host_memory"], row["gpus"]):
            times[size] = min(float(row["copies_s"]), times.get(size, math.inf))
    sizes = sorted(times)
    if not sizes or not sizes[0] <= n <= sizes[-1]:
        return None
    high = sizes[bisect_left(sizes, n)]
    low = sizes[bisect_right(sizes, n) - 1]
    share = math.log(n / low, high / low) if high > low else 0.0
    return times[low] ** (1 - share) * times[high] ** share


def _kernel_notes(one: Answer, asked: Question) -> Iterator[str]:
    n = asked.shape.n
    if one.extrapolated:
        yield f"note: extrapolated: {one.extrapolated} on the GPU, at most at sustained speed"
    if mode := MODES.get(VARIANTS[one.variant].flow):
        yield f"note: {one.variant} {mode}"
    if asked.is_simple and square(one.variant, one.block_size, n).is_guarded:
        yield (
            f"note: the tiles of {one.variant} do not divide N = {n}: "
            "the bounds-checked build runs and may be slower"
        )


def is_elsewhere(row: CsvRow, asked: str) -> bool:
    """Return whether a break-even row is of another location than asked, which copies more."""
    return row.get("host_memory", asked) != asked


def break_even_text(row: CsvRow, name: str = "N", is_bound: bool = False) -> str:
    """Return a row of break_even.csv in words; `name` is the name of the size.

    `is_bound`: the row is of runs that copy more than asked, so the size is an upper bound.
    """
    location, least, largest = (row[name] for name in ("location", "least_n", "largest_n"))
    if location == "below":
        return f"below {name} = {least}, the smallest size measured"
    if location == "above":
        return f"none up to {name} = {largest}, the largest size measured"
    low, high = (float(row[name] or "nan") for name in ("n_low", "n_high"))
    text = f"{'at most ' * is_bound}{name} = {float(row['n']):.0f}"
    if math.isnan(low) or math.isnan(high):
        return text
    ends = (f"{low:.0f}" if low else f"below {least}"), f"{high:.0f}"
    return f"{text} ({ends[0]} to {ends[1] if high < math.inf else f'above {largest}'})"


def _bounds(predicted: Prediction, text: Callable[[float], str]) -> str:
    low, high = predicted.bounds
    if low == predicted.time_s:  # the least time possible
        return f"at most {text(high)}"
    return f"{text(low)} to {text(high)}" if high < math.inf else "no interval"


def _seconds(time_s: float) -> str:
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if float(text := f"{time_s * factor:.3g}") < 1000:
            return f"{text} {unit}"
    return f"{time_s:.3g} s" if time_s < 1000 else f"{time_s:.0f} s"


def _throughput(flop: int, predicted: Prediction) -> str:
    flop_per_s = flop / predicted.time_s
    if flop_per_s >= 1e12:
        return f"{flop_per_s / 1e12:.3g} TFLOP/s"
    return f"{flop_per_s / 1e9:.3g} GFLOP/s"


def _three_digits(value: float) -> str:
    """Return a number as text with three significant digits: 0.0123, 184, 33,600."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if 1000 <= value < 1e9 else text
