"""Short phrases for the page and for documents: implementations, sizes, break-even sizes."""

import re

from jinja2.ext import Extension
from markupsafe import Markup

from analysis.render.numbers import name, number
from analysis.render.query import Row
from analysis.schema import COUNT
from kernels.catalog.baselines import BASELINES

_LEAST_TILE = 1000  # block sizes from here are tiles: 128256 is 128×256
# Spaces that break no line: "95 %", "N = 4096", "Table 6".
_UNBROKEN = re.compile(
    r"(?<=\d) (?=%[^}])|(?<=\b[NBηρ]) (?=[=≥] )|(?<=\b[NBηρ] [=≥]) |(?<=GTX) (?=\d)|"
    r"(?<=Table) (?=\d)|(?<=Figure) (?=\d)"
)


def implementation(row: Row, prefix: str = "") -> Markup:
    """Return the name of a variant with its block size or tile, from columns with a `prefix`."""
    return name(row, f"{prefix}variant") + block(row, f"{prefix}block_size")


def block(row: Row, column: str = "block_size") -> Markup:
    """Return " (B = 32)" or " (tile 128×256)"; nothing for a variant without a block size."""
    value = row.get(column)
    if value is None:
        return Markup("")
    kind = "B\u00a0=\u00a0" if value < _LEAST_TILE else "tile "
    return Markup(" ({}{})").format(kind, number(row, column))


def size(row: Row, column: str = "n") -> Markup:
    """Return "N = 4096"."""
    return Markup("N&nbsp;=&nbsp;{}").format(number(row, column))


def threads(row: Row, column: str = "threads") -> Markup:
    """Return "on 16 threads"; nothing for an implementation on a GPU."""
    if row[column] is None:
        return Markup("")
    if row[column] == 1:
        return Markup("on one thread")
    return Markup("on {} threads").format(number(row, column))


def sessions(row: Row) -> Markup:
    """Return the sessions that an interval covers: "over 4 sessions"."""
    if (row["sessions"] or 0) < 2:
        return Markup("within one session")
    return Markup("over {} sessions").format(number(row, "sessions"))


def break_even(row: Row, prefix: str = "") -> Markup:
    """Return a break-even size, or the side of the measured range on which it lies."""
    match row[f"{prefix}location"]:
        case "below":
            return Markup("below {}").format(size(row, f"{prefix}least_n"))
        case "above":
            return Markup("above {}").format(size(row, f"{prefix}largest_n"))
    return Markup("N&nbsp;=&nbsp;{}").format(number(row, f"{prefix}n", COUNT))


def for_sizes(row: Row, prefix: str = "") -> Markup:
    """Return for which sizes the GPU is faster, as words to follow "is faster"."""
    match row[f"{prefix}location"]:
        case "below":
            least = number(row, f"{prefix}least_n")
            return Markup("at every measured size, N&nbsp;≥&nbsp;{}").format(least)
        case "above":
            largest = number(row, f"{prefix}largest_n")
            return Markup("at no measured size, N&nbsp;≤&nbsp;{}").format(largest)
    even = Markup("for N&nbsp;≥&nbsp;{}").format(number(row, f"{prefix}n", COUNT))
    bounds = break_even_bounds(row, prefix)
    return even + (Markup(" (95&nbsp;% interval: {})").format(bounds) if bounds else "")


def break_even_bounds(row: Row, prefix: str = "") -> Markup:
    """Return the ends of a break-even size's interval: "84 to 168"; nothing if it has none."""
    low, high = row[f"{prefix}n_low"], row[f"{prefix}n_high"]
    if low is None:
        return Markup("")
    least, largest = (number(row, f"{prefix}{name}_n") for name in ("least", "largest"))
    first = number(row, f"{prefix}n_low", COUNT) if low else Markup("below {}").format(least)
    if high > row[f"{prefix}largest_n"]:
        last = Markup("above {}").format(largest)
    else:
        last = number(row, f"{prefix}n_high", COUNT)
    return Markup("{} to {}").format(first, last)


def switched(column: str, chosen: str) -> Markup:
    """Return the HTML attributes of a text or column that belongs to one baseline.

    Unless the baseline is `chosen`, they hide it. `column` is the baseline, or a column name that
    starts with it. Any other column has no attributes.
    """
    for baseline in BASELINES:
        if column == baseline or column.startswith(f"{baseline.replace('-', '_')}_"):
            hidden = "" if baseline == chosen else " hidden"
            return Markup(f' data-baseline="{baseline}"{hidden}')
    return Markup("")


class Unbroken(Extension):
    """Keeps numbers with their units, and equations, on one line; templates use plain spaces."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return the source of a template with no-break spaces."""
        return _UNBROKEN.sub("\N{NO-BREAK SPACE}", source)
