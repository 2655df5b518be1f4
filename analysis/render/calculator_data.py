"""Data of the page's calculator, and of the explorer's predictions: the table that `advise` reads.

The calculator consists of `report/calculator.html.j2` (controls) and `report/calculator.js`.
"""

import json

import numpy as np
import pandas as pd

from analysis.data.cells import whole
from analysis.data.store import Store
from analysis.decide.advise import MODES, break_even_text, largest_n
from analysis.decide.lookup import PARTS, named
from analysis.render.explorer_data import TIME_UNIT_S, codes, numbers
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import Library

_UNBOUNDED = 1e9  # half-width of a missing interval; JSON has no infinity
_TEXTS = ("recording", "gpu", "cpu_baseline", "host_memory", "variant")


def calculator_data(store: Store, titles: dict[str, str]) -> str:
    """Return the data as JSON. `titles` are the titles of the GPUs by label, in order.

    `rows` are those of `predicted_times`, in the columns of `explorer_data`, with half-widths of
    intervals instead of their ends. `names` are the implementations by variant and block size.
    """
    gpus = store["predictors"].set_index("gpu")
    sizes = store["break_even"].query("kernels == 'study'").astype(str)
    names = ("gpu", "host_memory", "cpu_baseline")
    rows = store["predicted_times"]
    pairs = rows[["variant", "block_size"]].drop_duplicates().itertuples(index=False)
    data = {
        "gpus": [
            {"label": label, "title": title, "recording": gpus.at[label, "recording"]}
            | {"largest": largest_n(gpus.loc[label])}
            for label, title in titles.items()
            if label in gpus.index
        ],
        "rows": _columns(rows),
        "names": {f"{v}|{whole(b) or ''}": named(v, whole(b)) for v, b in pairs},
        "libraries": [name for name, entry in VARIANTS.items() if isinstance(entry, Library)],
        "modes": {
            name: MODES[entry.flow] for name, entry in VARIANTS.items() if entry.flow in MODES
        },
        "breakEven": {
            "|".join(row[name] for name in names): break_even_text(row)
            for row in sizes.to_dict("records")
        },
        "baselines": CPU_BASELINES,
        "parts": PARTS,
        "time_unit_s": TIME_UNIT_S,
    }
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _columns(rows: pd.DataFrame) -> dict[str, object]:
    times = {name: rows[f"{name}_s"] for name in ("time", "further", *PARTS)}
    columns = {name: time_s / TIME_UNIT_S for name, time_s in times.items()}
    for name in ("time", "further"):
        width = np.log(rows[f"{name}_high_s"] / times[name])
        columns[f"{name}_half"] = width.replace(np.inf, _UNBOUNDED)
    columns |= {name: rows[name] for name in ("n", "block_size", "least_n", "largest_n")}
    return {
        **{name: codes(rows[name]) for name in _TEXTS},
        **{name: numbers(column) for name, column in columns.items()},
    }
