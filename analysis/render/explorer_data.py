"""Data of the report's explorer: summary.csv, packed for the page.

The explorer consists of `report/explorer.html.j2` (controls), `report/explorer.js` (behaviour) and
`report/explorer.vl.json` (chart, in Vega-Lite).
"""

import base64
import json
import zlib
from collections.abc import Mapping

import pandas as pd

from analysis.domain import CPU, SIZES
from analysis.drawing import palette
from analysis.render.numbers import visible
from cpu_reference.catalog import VARIANTS as CPU_VARIANTS
from kernels.catalog.entries import VARIANTS

# explorer.js runs them in this order when the explorer is near the viewport.
LIBRARIES = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")

# In microseconds, times with six digits are shortest.
_TIME_UNIT_S = 1e-6
_DIGITS = 6
_PARTS = ("total", "kernel", "h2d", "d2h")
_BOUNDS = ("", "_low", "_high")
_SOURCE_V = "Source V"
_CPU_GROUP = "CPU of the host"

# Vega shapes of the markers of `palette`: a name, or a path within −1 … 1.
_SHAPES = {
    "o": "circle",
    "s": "square",
    "v": "triangle-down",
    "^": "triangle-up",
    "D": "diamond",
    "X": "M-1,-.5L-.5,-1L0,-.5L.5,-1L1,-.5L.5,0L1,.5L.5,1L0,.5L-.5,1L-1,.5L-.5,0Z",
    "P": "cross",
    "<": "triangle-left",
    ">": "triangle-right",
    "p": "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z",
    "h": "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z",
    "*": "M0,-1L.22,-.31L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.22,-.31Z",
    "d": "M0,-1L.6,0L0,1L-.6,0Z",
}


def packed(text: str) -> str:
    """Return `text` in the format of gzip, in base64; equal for all versions of Python."""
    return base64.b64encode(zlib.compress(text.encode(), 9, wbits=31)).decode()


def explorer_data(summary: pd.DataFrame, titles: Mapping[str, str], focus: str) -> str:
    """Return the explorer's data as JSON.

    `summary` is the table of this name; only its series `SIZES` (square float32 matrices) is used.
    `titles` are those of the devices by label, in the order of the controls; `focus` is selected.

    The result has focus, time_unit_s, gpus (label, title, recording), kernels (name, group, colour,
    shape, chosen: selected initially) and rows. Rows are columns of equal length. Numbers have six
    significant digits, times are in units of time_unit_s, and missing values are null. Text columns
    have `values` and one index into them per row, `codes`. CPU rows have no gpu and belong to every
    GPU of their recording.
    """
    cells = summary[summary["series"] == SIZES].reset_index(drop=True)
    keys = pd.Series(zip(cells["device"] == CPU, cells["variant"], strict=True), dtype=object)
    kernels = sorted(set(keys), key=_place)
    names = {key: visible(f"CPU {key[1]}" if key[0] else key[1]) for key in kernels}
    looks = [palette.explorer_look(*key) for key in kernels]
    labels = cells["gpu"].fillna(cells["recording"])
    recording_of = dict(zip(labels, cells["recording"], strict=True))
    on_gpu = set(cells.loc[cells["gpu"] == focus, "variant"])
    shown_group = _SOURCE_V if on_gpu else _CPU_GROUP
    data = {
        "focus": focus,
        "time_unit_s": _TIME_UNIT_S,
        "gpus": [
            {"label": label, "title": visible(title), "recording": recording_of[label]}
            for label, title in titles.items()
            if label in recording_of
        ],
        "kernels": [
            {"name": names[key], "group": group, "colour": colour}
            | {"shape": _SHAPES[marker], "chosen": group == shown_group}
            for key, group, (colour, marker) in zip(
                kernels, map(_group, kernels), looks, strict=True
            )
        ],
        "rows": {
            "variant": _codes(keys.map(names)),
            **{name: _codes(cells[name]) for name in ("recording", "gpu", "host_memory")},
            **{name: _numbers(cells[name]) for name in ("n", "block_size", "threads", "samples")},
            **{
                f"{part}{bound}": _numbers(cells[f"{part}{bound}_s"] / _TIME_UNIT_S)
                for part in _PARTS
                for bound in _BOUNDS
            },
        },
    }
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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
