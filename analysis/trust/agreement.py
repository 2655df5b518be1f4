"""Whether recordings of the same GPU model agree: medians within `AGREEMENT` of each other.

An interval says how well the median of one recording is known, and not what another recording of
such a GPU finds: that is seen here alone.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import Source, with_gpu
from analysis.domain import CPU, IN_RUN, KERNEL_ONLY
from analysis.schema import renaming, with_bounds
from analysis.stats.estimates import FloatArray, IntArray, ratio_intervals
from analysis.stats.significance import within
from analysis.trust.compare import CELL_TITLES, cell_texts, duration, matched
from analysis.trust.overheads import batch_draws
from analysis.trust.telemetry import telemetry
from base.command_line import aligned
from measurement.recording.recording import CELL, KERNEL, Recording

AGREEMENT = 0.02
ALONE = "GPU, kernel alone"
PINNED, PAGEABLE = "GPU, pinned", "GPU, pageable"
BATCHES = "GPU, back to back"
ON_CPU = "CPU"
# The kinds of cells that are counted apart, and what is compared of them.
_KINDS = {
    ALONE: ("kernel",),
    PINNED: ("total", "kernel"),
    PAGEABLE: ("total", "kernel"),
    BATCHES: ("kernel_batch",),
    ON_CPU: ("total",),
}
_KEY = [name for name in CELL if name != "device"]
# The state of the GPU that stands beside a median, by column of `trust.telemetry`.
_STATE = {
    "sm_clock_hz": "sm_clock_{}_hz",
    "temperature_max_celsius": "temperature_max_{}_celsius",
    "power_w": "power_{}_w",
    "samples_throttled": "samples_throttled_{}",
}
_PAIR = ["recording_a", "gpu_a", "recording_b", "gpu_b", "kind", "quantity"]
_COUNTS = ["tolerance", "cells", "cells_agreeing", "share"]
_TITLES = (
    *(*CELL_TITLES, "A", "B", "B/A"),
    *("SM clock in MHz", "at most °C", "power in W", "samples throttled"),
)


def pairs(found: list[Source]) -> list[tuple[Source, Source]]:
    """Return the GPUs of the same name in any two recordings, those of the same index first.

    GPUs of one recording are not paired with each other, and in two recordings none twice.
    """
    recordings: dict[str, list[Source]] = {}
    for source in found:
        recordings.setdefault(source.recording_id, []).append(source)
    matched = []
    for ours, theirs in combinations(recordings.values(), 2):
        candidates = [(a, b) for a in ours for b in theirs if a.device and a.gpu_name == b.gpu_name]
        candidates.sort(key=lambda pair: pair[0].device != pair[1].device)
        taken: set[str] = set()
        for a, b in candidates:
            if not taken & {a.label, b.label}:
                matched.append((a, b))
                taken |= {a.label, b.label}
    return matched


def agreement_tables(
    found: list[Source], frames: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return how many cells agree in each of `pairs`, and the cells that do not.

    `frames` are the tables summary, telemetry and back_to_back. The first has a row a kind of cell
    and quantity ("total", "kernel", "kernel_batch"); share is that of the common cells whose
    medians are within `tolerance`. CPUs are compared once for two recordings, where they are of the
    same model and were measured by the same protocol. The second has a row a cell: ratio is B/A
    with its bootstrap interval, and on a GPU both sides' state as in `trust.telemetry`.
    """
    medians = _medians(frames)
    time_s = medians["median_s"].to_numpy()
    cell = medians.groupby(_KEY, dropna=False).ngroup().to_numpy()
    rows = medians.groupby(["label", "kind", "quantity"]).indices
    row_of_b = np.full(len(medians), -1)  # by cell
    shares, apart = [], []
    for a, b, kind, quantity in _comparisons(found):
        (id_a, gpu_a), (id_b, gpu_b) = (_named(one, kind) for one in (a, b))
        own = rows.get((gpu_a or id_a, kind, quantity), _NONE)
        other = rows.get((gpu_b or id_b, kind, quantity), _NONE)
        row_of_b[cell[other]] = other
        common = np.array([own, row_of_b[cell[own]]])
        row_of_b[cell[other]] = -1
        common = common[:, common[1] >= 0]
        if not common.size:
            continue
        agrees = within(time_s[common[1]] / time_s[common[0]], AGREEMENT)
        pair = (id_a, gpu_a, id_b, gpu_b, kind, quantity)
        counts = (AGREEMENT, len(agrees), int(agrees.sum()), int(agrees.sum()) / len(agrees))
        shares.append(dict(zip((*_PAIR, *_COUNTS), (*pair, *counts), strict=True)))
        apart.append(common[:, ~agrees])
    drawn = _Draws(medians, found)
    cells = [
        _apart(medians, sides, drawn).assign(**{name: head[name] for name in _PAIR})
        for head, sides in zip(shares, apart, strict=True)
        if sides.size
    ]
    return from_rows("agreement", shares), stacked("agreement_cells", cells)


def _comparisons(found: list[Source]) -> Iterator[tuple[Source, Source, str, str]]:
    """Yield what is compared: two sources, kind of cell, quantity."""
    hosts: set[tuple[str, str]] = set()
    for a, b in pairs(found):
        comparable = _of_host(a) == _of_host(b) and (a.recording_id, b.recording_id) not in hosts
        hosts.add((a.recording_id, b.recording_id))
        for kind, quantities in _KINDS.items():
            if kind != ON_CPU or comparable:
                yield from ((a, b, kind, quantity) for quantity in quantities)


def _of_host(source: Source) -> tuple[str, dict[str, Any]]:
    """Return what two recordings must share for their CPUs to be compared.

    That is the model of the CPU and how it was measured: a product that finds its matrices in the
    caches is faster than one that does not.
    """
    provenance = source.recording.provenance
    protocol = provenance["configuration"].get("protocol", {})
    return provenance["host"]["cpu_model"], {k: v for k, v in protocol.items() if "cpu" in k}


def _named(source: Source, kind: str) -> tuple[str, str | None]:
    return source.recording_id, None if kind == ON_CPU else source.label


_NONE: IntArray = np.empty(0, np.intp)


def _medians(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the medians of every kind and quantity, a row a cell.

    Columns: label (of the GPU; of a CPU its recording), kind, quantity, `CELL` (empty where a cell
    has no such part), samples, median_s with its bounds, and those of `_STATE`.
    """
    summary, state = frames["summary"], frames["telemetry"][["gpu", *_KEY, *_STATE]]
    on_cpu = summary["device"] == CPU
    on_gpu = summary[~on_cpu].merge(state, how="left", on=["gpu", *_KEY])
    batches = frames["back_to_back"].rename(columns={"rounds": "samples"})
    cells = {
        ALONE: alone(on_gpu).assign(samples=lambda rows: rows["kernel_samples"]),
        PINNED: on_gpu[(on_gpu["host_memory"] == "pinned").fillna(False)],
        PAGEABLE: on_gpu[(on_gpu["host_memory"] == "pageable").fillna(False)],
        BATCHES: batches.assign(host_memory=pd.NA, threads=pd.NA),
        ON_CPU: summary[on_cpu],
    }
    columns = ["label", "kind", "quantity", *CELL, "samples", *with_bounds("median_s"), *_STATE]
    found = []
    for kind, quantities in _KINDS.items():
        label = cells[kind]["recording" if kind == ON_CPU else "gpu"]
        for quantity in quantities:
            times = cells[kind][with_bounds(f"{quantity}_s")]
            rows = cells[kind].assign(label=label, kind=kind, quantity=quantity)
            rows[with_bounds("median_s")] = times
            if quantity == "kernel" and kind != ALONE:
                rows = rows[(rows["kernel_timing"] == IN_RUN).fillna(False)]
            rows = rows[rows["median_s"].notna()]  # not every run has parts
            found.append(rows.reindex(columns=columns))
    types = summary[CELL].dtypes.to_dict() | dict.fromkeys(_STATE, "Float64")
    return pd.concat(found, ignore_index=True).astype(types)


def alone(cells: pd.DataFrame) -> pd.DataFrame:
    """Return those rows of the table summary whose kernel was timed alone, a row a kernel."""
    held = cells[(cells["kernel_timing"] == KERNEL_ONLY).fillna(False)]
    held = held.sort_values("host_memory", ascending=False, kind="stable")  # pinned first
    return held.drop_duplicates(["gpu", *KERNEL]).sort_index()


class _Draws:
    """Bootstrap draws of rows of `_medians`, each made when it is first asked for."""

    def __init__(self, medians: pd.DataFrame, found: list[Source]) -> None:
        self._medians = medians
        self._sources: dict[tuple[str | None, str], Source] = {
            (CPU, source.recording_id): source for source in found
        }
        self._sources |= {(source.device, source.label): source for source in with_gpu(found)}
        self._known: dict[int, FloatArray] = {}

    def of(self, rows: IntArray) -> FloatArray:
        """Return the draws of rows of one source, kind and quantity, shape (rows, draws)."""
        new = [row for row in rows if row not in self._known]
        if new:
            cells = self._medians.loc[new]
            first = cells.iloc[0]
            source = self._sources[first["device"], first["label"]]
            if first["kind"] == BATCHES:
                batches = source.recording.back_to_back.merge(cells[KERNEL], on=KERNEL)
                draws = batch_draws(batches)  # in the order of the kernels, as the rows are
            else:
                draws = source.drawn(cells, first["quantity"])
            self._known |= dict(zip(new, draws, strict=True))
        return np.array([self._known[row] for row in rows])


def _apart(medians: pd.DataFrame, sides: IntArray, drawn: _Draws) -> pd.DataFrame:
    """Return cells of A and of B side by side; `sides` are the rows of both, shape (2, cells)."""
    frame = medians.loc[sides[0], _KEY].reset_index(drop=True)
    for side, rows in zip("ab", sides, strict=True):
        names = {"samples": f"samples_{side}", **renaming("median_s", f"median_{side}_s")}
        names |= {column: name.format(side) for column, name in _STATE.items()}
        frame[list(names.values())] = medians.loc[rows, list(names)].reset_index(drop=True)
    frame["ratio"] = frame["median_b_s"] / frame["median_a_s"]
    bounds = ratio_intervals(drawn.of(sides[1]), drawn.of(sides[0]))
    frame["ratio_low"], frame["ratio_high"] = bounds
    return frame


def agreement_line(frame: pd.DataFrame) -> str:
    """Return one line: how many total times in `compare.compare` are within `AGREEMENT`."""
    totals = frame[frame["quantity"] == "total"]
    agreeing = int(within(totals["ratio"], AGREEMENT).sum())
    return (
        f"{agreeing} of {len(totals)} cells ({100 * agreeing / len(totals):.1f} %) agree within "
        f"{100 * AGREEMENT:g} % in the median of the total time"
    )


def apart_with_telemetry(frame: pd.DataFrame, a: Recording, b: Recording) -> str:
    """Return the cells of `compare.compare` whose total times do not agree, sorted by ratio.

    Beside each stands the state of its GPU in A and in B: medians of clock and power, the highest
    temperature, the number of samples that throttling was seen in; – where it was not recorded.
    """
    totals = frame[frame["quantity"] == "total"]
    rows = totals[~within(totals["ratio"], AGREEMENT)].sort_values(["ratio", *CELL], kind="stable")
    for side, samples in (("a", a.samples), ("b", matched(b.samples, a, b))):
        names = {column: name.format(side) for column, name in _STATE.items()}
        state = telemetry(samples)[[*CELL, *_STATE]].rename(columns=names)
        rows = rows.merge(state, how="left", on=CELL)
    return "\n".join(aligned([_TITLES, *(_line(row) for row in rows.to_dict("records"))]))


def _line(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return a cell with both sides' state as text, in the order of `_TITLES`."""

    def both(column: str, unit: float = 1.0) -> str:
        values = (row[_STATE[column].format(side)] for side in "ab")
        return " / ".join("–" if pd.isna(v) else f"{v / unit:.0f}" for v in values)

    return (
        *cell_texts(row),
        *(duration(row["median_a_s"]), duration(row["median_b_s"]), f"{row['ratio']:.3f}"),
        *(both("sm_clock_hz", 1e6), both("temperature_max_celsius"), both("power_w")),
        both("samples_throttled"),
    )
