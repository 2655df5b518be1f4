"""Data of the page's calculator: the tables and facts of the catalog that `advise` reads.

`report/calculator.js` evaluates the same curves as `analysis.decide.predictors`.
"""

import json
from typing import Any

import pandas as pd

from analysis.data.cells import whole
from analysis.data.store import Store
from analysis.decide.advise import MODES, PARTS, break_even_text
from analysis.decide.predictions import as_text
from analysis.decide.predictors import Kernel, square
from base.errors import StudyError
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import SEQUENTIAL, Library

_SIZES = (1, 100, 700, 1000, 2049, 5000, 20000)  # at which the number of blocks is checked
_UNBOUNDED = 10**9


def calculator_data(store: Store, titles: dict[str, str]) -> str:
    """Return the data as JSON. `titles` are the titles of the GPUs by label, in order."""
    curves = store["curves"].drop(columns=["samples", "time_s", "time_low_s", "time_high_s"])
    curves = curves.drop(columns=["left_out_between", "left_out_beyond"])
    transfers = store["transfers"]
    sizes = store["break_even"].query("kernels == 'study'")
    names = ("gpu", "host_memory", "cpu_baseline")
    curves = curves[curves["gpu"].isna() | curves["variant"].isin(VARIANTS)]
    on_gpu = curves.loc[curves["gpu"].notna(), ["variant", "block_size"]].drop_duplicates()
    pairs = [(name, whole(block)) for name, block in on_gpu.itertuples(index=False)]
    found: dict[str, Any] = {
        "titles": titles,
        "gpus": _rows(store["predictors"]),
        "transfers": _rows(transfers[transfers["used"]]),
        "curves": json.loads(curves.to_json(orient="split", double_precision=15))["data"],
        "columns": list(curves.columns),
        "breakEven": {
            "|".join(row[name] for name in names): break_even_text(row) for row in as_text(sizes)
        },
        "variants": {name: _facts(name) for name in dict.fromkeys(name for name, _ in pairs)},
        "names": {f"{v}|{b or ''}": Kernel(v, b, None).name for v, b in pairs},
        "tiles": {f"{v}|{b or ''}": _tile(v, b) for v, b in pairs},
        "baselines": CPU_BASELINES,
        "parts": PARTS,
    }
    return json.dumps(found, ensure_ascii=False)


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows


def _facts(name: str) -> dict[str, Any]:
    entry = VARIANTS[name]
    return {
        "flow": entry.flow,
        "library": isinstance(entry, Library),
        "mode": MODES.get(entry.flow),
    }


def _tile(name: str, number: int | None) -> list[int] | None:
    """Return rows and columns of C per block, and the most blocks; None if no fill is needed."""
    if isinstance(VARIANTS[name], Library) or VARIANTS[name].flow not in SEQUENTIAL:
        return None
    products = [square(name, number, n) for n in _SIZES]
    blocks = [product.launch.blocks for product in products]
    rows, columns, _ = products[0].tile
    forms = (rows, columns, _UNBOUNDED), (rows, columns, max(blocks)), (1, _UNBOUNDED, _UNBOUNDED)
    for form in forms:
        counts = [min(-(-n // form[0]) * -(-n // form[1]), form[2]) for n in _SIZES]
        if counts == blocks:
            return list(form)
    raise StudyError(f"the calculator cannot compute the number of blocks of {name}")
