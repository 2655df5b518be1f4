"""One answer of the first screen, and the third of them: from which order on a card pays."""

from dataclasses import dataclass

import pandas as pd

from analysis.decide.break_even import ALWAYS, BELOW, BEYOND, MEASURED, NEVER
from analysis.decide.curves import BEST
from analysis.decision_findings import break_even_parts
from analysis.results import COUNT, TIMES, Results, rows_of
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
    frame = results.frame(_BREAK_EVEN)
    own = frame[(frame["gpu"] == label) & (frame["opponent"] == BEST)]
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
        MEASURED: ("from ", _N, cell(results, _BREAK_EVEN, row, "n", COUNT)),
        BELOW: ("below ", _N, least),
        ALWAYS: ("every N",),
    }.get(place, ("not up to ", _N, largest))
    parts: list[Part] = [f"Copies from and to {memory} memory included, this card beats its CPU "]
    parts += [*break_even_parts(results, row)]
    elsewhere = rows[rows["host_memory"] != best["host_memory"]]
    if not elsewhere.empty:
        second = int(elsewhere["n"].idxmin())
        parts += [f"; with {elsewhere.at[second, 'host_memory']} memory "]
        parts += break_even_parts(results, second)
    word = LOSS if place in (BEYOND, NEVER) else GAIN
    return Answer("worth", word, tuple(figure), (*parts, "."))


# ---- by the measured orders


def _by_measured_orders(results: Results, fastest: pd.DataFrame) -> Answer:
    """Say from which measured order on every gain over the CPU is settled."""
    words = [gain_verdict(row) for _, row in fastest.iterrows()]
    rows = rows_of(fastest)
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
