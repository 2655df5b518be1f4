"""Data of the report's explorer: summary.csv and roofline.csv, packed for the page.

The explorer consists of `report/explorer.html.j2` (controls), `report/explorer.js` (behaviour) and
`report/explorer.vl.json` (chart, in Vega-Lite).
"""

import base64
import json
import zlib
from collections.abc import Mapping

import pandas as pd

from analysis.data.best import fastest
from analysis.data.ceilings import rates_of
from analysis.data.cells import of_sizes
from analysis.data.store import Store
from analysis.domain import CPU, SHAPE, SIZES
from analysis.drawing import palette
from analysis.render.numbers import visible
from cpu_reference.catalog import VARIANTS as CPU_VARIANTS
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import BASELINE
from kernels.products.shape import Shape

# explorer.js runs them in this order when the explorer is near the viewport.
LIBRARIES = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")

# In microseconds, times with six digits are shortest.
_TIME_UNIT_S = 1e-6
_DIGITS = 6
_PARTS = ("total", "kernel", "h2d", "d2h")
_BOUNDS = ("", "_low", "_high")
_INTENSITY = ["gpu", "variant", "dtype", *SHAPE, "block_size", "flop_per_byte_of_sectors"]
_CPU_GROUP = "CPU of the host"


def packed(text: str) -> str:
    """Return `text` in the format of gzip, in base64; equal for all versions of Python."""
    return base64.b64encode(zlib.compress(text.encode(), 9, wbits=31)).decode()


def explorer_data(store: Store, titles: Mapping[str, str], focus: str) -> str:
    """Return the explorer's data, from the tables of `store`, as JSON.

    `titles` are those of the devices by label, in the order of the controls; `focus` is selected.

    The result has focus, time_unit_s, gpus (label, title, recording, measured FMA throughput),
    kernels (name, group, colour, marker, chosen: selected initially) and rows. Rows are columns of
    equal length. Numbers have six significant digits, times are in units of time_unit_s, and
    missing values are null. Text columns have `values` and one index into them per row, `codes`.
    CPU rows have no gpu and belong to every GPU of their recording. The shape is null for square
    float32 matrices of the study's sizes.
    """
    cells = store["summary"].merge(store["roofline"][_INTENSITY], how="left", on=_INTENSITY[:-1])
    keys = pd.Series(zip(cells["device"] == CPU, cells["variant"], strict=True), dtype=object)
    kernels = sorted(set(keys), key=_place)
    names = {key: visible(f"CPU {key[1]}" if key[0] else key[1]) for key in kernels}
    looks = [palette.explorer_look(*key) for key in kernels]
    labels = cells["gpu"].fillna(cells["recording"])
    recording_of = dict(zip(labels, cells["recording"], strict=True))
    chosen = _story(store["ladder_summary"], of_sizes(cells), focus, recording_of.get(focus))
    shapes = [str(Shape(*edges)) for edges in zip(*(cells[name] for name in SHAPE), strict=True)]
    peaks = {label: rates_of(store["ceilings"], label).get("fp32_flop_per_s") for label in titles}
    data = {
        "focus": focus,
        "time_unit_s": _TIME_UNIT_S,
        "gpus": [
            {"label": label, "title": visible(title), "recording": recording_of[label]}
            | {"flop_per_s": peaks[label]}
            for label, title in titles.items()
            if label in recording_of
        ],
        "kernels": [
            {"name": names[key], "group": _group(key), "colour": colour}
            | {"marker": marker, "chosen": key in chosen}
            for key, (colour, marker) in zip(kernels, looks, strict=True)
        ],
        "rows": {
            "variant": _codes(keys.map(names)),
            "shape": _codes(pd.Series(shapes).where(cells["series"] != SIZES)),
            **{name: _codes(cells[name]) for name in ("recording", "gpu", "host_memory", "dtype")},
            **{name: _numbers(cells[name]) for name in ("n", "block_size", "threads", "samples")},
            "intensity": _numbers(cells[_INTENSITY[-1]]),
            **{
                f"{part}{bound}": _numbers(cells[f"{part}{bound}_s"] / _TIME_UNIT_S)
                for part in _PARTS
                for bound in _BOUNDS
            },
        },
    }
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _story(
    ladder: pd.DataFrame, cells: pd.DataFrame, focus: str, recording: str | None
) -> set[tuple[bool, str]]:
    """Return the kernels selected initially: naive, the fastest ones, libraries, the fastest CPU.

    Without a GPU, these are all CPU implementations.
    """
    own = ladder[(ladder["gpu"] == focus).fillna(False)]
    marks = own[["is_fastest", "is_library"]].fillna(False).astype(bool).any(axis=1)
    chosen = own.loc[marks | (own["variant"] == BASELINE), "variant"]
    cpu = cells[(cells["device"] == CPU) & (cells["recording"] == recording)]
    best = fastest(cpu[cpu["n"] == cpu["n"].max()], "total_s") if len(own) else cpu
    return {*((False, name) for name in chosen), *((True, name) for name in best["variant"])}


def _place(key: tuple[bool, str]) -> tuple[bool, int, str]:
    """Return the sort key of a (is CPU, variant): the order of the catalogs."""
    catalog = [*(CPU_VARIANTS if key[0] else VARIANTS)]
    return key[0], catalog.index(key[1]) if key[1] in catalog else len(catalog), key[1]


def _group(key: tuple[bool, str]) -> str:
    """Return the group of a (is CPU, variant) in the controls, by its origin."""
    is_cpu, name = key
    if is_cpu:
        return _CPU_GROUP
    origin = VARIANTS[name].origin if name in VARIANTS else ""
    return f"Source {origin[0]}" if origin[:1] in {*"VTGLH"} else "Others"


def _codes(column: pd.Series) -> dict[str, list[str] | list[int | None]]:
    codes, values = pd.factorize(column)
    known = [int(code) if code >= 0 else None for code in codes]
    return {"values": [str(value) for value in values], "codes": known}


def _numbers(column: pd.Series) -> list[float | int | None]:
    known = (None if pd.isna(value) else float(f"{value:.{_DIGITS}g}") for value in column)
    return [int(each) if each is not None and each.is_integer() else each for each in known]
