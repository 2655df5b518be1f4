"""A figure before it is written, and the words that captions share."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from analysis.results import Subject

INTERVALS = "Lines through the markers are the intervals of the medians; a hollow marker has none."


@dataclass(frozen=True)
class Drawing:
    """A figure before it is written: `name` is its file and the prefix of its ids.

    `kind` says what it shows, `source` of what: a label, "published", or "" for all together.
    """

    name: str
    kind: str
    source: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Card:
    """A GPU whose figures are drawn; `name` is its anchor."""

    subject: Subject
    name: str

    def drawing(self, kind: str, title: str, caption: str, figure: Figure) -> Drawing:
        """Return a figure of this card, which the title names."""
        title = f"{title}: {self.subject.marked_title}"
        return Drawing(f"{kind}-{self.name}", kind, self.subject.label, title, caption, figure)


@dataclass(frozen=True)
class Host:
    """A host whose CPU's figures are drawn; `name` is its anchor."""

    subject: Subject
    name: str

    def drawing(self, kind: str, title: str, caption: str, figure: Figure) -> Drawing:
        """Return a figure of this host, which the title names."""
        title = f"{title}: {self.subject.marked_cpu}"
        return Drawing(f"{kind}-{self.name}", kind, self.subject.label, title, caption, figure)


def threads_text(cells: pd.DataFrame) -> str:
    """Return on how many threads these cells of a CPU are: "one thread and 16 threads"."""
    counts = sorted({int(count) for count in cells["threads"] if count > 0})
    return " and ".join("one thread" if n == 1 else f"{n} threads" for n in counts)


def samples_text(rows: pd.DataFrame) -> str:
    """Return the sentence that says how many samples the medians of these cells are of."""
    counts = rows["samples"].dropna()
    if counts.empty:
        return ""
    low, high = int(counts.min()), int(counts.max())
    return f"Medians of {low if low == high else f'{low} to {high}'} samples a cell."
