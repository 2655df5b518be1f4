"""The report's part on cards side by side: sentences, a table, and a figure."""

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from analysis.drawings import Drawing
from analysis.findings import Sentence
from analysis.plots import MEANING, legend
from analysis.results import (
    FACTOR,
    GFLOPS,
    GIGABYTES,
    MILLISECONDS,
    PLAIN,
    Results,
    Subject,
)
from analysis.stats.significance import THRESHOLD
from analysis.svg import label
from analysis.views import Cell, Column, Row, Table, number
from analysis.wording import STATED, Code, Part, measured, order, variant

_RATIO = ("ratio", "ratio_low", "ratio_high")
_QUANTITIES = {
    ("total", "pinned"): "from pinned memory",
    ("total", "pageable"): "from pageable memory",
    ("kernel", "pinned"): "without copies",
}
_CEILINGS = {
    "fp32_flop_per_s": ("multiply-adds", GFLOPS),
    "device_copy_bytes_per_s": ("copy on the card", GIGABYTES),
}


def common_order(frame: pd.DataFrame) -> int | None:
    """Return the largest order that every card of cards.csv took, None where there is none."""
    cards = frame.groupby("n")["gpu"].nunique()
    common = cards[cards == frame["gpu"].nunique()]
    return int(common.index.max()) if len(common) else None


def cards_sentences(results: Results, gpus: Sequence[Subject]) -> list[tuple[Subject, Sentence]]:
    """Return for each card but the first what its fastest way takes of the time on the first."""
    frame = results.frame("cards")
    frame = frame[frame["n"] == common_order(frame)]
    names = {gpu.label: gpu.name for gpu in gpus}
    found = []
    for gpu in gpus[1:]:
        own = frame[(frame["gpu"] == gpu.label) & frame["ratio"].notna()]
        if own.empty:
            continue
        first = str(own.iloc[0]["first"])
        parts: list[Part] = ["At N\u00a0=\u00a0", order(results, "cards", int(own.index[0]))]
        parts += [" its fastest way takes, of the time on ", Code(first), ", "]
        for position, (row, text) in enumerate(_in_order(own)):
            verdict = results.text("cards", row, "verdict")
            parts += ["; " if position else "", *measured(results, "cards", row, "ratio", FACTOR)]
            parts += [f" {text}: {verdict}"]
        if names.get(first) == gpu.name:
            parts += [". Both are of one kind of card: so far apart are two recordings of a kind"]
        found.append((gpu, Sentence("cards", STATED, (*parts, "."))))
    return found


def _in_order(rows: pd.DataFrame) -> Iterator[tuple[int, str]]:
    for (quantity, memory), text in _QUANTITIES.items():
        for index in rows.index[(rows["quantity"] == quantity) & (rows["host_memory"] == memory)]:
            yield int(index), text


def cards_table(results: Results, gpus: Sequence[Subject], anchor: str) -> Table:
    """Return one row a card: its fastest ways at the largest common order, and its ceilings."""
    frame, ceilings = results.frame("cards"), results.frame("ceilings")
    n = common_order(frame)
    body = []
    for gpu in gpus:
        own = frame[(frame["gpu"] == gpu.label) & (frame["n"] == n)]
        label, gpu_name = (results.text("recordings", gpu.row, c) for c in ("gpu", "gpu_name"))
        badge = "SIMULATED" if gpu.simulated else ""
        cells = [Cell((Code(label),), badge=badge), Cell((gpu_name,))]
        for quantity, memory in _QUANTITIES:
            rows = own.index[(own["quantity"] == quantity) & (own["host_memory"] == memory)]
            cells += _way(results, int(rows[0]) if len(rows) else None)
        for quantity, (_, unit) in _CEILINGS.items():
            rows = ceilings.index[
                (ceilings["gpu"] == gpu.label) & (ceilings["quantity"] == quantity)
            ]
            found = number(results, "ceilings", int(rows[0]), "value", unit) if len(rows) else None
            cells.append(found or Cell(("–",)))
        body.append(Row(tuple(cells)))
    columns = [Column("card", is_number=False), Column("GPU", is_number=False)]
    for quantity, memory in _QUANTITIES:
        what = f"total, {memory}" if quantity == "total" else "kernel"
        columns += [Column(f"fastest, {what}", is_number=False), Column(what, "ms")]
        columns += [Column("over first")]
    columns += [Column(text, unit.name) for text, unit in _CEILINGS.values()]
    at = f", N\u00a0=\u00a0{n}," if n else ""
    caption = (
        f"The fastest way on each card at the largest order that all of them took{at} and two of "
        "its ceilings. “Over first”: the time over that on the first card; below each median and "
        "ratio its interval.",
    )
    name = "Cards side by side"
    return Table(anchor, name, caption, tuple(columns), tuple(body), ("cards", "ceilings"))


def _way(results: Results, row: int | None) -> list[Cell]:
    """Return the cells of the fastest way: its name, its time, and its ratio to the first."""
    if row is None:
        return [Cell(("–",))] * 3
    ratio = number(results, "cards", row, "ratio", PLAIN)
    verdict = results.text("cards", row, "verdict")
    return [
        Cell(tuple(variant(results, "cards", row))),
        number(results, "cards", row, "time_s", MILLISECONDS),
        Cell(ratio.parts, ratio.low, ratio.high, ratio.note, badge=verdict),
    ]


def of_cards(results: Results, titles: dict[str, str]) -> Iterator[Drawing]:
    """Yield the figure of all cards together where there is more than one.

    `titles` are those of the GPUs by label.
    """
    frame = results.frame("cards")
    frame = frame[frame["ratio"].notna() & frame["gpu"].isin(titles)]
    if frame.empty:
        return
    first = titles[str(frame.iloc[0]["first"])]
    yield Drawing(
        "cards",
        "cards",
        "",
        "The fastest way on each card, over that on the first",
        f"Time of the fastest way on each card over that on {first}, by order; below 1 the card is "
        f"faster. The band is what would not matter, {100 * THRESHOLD:g} %. Lines through the "
        f"markers are intervals. Cards: {', '.join(titles[gpu] for gpu in frame['gpu'].unique())}.",
        ratios(frame),
    )


def ratios(frame: pd.DataFrame) -> Figure:
    """Draw the ratios of cards.csv over N: a panel for each quantity, a line for each card."""
    panels = [
        (
            f"{MEANING[quantity]}, {memory} memory" if quantity == "total" else MEANING[quantity],
            rows,
        )
        for quantity, memory in _QUANTITIES
        if len(rows := frame[(frame["quantity"] == quantity) & (frame["host_memory"] == memory)])
    ]
    figure, axes = style.new_figure(columns=len(panels), height=3.4, width=10.0)
    looks = style.card_looks(frame["gpu"].unique())
    for axis, (title, rows) in zip(axes, panels, strict=True):
        axis.axhspan(1 / (1 + THRESHOLD), 1 + THRESHOLD, color=style.GREY, alpha=0.25, linewidth=0)
        for gpu, own in rows.groupby("gpu", sort=False):
            style.points(axis, own.sort_values("n"), "n", _RATIO, looks[gpu], label(gpu))
        axis.set_title(title)
        axis.set_xlabel("matrix order N (logarithmic)")
        style.ticks_at(axis, (int(n) for n in rows["n"]))
    axes[0].set_ylabel("time over that on the first card")
    legend(figure, axes[0], below=True)
    return figure
