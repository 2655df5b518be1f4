"""Whether recordings of the same kind of card agree: medians within `AGREEMENT` of each other.

An interval says how well the median of one recording is known, and not what another recording of
such a card finds: that is seen here alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from analysis.data.recordings import Source, concatenated
from analysis.domain import CPU
from analysis.stats.estimates import FloatArray, grouped, ratio_intervals
from analysis.stats.significance import within
from analysis.trust.compare import CELL_TITLES, aligned, cell_texts, duration, matched_samples
from analysis.trust.measuring import batch_draws, medians, telemetry
from measurement.recording import CELL, KERNEL, Recording

AGREEMENT = 0.02
PINNED, PAGEABLE = "GPU, pinned", "GPU, pageable"
BATCHES = "GPU, back to back"
ON_CPU = "CPU"
# The kinds of cells that are counted apart, and what is compared of them.
_KINDS = {
    PINNED: ("total", "kernel"),
    PAGEABLE: ("total", "kernel"),
    BATCHES: ("kernel_batch",),
    ON_CPU: ("total",),
}
_KEY = [name for name in CELL if name != "device"]
_BOUNDS = ("", "_low", "_high")
# What the other recording's cell is seen beside, by column of `trust.telemetry`.
_STATE = {
    "sm_clock_hz": "sm_clock_{}_hz",
    "temperature_max_celsius": "temperature_max_{}_celsius",
    "power_w": "power_{}_w",
    "samples_throttled": "samples_throttled_{}",
}
_PAIR = ["recording_a", "gpu_a", "recording_b", "gpu_b", "kind", "quantity"]
_SHARES = [*_PAIR, "tolerance", "cells", "cells_agreeing", "share"]
_CELLS = [
    *(*_PAIR, *_KEY, "samples_a", "samples_b"),
    *(f"median_{side}{bound}_s" for side in "ab" for bound in _BOUNDS),
    *("ratio", "ratio_low", "ratio_high"),
    *(name.format(side) for name in _STATE.values() for side in "ab"),
]
_TITLES = (
    *(*CELL_TITLES, "A", "B", "B/A"),
    *("SM clock in MHz", "at most °C", "power in W", "samples throttled"),
)


@dataclass(frozen=True)
class Medians:
    """Medians of one quantity of one device, a row a cell: `cells` and bootstrap `draws` of each.

    `cells` has `_KEY` (empty where a cell has no such part), samples, median_s, median_low_s,
    median_high_s and the numbers of its rows as index; `draws` has the shape (cells, draws).
    """

    cells: pd.DataFrame
    draws: FloatArray


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


def agreement_tables(found: list[Source]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return how many cells agree in each of `pairs`, and the cells that do not.

    The first has a row a kind of cell and quantity ("total", "kernel", "kernel_batch"); share is
    that of the common cells whose medians are within `tolerance`. CPUs are compared once for two
    recordings, where they are of the same model and were measured by the same protocol. The second
    has a row a cell: ratio is B/A with its bootstrap interval, and on a GPU both sides' state as in
    `trust.telemetry`.
    """
    states = {source.label: _state(source) for pair in pairs(found) for source in pair}
    shares, frames = [], [pd.DataFrame(columns=_CELLS)]
    for a, b, kind, quantity in _comparisons(found):
        common, draws = _common(_medians(a, kind, quantity), _medians(b, kind, quantity))
        if common.empty:
            continue
        head = dict(zip(_PAIR, (*_named(a, kind), *_named(b, kind), kind, quantity), strict=True))
        agrees = within(common["ratio"], AGREEMENT).to_numpy(dtype=bool)
        share = int(agrees.sum()) / len(common)
        shares.append(
            head
            | {"tolerance": AGREEMENT, "cells": len(common), "cells_agreeing": int(agrees.sum())}
            | {"share": share}
        )
        apart = common[~agrees].assign(**head)
        apart["ratio_low"], apart["ratio_high"] = ratio_intervals(*(d[~agrees] for d in draws))
        for side, source in (("a", a), ("b", b)):
            if kind in (PINNED, PAGEABLE):
                state = states[source.label].rename(columns=lambda c, s=side: c.format(s))
                apart = apart.merge(state, how="left", on=_KEY)
        frames.append(apart.reindex(columns=_CELLS))
    counts = {_STATE["samples_throttled"].format(side): "Int64" for side in "ab"}
    return pd.DataFrame(shares, columns=_SHARES), concatenated(frames).astype(counts)


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


def _medians(source: Source, kind: str, quantity: str) -> Medians:
    if kind == BATCHES:
        return _batch_medians(source)
    cells = source.cells
    on_cpu = cells["device"] == CPU
    memory = {PINNED: "pinned", PAGEABLE: "pageable"}.get(kind)
    chosen = on_cpu if memory is None else ~on_cpu & (cells["host_memory"] == memory)
    names = {f"{quantity}{bound}_s": f"median{bound}_s" for bound in _BOUNDS}
    columns = [*_KEY, "samples", *names.values()]
    rows = cells.rename(columns=names)[columns][chosen.fillna(False)]
    return Medians(rows.reset_index(drop=True), source.draws[quantity][rows.index])


def _batch_medians(source: Source) -> Medians:
    own = source.own(source.recording.back_to_back)
    rows, draws = [], []
    for key, batches in grouped(own, KERNEL):
        named = dict(zip(KERNEL, key, strict=True)) | {"samples": len(batches)}
        rows.append(named | medians(batches["kernel_batch_s"], "median"))
        draws.append(batch_draws(key, batches))
    columns = [*_KEY, "samples", *(f"median{bound}_s" for bound in _BOUNDS)]
    types = source.cells[_KEY].dtypes.to_dict()
    return Medians(pd.DataFrame(rows, columns=columns).astype(types), np.array(draws))


def _common(a: Medians, b: Medians) -> tuple[pd.DataFrame, tuple[FloatArray, FloatArray]]:
    """Return the cells of both with ratio B/A, and their draws: those of B, those of A."""
    sides = [
        medians.cells.rename_axis(f"row_{side}")
        .reset_index()
        .rename(columns={f"median{bound}_s": f"median_{side}{bound}_s" for bound in _BOUNDS})
        .rename(columns={"samples": f"samples_{side}"})
        for side, medians in (("a", a), ("b", b))
    ]
    common = sides[0].merge(sides[1], on=_KEY)  # an empty part of a key matches an empty part
    common["ratio"] = common["median_b_s"] / common["median_a_s"]
    return common, (b.draws[common["row_b"]], a.draws[common["row_a"]])


def _state(source: Source) -> pd.DataFrame:
    """Return the state of a GPU in each of its cells, in columns named as in `_STATE`."""
    samples = source.recording.samples
    state = telemetry(samples[samples["device"] == source.device])
    return state[[*_KEY, *_STATE]].rename(columns=_STATE)


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

    Beside each stands the state of its card in A and in B: medians of clock and power, the highest
    temperature, the number of samples that throttling was seen in; – where it was not recorded.
    """
    totals = frame[frame["quantity"] == "total"]
    rows = totals[~within(totals["ratio"], AGREEMENT)].sort_values(["ratio", *CELL], kind="stable")
    for side, samples in (("a", a.samples), ("b", matched_samples(a, b))):
        names = {column: name.format(side) for column, name in _STATE.items()}
        state = telemetry(samples)[[*CELL, *_STATE]].rename(columns=names)
        rows = rows.merge(state, how="left", on=CELL)
    return aligned([_TITLES, *(_line(row) for row in rows.to_dict("records"))])


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
