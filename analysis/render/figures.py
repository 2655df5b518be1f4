"""Drawing all figures of the report from the tables, in parallel."""

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

# The module `figures` of each topic has its drawing functions in FIGURES.
TOPICS = ("overview", "kernels", "published", "models", "decide", "cpu", "trust")
Draw = Callable[[Store, Devices], Figure | None]


def write_figures(tables_dir: Path | str, out_dir: Path | str, focus: str | None = None) -> None:
    """Draw the figures from the tables in `tables_dir` into `out_dir`.

    ``figures.json`` lists the figures drawn; figures without data are not drawn. SVG files of
    figures that were drawn before are removed. Raise StoreError if a table is missing.
    """
    out = Path(out_dir)
    devices(Store(tables_dir), focus)  # checked here, so that an error is reported only once
    every = _names()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        drawn = pool.map(partial(_write, Path(tables_dir), out, focus), *zip(*every, strict=True))
        names = sorted(name for name in drawn if name)
    listed = out / "figures.json"
    before = json.loads(listed.read_text()) if listed.exists() else []
    write_atomic(listed, json.dumps(names, indent=1) + "\n")
    for name in {*before} - {*names}:  # only these: other SVG files may belong to the user
        (out / f"{name}.svg").unlink(missing_ok=True)


def _names() -> list[tuple[str, str]]:
    return [(topic, name) for topic in TOPICS for name in _figures(topic)]


def _figures(topic: str) -> dict[str, Draw]:
    drawings: dict[str, Draw] = importlib.import_module(f"analysis.{topic}.figures").FIGURES
    return drawings


def _write(tables_dir: Path, out: Path, focus: str | None, topic: str, name: str) -> str | None:
    store = Store(tables_dir)
    with style.theme():
        figure = _figures(topic)[name](store, devices(store, focus))
        if figure is None:
            return None
        write_atomic(out / f"{name}.svg", svg.render(figure, name))
    return name
