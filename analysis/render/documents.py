"""Numbers in Markdown documents, from the published tables.

A mark ``<!--= EXPRESSION -->text<!--/-->`` contains an expression of the page's templates and its
value, for example ``ci(best, "speedup")``. `t` reads the tables in `PUBLISHED`, and `words` are the
phrases of ``words.html.j2``. Of the GPU in focus, `device` is the row of the table recordings,
`strict` and `best` are the rows of choices that the page names first, and `even` is its row of
break_even.
"""

import html
import re
import zipfile
from functools import cache
from pathlib import Path

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
_WORDS = '{% import "words.html.j2" as words with context %}{{ '


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
        shown = environment.from_string(f"{_WORDS}{mark[1]} }}}}").render()
        shown = re.sub(r"</?code[^>]*>", "`", " ".join(shown.replace("\u2060", "").split()))
        return f"<!--= {mark[1]} -->{html.unescape(re.sub(r'<[^>]*>', '', shown))}<!--/-->"

    return _MARK.sub(filled, text)


@cache
def _environment() -> jinja2.Environment:
    environment = environment_of(ROOT / "report")
    named = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["report"]["focus"]
    recordings = _table("recordings")
    labels = [*recordings.where(gpu=named).values("gpu")]
    labels += recordings.where(recording=named).values("gpu")
    choices = _table("choices").where(gpu=labels[0], cpu_baseline=BEST)
    environment.globals |= {
        "t": _table,
        "device": recordings.where(gpu=labels[0]).first,
        "strict": choices.where(**STRICTEST).first,
        "best": choices.most("speedup"),
        "even": _table("break_even").where(gpu=labels[0], is_answer=True).first,
    }
    return environment


def _table(name: str) -> Rows:
    with zipfile.ZipFile(PUBLISHED) as archive, archive.open(f"{name}.csv") as file:
        return Rows(name, pd.read_csv(file), {})
