"""The CPU host of a recording, and the clock of its CPU measurements."""

from collections.abc import Iterator

import pandas as pd

from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, once_per_recording
from analysis.domain import CPU
from analysis.stats.estimates import grouped
from measurement.recording.recording import CELL

CHANGED = 0.02  # relative change of the clock during a run that counts
_HOST = ("cpu_model", "logical_cpus", "usable_cpus", "usable_threads", "memory_bytes")
_BLAS = ("blas", "blas_version", "blas_architecture")


def hosts_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per session: its host's CPU, data caches and BLAS; unknown values are empty.

    usable_threads: number of threads that can run at once.
    """
    sessions = {source.recording_id: source.recording.sessions for source in sources}
    rows = []
    for name, provenances in sessions.items():
        for number, provenance in enumerate(provenances):
            host, software = provenance["host"], provenance["software"]
            row = {"recording": name, "session": number, **{key: host.get(key) for key in _HOST}}
            for cache in host["caches"]:
                row |= {f"l{cache['level']}_{fact}": cache[fact] for fact in ("bytes", "shared_by")}
            rows.append(row | {key: software.get(key) for key in _BLAS})
    sizes = [f"{name}_bytes" for name in ("memory", "l1", "l2", "l3")]
    return from_rows("cpu_hosts", rows).astype(dict.fromkeys(sizes, "Int64"))


def clock_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return the clock at the start and end of CPU runs, by number of threads.

    Medians and extremes are over the samples with a known clock. samples_clock_changed: samples
    whose clock changed by more than `CHANGED` during the run. busy_other_threads: CPU time of
    other threads of the process over the time of all runs, 0 on one thread; its maximum is over
    cells, because a single run may be shorter than the system's resolution of CPU time.
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
