"""One answer of the first screen, and the third of them: from which order on a card pays."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.results import COUNT, TABLES, TIMES, Results
from analysis.wording import (
    GAIN,
    LOSS,
    NO_INTERVAL,
    NOT_MEASURED,
    UNDECIDED,
    Part,
    cell,
    measured,
    order,
    verdict,
)

# The gain over the fastest that the CPU did at the same order, on one thread or on all.
GAIN_COLUMN = "cpu_best_gain"
_BREAK_EVEN = "break_even"
_N = "N\u00a0=\u00a0"


@dataclass(frozen=True)
class Answer:
    """One answer: its `topic`, its `verdict`, the number that says it all, and the sentence."""

    topic: str
    verdict: str
    figure: tuple[Part, ...]
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


def not_measured(topic: str, text: str) -> Answer:
    """Return the answer that there is none, with the sentence that says so."""
    return Answer(topic, NOT_MEASURED, ("–",), (text,))


def gain_verdict(row: pd.Series) -> str:
    """Return what the gain over the CPU in a row of gains.csv says."""
    return verdict(*(row[f"{GAIN_COLUMN}{bound}"] for bound in ("", "_low", "_high")))


def worth_it(results: Results, label: str, fastest: pd.DataFrame) -> Answer:
    """Say from which order on a card beats its CPU, copies included.

    `fastest` are the rows of gains.csv of its fastest way at each order, by order; they answer
    where no break-even was computed.
    """
    if _BREAK_EVEN in TABLES:
        frame = results.frame(_BREAK_EVEN)
        own = frame[(frame["gpu"] == label) & (frame["opponent"] == "best")]
        if not own.empty:
            return _break_even(results, own)
    if fastest.empty:
        text = "From which order on sending the work to this card pays was not measured."
        return not_measured("worth", text)
    return _by_measured_orders(results, fastest)


# ---- by the break-even


def _break_even(results: Results, rows: pd.DataFrame) -> Answer:
    """Give the least break-even of all kernels and kinds of host memory, and that of the other.

    `rows` are those of break_even.csv of one card, against the fastest that its CPU did.
    """
    row = int(rows["n"].idxmin())
    best = rows.loc[row]
    place, memory = str(best["place"]), str(best["host_memory"])
    least, largest = (order(results, _BREAK_EVEN, row, f"{end}_n") for end in ("least", "largest"))
    figure = {
        "measured": ("from ", _N, cell(results, _BREAK_EVEN, row, "n", COUNT)),
        "below": ("below ", _N, least),
        "always": ("every N",),
    }.get(place, ("not up to ", _N, largest))
    parts: list[Part] = [f"With copies from and to {memory} memory this card is faster than its "]
    parts += ["CPU ", *_from(results, row)]
    elsewhere = rows[rows["host_memory"] != best["host_memory"]]
    if not elsewhere.empty:
        second = int(elsewhere["n"].idxmin())
        parts += [f"; with {elsewhere.at[second, 'host_memory']} memory "]
        parts += _from(results, second, briefly=place == elsewhere.at[second, "place"])
    word = LOSS if place in ("beyond", "never") else GAIN
    return Answer("worth", word, tuple(figure), (*parts, "."))


def _from(results: Results, row: int, briefly: bool = False) -> list[Part]:
    """Return from which order on the card is faster, by a row of break_even.csv.

    `briefly`: what is measured and what extrapolated was said before.
    """
    place = results.text(_BREAK_EVEN, row, "place")
    least, largest, lost, won = (
        order(results, _BREAK_EVEN, row, column)
        for column in ("least_n", "largest_n", "loses_at", "wins_at")
    )
    estimate = [_N, cell(results, _BREAK_EVEN, row, "n", COUNT), *_interval(results, row)]
    if place == "always":
        return ["at every order"]
    if place == "never":
        return ["at no order"]
    if briefly:
        return ["from ", *estimate, " on"]
    if place == "measured":
        return ["from ", *estimate, " on: at ", _N, lost, " it is not, at ", _N, won, " it is"]
    parts: list[Part] = ["already at ", _N, least, ", the smallest order measured"]
    if place == "beyond":
        parts = ["at no order measured, up to ", _N, largest]
    return [*parts, "; by extrapolation from ", *estimate, " on"]


def _interval(results: Results, row: int) -> list[Part]:
    """Return the interval of a break-even; an end that is zero or infinite is open."""
    like = float(results.frame(_BREAK_EVEN).at[row, "n"])
    ends = {
        end: results.cell(_BREAK_EVEN, row, f"n_{end}", COUNT, like)
        for end in ("low", "high")
        if 0 < results.frame(_BREAK_EVEN).at[row, f"n_{end}"] < np.inf
    }
    if len(ends) == 2:
        return [" (", ends["low"] or "", " to ", ends["high"] or "", ")"]
    words = {"low": " (at least ", "high": " (at most "}
    known: list[Part] = [part for end, n in ends.items() for part in (words[end], n or "", ")")]
    return known or [f" ({NO_INTERVAL})"]


# ---- by the measured orders


def _by_measured_orders(results: Results, fastest: pd.DataFrame) -> Answer:
    """Say from which measured order on every gain over the CPU is settled."""
    words = [gain_verdict(row) for _, row in fastest.iterrows()]
    rows = [int(index) for index in fastest.index]
    first = max((place + 1 for place, word in enumerate(words) if word != GAIN), default=0)
    if first == len(rows):
        return _never(results, rows[-1], words[-1])
    start: list[Part] = [_N, order(results, "gains", rows[first])]
    gain = measured(results, "gains", rows[first], GAIN_COLUMN, TIMES)
    if first == 0:
        parts: list[Part] = ["Sending the work to this card pays at every order measured on both, "]
        parts += ["from ", *start, " to ", order(results, "gains", rows[-1])]
        parts += [": at the smallest the gain is ", *gain]
        parts += [", so the break-even lies below it and was not reached."]
        return Answer("worth", GAIN, ("below ", *start), tuple(parts))
    before, found = rows[first - 1], words[first - 1]
    parts = ["Sending the work to this card pays from ", *start, " on: there the gain is ", *gain]
    parts += ["; at ", _N, order(results, "gains", before), ", the next smaller order, it is "]
    parts += [f"{_CALLED[found]}, ", *measured(results, "gains", before, GAIN_COLUMN, TIMES)]
    return Answer("worth", GAIN, ("from ", *start), (*parts, "."))


def _never(results: Results, row: int, word: str) -> Answer:
    """Say that not even at the largest order, that of `row`, a gain is settled."""
    largest: list[Part] = [_N, order(results, "gains", row)]
    parts: list[Part] = ["Sending the work to this card does not pay for certain at any measured "]
    parts += ["order: at the largest, ", *largest, f", it is {_CALLED[word]}, "]
    parts += [*measured(results, "gains", row, GAIN_COLUMN, TIMES), "."]
    return Answer("worth", word, ("not up to ", *largest), tuple(parts))


_CALLED = {LOSS: "a loss", UNDECIDED: "undecided", NO_INTERVAL: "without interval"}
