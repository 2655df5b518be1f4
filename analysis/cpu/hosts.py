"""The CPU host of each recording, the times of its cells, and its clock during measurements."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from analysis.data import best
from analysis.data.cells import is_square
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, once_per_recording
from analysis.domain import CPU, SHAPE
from analysis.schema import renaming
from analysis.stats.estimates import grouped
from measurement.recording.recording import CELL

CHANGED = 0.02  # smaller relative changes of the clock during a run are ignored
_PERCENTILES = ["time_p10_s", "time_p90_s"]
_HOST = ("cpu_model", "logical_cpus", "usable_cpus", "usable_threads", "memory_bytes")
# Server processors by the family and model that CPUID reports.
_PROCESSORS = {
    (6, 85): "Skylake or Cascade Lake",
    (6, 106): "Ice Lake",
    (6, 143): "Sapphire Rapids",
    (6, 173): "Granite Rapids",
    (6, 207): "Emerald Rapids",
    (23, 49): "Zen 2",
    (25, 1): "Zen 3",
    (25, 17): "Zen 4",
    (26, 2): "Zen 5",
}
_BLAS = ("blas", "blas_version", "blas_architecture")


def hosts_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per session: its host's CPU, data caches and BLAS; unknown values are empty.

    usable_threads: the number of threads that the host can run at once.
    """
    sessions = {source.recording_id: source.recording.sessions for source in sources}
    rows = []
    for name, provenances in sessions.items():
        for number, provenance in enumerate(provenances):
            host, software = provenance["host"], provenance["software"]
            row = {"recording": name, "session": number, **{key: host.get(key) for key in _HOST}}
            row["cpu_identity"] = identity(host)
            for cache in host["caches"]:
                row |= {f"l{cache['level']}_{fact}": cache[fact] for fact in ("bytes", "shared_by")}
            rows.append(row | {key: software.get(key) for key in _BLAS})
    sizes = [f"{name}_bytes" for name in ("memory", "l1", "l2", "l3")]
    return from_rows("cpu_hosts", rows).astype(dict.fromkeys(sizes, "Int64"))


def identity(host: Mapping[str, Any]) -> str | None:
    """Return a CPU's family, model and name, for example "6-207 (Emerald Rapids)"; None: unknown.

    The numbers are needed because virtual machines often hide the model's name.
    """
    family, number = host.get("cpu_family"), host.get("cpu_number")
    if family is None or number is None:
        return None
    name = _PROCESSORS.get((family, number))
    return f"{family}-{number}" + (f" ({name})" if name else "")


def times_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per square CPU cell: its median time, and percentiles of all its samples.

    is_fastest: no other variant or number of threads is faster at this size.
    """
    frames = []
    samples = ((source, source.own(source.recording.samples)) for source in sources)
    for source, runs in once_per_recording(samples):
        runs = runs[(runs["device"] == CPU) & is_square(runs)]
        if runs.empty:
            continue
        by_cell = runs.groupby(CELL, dropna=False)["total_s"]
        times = by_cell.quantile([0.1, 0.9]).unstack().set_axis(_PERCENTILES, axis="columns")
        times = times.assign(samples=by_cell.size()).reset_index()
        cells = source.cells[[*CELL, "total_s"]].rename(columns=renaming("total_s", "time_s"))
        times = times.merge(cells, on=CELL).sort_values(["n", *CELL], ignore_index=True)
        chosen = best.fastest(times, "time_s", SHAPE).index
        fastest = times.index.isin(chosen)
        frames.append(times.assign(recording=source.recording_id, is_fastest=fastest))
    return stacked("cpu_times", frames)


def clock_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per recording and number of threads: the clock before and after CPU runs.

    Medians and extremes are over the samples with a known clock. samples_clock_changed: the number
    of samples whose clock changed by more than `CHANGED` during the run. busy_other_threads: the
    CPU time of the process's other threads divided by the time of all runs; 0 on one thread. Its
    maximum is over cells, because a single run may be shorter than the resolution of CPU time.
    """
    frames = []
    samples = ((source, source.own(source.recording.samples)) for source in sources)
    for source, runs in once_per_recording(samples):
        rows = _clocks(runs[(runs["device"] == CPU) & runs["cpu_clock_before_hz"].notna()])
        frames.append(pd.DataFrame(list(rows)).assign(recording=source.recording_id))
    return stacked("cpu_clock", frames)


def _clocks(samples: pd.DataFrame) -> Iterator[dict[str, object]]:
    for (threads,), runs in grouped(samples, ["threads"]):
        row: dict[str, object] = {"threads": threads, "samples": len(runs)}
        clocks = {when: runs[f"cpu_clock_{when}_hz"].astype(float) for when in ("before", "after")}
        for when, clock in clocks.items():
            values = {"": clock.median(), "_min": clock.min(), "_max": clock.max()}
            row |= {f"clock_{when}{name}_hz": value for name, value in values.items()}
        changed = (clocks["after"] / clocks["before"] - 1).abs() > CHANGED
        row["samples_clock_changed"] = int(changed.sum())
        row["busy_other_threads"] = _busy_other_threads(runs)
        cells = [_busy_other_threads(cell) for _, cell in grouped(runs, CELL)]
        yield row | {"busy_other_threads_max": max(cells)}


def _busy_other_threads(samples: pd.DataFrame) -> float:
    return float(samples["other_threads_s"].sum() / samples["total_s"].sum())
