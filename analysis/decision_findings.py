"""From which order on a GPU pays, what its copies cost, how well that predicts, in sentences."""

import math
from collections.abc import Iterator

import pandas as pd

from analysis.decide.advise import OPPONENTS
from analysis.decide.break_even import ALWAYS, BELOW, BEYOND, MEASURED, NEVER, STUDY
from analysis.decide.transfer_tables import PASSES
from analysis.decide.transfers import KNEE, LINE
from analysis.findings import Findings, Sentence
from analysis.results import (
    COUNT,
    GIGABYTES,
    MICROSECONDS,
    PERCENT,
    Number,
    Results,
    Subject,
    Unit,
    rows_of,
    subjects,
)
from analysis.wording import NOT_MEASURED, STATED, Part, bounds, cell, order, variant

_BREAK_EVEN, _TRANSFERS, _PREDICTIONS = "break_even", "transfers", "predictions"
_N = "N\u00a0=\u00a0"
_MEGABYTES = Unit(1e-6, "MB", 3)
MEMORIES = ("pinned", "pageable")
WAYS = {"h2d": "to the card", "d2h": "back"}


def decision_findings(results: Results) -> list[Findings]:
    """Return these findings on every GPU, in the order of recordings.csv."""
    return [
        Findings(
            subject,
            (
                *(_worth(results, subject, memory) for memory in MEMORIES),
                *(_copies(results, subject, memory) for memory in MEMORIES),
                _predictions(results, subject),
            ),
        )
        for subject in subjects(results)
        if subject.is_gpu
    ]


# ---- from which order on it pays


def _worth(results: Results, subject: Subject, memory: str) -> Sentence:
    """Say of every CPU opponent from which order on the GPU is faster, copies included."""
    topic = f"worth_{memory}"
    frame = results.frame(_BREAK_EVEN)
    own = frame[(frame["gpu"] == subject.label) & (frame["host_memory"] == memory)]
    own = own[own["kernels"] == STUDY]
    if own.empty:
        text = f"From which order on it pays with {memory} host memory was not measured."
        return Sentence(topic, NOT_MEASURED, (text,))
    clauses = [*_between_orders(results, own), *_at_the_ends(results, own)]
    parts: list[Part] = [
        f"With copies from and to {memory} memory the card is faster than the CPU "
    ]
    for position, clause in enumerate(clauses):
        parts += ["; " if position else "", *clause]
    return Sentence(topic, STATED, (*parts, "."))


def _between_orders(results: Results, own: pd.DataFrame) -> Iterator[list[Part]]:
    """Yield a clause for each opponent that is overtaken between two measured orders."""
    for index in own.index[own["place"] == MEASURED]:
        yield [*break_even_parts(results, int(index)), ", with ", _opponent(results, int(index))]


def _at_the_ends(results: Results, own: pd.DataFrame) -> Iterator[list[Part]]:
    """Yield a clause for those that are overtaken before the measured orders, or not in them."""
    for places, edge in (((BELOW, ALWAYS), "least_n"), ((BEYOND, NEVER), "largest_n")):
        for _, rows in own[own["place"].isin(places)].groupby(edge):
            first = int(rows.index[0])
            clause: list[Part] = [*_end(results, first), ", with "]
            for position, index in enumerate(rows.index):
                clause += [", " if position else "", _opponent(results, int(index))]
                if rows.at[index, "place"] in (BELOW, BEYOND):
                    clause += [" (extrapolated: ", *_estimate(results, int(index)), ")"]
            yield clause


def _opponent(results: Results, row: int) -> str:
    return OPPONENTS[results.text(_BREAK_EVEN, row, "opponent")].replace(", ", " on ")


def break_even_parts(results: Results, row: int) -> list[Part]:
    """Return a row of break_even.csv in words, with its numbers."""
    place = results.text(_BREAK_EVEN, row, "place")
    estimate = _estimate(results, row)
    if place == MEASURED:
        loses, wins = (order(results, _BREAK_EVEN, row, f"{end}_at") for end in ("loses", "wins"))
        return ["from ", *estimate, " on, between ", _N, loses, " and ", _N, wins]
    parts = _end(results, row)
    return [*parts, ", extrapolated: ", *estimate] if place in (BELOW, BEYOND) else parts


def _end(results: Results, row: int) -> list[Part]:
    if results.text(_BREAK_EVEN, row, "place") in (BELOW, ALWAYS):
        least = order(results, _BREAK_EVEN, row, "least_n")
        return ["already at ", _N, least, ", the smallest order measured"]
    largest = order(results, _BREAK_EVEN, row, "largest_n")
    return ["never in the measured range, up to ", _N, largest]


def _estimate(results: Results, row: int) -> list[Part]:
    return [_N, cell(results, _BREAK_EVEN, row, "n", COUNT), *_interval(results, row)]


def _interval(results: Results, row: int) -> list[Part]:
    """Return the interval of a break-even; 0 and infinity are open ends."""
    frame = results.frame(_BREAK_EVEN)
    bounded = {
        end: results.cell(_BREAK_EVEN, row, f"n_{end}", COUNT, float(frame.at[row, "n"]))
        for end in ("low", "high")
        if 0 < frame.at[row, f"n_{end}"] < math.inf
    }
    if len(bounded) == 2:
        return [" (", bounded["low"] or "", " to ", bounded["high"] or "", ")"]
    words = {"low": " (at least ", "high": " (at most "}
    parts: list[Part] = []
    for end, known in bounded.items():
        parts += [words[end], known or "", ")"]
    return parts or [" (no interval)"]


# ---- the transfer model


def _copies(results: Results, subject: Subject, memory: str) -> Sentence:
    """Give latency and bandwidth of the copies, and how well they predict others."""
    topic = f"copies_{memory}"
    frame = results.frame(_TRANSFERS)
    own = frame[(frame["gpu"] == subject.label) & (frame["host_memory"] == memory)]
    own = own[(own["data"] == PASSES) & own["direction"].isin(WAYS)]
    if own.empty:
        text = f"Too few copies of {memory} memory were measured to fit the model to."
        return Sentence(topic, NOT_MEASURED, (text,))
    parts: list[Part] = []
    for way, text in WAYS.items():
        rows = own[own["direction"] == way]
        if rows.empty:
            continue
        start = "; one " if parts else f"A copy of {memory} memory "
        parts += [f"{start}{text} takes ", *_line(results, _at(rows, LINE))]
        used = int(rows.index[rows["used"].astype(str) == "True"][0])
        if rows.at[used, "model"] == KNEE:
            parts += _knee(results, used)
        parts += [", which predicts sizes left out of the fit to "]
        parts += [results.derived(_TRANSFERS, [used], "exp(left_out_log_rms) - 1", PERCENT)]
        if pd.notna(rows.at[used, "holdout_log_rms"]):
            parts += [" and the orders held out to "]
            parts += [results.derived(_TRANSFERS, [used], "exp(holdout_log_rms) - 1", PERCENT)]
    return Sentence(topic, STATED, (*parts, "."))


def _at(rows: pd.DataFrame, model: str) -> int:
    return int(rows.index[rows["model"] == model][0])


def _line(results: Results, row: int) -> list[Part]:
    parts: list[Part] = [cell(results, _TRANSFERS, row, "latency_s", MICROSECONDS), " ("]
    parts += [*bounds(results, _TRANSFERS, row, "latency_s", MICROSECONDS), ") and its bytes at "]
    parts += [cell(results, _TRANSFERS, row, "bytes_per_s", GIGABYTES), " ("]
    return [*parts, *bounds(results, _TRANSFERS, row, "bytes_per_s", GIGABYTES), ")"]


def _knee(results: Results, row: int) -> list[Part]:
    """Return what is said of a bandwidth that changes with the size."""
    parts: list[Part] = [" on the whole, but better said "]
    parts += [cell(results, _TRANSFERS, row, "latency_s", MICROSECONDS), ", then "]
    parts += [cell(results, _TRANSFERS, row, "bytes_per_s", GIGABYTES), " up to "]
    parts += [cell(results, _TRANSFERS, row, "knee_bytes", _MEGABYTES), " a pass and "]
    return [*parts, cell(results, _TRANSFERS, row, "beyond_bytes_per_s", GIGABYTES), " beyond"]


# ---- held-out orders


def _predictions(results: Results, subject: Subject) -> Sentence:
    """Say how far predictions of held-out orders are from what was measured there."""
    frame = results.frame(_PREDICTIONS)
    own = frame[(frame["gpu"] == subject.label) & frame["error_share"].notna()]
    if own.empty:
        text = "No order was held out of the fits; how well they predict was not measured."
        return Sentence("predicted", NOT_MEASURED, (text,))
    rows = rows_of(own)

    def of(expression: str, unit: Unit, chosen: list[int] = rows) -> Number:
        return results.derived(_PREDICTIONS, chosen, expression, unit)

    parts: list[Part] = ["Predicted without the orders "]
    for position, n in enumerate(sorted(own["n"].unique())):
        row = int(own.index[own["n"] == n][0])
        parts += [" and " if position else "", _N, order(results, _PREDICTIONS, row)]
    median = float(own["error_share"].abs().median())
    parts += [", the ", of("n.count()", COUNT), " medians measured there are off by "]
    parts += [of("error_share.abs().median()", PERCENT), " in the median, "]
    known = results.frame("predictors")
    bound = int(known.index[known["gpu"] == subject.label][0])
    parts += ["within" if median <= known.at[bound, "error_bound"] else "beyond", " the "]
    parts += [cell(results, "predictors", bound, "error_bound", PERCENT), " that are asked for"]
    worst = int(own["error_share"].abs().idxmax())
    parts += [", and by ", of("abs(error_share)", PERCENT, [worst]), " at worst ("]
    parts += [*variant(results, _PREDICTIONS, worst), ", "]
    parts += [results.text(_PREDICTIONS, worst, "host_memory"), ", ", _N]
    parts += [order(results, _PREDICTIONS, worst), "); ", of("inside.mean()", PERCENT)]
    parts += [" of them lie in their prediction intervals"]
    fastest = own[own["is_predicted_fastest"].astype(str) == "True"]
    if not fastest.empty:
        chosen = rows_of(fastest)
        parts += [". The time predicted for the fastest kernel is off by "]
        parts += [of("error_share.abs().max()", PERCENT, chosen), " at most"]
    return Sentence("predicted", STATED, (*parts, "."))
