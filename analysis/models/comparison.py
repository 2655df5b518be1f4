"""Comparing models by their errors at left-out sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.models.definitions import MODELS
from analysis.schema import bounded, renaming
from analysis.stats.estimates import FloatArray, IntArray, percentile_interval, rms, seeded
from analysis.stats.fitting import Data, Fit, log_model, solve

# Verdicts on a model, by its error relative to the least error.
BEST, NOT_WORSE, WORSE = "best", "not significantly worse", "worse"
LEAST_SIZE = 512  # from this size, launch overhead does not dominate a kernel's time
FACTOR = 1.5  # predictions within this factor are counted
_FEWEST_GROUPS = 2
_ROUNDING = 1e-9  # smaller errors of logarithms are due to the search, not the times


@dataclass(frozen=True)
class Candidate:
    """A model that was fitted; `errors` and predictions are logarithms of ratios.

    `left_out` has log(prediction/median) of each cell by a fit without its size; NaN where such a
    fit is not possible.
    """

    model: str
    data: Data
    fit: Fit
    left_out: FloatArray

    @property
    def log_rms(self) -> float:
        """The root mean square of log(model/median) over the fitted cells."""
        return rms(self.fit.residual)

    @property
    def left_out_log_rms(self) -> float:
        """The root mean square of log(prediction/median) at left-out sizes."""
        return max(rms(self.left_out), _ROUNDING)


def candidate(model: str, data: Data, fit: Fit) -> Candidate:
    """Return a fitted model with its predictions of every size from the other sizes."""
    return Candidate(model, data, fit, left_out(data, fit, data.sizes))


def left_out(data: Data, fit: Fit, groups: IntArray) -> FloatArray:
    """Return log(prediction/median) of each cell by a fit without its group, shape (cells,).

    Searches start at `fit`, the fit to all cells. NaN: a fit without the group is not possible, or
    predicts no time for its cells.
    """
    errors = np.full(len(data.log_times), np.nan)
    distinct = np.unique(groups)
    for group in distinct if len(distinct) >= _FEWEST_GROUPS else ():
        out = groups == group
        rest = data.only(~out)
        if (rest.design.max(axis=0) > 0).all():
            theta = solve(rest.design, rest.log_times, fit.weights[~out], fit.theta)
            with np.errstate(divide="ignore"):
                errors[out] = log_model(data.design[out], theta) - data.log_times[out]
    return np.where(np.isfinite(errors), errors, np.nan)


def comparison(candidates: Sequence[Candidate], draws: int, *key: object) -> pd.DataFrame:
    """Return one row per model; the candidates must have the same cells.

    Columns: model, adds, after, parameters, cells, log_rms; left_out_log_rms and over_best with
    bounds, and verdict, see `ranked`.
    """
    data = candidates[0].data
    left_out = np.array([one.left_out for one in candidates])
    ranks = ranked(left_out, (data.kernels, data.sizes), draws, *key)
    rows = [
        {
            "model": one.model,
            "adds": MODELS[one.model].adds,
            "after": MODELS[one.model].after,
            "parameters": one.data.design.shape[1],
            "cells": len(one.data.log_times),
            "log_rms": one.log_rms,
        }
        for one in candidates
    ]
    ranks = ranks.rename(columns=renaming("log_rms", "left_out_log_rms"))
    return pd.concat([pd.DataFrame(rows), ranks], axis=1)


def ranked(
    errors: FloatArray, groupings: Sequence[IntArray], draws: int, *key: object
) -> pd.DataFrame:
    """Return one row per model, whose errors are a row of `errors`.

    Columns: log_rms, and over_best (log_rms over the least log_rms of all models), with bounds;
    verdict. Bounds are percentiles of `drawn_errors`. A model is worse than the best if the
    interval of over_best is above 1. With NaN among the errors the verdict is blank.
    """
    drawn = drawn_errors(errors, groupings, draws, *key)
    log_rms = np.maximum([rms(of_model) for of_model in errors], _ROUNDING)
    is_known = ~np.isnan(log_rms).any()
    best = int(np.argmin(log_rms)) if is_known else 0
    rows = []
    for index, value in enumerate(log_rms):
        over_best = percentile_interval(drawn[index] / drawn[best])
        verdict = BEST if index == best else WORSE if over_best[0] > 1 else NOT_WORSE
        rows.append(
            {
                **bounded("log_rms", value, *percentile_interval(drawn[index])),
                **bounded("over_best", value / log_rms[best], *over_best),
                "verdict": verdict if is_known else "",
            }
        )
    return pd.DataFrame(rows)


def drawn_errors(
    errors: FloatArray, groupings: Sequence[IntArray], draws: int, *key: object
) -> FloatArray:
    """Return draws of the root mean square of each row of `errors`, shape (rows, draws).

    `errors` has shape (rows, cells); each of `groupings` numbers the groups of the cells. Groups
    are drawn with replacement, and a cell counts as often as the product of its groups' counts
    (Owen, Ann. Appl. Stat. 1 (2007) 386); `key` seeds the draws.
    """
    rng = seeded("comparison", *key)
    times = np.ones((draws, errors.shape[1]))
    for of in groupings:
        count = int(of.max()) + 1
        times *= rng.multinomial(count, np.full(count, 1 / count), draws)[:, of]
    times[times.sum(axis=1) == 0] = 1  # no cell was drawn
    return np.maximum(np.sqrt(errors**2 @ times.T / times.sum(axis=1)), _ROUNDING)


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the least left-out error; the first one if none has an error."""
    return min(candidates, key=lambda one: np.nan_to_num(one.left_out_log_rms, nan=np.inf))
