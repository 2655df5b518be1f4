"""Keeping the numbers in Markdown documents equal to the published tables.

A mark ``<!--= EXPRESSION -->text<!--/-->`` contains an expression of the page's templates and its
value, for example ``ci(best, "speedup")``. In an expression, `t` reads the tables in `PUBLISHED`,
and `words` is `analysis.render.words`. For the GPU in focus, `device` is its row of the table
recordings; `strict`, `best`, `cublas`, `cublas_pinned`, `cublas_one_thread` and, with the largest
and the smallest speedup over any baseline, `most` and `least` are rows of choices. `located` has
its rows of locations for cuBLAS at N = 4096, by location of the data. `minutes` is the time of its
last recording, from ``provenance.json``.

A mark does not begin a line, because Markdown would read the line as a block of HTML.
"""

import html
import json
import math
import re
import zipfile
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from analysis.render.page import environment_of
from analysis.render.query import Rows
from analysis.render.sections import STRICTEST
from base.files import write_atomic
from base.paths import ROOT
from kernels.catalog.baselines import BEST

PUBLISHED = ROOT / "data" / "published" / "reproduction.zip"
_MARK = re.compile(r"<!--= (.+?) -->.*?<!--/-->", re.DOTALL)


def documents() -> list[Path]:
    """Return all documents that may contain marks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def update() -> list[Path]:
    """Write the current numbers into all documents; return those that changed."""
    now = {path: path.read_text(encoding="utf-8") for path in documents()}
    changed = {path: new for path, text in now.items() if (new := with_numbers(text)) != text}
    for path, text in changed.items():
        write_atomic(path, text)
    return [*changed]


def with_numbers(text: str) -> str:
    """Return a document with the value of each mark."""
    environment = _environment()

    def filled(mark: re.Match[str]) -> str:
        shown = environment.from_string(f"{{{{ {mark[1]} }}}}").render()
        shown = re.sub(r"</?code[^>]*>", "`", " ".join(shown.replace("\u2060", "").split()))
        return f"<!--= {mark[1]} -->{html.unescape(re.sub(r'<[^>]*>', '', shown))}<!--/-->"

    return _MARK.sub(filled, text)


@cache
def _environment() -> jinja2.Environment:
    environment = environment_of(ROOT / "report")
    configuration = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    focus = configuration["report"]["focus"]
    recordings = _table("recordings")
    labels = [*recordings.where(gpu=focus).values("gpu")]
    labels += recordings.where(recording=focus).values("gpu")
    choices = _table("choices").where(gpu=labels[0])
    over_best = choices.where(cpu_baseline=BEST)
    places = {"gpu": labels[0], "family": "square", "variant": "cublas_sgemm", "n": 4096}
    cublas = {"kernels": "cuBLAS, pedantic FP32", "host_memory": "pageable"}
    environment.globals |= {
        "t": _table,
        "device": recordings.where(gpu=labels[0]).first,
        "strict": over_best.where(**STRICTEST).first,
        "best": over_best.most("speedup"),
        "cublas": over_best.where(**cublas).first,
        "cublas_pinned": over_best.where(**cublas | {"host_memory": "pinned"}).first,
        "cublas_one_thread": choices.where(**cublas, cpu_baseline="one thread").first,
        "most": choices.most("speedup"),
        "least": choices.least("speedup"),
        "located": {row["host_memory"]: row for row in _table("locations").where(**places)},
        "minutes": _minutes(next(gpu for gpu in configuration["gpus"] if gpu["id"] == focus)),
    }
    return environment


def _minutes(entry: dict[str, Any]) -> int:
    """Return how many minutes the last recording of a GPU took, rounded up."""
    folder = entry.get("recording") or entry["recordings"][-1]
    provenance = json.loads((ROOT / folder / "provenance.json").read_text(encoding="utf-8"))
    start, end = (datetime.fromisoformat(provenance[f"{at}_utc"]) for at in ("started", "finished"))
    return math.ceil((end - start).total_seconds() / 60)


def _table(name: str) -> Rows:
    with zipfile.ZipFile(PUBLISHED) as archive, archive.open(f"{name}.csv") as file:
        return Rows(name, pd.read_csv(file), {})
