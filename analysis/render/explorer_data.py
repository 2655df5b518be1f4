"""The data of the report's explorer: summary.csv and roofline.csv, packed for the page.

The explorer consists of `report/explorer.html.j2` (controls), `report/explorer.js` (behaviour) and
`report/explorer.vl.json` (chart, in Vega-Lite).
"""

import base64
import json
import zlib

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import of_sizes, rates_of
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CPU, SHAPE, SIZES
from analysis.drawing import palette
from analysis.render.numbers import visible
from cpu_reference.catalog import VARIANTS as CPU_VARIANTS
from kernels.catalog.baselines import NAIVE
from kernels.catalog.entries import VARIANTS
from kernels.products.shape import Shape

# explorer.js runs them in this order when the explorer is near the viewport.
LIBRARIES = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")

# Times are in microseconds, in which six digits are shortest.
TIME_UNIT_S = 1e-6
_DIGITS = 6
_PARTS = ("total", "kernel", "h2d", "d2h")
_TIMES = [f"{part}{bound}" for part in _PARTS for bound in ("", "_low", "_high")]
_TEXTS = ("recording", "gpu", "host_memory", "dtype")
_INTENSITY = ["gpu", "variant", "dtype", *SHAPE, "block_size", "flop_per_byte_of_sectors"]
# Roofs of the explorer's roofline axes: quantities of ceilings.csv.
_ROOFS = ("fp32_flop_per_s", "l1_bytes_per_s", "device_copy_bytes_per_s")
_Keys = set[tuple[bool, str]]  # is CPU, variant


def packed(text: str) -> str:
    """Return `text` in the format of gzip, in base64; equal for all versions of Python."""
    return base64.b64encode(zlib.compress(text.encode(), 9, wbits=31)).decode()


def explorer_data(store: Store, measured: Devices) -> str:
    """Return the explorer's data, from the tables of `store`, as JSON.

    The result has focus, time_unit_s, gpus (label, title, name, colour, recording, `_ROOFS`, and
    stale: kernels recorded with an older source), kernels (name, group, colour, marker, chosen:
    selected initially) and rows. Rows are columns of equal length. Numbers have six significant
    digits, times are in units of time_unit_s, and missing values are null. Text columns have
    `values` and one index into them per row, `codes`. CPU rows have no gpu and belong to every GPU
    of their recording. The shape is null for square float32 matrices of the study's sizes.
    """
    cells = store["summary"].merge(store["roofline"][_INTENSITY], how="left", on=_INTENSITY[:-1])
    keys = pd.Series(zip(cells["device"] == CPU, cells["variant"], strict=True), dtype=object)
    kernels = sorted(set(keys), key=_place)
    names = {key: visible(f"CPU {key[1]}" if key[0] else key[1]) for key in kernels}
    looks = [palette.explorer_look(*key) for key in kernels]
    gpu_looks = palette.gpu_looks(gpu.label for gpu in measured.gpus)
    colours = {gpu: look.colour for gpu, look in gpu_looks.items()}
    timed = {*cells["gpu"], *cells["recording"]}
    chosen = _story(store["ladder_summary"], of_sizes(cells), measured.focus)
    shapes = [str(Shape(*edges)) for edges in zip(*(cells[name] for name in SHAPE), strict=True)]
    data = {
        "focus": visible(measured.focus.label) if measured.focus else "",
        "time_unit_s": TIME_UNIT_S,
        "gpus": [
            {"label": visible(each.label), "title": visible(each.title)}
            | {"recording": visible(each.recording)}
            | {"name": visible(each.short), "colour": colours.get(each.label, palette.GREY)}
            | {name: rates_of(store["ceilings"], each.label).get(name) for name in _ROOFS}
            | {"stale": [names[key] for key in kernels if _source(key) in each.stale_sources]}
            for each in measured.all
            if each.label in timed
        ],
        "kernels": [
            {"name": names[key], "group": _group(key), "colour": colour}
            | {"marker": marker, "chosen": key in chosen}
            for key, (colour, marker) in zip(kernels, looks, strict=True)
        ],
        "rows": {
            "variant": codes(keys.map(names)),
            "shape": codes(pd.Series(shapes).where(cells["series"] != SIZES)),
            **{name: codes(cells[name]) for name in _TEXTS},
            **{name: numbers(cells[name]) for name in ("n", "block_size", "threads", "samples")},
            "intensity": numbers(cells[_INTENSITY[-1]]),
            **{name: numbers(cells[f"{name}_s"] / TIME_UNIT_S) for name in _TIMES},
        },
    }
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _story(ladder: pd.DataFrame, cells: pd.DataFrame, focus: Device | None) -> _Keys:
    """Return the kernels that the explorer selects initially.

    They are the naive, the user-supplied, the library's and the fastest kernels. Without a GPU,
    they are all CPU implementations.
    """
    if focus is None:
        return set()
    of_gpu = ladder[(ladder["gpu"] == focus.label).fillna(False)]
    marks = of_gpu[["is_fastest", "is_library"]].fillna(False).astype(bool).any(axis=1)
    marks |= (of_gpu["variant"] == NAIVE) | of_gpu["idea"].isin(["user-supplied", "your own"])
    chosen = of_gpu.loc[marks, "variant"]
    cpu = cells[(cells["device"] == CPU) & (cells["recording"] == focus.recording)]
    best = fastest(cpu[cpu["n"] == cpu["n"].max()], "total_s") if len(of_gpu) else cpu
    return {*((False, name) for name in chosen), *((True, name) for name in best["variant"])}


def _source(key: tuple[bool, str]) -> str | None:
    """Return the path of the source file of a kernel in the catalog."""
    entry = (CPU_VARIANTS if key[0] else VARIANTS).get(key[1])
    return entry.source if entry else None


def _place(key: tuple[bool, str]) -> tuple[bool, int, str]:
    catalog = [*(CPU_VARIANTS if key[0] else VARIANTS)]
    return key[0], catalog.index(key[1]) if key[1] in catalog else len(catalog), key[1]


def _group(key: tuple[bool, str]) -> str:
    if key[0]:
        return "CPU of the host"
    origin = VARIANTS[key[1]].origin if key[1] in VARIANTS else ""
    return f"Source {origin[0]}" if origin[:1] in {*"VTGLH"} else "Others"


def codes(column: pd.Series) -> dict[str, list[str] | list[int | None]]:
    """Return a text column as its distinct values and each row's index in them (None: missing)."""
    codes, values = pd.factorize(column)
    places = [int(code) if code >= 0 else None for code in codes]
    return {"values": [visible(str(value)) for value in values], "codes": places}


def numbers(column: pd.Series) -> list[float | int | None]:
    """Return a column of numbers with six significant digits; None for missing values."""
    rounded = (None if pd.isna(value) else float(f"{value:.{_DIGITS}g}") for value in column)
    return [int(each) if each is not None and each.is_integer() else each for each in rounded]
