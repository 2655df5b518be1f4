"""The three answers of the first screen: the fastest way, its gain over the CPU, when it pays.

Each is one number and one sentence, with its interval, and is worded by what was found: a loss is
called a loss, what intervals leave open is undecided, and what was not measured is said not to be.
"""

import math
from collections.abc import Iterator

import pandas as pd

from analysis.answers import GAIN_COLUMN, Answer, gain_verdict, not_measured, worth_it
from analysis.data.recordings import CPU
from analysis.results import (
    COUNT,
    MILLISECONDS,
    TIMES,
    Results,
    Subject,
    is_library,
    order_cells,
)
from analysis.wording import (
    GAIN,
    LOSS,
    NO_INTERVAL,
    UNDECIDED,
    Part,
    cell,
    measured,
    order,
    variant,
)

_N = "N\u00a0=\u00a0"


def answers(results: Results, subject: Subject) -> list[Answer]:
    """Return the three answers on a measured device: fastest way, gain over the CPU, when it pays.

    All kinds of host memory take part, and the library too: the first is the fastest of all.
    """
    summary = order_cells(results)
    summary = summary[summary["total_s"].notna()]
    on_cpu = summary["device"] == CPU
    if not subject.is_gpu:
        own = summary[on_cpu & (summary["recording"] == subject.recording)]
        return [
            _fastest_on_cpu(results, own),
            not_measured("gain", "No GPU was measured on this host, so there is no gain to tell."),
            not_measured("worth", "From which order on a GPU would pay was not measured either."),
        ]
    cells = summary[~on_cpu & (summary["gpu"] == subject.label)]
    fastest = fastest_gains(results, subject)
    return [
        _fastest(results, cells),
        _over_cpu(results, fastest),
        worth_it(results, subject.label, fastest),
    ]


def fastest_gains(results: Results, subject: Subject) -> pd.DataFrame:
    """Return the rows of gains.csv of a card's fastest way at each order that its CPU took too."""
    gains = _compared(results, subject.label)
    return gains.loc[gains.groupby("n")[GAIN_COLUMN].idxmax()].sort_values("n")


def _compared(results: Results, label: str) -> pd.DataFrame:
    gains = results.frame("gains")
    return gains[(gains["source"] == label) & gains[GAIN_COLUMN].notna()]


# ---- the fastest way


def _fastest_on_cpu(results: Results, cells: pd.DataFrame) -> Answer:
    """Name the fastest way on a host's CPU at the largest order that any took."""
    if cells.empty:
        return not_measured("way", "Neither a GPU nor the CPU of this host was measured.")
    best = int(cells.loc[cells["n"] == cells["n"].max(), "total_s"].idxmin())
    parts: list[Part] = ["No GPU was measured; the fastest way on this host's CPU to multiply two "]
    parts += ["matrices of order ", order(results, "summary", best), " is "]
    parts += [*variant(results, "summary", best), _threads(results, "summary", best, ""), ": "]
    parts += [*measured(results, "summary", best, "total_s", MILLISECONDS), "."]
    shown = (cell(results, "summary", best, "total_s", MILLISECONDS),)
    return Answer("way", GAIN, shown, tuple(parts))


def _fastest(results: Results, cells: pd.DataFrame) -> Answer:
    """Name the fastest way at the largest order, and what comes next to it."""
    if cells.empty:
        return not_measured("way", "No cell was timed on this card.")
    largest = cells[cells["n"] == cells["n"].max()]
    best = int(largest["total_s"].idxmin())
    row, library = largest.loc[best], is_library(largest)
    named = ", NVIDIA's own library," if library[best] else ""
    parts: list[Part] = ["The fastest way on this card to multiply two matrices of order "]
    parts += [order(results, "summary", best), ", copies included, is "]
    parts += [*variant(results, "summary", best), f"{named} from {row['host_memory']} host memory"]
    parts += [": ", *measured(results, "summary", best, "total_s", MILLISECONDS)]
    word = GAIN
    for position, (name, other) in enumerate(_next_to(largest, best)):
        parts += [f"; {name}, ", *variant(results, "summary", other), ", takes "]
        parts += measured(results, "summary", other, "total_s", MILLISECONDS)
        found = _told_apart(row, largest.loc[other])
        parts += [_TOLD[found]]
        word = word if position else found
    elsewhere = largest[largest["host_memory"] != row["host_memory"]]
    if not elsewhere.empty:
        second = int(elsewhere["total_s"].idxmin())
        parts += [f"; from {elsewhere.at[second, 'host_memory']} memory no way takes less than "]
        parts += measured(results, "summary", second, "total_s", MILLISECONDS)
    shown = (cell(results, "summary", best, "total_s", MILLISECONDS),)
    return Answer("way", word, shown, (*parts, "."))


def _next_to(cells: pd.DataFrame, best: int) -> Iterator[tuple[str, int]]:
    """Yield the fastest other variant, and the library where neither of the two is it.

    `cells` are of one order. What each is stands before its row.
    """
    library = is_library(cells)
    others = cells[cells["variant"] != cells.at[best, "variant"]]
    if others.empty:
        return
    second = int(others["total_s"].idxmin())
    own = "the fastest kernel of this study" if library[best] else "the next"
    yield _LIBRARY if library[second] else own, second
    if library.any() and not library[best] and not library[second]:
        yield _LIBRARY, int(cells.loc[library, "total_s"].idxmin())


_LIBRARY = "NVIDIA's own library"


def _told_apart(best: pd.Series, other: pd.Series) -> str:
    """Say whether the intervals of two times are apart."""
    high, low = best["total_high_s"], other["total_low_s"]
    if math.isnan(high) or math.isnan(low):
        return NO_INTERVAL
    return GAIN if high < low else UNDECIDED


_TOLD = {
    GAIN: "",
    UNDECIDED: " (undecided: the intervals overlap)",
    NO_INTERVAL: " (undecided: there are no intervals)",
}


# ---- against the CPU


def _over_cpu(results: Results, fastest: pd.DataFrame) -> Answer:
    """Compare the fastest way with the CPU at the largest order measured on both.

    `fastest` are the rows of gains.csv of the fastest way at each order.
    """
    if fastest.empty:
        return not_measured("gain", "A gain over the CPU of its host was not measured.")
    row = int(fastest.index[-1])
    best = fastest.loc[row]
    word = gain_verdict(best)
    parts: list[Part] = [
        "At ",
        _N,
        order(results, "gains", row),
        ", the largest order measured on ",
    ]
    parts += ["both, ", *variant(results, "gains", row), f" from {best['host_memory']} memory, "]
    parts += [f"copies included, {_COMPARED[word]} the fastest that its CPU did, "]
    parts += [*variant(results, "gains", row, "cpu_best_")]
    parts += [_threads(results, "gains", row, "cpu_best_"), ": "]
    parts += [*measured(results, "gains", row, GAIN_COLUMN, TIMES), _RESERVATION.get(word, "")]
    gains = _compared(results, best["source"])
    elsewhere = gains[(gains["n"] == best["n"]) & (gains["host_memory"] != best["host_memory"])]
    if not elsewhere.empty:
        second = int(elsewhere[GAIN_COLUMN].idxmax())
        parts += [f"; from {elsewhere.at[second, 'host_memory']} memory "]
        parts += measured(results, "gains", second, GAIN_COLUMN, TIMES)
    for column, text in _YARDSTICKS.items():
        if results.cell("gains", row, column, TIMES):
            parts += [f"; over {text} ", *measured(results, "gains", row, column, TIMES)]
    if results.cell("gains", row, "cpu_blas_all_gain", TIMES) is None:
        parts += ["; over BLAS on all cores, the fair yardstick, the gain was not measured"]
    return Answer("gain", word, (cell(results, "gains", row, GAIN_COLUMN, TIMES),), (*parts, "."))


_COMPARED = {
    GAIN: "is faster than",
    LOSS: "loses against",
    UNDECIDED: "can be told neither faster nor slower than",
    NO_INTERVAL: "is compared without interval to",
}
_RESERVATION = {
    UNDECIDED: ", an interval that holds 1",
    NO_INTERVAL: ", too few samples to claim anything",
}
_YARDSTICKS = {
    "cpu_blas_gain": "BLAS on one thread",
    "cpu_naive_gain": "the naive loop, the source's yardstick,",
}


def _threads(results: Results, table: str, row: int, prefix: str) -> str:
    """Return on how much of the CPU a cell ran."""
    threads = results.cell(table, row, f"{prefix}threads", COUNT)
    return " on all cores" if threads and float(threads.value) > 1 else " on one core"
