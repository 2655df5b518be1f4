"""The three answers of the report, printed in a terminal."""

import html
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from analysis.data.devices import devices
from analysis.data.store import Store
from analysis.render.query import rows
from analysis.render.sections import Answers, answers_of
from base.command_line import aligned


def answers(tables_dir: Path | str, focus: str | None = None) -> str:
    """Return the answers for the GPU in focus and for devices measured on this host.

    Raise StoreError if a table is missing or `focus` was not measured.
    """
    store = Store(tables_dir)
    measured = devices(store, focus)
    shown = [one for one in measured.all if one is measured.focus or one.live]
    found = (answers_of(partial(rows, store), device) for device in shown)
    return "\n\n".join("\n".join([one.device.title, *_lines(one)]) for one in found)


def _lines(found: Answers) -> Iterator[str]:
    lines = [
        (answer.title, _plain(value), _plain(text))
        for answer in found.answers
        for value, text in answer.lines
    ]
    return (f"  {line}" for line in aligned(lines))


def _plain(markup: str) -> str:
    text = html.unescape(re.sub(r"<[^>]*>", "", markup))
    return text.replace("\u00a0", " ").replace("\u2060", "")
