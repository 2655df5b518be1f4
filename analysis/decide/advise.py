"""``python -m analysis advise``: what multiplying two matrices of one order takes, and on what.

It reads the tables that the workflow wrote, and needs numpy alone, so that it answers at once.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from analysis.decide.predictors import (
    ELEMENT_BYTES,
    Curve,
    Kernel,
    Prediction,
    Predictor,
    Row,
    combined,
    curves,
    predictor,
    ratio,
)
from base.command_line import aligned
from base.errors import StudyError

TABLES = ("predictors", "transfers", "curves", "break_even")
CPU_BASELINES = {
    "naive": "naive loop, one thread",
    "own": "fastest of this study, one thread",
    "own_all": "fastest of this study, all threads",
    "blas": "BLAS, one thread",
    "blas_all": "BLAS, all threads",
    "best": "fastest of all",
}
Tables = Mapping[str, Sequence[Row]]


def advise(tables: Path, gpu: str, n: int, memory: str) -> str:
    """Return the answer as text; raises StudyError for a GPU, order or table that there is not.

    The time is that of a whole run of float32 matrices of order `n` from and to host memory of
    the kind `memory`, ``pinned`` or ``pageable``.
    """
    if n < 1:
        raise StudyError(f"--n {n}: matrices have an order of at least 1; name another")
    read = {name: _read(tables / f"{name}.csv") for name in TABLES}
    try:
        known = [row["gpu"] for row in read["predictors"]]
        if gpu not in known:
            raise StudyError(f"--gpu {gpu!r}: is not known; there are {', '.join(known) or 'none'}")
        found = predictor(gpu, memory, read["predictors"], read["transfers"], read["curves"])
        cpu_baselines = _cpu_baselines(read, gpu)
    except (KeyError, ValueError) as error:
        raise StudyError(f"{tables}: holds no such tables ({error}); `make report` does") from None
    if found is None or not found.candidates(n):
        raise StudyError(
            f"--gpu {gpu!r}: has no fit with {memory} host memory in {tables}: too little was "
            "measured on it"
        )
    largest = math.isqrt(found.memory_bytes // (3 * ELEMENT_BYTES))
    if n > largest:
        raise StudyError(
            f"--n {n}: three such matrices do not fit into the {found.memory_bytes / 1e9:.3g} GB "
            f"of {gpu}; the largest have order {largest}"
        )
    return "\n".join(_lines(found, cpu_baselines, read["break_even"], n, memory))


def _read(path: Path) -> list[Row]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except OSError:
        raise StudyError(f"{path} is missing; make it with `make report`") from None


def _lines(
    found: Predictor,
    cpu_baselines: Sequence[tuple[str, Curve]],
    crossings: Sequence[Row],
    n: int,
    memory: str,
) -> Iterator[str]:
    """Yield the lines of the answer; `crossings` are the rows of break_even.csv."""
    fastest = [found.fastest(n, library) for library in (False, True)]
    kernel, predicted = next(pair for pair in fastest if pair)
    yield f"{found.name} ({found.label}), two float32 matrices of order {n}, {memory} host memory"
    yield ""
    for place, (one, time) in enumerate(pair for pair in fastest if pair):
        yield f"{one.name}: {_time(time)}, {_rate(n, time)}"
        if not place:
            yield "  " + ", ".join(
                f"{text} {_seconds(time.parts[part])}" for part, text in _PARTS.items()
            )
    yield ""
    notes = list(_kernel_notes(kernel, n))
    outside: dict[str, list[str]] = {}  # names of what was measured in the same orders
    rows = [("on the CPU", "takes", "the GPU's speedup", "the GPU is faster from")]
    for name, curve in cpu_baselines:
        cpu = _on_cpu(curve, n)
        mark = "" if curve.measures(n) else "*"
        value, *ends = ratio(cpu, predicted)
        speedup = f"{_three_digits(value)} ({_bounds(ends, _three_digits)})"
        break_even = _break_even(crossings, found.label, memory, name)
        rows.append((CPU_BASELINES[name], _seconds(cpu.time_s) + mark, speedup + mark, break_even))
        if mark:
            outside.setdefault(_outside(curve, n), []).append(CPU_BASELINES[name])
    yield from (
        aligned(rows) if cpu_baselines else ["Of the CPU of its host too little was measured."]
    )
    yield ""
    yield from notes
    for orders, names in outside.items():
        told = f" ({'; '.join(names)})" if len(outside) > 1 else ""
        yield f"* extrapolated{told}: {orders}"
    yield "In brackets: 95 % intervals, of what a median would be, and of the order."


_PARTS = {"h2d": "copies in", "kernel": "kernel", "d2h": "copy back", "overhead": "overhead"}


def _kernel_notes(kernel: Kernel, n: int) -> Iterator[str]:
    if not kernel.curve.measures(n):
        yield f"note: extrapolated: {_outside(kernel.curve, n)} on the GPU"
    if not kernel.divides(n):
        yield (
            f"note: the tiles of {kernel.variant} do not divide N = {n}: a build with bounds "
            "checks runs then, which may take longer"
        )


def _outside(curve: Curve, n: int) -> str:
    least, most = (round(math.exp(curve.log_n[end])) for end in (0, -1))
    if least == most:
        return f"N = {n} is not {most}, the one order that was measured"
    return f"N = {n} is outside of the orders {least} to {most} that were measured"


def _cpu_baselines(read: Tables, label: str) -> list[tuple[str, Curve]]:
    """Return the curves of the CPU of a GPU's host, in the order of `OPPONENTS`."""
    recording = next(row["recording"] for row in read["predictors"] if row["gpu"] == label)
    own = [row for row in read["curves"] if row["cpu_baseline"] and row["recording"] == recording]
    found = {first["cpu_baseline"]: curve for first, curve in curves(own)}
    return [(name, found[name]) for name in CPU_BASELINES if name in found]


def _on_cpu(curve: Curve, n: int) -> Prediction:
    parts = {"product": math.exp(float(curve.at(n)[0]))}
    return combined(parts, {"product": curve.half_width_at(n)})


def _break_even(rows: Sequence[Row], label: str, memory: str, cpu_baseline: str) -> str:
    """Return from which order on a GPU is faster than an CPU baseline, in words."""
    key = {"gpu": label, "host_memory": memory, "kernels": "study", "cpu_baseline": cpu_baseline}
    for row in rows:
        if all(row[name] == value for name, value in key.items()):
            return break_even_text(row)
    return "not measured"


def break_even_text(row: Row) -> str:
    """Return a row of break_even.csv in words."""
    place, least, largest = (row[name] for name in ("location", "least_n", "largest_n"))
    if place == "below":
        return f"below N = {least}, the smallest measured"
    if place == "above":
        return f"above N = {largest}, the largest measured"
    low, high = (float(row[name] or "nan") for name in ("n_low", "n_high"))
    text = f"N = {float(row['n']):.0f}"
    if math.isnan(low) or math.isnan(high):
        return text
    ends = (f"{low:.0f}" if low else f"below {least}"), f"{high:.0f}"
    return f"{text} ({ends[0]} to {ends[1] if high < math.inf else f'above {largest}'})"


def _time(predicted: Prediction) -> str:
    bounds = _bounds((predicted.low_s, predicted.high_s), _seconds)
    return f"{_seconds(predicted.time_s)} ({bounds})"


def _bounds(ends: Sequence[float], text: Callable[[float], str]) -> str:
    """Return an interval in words."""
    low, high = ends
    return f"{text(low)} to {text(high)}" if high < math.inf else "no interval"


def _seconds(time_s: float) -> str:
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if time_s * factor < 1000:
            return f"{time_s * factor:.3g} {unit}"
    return f"{time_s:.3g} s" if time_s < 1000 else f"{time_s:.0f} s"


def _rate(n: int, predicted: Prediction) -> str:
    rate = 2.0 * n**3 / predicted.time_s
    return f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"


def _three_digits(value: float) -> str:
    """Return a number with three digits: 0.0123, 184, 33,600."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if 1000 <= value < 1e9 else text
