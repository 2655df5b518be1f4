"""Data for the page's calculator and its explorer: the tables of predictions that `advise` reads.

The calculator consists of `report/calculator.html.j2` (controls), `report/calculator.js` and, for
shapes and locations, `report/shapes.js`.
"""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from analysis.data.cells import whole
from analysis.data.devices import Device
from analysis.data.store import Store
from analysis.decide import surfaces
from analysis.decide.advise import (
    BATCHES,
    MODES,
    NO_BREAK_EVEN,
    REVERSED,
    break_even_text,
    is_elsewhere,
    largest_n,
    notes_of,
)
from analysis.decide.lookup import ALIGNED, PARTS, WIDEST, Prediction, named
from analysis.decide.questions import (
    ARITHMETIC,
    BATCH,
    FAMILIES,
    MEASURED,
    Question,
    Tables,
    break_even_sizes,
    measured_break_even,
    measured_later,
    runs_on_gpu,
    size_of,
)
from analysis.decide.surfaces import Limit, Run, limits
from analysis.render.explorer_data import TIME_UNIT_S, codes, numbers
from analysis.render.numbers import visible
from kernels.catalog.baselines import ON_ONE_THREAD
from kernels.catalog.entries import VARIANTS
from kernels.catalog.locations import HOST_MEMORY, LOCATIONS, bounding
from kernels.catalog.variant import PREPARED, Library
from kernels.products.shape import Shape

_UNBOUNDED = 1e9  # stands for the half-width of a missing interval: JSON has no infinity
_TEXTS = ("recording", "gpu", "cpu_baseline", "host_memory", "variant")


def calculator_data(store: Store, measured: Sequence[Device]) -> str:
    """Return the data as JSON; GPUs are those of `measured`, in this order.

    `rows` are those of `predicted_times`, in the columns of `explorer_data`, with half-widths of
    intervals instead of their ends. `names` are the implementations by variant and block size.
    """
    gpus = store["predictors"].set_index("gpu")
    texts = {
        name: store[name].astype(object).where(store[name].notna(), "").to_dict("records")
        for name in ("predictors", "sustained", "predicted_times", "cold_starts", "unseen_sessions")
    }
    tables = (store[name].astype(str).to_dict("records") for name in ("break_even", "choices"))
    sizes = [*break_even_sizes(*tables)]
    names = ("gpu", "host_memory", "cpu_baseline", "arithmetic")
    threads = store["cpu_times"].groupby("recording")["threads"].max().astype(int).to_dict()
    rows = store["predicted_times"]
    pairs = rows[["variant", "block_size"]].drop_duplicates().itertuples(index=False)
    data = {
        "gpus": [
            {"label": visible(gpu.label), "title": visible(gpu.title)}
            | {"recording": visible(gpu.recording)}
            | {"largest": largest_n(gpus.loc[gpu.label])}
            | {"limits": [_limit(one) for one in limits(texts, gpu.label).values()]}
            | {"threads": threads.get(gpu.recording, 1), "notes": notes_of(texts, gpu.label)}
            | _unaligned(limits(texts, gpu.label)[False])
            | {"memory_bytes": int(gpus.at[gpu.label, "memory_bytes"])}
            | {"stale": [name for name, one in VARIANTS.items() if one.source in gpu.stale_sources]}
            for gpu in measured
            if gpu.label in gpus.index
        ],
        "rows": _columns(rows),
        "names": {f"{v}|{whole(b) or ''}": named(v, whole(b)) for v, b in pairs},
        "libraries": [name for name, entry in VARIANTS.items() if isinstance(entry, Library)],
        "modes": {
            name: MODES[entry.flow] for name, entry in VARIANTS.items() if entry.flow in MODES
        },
        "breakEven": {
            visible("|".join(row[name] for name in names)): break_even_text(row)
            for row in sorted(sizes, key=size_of, reverse=True)  # the least one is the last
        },
        "shapes": shapes_data(store),
        "measured": _measured(store),
        "bounding": {name: bounding(name) for name in LOCATIONS},
        "widest": WIDEST,
        "long_s": surfaces.LONG_S,
        "aligned": ALIGNED,
        "reversed": REVERSED,
        "batches": BATCHES,
        "noBreakEven": NO_BREAK_EVEN,
        "measuredLater": {
            visible(f"{gpu}|{memory}|{arithmetic}"): [
                [n, visible(note)] for n, note in _later(gpu, memory, arithmetic, texts)
            ]
            for gpu, memory, arithmetic in itertools.product(gpus.index, HOST_MEMORY, ARITHMETIC)
        },
        "oneThread": ON_ONE_THREAD,
        "prepared": [name for name, entry in VARIANTS.items() if entry.flow == PREPARED],
        "tensor": [name for name, entry in VARIANTS.items() if entry.tensor_cores],
        "parts": PARTS,
        "time_unit_s": TIME_UNIT_S,
    }
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _later(gpu: str, memory: str, arithmetic: str, tables: Tables) -> Iterator[tuple[int, str]]:
    asked = Question(gpu, Shape.square(1), Run(memory), arithmetic)
    return measured_later(runs_on_gpu(asked, tables))


def _unaligned(limit: Limit) -> dict[str, object]:
    """Return the measured sizes that are not aligned, and the half-width at others."""
    return {
        "unaligned": sorted(limit.unaligned),
        "unalignedHalf": limit.unaligned_half_width,
    }


def _or_none(value: float | None) -> float | None:
    return None if pd.isna(value) else float(value)  # type: ignore[arg-type]


def _limit(one: Limit) -> list[float | None]:
    return [None if one.flop_per_s == math.inf else one.flop_per_s, one.sustained_share]


def _measured(store: Store) -> dict[str, object]:
    """Return times by GPU, variant, location and shape, and break-even sizes by location."""
    rows = store["locations"].dropna(subset=["total_high_s"])
    keys = ("gpu", "variant", "host_memory", "m", "n", "k")
    times = {
        visible("|".join(str(row[name]) for name in keys)): [
            *_times(row, "total"),
            _or_none(row["cpu_s"]),
        ]
        for row in rows.to_dict("records")
    }
    tables = {
        name: store[name].astype(str).to_dict("records")
        for name in ("location_break_even", "break_even")
    }
    texts = {}
    for gpu, location, family in itertools.product(store["predictors"]["gpu"], LOCATIONS, FAMILIES):
        if sizes := measured_break_even(tables, gpu, location, family):
            name = "N" if family == "square" else "longest edge"
            row = min(sizes, key=size_of)
            text = break_even_text(row, name, is_elsewhere(row, location))
            texts[visible(f"{gpu}|{location}|{family}")] = text
    batches: dict[str, list[object]] = {}
    for row in store["throughput"].to_dict("records"):
        name = named(row["variant"], whole(row["block_size"])) + MEASURED
        values = dict(zip(("time", "half", "below"), _times(row, "run"), strict=True))
        one = {"variant": row["variant"], "name": name} | values
        batches.setdefault(visible("|".join(str(row[name]) for name in BATCH)), []).append(one)
    return {"times": times, "break_even": texts, "batches": batches}


def _times(row: dict[str, Any], stem: str) -> list[float]:
    """Return a time, and the half-widths of its interval above and below."""
    texts = {name: "" if pd.isna(value) else str(value) for name, value in row.items()}
    time = Prediction.measured(texts, stem)
    return [time.time_s, *(min(half, _UNBOUNDED) for half in (time.half_width, time.below))]


def shapes_data(store: Store) -> dict[str, object]:
    """Return what predicts any shape: surfaces and nodes, batches by GPU, and constants."""
    nodes = dict(iter(store["surface_nodes"].groupby("surface", sort=False)))
    rules = {"tiles": surfaces.TILES, "load_fma": surfaces.LOAD_FMA}
    rules |= {"pieces_of_k": surfaces.PIECES_OF_K, "far_octaves": surfaces.FAR_OCTAVES}
    rules |= {"steps_per_octave": surfaces.STEPS_PER_OCTAVE}
    rules["locations"] = {
        name: asdict(one) | {"has_copies": one.has_copies} for name, one in LOCATIONS.items()
    }
    batches = store["batches"].drop(columns=["recording", "batches"])
    batches["gpu"] = batches["gpu"].map(visible)
    return {
        "rules": rules,
        "surfaces": [
            _surface(row, nodes[row["surface"]]) for row in store["surfaces"].to_dict("records")
        ],
        "batches": batches.to_dict("records"),
    }


def _surface(row: dict[str, Any], nodes: pd.DataFrame) -> dict[str, object]:
    texts = {"gpu": "gpu", "recording": "recording", "variant": "variant"}
    texts |= {"baseline": "cpu_baseline", "place": "host_memory"}
    numbers = ("power", "octaves", "size_share", "noise", "session_share", "session_s")
    return {
        **{
            name: None if pd.isna(row[column]) else visible(row[column])
            for name, column in texts.items()
        },
        **{name: row[name] for name in numbers},
        "multiprocessors": whole(row["multiprocessors"]) or 0,
        "coefficients": [row[term] for term in surfaces.TERMS],
        "errors": {name: row[f"{name}_error"] for name in surfaces.CLASSES},
        "nodes": nodes[["m", "n", "k"]].astype(int).to_numpy().tolist(),
        "weights": nodes["weight"].tolist(),
        "fastest": [surfaces.fastest(node) for node in nodes.to_dict("records")]
        if pd.isna(row["gpu"])
        else [],
    }


def _columns(rows: pd.DataFrame) -> dict[str, object]:
    times = {name: rows[f"{name}_s"] for name in ("time", *PARTS)}
    columns = {name: time_s / TIME_UNIT_S for name, time_s in times.items()}
    width = np.log(rows["time_high_s"] / times["time"])
    columns["time_half"] = width.replace(np.inf, _UNBOUNDED)
    columns |= {name: rows[name] for name in ("n", "block_size", "least_n", "largest_n")}
    return {
        **{name: codes(rows[name]) for name in _TEXTS},
        **{name: numbers(column) for name, column in columns.items()},
    }
