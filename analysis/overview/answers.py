"""The three answers for each GPU: fastest implementation, speedup over the CPU, break-even size.

Libraries and all kinds of host memory are included. For a host without a GPU there is only the
fastest implementation of its CPU. The speedup is a row of speedups.csv, the break-even size a row
of break_even.csv, both marked is_answer.
"""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.data.best import fastest
from analysis.data.cells import is_library, of_sizes
from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.break_even import ABOVE, BELOW
from analysis.domain import CPU, FASTER, SLOWER, verdict
from analysis.schema import with_bounds
from analysis.stats.estimates import CONFIDENCE, FloatArray, percentile_interval
from kernels.catalog.baselines import BEST

# Roles of the implementations: the fastest; the fastest other variant; the fastest kernel of this
# study, if libraries were measured too; the fastest from another kind of host memory.
FASTEST, NEXT, OWN, OTHER = "fastest", "next", "own", "other"
_CELL = ["n", "variant", "block_size", "host_memory", "threads", *with_bounds("total_s")]
Drawn = Callable[[str, pd.DataFrame], FloatArray]


def answers_table(frames: Mapping[str, pd.DataFrame], drawn: Drawn) -> pd.DataFrame:
    """Return the fastest implementations of each device of recordings.csv, one row per role.

    The fastest have the least end-to-end times at the largest size. verdict: whether the fastest is
    faster than the next (`analysis.domain.verdict`). candidates: the number of cells from which it
    was chosen. `drawn` returns draws of the total times of rows of summary.csv, from a label and
    rows.
    """
    cells = of_sizes(frames["summary"])
    on_cpu = cells["device"] == CPU
    rows: list[dict[str, object]] = []
    for device in frames["recordings"].to_dict("records"):
        recording, gpu = device["recording"], device["gpu"]
        if pd.isna(gpu):
            of_device, label = cells[on_cpu & (cells["recording"] == recording)], recording
        else:
            of_device, label = cells[~on_cpu & (cells["gpu"] == gpu)], gpu
        named = {"recording": recording, "gpu": gpu}
        rows += [named | row for row in _implementations(of_device, str(label), drawn)]
    return from_rows("answers", rows)


def _implementations(cells: pd.DataFrame, label: str, drawn: Drawn) -> Iterator[dict[str, object]]:
    cells = cells[cells["n"] == cells["n"].max()]
    if cells.empty:
        return
    library = is_library(cells)
    best = fastest(cells, "total_s").iloc[0]
    chosen = {
        NEXT: cells[cells["variant"] != best["variant"]],
        OWN: cells[~library] if library.any() else cells[:0],
        OTHER: cells[(cells["host_memory"] != best["host_memory"]) & cells["host_memory"].notna()],
    }
    row: dict[str, object] = {name: best[name] for name in ("sessions", *_CELL)}
    row |= {"is_library": bool(library[best.name]), "candidates": len(cells), "verdict": None}
    if not chosen[NEXT].empty:
        second = fastest(chosen[NEXT], "total_s").iloc[0]
        draws = drawn(label, cells.loc[[best.name, second.name]])
        bounds = percentile_interval(draws[1] / draws[0])
        row["verdict"] = verdict(second["total_s"] / best["total_s"], *bounds)
    yield {"role": FASTEST} | row
    for role, candidates in chosen.items():
        for other in fastest(candidates, "total_s")[_CELL].to_dict("records"):
            yield {"role": role} | other


def with_answers(break_even: pd.DataFrame) -> pd.DataFrame:
    """Return break_even.csv with the columns verdict and is_answer.

    is_answer marks the answer for each GPU: over all kinds of host memory, the least size from
    which it is faster than the fastest implementation on the CPU. The verdict is `SLOWER` without
    one.
    """
    location = break_even["location"]
    rank = break_even["n"].mask(location == BELOW, 0).mask(location == ABOVE, math.inf)
    over_best = rank[break_even["cpu_baseline"] == BEST]
    answers = over_best.groupby(break_even["gpu"]).idxmin()
    words = location.map(lambda word: SLOWER if word == ABOVE else FASTER)
    return break_even.assign(verdict=words, is_answer=break_even.index.isin(answers))


def answer_sessions_table(sources: list[MeasuredSource], speedups: pd.DataFrame) -> pd.DataFrame:
    """Return one row per answer and session: its speedup, for GPUs with several sessions.

    sessions_low and sessions_high: 95 % interval of their geometric mean by Student's t, which
    assumes nothing about the variation between sessions.
    """
    rows = []
    answers = speedups[speedups["is_answer"].astype(bool)].set_index("source")
    for source in with_gpu(sources):
        samples = source.recording.samples
        if source.label not in answers.index or samples["session"].nunique() < 2:
            continue
        answer = answers.loc[source.label]
        shape = dict.fromkeys("mnk", answer["n"]) | {"dtype": "float32", "batch": 1}
        on_gpu = shape | dict(answer[["variant", "block_size", "host_memory"]])
        names = ("variant", "block_size", "threads")
        on_cpu = shape | {name: answer[f"baseline_{name}"] for name in names}
        times = [
            _by_session(samples[samples["device"] == device], cell)
            for device, cell in ((source.device, on_gpu), (CPU, on_cpu))
        ]
        labels = {"recording": source.recording_id, "gpu": source.label}
        by_session = (times[1] / times[0]).dropna()
        labels |= dict(zip(("sessions_low", "sessions_high"), _t_interval(by_session), strict=True))
        rows += [labels | {"session": at, "speedup": value} for at, value in by_session.items()]
    return from_rows("answer_sessions", rows)


def _t_interval(values: pd.Series) -> FloatArray:
    logs = np.log(values.to_numpy(dtype=float))
    half = stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2) * logs.std(ddof=1) / len(logs) ** 0.5
    return np.asarray(np.exp(logs.mean() + half * np.array([-1.0, 1.0])))


def _by_session(samples: pd.DataFrame, cell: Mapping[str, object]) -> pd.Series:
    for name, value in cell.items():
        values = samples[name]
        samples = samples[values.isna() if pd.isna(value) else (values == value).fillna(False)]
    return samples.groupby("session")["total_s"].median()
