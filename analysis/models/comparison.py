"""Which model predicts best: orders left out, an information criterion, and what each step adds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

from analysis.models.definitions import MODELS
from analysis.schema import bounded
from analysis.stats.estimates import FloatArray, percentile_interval, seeded
from analysis.stats.fitting import Data, Fit, IntArray, log_model, solve

# Verdicts on a model beside the one with the least error of left-out orders.
BEST, NOT_TOLD, WORSE = "best", "not told from the best", "worse"
LEAST_ORDER = 512  # from which on a kernel is no longer a matter of its launch
FACTOR = 1.5  # within which a model predicts at these orders, if it predicts at all
_FEWEST_GROUPS = 2


@dataclass(frozen=True)
class Candidate:
    """A fitted model; `left_out`: log(prediction/median) of each cell by a fit without its order.

    `left_out` is NaN where a fit without that order is not possible.
    """

    model: str
    data: Data
    fit: Fit
    left_out: FloatArray

    @property
    def log_rms(self) -> float:
        """Root mean square of log(model/median)."""
        return rms(self.fit.residual)

    @property
    def left_out_log_rms(self) -> float:
        """Root mean square of log(prediction/median) at orders that were left out."""
        return rms(self.left_out)


def rms(residual: FloatArray) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(residual**2)))


def candidate(model: str, data: Data, fit: Fit) -> Candidate:
    """Return a fitted model with its predictions of every order by the others alone."""
    return Candidate(model, data, fit, left_out(data, fit, data.sizes))


def left_out(data: Data, fit: Fit, groups: IntArray) -> FloatArray:
    """Return log(prediction/median) of each cell by a fit without its group, shape (cells,).

    The search begins at `fit`, that to all cells. NaN where a fit without the group is not
    possible, or finds nothing that its cells take time for.
    """
    errors = np.full(len(data.log_times), np.nan)
    found = np.unique(groups)
    for group in found if len(found) >= _FEWEST_GROUPS else ():
        out = groups == group
        rest = data.only(~out)
        if (rest.design.max(axis=0) > 0).all():
            theta = solve(rest.design, rest.log_times, fit.weights[~out], fit.theta)
            with np.errstate(divide="ignore"):
                errors[out] = log_model(data.design[out], theta) - data.log_times[out]
    return np.where(np.isfinite(errors), errors, np.nan)


def aicc(data: Data, fit: Fit) -> float:
    """Return the Akaike information criterion, corrected for few cells.

    Sugiura, Commun. Statist. A7 (1978) 13. Errors of the logarithms are taken as normal, with the
    variance of each median and a scatter of the model, which is one parameter more and is that of
    the greatest likelihood. NaN for too few cells.
    """
    cells, parameters = data.design.shape
    parameters += 1
    if cells - parameters - 1 < 1:
        return float("nan")

    def deviance(log_scatter: float) -> float:
        variance = data.variance + np.exp(log_scatter)
        return float(np.sum(np.log(2 * np.pi * variance) + fit.residual**2 / variance))

    largest = np.log(np.mean(fit.residual**2) + 1e-12)
    found = minimize_scalar(deviance, bounds=(largest - 20, largest + 1), method="bounded")
    penalty = 2 * parameters * cells / (cells - parameters - 1)
    return float(found.fun + penalty)


def comparison(candidates: Sequence[Candidate], draws: int, *key: object) -> pd.DataFrame:
    """Return one row a model, of candidates for the same cells.

    Columns: model, adds, after, parameters, cells, orders, log_rms; left_out_log_rms with bounds;
    over_best (that over the best model's) with bounds, and verdict; gain (the first model's over
    this one's) with bounds; aicc, and aicc_above_least.

    Bounds are percentiles of draws that take kernels and orders anew, each with replacement, and
    each cell as often as its kernel times its order (Owen, Ann. Appl. Stat. 1 (2007) 386); `key`
    seeds them. A model is worse than the best if over_best lies above 1 with all of its interval.
    """
    data = candidates[0].data
    left_out = np.array([one.left_out for one in candidates])
    errors = drawn_errors(left_out, (data.kernels, data.sizes), draws, *key)
    found = np.array([one.left_out_log_rms for one in candidates])
    known = ~np.isnan(found).any()
    best = int(np.argmin(found)) if known else 0
    criteria = np.array([aicc(one.data, one.fit) for one in candidates])
    rows = []
    for index, one in enumerate(candidates):
        over_best = percentile_interval(errors[index] / errors[best])
        verdict = WORSE if over_best[0] > 1 else NOT_TOLD
        rows.append(
            {
                "model": one.model,
                "adds": MODELS[one.model].adds,
                "after": MODELS[one.model].after,
                "parameters": one.data.design.shape[1],
                "cells": len(one.data.log_times),
                "sizes": len(np.unique(one.data.sizes)),
                "log_rms": one.log_rms,
                **bounded("left_out_log_rms", found[index], *percentile_interval(errors[index])),
                **bounded("over_best", found[index] / found[best], *over_best),
                "verdict": (BEST if index == best else verdict) if known else "",
                **bounded(
                    "speedup",
                    found[0] / found[index],
                    *percentile_interval(errors[0] / errors[index]),
                ),
                "aicc": criteria[index],
                "aicc_above_least": criteria[index] - criteria.min(),
            }
        )
    return pd.DataFrame(rows)


def drawn_errors(
    errors: FloatArray, groupings: Sequence[IntArray], draws: int, *key: object
) -> FloatArray:
    """Return draws of the root mean square of each row of `errors`, shape (rows, draws).

    `errors` has the shape (rows, cells); `groupings` say of which group of each kind a cell is.
    """
    rng = seeded("comparison", *key)
    times = np.ones((draws, errors.shape[1]))
    for of in groupings:
        count = int(of.max()) + 1
        times *= rng.multinomial(count, np.full(count, 1 / count), draws)[:, of]
    times[times.sum(axis=1) == 0] = 1  # drew none at all
    return np.asarray(np.sqrt(errors**2 @ times.T / times.sum(axis=1)))


def steps(candidates: Sequence[Candidate], cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each step from the first model to the best, along `Model.after`.

    Columns: model, after, adds; share: of the first model's mean square log error of left-out
    orders, what the step takes away (below 0: what it adds); variant and block_size: the kernel for
    which it takes away the most, and there error_before and error_after, root mean squares. `cells`
    has variant and block_size of the candidates' cells.
    """
    by_name = {one.model: one for one in candidates}
    best = best_of(candidates)
    rows = []
    for before, now in _path(best.model, by_name):
        errors = {"before": before.left_out**2, "after": now.left_out**2}
        by_kernel = cells.assign(**errors).groupby(_KERNEL, dropna=False)[list(errors)].mean()
        gained = by_kernel["before"] - by_kernel["after"]
        variant, block = by_kernel.index[int(gained.to_numpy().argmax())]
        most = by_kernel.iloc[int(gained.to_numpy().argmax())]
        first = candidates[0].left_out_log_rms ** 2
        rows.append(
            {
                "model": now.model,
                "after": before.model,
                "adds": MODELS[now.model].adds,
                "share": float(errors["before"].mean() - errors["after"].mean()) / first,
                "variant": variant,
                "block_size": block,
                "error_before": float(np.sqrt(most["before"])),
                "error_after": float(np.sqrt(most["after"])),
            }
        )
    return pd.DataFrame(rows, columns=_STEP)


_STEP = ["model", "after", "adds", "share", "variant", "block_size", "error_before", "error_after"]
_KERNEL = ["variant", "block_size"]


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the least error of left-out orders; the first if none has any."""
    return min(candidates, key=lambda one: np.nan_to_num(one.left_out_log_rms, nan=np.inf))


def _path(last: str, by_name: dict[str, Candidate]) -> list[tuple[Candidate, Candidate]]:
    """Return the steps that lead to a model, as pairs of the models before and after."""
    after = MODELS[last].after
    if after not in by_name:
        return []
    return [*_path(str(after), by_name), (by_name[str(after)], by_name[last])]
