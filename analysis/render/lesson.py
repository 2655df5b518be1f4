"""The lesson: an article about recordings, whose claims are conditions on the tables.

``report/lesson.html.j2`` is the article. ``report/lesson.yaml`` names the GPU model, the folders of
its recordings, the rows of tables that the article cites, and the claims of each paragraph. The
article describes exactly these recordings, so a page with others in focus only links to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from math import log
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from analysis.data.devices import Device, Devices
from analysis.data.sessions import session_names
from analysis.data.store import StoreError
from analysis.render import numbers
from analysis.render.query import Row, Rows
from analysis.schema import TABLES
from kernels.catalog.locations import LOCATIONS

ARTICLE, FACTS, ELSEWHERE = "lesson.html.j2", "lesson.yaml", "lesson/elsewhere.html.j2"
_NAMES_OF_THE_GPU = ("gpu", "source")  # columns, in the order in which they select a row


@dataclass
class Claims:
    """Claims that paragraphs of an article make about `rows`; `paragraph` is the current one."""

    environment: jinja2.Environment
    of_paragraph: Mapping[str, list[str]]
    rows: Mapping[str, Any]
    paragraph: str = field(default="first", init=False)

    def hold(self, paragraph: str) -> str:
        """Begin a paragraph; raise LookupError if one of its claims is false."""
        self.paragraph = paragraph
        for claim in self.of_paragraph.get(paragraph, ()):
            condition = self.environment.compile_expression(claim, undefined_to_none=False)
            if not condition(**self.rows):
                raise LookupError(f"{claim!r} does not hold")
        return ""


def is_about(facts: Mapping[str, Any], devices: Devices, recordings: Mapping[str, Path]) -> bool:
    """Return whether the article describes the recordings of the device in focus."""
    focus = devices.focus
    if focus is None or not focus.is_gpu or focus.name != facts["gpu"]:
        return False
    count = sum(name.rpartition(".")[0] == focus.recording for name in recordings) or 1
    folders = [recordings.get(name) for name in session_names(focus.recording, count)]
    return [Path(each or "").name for each in folders] == facts["recordings"]


def lesson(
    environment: jinja2.Environment,
    t: Callable[[str], Rows],
    devices: Devices,
    recordings: Mapping[str, Path],
) -> Markup:
    """Return the article, or the link to it if other recordings are in focus.

    Raise StoreError, which names the paragraph, if a claim is false or a number is missing.
    """
    facts = read(environment)
    if not is_about(facts, devices, recordings):
        return Markup(environment.get_template(ELSEWHERE).render(facts=facts))
    assert devices.focus
    of_focus = partial(_rows, t, devices.focus)
    rows = {
        name: row
        for table, named in facts["rows"].items()
        for name, where in named.items()
        if (row := _single(of_focus, table, where)) is not None
    }
    lists = {
        name: of_focus(table, where)
        for table, named in facts["lists"].items()
        for name, where in named.items()
    }
    claims = Claims(environment, facts["claims"], {**rows, "t": t})
    shown = {name: _complete(getattr(numbers, name)) for name in ("interval", "ratio", "share")}
    values = {
        "n": _complete(numbers.number),
        "ci": shown.pop("interval"),
        **shown,
        "holds": claims.hold,
        "along": along,
        "places": LOCATIONS,
        **lists,
        **rows,
    }
    try:
        return Markup(environment.get_template(ARTICLE).render(values))
    except (jinja2.UndefinedError, LookupError, TypeError) as error:
        raise StoreError(
            f'report/{ARTICLE}: paragraph "{claims.paragraph}" is stale: {error}; correct the '
            "paragraph and its claims"
        ) from None


def read(environment: jinja2.Environment) -> dict[str, Any]:
    """Return what the article is about: its gpu, recordings, rows, lists of rows and claims."""
    assert environment.loader
    text, _, _ = environment.loader.get_source(environment, FACTS)
    facts: dict[str, Any] = yaml.safe_load(text)
    return facts


def along(value: float, low: float, high: float) -> str:
    """Return where `value` is on a logarithmic axis, as a percentage of the axis's length."""
    return f"{100 * log(value / low) / log(high / low):.1f}%"


def _single(of_focus: Callable[..., Rows], table: str, where: dict[str, Any]) -> Row | None:
    rows = of_focus(table, where)
    return rows.first if len(rows) == 1 else None


def _rows(t: Callable[[str], Rows], focus: Device, table: str, where: Mapping[str, Any]) -> Rows:
    """Return the rows of a table with the values `where`, by default those of the GPU in focus."""
    named = [name for name in _NAMES_OF_THE_GPU if name in TABLES[table].columns]
    of_gpu = dict.fromkeys(named[:1], focus.label)
    if where.get("device") == "cpu":
        of_gpu = {"recording": focus.recording}
    return t(table).where(**{**of_gpu, **where})


def _complete(show: Callable[..., Markup]) -> Callable[..., Markup]:
    """Return a version of `show` that raises LookupError for a missing value, instead of a dash."""

    @wraps(show)
    def complete(*arguments: Any, **options: Any) -> Markup:
        shown = show(*arguments, **options)
        if shown == numbers.ABSENT:
            raise LookupError("a number is missing")
        return shown

    return complete
