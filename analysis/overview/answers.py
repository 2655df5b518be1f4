"""The three answers for each GPU: fastest implementation, speedup over the CPU, break-even size.

Libraries and all kinds of host memory are included. For a host without a GPU there is only the
fastest implementation of its CPU.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import is_library, of_sizes
from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.break_even import ABOVE, BELOW
from analysis.domain import CPU, FASTER, SLOWER, verdict
from analysis.schema import renaming, with_bounds
from analysis.stats.estimates import FloatArray, percentile_interval
from kernels.catalog.baselines import BEST

AnswerRow = dict[str, object]
Drawn = Callable[[str, pd.DataFrame], FloatArray]


def answers_table(frames: Mapping[str, pd.DataFrame], drawn: Drawn) -> pd.DataFrame:
    """Return one row per device of recordings.csv, from the other tables.

    `drawn` returns draws of the total times of rows of summary.csv, from a device's label and rows.

    - total_s: the least end-to-end time at the largest size. Columns with the prefix next_: the
      fastest other variant; own_: the fastest kernel of this study, if libraries were measured too.
    - speedup: over the fastest implementation on the host's CPU, at speedup_n, the largest size
      measured on both.
    - break_even_n: the least break-even size of all kinds of host memory, over the same baseline;
      empty outside the measured sizes. break_even_location: see `analysis.decide.break_even`.

    Verdicts are from `analysis.domain.verdict`; implementation_verdict is on the speedup over the
    next variant, break_even_verdict is `SLOWER` if there is no break-even size.
    """
    rows = [_answers(frames, device, drawn) for device in frames["recordings"].to_dict("records")]
    return from_rows("answers", rows)


def answer_sessions_table(sources: list[MeasuredSource], speedups: pd.DataFrame) -> pd.DataFrame:
    """Return the speedup of each answer in each session, for GPUs with several sessions."""
    rows = []
    for source in with_gpu(sources):
        own = speedups[(speedups["source"] == source.label) & speedups["cpu_best_speedup"].notna()]
        samples = source.recording.samples
        if own.empty or samples["session"].nunique() < 2:
            continue
        best = _best_speedup(own)
        shape = dict.fromkeys("mnk", best["n"]) | {"dtype": "float32", "batch": 1}
        on_gpu = shape | dict(best[["variant", "block_size", "host_memory"]])
        names = ("variant", "block_size", "threads")
        on_cpu = shape | {name: best[f"cpu_best_{name}"] for name in names}
        times = [
            _by_session(samples[samples["device"] == device], cell)
            for device, cell in ((source.device, on_gpu), (CPU, on_cpu))
        ]
        labels = {"recording": source.recording_id, "gpu": source.label}
        rows += [
            labels | {"session": session, "speedup": value}
            for session, value in (times[1] / times[0]).dropna().items()
        ]
    return from_rows("answer_sessions", rows)


def _by_session(samples: pd.DataFrame, cell: Mapping[str, object]) -> pd.Series:
    """Return the median end-to-end time of a cell in each session."""
    for name, value in cell.items():
        values = samples[name]
        samples = samples[values.isna() if pd.isna(value) else (values == value).fillna(False)]
    return samples.groupby("session")["total_s"].median()


def _best_speedup(speedups: pd.DataFrame) -> pd.Series:
    """Return the row with the largest speedup over the CPU at the largest common size."""
    largest = speedups[speedups["n"] == speedups["n"].max()]
    return fastest(largest, "cpu_best_speedup", most=True).iloc[0]


def _answers(
    frames: Mapping[str, pd.DataFrame], device: Mapping[str, object], drawn: Drawn
) -> AnswerRow:
    cells, label = of_sizes(frames["summary"]), device["gpu"]
    found: AnswerRow = {"recording": device["recording"], "gpu": label}
    on_cpu = cells["device"] == CPU
    if pd.isna(label):
        cpu = cells[on_cpu & (cells["recording"] == device["recording"])]
        return found | _implementation(cpu, partial(drawn, str(device["recording"])))
    speedups, sizes = frames["speedups"], frames["break_even"]
    speedups = speedups[(speedups["source"] == label) & speedups["cpu_best_speedup"].notna()]
    own = (sizes["gpu"] == label) & (sizes["cpu_baseline"] == BEST)
    on_gpu = _implementation(cells[~on_cpu & (cells["gpu"] == label)], partial(drawn, str(label)))
    return found | on_gpu | _speedup(speedups) | _break_even(sizes[own])


def _implementation(cells: pd.DataFrame, drawn: Callable[[pd.DataFrame], FloatArray]) -> AnswerRow:
    """Return the fastest implementation at the largest size, and the next ones."""
    if cells.empty:
        return {}
    largest = cells[cells["n"] == cells["n"].max()]
    library = is_library(largest)
    best = fastest(largest, "total_s").index[0]
    names = ("sessions", "variant", "block_size", "host_memory", "threads", "n")
    row = _cell(largest, best, "", *names)
    row |= {"is_library": bool(library[best]), "candidates": len(largest)}
    others = largest[largest["variant"] != largest.at[best, "variant"]]
    if not others.empty:
        second = fastest(others, "total_s").index[0]
        row |= _cell(largest, second, "next_", "variant", "block_size")
        draws = drawn(largest.loc[[best, second]])
        ratio = largest.at[second, "total_s"] / largest.at[best, "total_s"]
        row["implementation_verdict"] = verdict(ratio, *percentile_interval(draws[1] / draws[0]))
    if library.any() and not library.all():
        own = fastest(largest[~library], "total_s").index[0]
        row |= _cell(largest, own, "own_", "variant", "block_size")
    elsewhere = largest[largest["host_memory"] != largest.at[best, "host_memory"]]
    if not elsewhere.empty:
        row |= _cell(largest, fastest(elsewhere, "total_s").index[0], "other_", "host_memory")
    return row


def _cell(cells: pd.DataFrame, index: object, prefix: str, *columns: str) -> AnswerRow:
    """Return columns of a cell and its total time with its interval; names get a prefix."""
    chosen = cells.loc[index]
    names = {f"{prefix}{name}": name for name in (*columns, *with_bounds("total_s"))}
    return {name: chosen[column] for name, column in names.items()}


def _speedup(speedups: pd.DataFrame) -> AnswerRow:
    """Return the speedup of the fastest implementation over the CPU at the largest common size."""
    if speedups.empty:
        return {}
    best = _best_speedup(speedups)
    found = {name: best[column] for column, name in renaming("cpu_best_speedup", "speedup").items()}
    names = ("n", "variant", "block_size", "host_memory")
    row: AnswerRow = {f"speedup_{name}": best[name] for name in names}
    row |= {name: best[name] for name in ("cpu_best_variant", "cpu_best_threads")}
    return row | found | {"speedup_verdict": verdict(*found.values())}


def _break_even(sizes: pd.DataFrame) -> AnswerRow:
    """Return the least break-even size of all kinds of host memory."""
    if sizes.empty:
        return {}
    rank = sizes["n"].mask(sizes["location"] == BELOW, 0).mask(sizes["location"] == ABOVE, math.inf)
    best = sizes.loc[rank.idxmin()]
    names = ("location", "host_memory", *with_bounds("n"), "least_n", "largest_n")
    names += ("variant", "block_size", "cpu_variant", "cpu_threads")
    row: AnswerRow = {f"break_even_{name}": best[name] for name in names}
    return row | {"break_even_verdict": SLOWER if best["location"] == ABOVE else FASTER}
