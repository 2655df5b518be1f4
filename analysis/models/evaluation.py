"""How well models and curve fits predict unseen sizes, block sizes and variants.

All are evaluated on the same cells. A curve fit has rows only for tests whose cells it can predict.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.models.comparison import Candidate, left_out, ranked
from analysis.models.curve_fits import CurveFit
from analysis.models.definitions import HELD_OUT, MODELS, UNSEEN
from analysis.stats.estimates import CONFIDENCE, FloatArray, IntArray, rms

# The tests, by what the predicting fit has not seen: one size at a time, sizes of no fit, one block
# size of a variant at a time, one variant at a time, variants of no fit.
LEFT_OUT_SIZE, HELD_OUT_SIZE = "leave-one-size-out", "size held out"
BLOCK, VARIANT, NEVER = "leave-one-block-size-out", "leave-one-variant-out", "variant never fitted"
# Seeds of the draws of these tests: other texts change the bounds of all intervals.
_EXCLUDED = {LEFT_OUT_SIZE: "size", BLOCK: "block size", VARIANT: "variant"}
_SEEDS = {test: f"{what} left out" for test, what in _EXCLUDED.items()}
_KERNEL = ["variant", "block_size"]
_UPPER = (1 + CONFIDENCE) / 2


def variant_errors(one: Candidate, cells: pd.DataFrame) -> FloatArray:
    """Return log(prediction/median) of each fitted cell, by a fit without the cell's variant."""
    return left_out(one.data, one.fit, _numbers(cells, ["variant"]))


def spread(errors: FloatArray) -> dict[str, float]:
    """Return RMS, median and largest error as factors, and the share of errors within the RMS."""
    sizes = np.abs(errors)
    factors = np.exp([rms(errors), np.median(sizes), sizes.max()])
    row = dict(zip(("error_factor", "median_factor", "worst_factor"), factors, strict=True))
    return row | {"share_within": float(np.mean(sizes <= rms(errors)))}


def half_width(errors: FloatArray, variants: IntArray) -> float:
    """Return the half-width of a 95 % prediction interval of the log time of a new variant.

    `errors` are `variant_errors` of the numbered `variants`. Each variant's mean square counts
    once, because its cells have similar errors; Student's t has one degree of freedom per variant.
    NaN below two variants.
    """
    is_known = np.isfinite(errors)
    distinct = np.unique(variants[is_known])
    if len(distinct) < 2:
        return float("nan")
    squares = [np.mean(errors[is_known & (variants == each)] ** 2) for each in distinct]
    return float(stdtrit(len(distinct), _UPPER) * np.sqrt(np.mean(squares)))


def evaluate(
    candidates: Sequence[Candidate],
    plain: Sequence[CurveFit],
    cells: pd.DataFrame,
    predictions: Mapping[str, pd.DataFrame],
    draws: int,
    *key: object,
) -> pd.DataFrame:
    """Return one row for each test and each model or curve fit that can predict its cells.

    `cells` are the fitted cells; `predictions` has, by model, the rows of model_predictions.csv
    that are held out or never fitted. Columns: test, model, adds, parameters, cells; log_rms,
    over_best (with bounds) and verdict as in `ranked`; error_factor, the typical factor of a
    prediction's error; cells_inside and inside_share of 95 % prediction intervals; interval_factor,
    their half-width as a factor if it is the same for all cells. The interval of a left-out variant
    is from the errors of the other left-out variants.
    """
    variants, kernels = (_numbers(cells, by) for by in (["variant"], _KERNEL))
    several = cells.groupby("variant")["block_size"].transform("nunique").to_numpy() > 1
    errors: dict[str, dict[str, FloatArray]] = {one: {} for one in (LEFT_OUT_SIZE, BLOCK, VARIANT)}
    inside: dict[tuple[str, str], FloatArray] = {}
    widths: dict[tuple[str, str], float] = {}
    for one in candidates:
        of_variants = variant_errors(one, cells)
        errors[LEFT_OUT_SIZE][one.model] = one.left_out
        errors[BLOCK][one.model] = left_out(one.data, one.fit, kernels)[several]
        errors[VARIANT][one.model] = of_variants
        inside[VARIANT, one.model] = _inside_of_others(of_variants, variants)
        widths[NEVER, one.model] = half_width(of_variants, variants)
    errors[LEFT_OUT_SIZE] |= {one.name: one.left_out for one in plain}
    of_cells = {LEFT_OUT_SIZE: cells, BLOCK: cells[several], VARIANT: cells}
    for test, role in ((HELD_OUT_SIZE, HELD_OUT), (NEVER, UNSEEN)):
        by_model = {name: frame[frame["role"] == role] for name, frame in predictions.items()}
        of_cells[test] = by_model[candidates[-1].model]
        errors[test] = {name: frame["log_residual"].to_numpy() for name, frame in by_model.items()}
        for name, frame in by_model.items():
            inside[test, name] = frame["in_interval"].to_numpy(dtype=float, na_value=np.nan)
    held = of_cells[HELD_OUT_SIZE]
    errors[HELD_OUT_SIZE] |= {one.name: _held_out(one, cells, held) for one in plain}
    about = {one.name: (one.meaning, one.parameters) for one in plain}
    about |= {one.model: (MODELS[one.model].adds, one.data.design.shape[1]) for one in candidates}
    frames = []
    for test, of_models in errors.items():
        if not len(of_cells[test]):
            continue
        by = (["variant"] if test in (VARIANT, NEVER) else _KERNEL, ["n"])
        groups = [_numbers(of_cells[test], columns) for columns in by]
        frame = _evaluated(of_models, groups, draws, _SEEDS.get(test, test), *key).assign(test=test)
        for row in frame.index:
            name = frame.at[row, "model"]
            frame.loc[row, ["adds", "parameters"]] = about[name]
            contained = inside.get((test, name), np.array([np.nan]))
            if not np.isnan(contained).any():
                contents = contained.sum(), contained.mean()
                frame.loc[row, ["cells_inside", "inside_share"]] = contents
            frame.loc[row, "interval_factor"] = np.exp(widths.get((test, name), np.nan))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _evaluated(
    errors: Mapping[str, FloatArray], groups: Sequence[IntArray], draws: int, *key: object
) -> pd.DataFrame:
    """Return one row for each model that predicts every cell of one test; `errors` is by model."""
    count = len(groups[0])
    errors = {
        name: some
        for name, some in errors.items()
        if len(some) == count and np.isfinite(some).all()
    }
    if not errors:
        return pd.DataFrame({"model": []})
    rows = ranked(np.array(list(errors.values())), groups, draws, *key)
    cells = [len(some) for some in errors.values()]
    return rows.assign(model=list(errors), cells=cells, error_factor=np.exp(rows["log_rms"]))


def _inside_of_others(errors: FloatArray, variants: IntArray) -> FloatArray:
    """Return whether the interval from other variants' errors contains each error (1, 0, NaN)."""
    widths = np.full(len(errors), np.nan)
    for each in np.unique(variants):
        of_variant = variants == each
        widths[of_variant] = half_width(np.where(of_variant, np.nan, errors), variants)
    return np.where(np.isnan(widths), np.nan, np.abs(errors) <= widths)


def _held_out(one: CurveFit, cells: pd.DataFrame, held: pd.DataFrame) -> FloatArray:
    numbers = pd.Series(_numbers(cells, _KERNEL), _names(cells))
    kernels = numbers[~numbers.index.duplicated()].reindex(_names(held))
    fitted = kernels.notna().to_numpy()
    errors = np.full(len(held), np.nan)
    n, time_s = (held[name].to_numpy(dtype=float)[fitted] for name in ("n", "time_s"))
    errors[fitted] = one.at(kernels.to_numpy(float)[fitted].astype(np.intp), n) - np.log(time_s)
    return errors


def _names(cells: pd.DataFrame) -> pd.Index:
    return pd.Index(cells["variant"] + " " + cells["block_size"].astype("string").fillna(""))


def _numbers(cells: pd.DataFrame, by: list[str]) -> IntArray:
    return cells.groupby(by, dropna=False).ngroup().to_numpy(dtype=np.intp)
