"""What the models say, in sentences whose numbers are computed and whose wording follows them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.findings import Sentence
from analysis.models.comparison import BEST, NOT_TOLD
from analysis.models.definitions import ALL_SET, CONSTANT, HELD_OUT, MODELLED_SET, RHO, UNSEEN
from analysis.models.ratios import BANDWIDTH, FIT, LATENCY
from analysis.results import (
    COUNT,
    CYCLES,
    FACTOR,
    MICROSECONDS,
    MILLISECONDS,
    NANOSECONDS,
    PERCENT,
    PICOSECONDS,
    PLAIN,
    Number,
    Results,
    Unit,
    rows_of,
)
from analysis.stats.uncertainty import AT_LEAST, AT_MOST, DETERMINED, NO_INTERVAL
from analysis.wording import (
    NOT_MEASURED,
    STATED,
    UNDECIDED,
    Part,
    cell,
    measured,
    order,
    variant,
)

_NBSP = "\u00a0"
MEMORY_NAMES = {
    "l1": "the first-level cache",
    "l2": "the second-level cache",
    "dram": "device memory",
}
_PREDICTIONS = "model_predictions"
_COMPARISON = "model_comparison"


@dataclass(frozen=True)
class ParameterName:
    """How a parameter is written, what it is the cost of, and the unit that suits it."""

    symbol: str
    of: str
    unit: Unit


PARAMETER_NAMES = {
    RHO: ParameterName("ρ", "a global over a shared access", PLAIN),
    CONSTANT: ParameterName("τ₀", "a launch", MICROSECONDS),
    "t_G": ParameterName("t_G", "a thread's global access", PICOSECONDS),
    "t_N": ParameterName("t_N", "a thread's uncoalesced access", PICOSECONDS),
    "t_S": ParameterName("t_S", "a thread's shared access", PICOSECONDS),
    "c_G": ParameterName("c_G", "a sector", PICOSECONDS),
    "c_L": ParameterName("c_L", "a line", PICOSECONDS),
    "c_S": ParameterName("c_S", "a wavefront", PICOSECONDS),
    "c_I": ParameterName("c_I", "an instruction of a warp", PICOSECONDS),
    "t_B": ParameterName("t_B", "a step from barrier to barrier", NANOSECONDS),
}
_START_UP_S = 1e-3  # a constant as long as this is a program's start-up, no launch


def model_findings(results: Results, source: str) -> list[Sentence]:
    """Return what the models say of a source (a label, or "published")."""
    compared = results.frame(_COMPARISON)
    own = compared[(compared["source"] == source) & compared["log_rms"].notna()]
    modelled, every = (own[own["kernels"] == kernels] for kernels in (MODELLED_SET, ALL_SET))
    if modelled.empty:
        return [Sentence("m0", NOT_MEASURED, ("No model was fitted to its times.",))]
    best = every if len(every) else modelled
    return [
        *_plainest(results, modelled),
        *_steps(results, source),
        *_best(results, modelled),
        *_one_set(results, every),
        *_constants(results, best),
        *_predicted(results, source, HELD_OUT),
        *_predicted(results, source, UNSEEN),
        *_ratios(results, source),
    ]


def parameter_unit(name: str, value: float) -> Unit:
    """Return the unit in which a parameter is shown."""
    if name == CONSTANT and value > _START_UP_S:
        return MILLISECONDS
    return PARAMETER_NAMES[name].unit


def _parameter_rows(results: Results, compared: pd.Series) -> pd.DataFrame:
    """Return the rows of models.csv of one row of model_comparison.csv."""
    frame = results.frame("models")
    same = frame["model"] == compared["model"]
    for name in ("source", "kernels"):
        same &= frame[name] == compared[name]
    return frame[same]


def _factor(results: Results, row: int) -> Number:
    """Return the factor by which a model misses orders that were left out."""
    return results.derived(_COMPARISON, [row], "exp(left_out_log_rms)", FACTOR)


def _plainest(results: Results, modelled: pd.DataFrame) -> Iterator[Sentence]:
    """Give M0's ρ, or say that the data do not bound it, and how far M0 is off."""
    row = rows_of(modelled)[0]
    name = results.text(_COMPARISON, row, "model")
    parts: list[Part] = [f"{name}, fitted to ", cell(results, _COMPARISON, row, "cells", COUNT)]
    parts += [" cells of ", cell(results, _COMPARISON, row, "orders", COUNT), " orders together: "]
    rho = _parameter_rows(results, modelled.iloc[0])
    rho = rho[rho["parameter"] == RHO]
    parts += _estimate(results, rows_of(rho)[0], "ρ", PLAIN)
    if pd.notna(modelled.at[row, "left_out_log_rms"]):
        parts += [". Orders that it was not fitted to it misses by a factor of "]
        parts += [_factor(results, row), ", typically"]
    parts += [f". Of N{_NBSP}={_NBSP}", order(results, _COMPARISON, row, "judged_from_n")]
    parts += [" and more it ", *_worst(results, row)]
    determined = results.text("models", rows_of(rho)[0], "status") == DETERMINED
    yield Sentence("m0", STATED if determined else UNDECIDED, (*parts, "."))


def _estimate(results: Results, row: int, symbol: str, unit: Unit) -> list[Part]:
    """Return a parameter with its interval, or which end of it the data leave open."""
    status = results.text("models", row, "status")
    if status in (DETERMINED, NO_INTERVAL):
        value = cell(results, "models", row, "value", unit)
        found = results.interval("models", row, "value", unit)
        known: list[Part] = [found[0], " to ", found[1]] if found else [NO_INTERVAL]
        return [f"{symbol}{_NBSP}={_NBSP}", value, " (", *known, ")"]
    best: list[Part] = [" (best value ", cell(results, "models", row, "value", unit), ")"]
    if status == AT_LEAST:
        low = cell(results, "models", row, "value_low", unit)
        return [f"{symbol} is at least ", low, *best, ", and the data set it no upper bound"]
    if status == AT_MOST:
        high = cell(results, "models", row, "value_high", unit)
        return [f"{symbol} is at most ", high, *best, ", and the data do not tell it from nothing"]
    return [f"the data do not determine {symbol}", *best]


def _worst(results: Results, row: int) -> list[Part]:
    """Return where a model is farthest off among the larger orders."""
    factor = results.frame(_COMPARISON).at[row, "worst_factor"]
    if pd.isna(factor):
        return ["has no order to be judged by"]
    expression = "worst_factor" if factor > 1 else "1 / worst_factor"
    return [
        "is farthest off for ",
        *variant(results, _COMPARISON, row, "worst_"),
        f" at N{_NBSP}={_NBSP}",
        order(results, _COMPARISON, row, "worst_n"),
        ", to which it gives ",
        results.derived(_COMPARISON, [row], expression, FACTOR),
        f" times too {'much' if factor > 1 else 'little'} time",
    ]


def _steps(results: Results, source: str) -> Iterator[Sentence]:
    """Say how much of M0's error each step takes away, and which effect made the difference."""
    frame = results.frame("model_steps")
    own = frame[(frame["source"] == source) & (frame["kernels"] == MODELLED_SET)]
    if own.empty or not own["share"].notna().all():
        return
    first = results.text("model_steps", rows_of(own)[0], "after")
    parts: list[Part] = [
        f"Of the mean square error of {first} at orders left out (of logarithms), "
    ]
    ordered = own.sort_values("share", ascending=False, kind="stable")
    for position, (row, share) in enumerate(zip(rows_of(ordered), ordered["share"], strict=True)):
        parts += ["; " if position else "", *_step(results, row)]
        if share >= 0:
            parts += [" takes away ", cell(results, "model_steps", row, "share", PERCENT)]
        else:
            parts += [" adds ", results.derived("model_steps", [row], "-share", PERCENT)]
    most = rows_of(ordered)[0]
    parts += [". What made the difference most: ", results.text("model_steps", most, "adds")]
    parts += ["; for ", *variant(results, "model_steps", most)]
    for said, name in ((" the typical miss falls from a factor of ", "before"), (" to ", "after")):
        expression = f"exp(error_{name})"
        parts += [said, results.derived("model_steps", [most], expression, FACTOR)]
    yield Sentence("effects", STATED, (*parts, "."))


def _step(results: Results, row: int) -> list[Part]:
    model, adds = (results.text("model_steps", row, name) for name in ("model", "adds"))
    return [f"{model} ({adds})"]


def _best(results: Results, modelled: pd.DataFrame) -> Iterator[Sentence]:
    """Say which model predicts best, and whether it is told from the others."""
    best = modelled[modelled["verdict"] == BEST]
    if best.empty:
        return
    row, first = rows_of(best)[0], rows_of(modelled)[0]
    name = results.text(_COMPARISON, row, "model")
    parts: list[Part] = [name, " predicts orders that it was not fitted to best: typically within "]
    parts += ["a factor of ", _factor(results, row)]
    if row != first:
        parts += [", with an error (log RMS) "]
        parts += measured(results, _COMPARISON, row, "gain", FACTOR)
        parts += [" times smaller than ", results.text(_COMPARISON, first, "model"), "'s"]
    near = modelled[modelled["verdict"] == NOT_TOLD]
    for position, other in enumerate(rows_of(near)):
        parts += [", " if position else ". It cannot be told from "]
        parts += [results.text(_COMPARISON, other, "model"), ", whose error is "]
        parts += [*measured(results, _COMPARISON, other, "over_best", FACTOR), " times its own"]
    if near.empty and len(modelled) > 1:
        parts += [". It is told from every other by more than draws of kernels and orders scatter"]
    if modelled["aicc"].notna().all():
        least = results.text(_COMPARISON, int(modelled["aicc"].idxmin()), "model")
        agrees = "too" if least == name else f"not {name}"
        parts += [f". The information criterion AICc prefers {least}, {agrees}"]
    yield Sentence("predicts", STATED if near.empty else UNDECIDED, (*parts, "."))


def _one_set(results: Results, every: pd.DataFrame) -> Iterator[Sentence]:
    """Say how many cells of all kernels each model predicts with one set of constants."""
    judged = every[every["judged"] > 0]
    if judged.empty:
        return
    first = rows_of(judged)[0]
    parts: list[Part] = ["One set of constants for all kernels of source V (fitted to "]
    parts += [cell(results, _COMPARISON, first, "cells", COUNT), " cells) describes within a "]
    parts += ["factor of ", cell(results, _COMPARISON, first, "judged_factor", PLAIN), ", from N"]
    parts += [f"{_NBSP}={_NBSP}", order(results, _COMPARISON, first, "judged_from_n"), " on: "]
    for position, row in enumerate(rows_of(judged)):
        parts += ["; " if position else "", "by ", results.text(_COMPARISON, row, "model"), ", "]
        parts += [cell(results, _COMPARISON, row, "judged_within", COUNT), " of "]
        parts += [cell(results, _COMPARISON, row, "judged", COUNT)]
    best = judged[judged["verdict"] == BEST]
    for row in dict.fromkeys((first, *rows_of(best))):
        parts += [". ", results.text(_COMPARISON, row, "model"), " ", *_worst(results, row)]
    all_within = bool((best["judged_within"] == best["judged"]).all())
    yield Sentence("counted_models", STATED if all_within else UNDECIDED, (*parts, "."))


def _constants(results: Results, compared: pd.DataFrame) -> Iterator[Sentence]:
    """Give the best model's constants, in seconds and in cycles of the clock."""
    best = compared[compared["verdict"] == BEST]
    if best.empty:
        return
    found = _parameter_rows(results, best.iloc[0])
    parts: list[Part] = ["By ", results.text(_COMPARISON, rows_of(best)[0], "model"), ", "]
    shown = found[found["parameter"] != RHO]
    for position, row in enumerate(rows_of(shown)):
        name = results.text("models", row, "parameter")
        unit = parameter_unit(name, float(shown.at[row, "value"]))
        parts += ["; " if position else "", PARAMETER_NAMES[name].of, ": "]
        parts += _estimate(results, row, PARAMETER_NAMES[name].symbol, unit)
        if pd.notna(shown.at[row, "cycles"]) and name != CONSTANT:
            parts += [", ", cell(results, "models", row, "cycles", CYCLES)]
            parts += [" of one multiprocessor" if name.startswith("c_") else ""]
    yield Sentence("constants", STATED, (*parts, "."))


def _predicted(results: Results, source: str, role: str) -> Iterator[Sentence]:
    """Say how well the best model of all kernels predicts cells that it was not fitted to."""
    frame = results.frame(_PREDICTIONS)
    own = frame[(frame["source"] == source) & (frame["role"] == role)]
    own = own[own["kernels"] == ALL_SET]
    if own.empty:
        return
    own = own[own["model"] == max(own["model"])]
    rows = rows_of(own)
    parts: list[Part] = [_number(results, own), " cells of "]
    if role == HELD_OUT:
        parts += [results.derived(_PREDICTIONS, rows, "n.nunique()", COUNT), " orders"]
        parts += [" were measured and held out"]
    else:
        parts += [results.derived(_PREDICTIONS, rows, "variant.nunique()", COUNT), " variants of "]
        parts += ["other sources took no part in the fit"]
    parts += [
        f". {results.text(_PREDICTIONS, rows[0], 'model')} predicts them with a median error "
    ]
    parts += ["of ", results.derived(_PREDICTIONS, rows, f"({_SIZE}).median()", PERCENT)]
    worst = int(own["log_residual"].abs().idxmax())
    parts += [", at worst ", results.derived(_PREDICTIONS, [worst], _SIZE, PERCENT), " ("]
    parts += [*variant(results, _PREDICTIONS, worst), f" at N{_NBSP}={_NBSP}"]
    parts += [order(results, _PREDICTIONS, worst), ")"]
    known = own[own["in_interval"].notna()]
    if not known.empty:
        inside = known[known["in_interval"].astype(bool)]
        parts += ["; ", _number(results, inside) if len(inside) else "none"]
        parts += [" of ", _number(results, known), " lie in their prediction interval"]
    yield Sentence(_TOPICS[role], STATED, (*parts, "."))


# Of a prediction, relative to what was measured.
_SIZE = "abs(exp(log_residual) - 1)"
_TOPICS = {HELD_OUT: "held_out", UNSEEN: "unseen"}


def _number(results: Results, frame: pd.DataFrame) -> Number:
    return results.derived(_PREDICTIONS, rows_of(frame), "variant.count()", COUNT)


def _ratios(results: Results, source: str) -> Iterator[Sentence]:
    """Put ratios of latencies and of bandwidths beside the fitted ones."""
    frame = results.frame("model_ratios")
    own = frame[(frame["source"] == source) & frame["value"].notna()]
    apart = own[own["basis"] != FIT]
    if apart.empty:
        return
    parts: list[Part] = ["A global access costs as much as so many shared ones"]
    for basis, said in _BASES.items():
        rows = rows_of(apart[apart["basis"] == basis])
        for position, row in enumerate(rows):
            parts += [", " if position else f"; {said}: from "]
            parts += [MEMORY_NAMES[results.text("model_ratios", row, "of")], " "]
            parts += [cell(results, "model_ratios", row, "value", PLAIN)]
    fitted = own[(own["basis"] == FIT) & (own["status"] == DETERMINED)]
    for row in rows_of(fitted)[-1:]:
        value = float(fitted.at[row, "value"])
        nearest = apart.loc[(apart["value"] / value).map(np.log).abs().idxmin()]
        parts += ["; by ", results.text("model_ratios", row, "of"), "'s fit: "]
        parts += measured(results, "model_ratios", row, "value", PLAIN)
        parts += [f". Nearest to the fit is the ratio {_NEAREST[nearest['basis']]} of "]
        parts += [f"{MEMORY_NAMES[nearest['of']]}"]
    yield Sentence("ratios", STATED, (*parts, "."))


_BASES = {
    LATENCY: "one load waiting for the other",
    BANDWIDTH: "loads of many warps at once",
}
_NEAREST = {LATENCY: "of latencies", BANDWIDTH: "of bandwidths"}
