"""How far the numbers can be trusted: the card's state, what timing costs, where the time went.

Every function returns one table of `results/tables`, tidy and in SI units. A GPU is named by its
label (`gpu`), a host's CPU has none and stands once a recording. Medians have their distribution-
free interval, ratios one by bootstrap; both are NaN below 6 values.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from analysis.data.recordings import Source, concatenated, labelled, once_a_recording
from analysis.domain import CPU
from analysis.stats.estimates import (
    CONFIDENCE,
    FloatArray,
    bootstrap_medians,
    grouped,
    ratio_intervals,
    seeded,
)
from measurement.intervals import median_interval
from measurement.recording import CELL, KERNEL
from measurement.throttling import THROTTLE_REASONS

# Phases in which a device measures what the study is about, of which a part is not its work.
MEASURING = ("checking", "sampling", "batches")
TOTAL = "total"  # stands for all phases
COLD_PARTS = ("init", "context", "module", "allocation", "h2d", "kernel", "d2h")

_HEAD = ["recording", "gpu"]


def _with_bounds(*names: str) -> list[str]:
    """Return the columns of seconds of these medians and their bounds."""
    return [f"{name}{bound}_s" for name in names for bound in ("", "_low", "_high")]


_TELEMETRY = [
    *(*CELL, "samples", "samples_throttled", "throttle_reasons"),
    *("sm_clock_hz", "sm_clock_min_hz", "memory_clock_hz", "temperature_max_celsius", "power_w"),
    *_with_bounds("total", "kernel", "unmarked_total", "unmarked_kernel"),
]
_RATIO = ["ratio", "ratio_low", "ratio_high"]
_BATCHES = [*KERNEL, "launches", "rounds", *_with_bounds("kernel_batch"), "host_memory"]
_BATCHES += [*_with_bounds("kernel"), *_RATIO]
_COLD = [*CELL, "processes", *_with_bounds(*COLD_PARTS, "total", "warm_total"), *_RATIO]
_CEILING = ["device", "quantity", "host_memory", "size_bytes", "threads"]
_CEILINGS = [*_CEILING, "rounds", "value", "value_low", "value_high"]
_PHASES = ["device", "phase", "wall_s", "busy_s", "share_not_busy"]


def medians(values: pd.Series, name: str) -> dict[str, object]:
    """Return the median of a column in seconds and its interval as columns called `name`."""
    interval = median_interval(values.to_numpy(dtype=float), CONFIDENCE)
    return dict(zip(_with_bounds(name), interval, strict=True))


def telemetry_table(found: list[Source]) -> pd.DataFrame:
    """Return `telemetry` of every GPU, with recording and gpu first."""
    own = ((s, s.own(s.recording.samples)) for s in found)
    gpu = ((s, telemetry(rows[rows["device"] != CPU])) for s, rows in own)
    return _table(gpu, _TELEMETRY)


def telemetry(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the state in which a card took the samples of each cell, and its times in seconds.

    throttle_reasons names those of all samples. Times are medians of all samples, and those called
    unmarked of the samples that no throttling was seen in (NaN where none is left, or where nothing
    is known of any). What was not recorded is empty.
    """
    rows = [
        dict(zip(CELL, key, strict=True)) | _state(cell) for key, cell in grouped(samples, CELL)
    ]
    types = samples[CELL].dtypes.to_dict()
    types |= dict.fromkeys(("samples", "samples_throttled", "sm_clock_min_hz"), "Int64")
    types |= {"temperature_max_celsius": "Int64"}
    return pd.DataFrame(rows, columns=_TELEMETRY).astype(types)


def _state(cell: pd.DataFrame) -> dict[str, object]:
    reasons = cell["throttle_reasons"]
    marked = (reasons > 0).fillna(False).astype(bool)
    unmarked = cell[~marked] if reasons.notna().any() else cell[:0]
    row: dict[str, object] = {
        "samples": len(cell),
        "samples_throttled": int(marked.sum()) if reasons.notna().any() else pd.NA,
        "throttle_reasons": reason_names(reasons),
        "sm_clock_hz": _median(cell["sm_clock_hz"]),
        "sm_clock_min_hz": cell["sm_clock_hz"].min(),
        "memory_clock_hz": _median(cell["memory_clock_hz"]),
        "temperature_max_celsius": cell["temperature_celsius"].max(),
        "power_w": _median(cell["power_w"]),
    }
    for part in ("total", "kernel"):
        row |= medians(cell[f"{part}_s"], part)
        row |= medians(unmarked[f"{part}_s"], f"unmarked_{part}") if len(unmarked) else {}
    return row


def reason_names(masks: pd.Series) -> str:
    """Return the names of all reasons in the bit masks of samples, joined by " + "."""
    every = int(np.bitwise_or.reduce(masks.dropna().to_numpy(dtype=np.int64), initial=0))
    return " + ".join(name for bit, name in THROTTLE_REASONS.items() if every & bit)


def _median(values: pd.Series) -> float:
    known = values.dropna().to_numpy(dtype=float)
    return float(np.median(known)) if len(known) else float("nan")


def back_to_back_table(found: list[Source]) -> pd.DataFrame:
    """Return the kernels that were launched back to back, beside their single launches.

    kernel_s is the median by events around one launch, of the kernel's cell with pinned memory, or
    with pageable where there is none (`host_memory` says which). ratio is kernel_s over
    kernel_batch_s: what gaps between launches and the resolution of events add.
    """
    return _table(((source, _batches(source)) for source in found if source.device), _BATCHES)


def _batches(source: Source) -> pd.DataFrame:
    rows = []
    own = source.own(source.recording.back_to_back)
    for key, batches in grouped(own, KERNEL):
        row: dict[str, object] = dict(zip(KERNEL, key, strict=True))
        row |= {"launches": int(batches["launches"].median()), "rounds": len(batches)}
        row |= medians(batches["kernel_batch_s"], "kernel_batch")
        cell = _single_launches(source, row)
        if cell is not None:
            row |= {name: source.cells.at[cell, name] for name in _with_bounds("kernel")}
            row["host_memory"] = source.cells.at[cell, "host_memory"]
            low, high = ratio_intervals(source.draws["kernel"][cell], batch_draws(key, batches))
            ratio = source.cells.at[cell, "kernel_s"] / float(batches["kernel_batch_s"].median())
            row |= {"ratio": ratio, "ratio_low": float(low), "ratio_high": float(high)}
        rows.append(row)
    return pd.DataFrame(rows, columns=_BATCHES).astype(own[KERNEL].dtypes.to_dict())


def batch_draws(key: Iterable[object], batches: pd.DataFrame) -> FloatArray:
    """Return bootstrap draws of the median batch of the kernel `key`."""
    return bootstrap_medians(batches["kernel_batch_s"].to_numpy(), seeded("batch", *key))


def _single_launches(source: Source, kernel: dict[str, object]) -> int | None:
    """Return the row of `source.cells` that has a kernel's single launches."""
    cells = source.cells
    same = cells["kernel_s"].notna()
    for name in KERNEL:
        missing = kernel[name] is None
        same &= cells[name].isna() if missing else (cells[name] == kernel[name]).fillna(False)
    for memory in ("pinned", "pageable"):
        rows = cells.index[same & (cells["host_memory"] == memory)]
        if len(rows):
            return int(rows[0])
    return None


def cold_starts_table(found: list[Source]) -> pd.DataFrame:
    """Return what a fresh process pays until its first product, beside a warm pass of that cell.

    Times are medians over the processes; ratio is total_s over warm_total_s.
    """
    return _table(((source, _cold_starts(source)) for source in found if source.device), _COLD)


def _cold_starts(source: Source) -> pd.DataFrame:
    rows = []
    own = source.own(source.recording.cold_starts)
    samples = dict(grouped(source.own(source.recording.samples), CELL))
    for key, starts in grouped(own, CELL):
        row: dict[str, object] = dict(zip(CELL, key, strict=True)) | {"processes": len(starts)}
        for part in (*COLD_PARTS, "total"):
            row |= medians(starts[f"{part}_s"], part)
        if key in samples:
            cold, warm = (frame["total_s"].to_numpy() for frame in (starts, samples[key]))
            row |= medians(samples[key]["total_s"], "warm_total")
            draws = (
                bootstrap_medians(values, seeded(name, *key))
                for name, values in (("cold", cold), ("warm", warm))
            )
            low, high = ratio_intervals(*draws)
            row["ratio"] = float(np.median(cold)) / float(np.median(warm))
            row |= {"ratio_low": float(low), "ratio_high": float(high)}
        rows.append(row)
    return pd.DataFrame(rows, columns=_COLD).astype(own[CELL].dtypes.to_dict())


def ceilings_table(found: list[Source]) -> pd.DataFrame:
    """Return the median of every ceiling over its rounds; its name ends in the unit of the values.

    See `measurement.ceilings` and `measurement.cpu_ceilings` for what each quantity is.
    """
    own = ((source, _ceilings(source.own(source.recording.ceilings))) for source in found)
    return _table(once_a_recording(own), _CEILINGS)


def _ceilings(own: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for key, rounds in grouped(own, _CEILING):
        values = median_interval(rounds["value"].to_numpy(dtype=float), CONFIDENCE)
        row: dict[str, object] = dict(zip(_CEILING, key, strict=True)) | {"rounds": len(rounds)}
        rows.append(row | dict(zip(("value", "value_low", "value_high"), values, strict=True)))
    return pd.DataFrame(rows, columns=_CEILINGS).astype(own[_CEILING].dtypes.to_dict())


def phases_table(found: list[Source]) -> pd.DataFrame:
    """Return how long every part of a measurement took and how long the device was at work in it.

    share_not_busy is the share of the wall time that is neither transfer nor kernel (on a CPU, no
    product). A row `TOTAL` a device sums up all phases.
    """
    own = ((source, _phases(source)) for source in found)
    return _table(once_a_recording(own), _PHASES)


def _phases(source: Source) -> pd.DataFrame:
    listed = pd.DataFrame(source.recording.provenance["phases"], columns=_PHASES[:-1])
    frames = []
    for device, rows in source.own(listed).groupby("device", sort=False):
        whole = rows[["wall_s", "busy_s"]].sum()
        whole_row = pd.DataFrame([{"device": device, "phase": TOTAL, **whole}])
        frames += [rows, whole_row]
    phases = concatenated([listed[:0], *frames])
    wall_s = phases["wall_s"].astype(float)
    idle_s = wall_s - phases["busy_s"].astype(float)
    return phases.assign(share_not_busy=idle_s / wall_s.where(wall_s > 0))


def _table(parts: Iterator[tuple[Source, pd.DataFrame]], columns: list[str]) -> pd.DataFrame:
    """Return the rows of all sources one below the other, with recording and gpu first."""
    columns = [*_HEAD, *columns]
    frames = [labelled(source, rows)[columns] for source, rows in parts]
    return concatenated([pd.DataFrame(columns=columns), *frames])
