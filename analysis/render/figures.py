"""Draw every figure of the report, several at a time, each from the tables alone."""

import importlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from analysis.data.devices import Devices, devices
from analysis.data.store import Store
from analysis.drawing import style, svg
from base.files import write_atomic

# A topic's figures are drawn by the functions under FIGURES in its module `figures`.
TOPICS = ("overview", "kernels", "published", "models", "decide", "cpu", "trust")
Draw = Callable[[Store, Devices], Figure | None]


def write_figures(tables_dir: Path | str, out_dir: Path | str, focus: str | None = None) -> None:
    """Draw the figures from the tables in `tables_dir` into `out_dir`, and list them there.

    ``figures.json`` names those that were drawn; what nothing was measured for is not. SVG files
    that are no longer among them are removed. Raises StoreError if a table is missing.
    """
    out = Path(out_dir)
    devices(Store(tables_dir), focus)  # an error here is one, not one a process
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        drawn = pool.map(
            partial(_write, Path(tables_dir), out, focus), *zip(*_names(), strict=True)
        )
        names = sorted(name for name in drawn if name)
    write_atomic(out / "figures.json", json.dumps(names, indent=1) + "\n")
    for old in set(out.glob("*.svg")) - {out / f"{name}.svg" for name in names}:
        old.unlink()


def _names() -> list[tuple[str, str]]:
    return [(topic, name) for topic in TOPICS for name in _figures(topic)]


def _figures(topic: str) -> dict[str, Draw]:
    found: dict[str, Draw] = importlib.import_module(f"analysis.{topic}.figures").FIGURES
    return found


def _write(tables_dir: Path, out: Path, focus: str | None, topic: str, name: str) -> str | None:
    """Draw one figure into the folder `out`; return its name, None if there is nothing to show."""
    store = Store(tables_dir)
    with style.theme():
        figure = _figures(topic)[name](store, devices(store, focus))
        if figure is None:
            return None
        write_atomic(out / f"{name}.svg", svg.render(figure, name))
    return name
