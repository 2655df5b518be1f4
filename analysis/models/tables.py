"""The tables of the models: parameters, comparison, tests, steps, predictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtri

from analysis.data.frames import stacked
from analysis.data.published import MACHINES
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import PUBLISHED
from analysis.kernels.counts import counters
from analysis.models import comparison, definitions, evaluation
from analysis.models.comparison import FACTOR, LEAST_SIZE, Candidate, candidate
from analysis.models.curve_fits import curve_fits
from analysis.models.work import GpuFacts, with_work
from analysis.schema import bounded, renaming, with_bounds
from analysis.stats.estimates import CONFIDENCE, DRAWS, FloatArray, conformal
from analysis.stats.fitting import Data, log_model
from analysis.stats.fitting import fit as fit_model
from analysis.stats.uncertainty import Estimate, Uncertainty
from kernels.catalog.baselines import NAIVE_BLOCK
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import CatalogKernel

_LABELS = ["source", "machine", "quantity", "kernels"]
_CELLS = ["variant", "block_size", "n", *with_bounds("time_s"), "samples", "role"]
_TABLES = ("comparison", "tests", "errors", "predictions")
# Ranges of sizes on every GPU and as published, after that of all sizes, and least block sizes.
_LARGE, _LARGEST = (256, 1), (1024, 4)
_PUBLISHED_TABLES = (5, 4, 3)
_NORMAL = float(ndtri((1 + CONFIDENCE) / 2))


@dataclass(frozen=True)
class Case:
    """A set of times that are fitted together, with the `labels` of `_LABELS`.

    `cells` has `_CELLS` and the columns of `analysis.models.work`; `draws` are draws of their
    medians, shape (cells, DRAWS), or NaN. `clock_hz`, the GPU's clock while measured, and
    `multiprocessors` are NaN if unknown.
    """

    labels: dict[str, str]
    cells: pd.DataFrame
    draws: FloatArray
    clock_hz: float = float("nan")
    multiprocessors: float = float("nan")

    @property
    def fitted(self) -> pd.Series:
        """A mask of the cells that take part in the fit."""
        return self.cells["role"] == definitions.FITTED


def model_tables(
    published: pd.DataFrame,
    sources: Sequence[MeasuredSource],
    code: pd.DataFrame,
    progress: Callable[[str], None],
) -> dict[str, pd.DataFrame]:
    """Return the tables models and model_… (`_TABLES`) by name.

    `code` is the table machine_code. Published times include copies, but times measured here are
    kernel times. Models whose work is unknown for a GPU or kernel are omitted.
    """
    parts: dict[str, list[pd.DataFrame]] = {
        name: [] for name in ("models", *(f"model_{part}" for part in _TABLES))
    }
    for case in _cases(published, sources, code):
        candidates = _candidates(case)
        if not candidates:
            continue
        progress(f"models of {case.labels['source']}: {case.labels['kernels']} kernels")
        for name, frame in _of_case(case, candidates).items():
            parts[name].append(frame.assign(**case.labels))
    return {name: stacked(name, frames) for name, frames in parts.items()}


# ---- Cells


def _cases(
    published: pd.DataFrame, sources: Sequence[MeasuredSource], code: pd.DataFrame
) -> Iterator[Case]:
    for machine, rows in published.groupby("machine"):
        cells = _published_cells(rows)
        if (cells["variant"] == "block").any():
            labels = (PUBLISHED, MACHINES[str(machine)], "total", definitions.MODELLED_SET)
            draws = np.full((len(cells), DRAWS), np.nan)
            yield Case(dict(zip(_LABELS, labels, strict=True)), cells, draws)
    counted = counters(sources)
    for source in with_gpu(sources):
        cells, clock_hz = _measured_cells(source), _clock_hz(source)
        facts = facts_of(source, code, counted)
        cells = with_work(cells, facts)
        draws = source.draws["kernel"][cells.index]
        for kernels in (definitions.MODELLED_SET, definitions.ALL_SET):
            chosen = definitions.is_modelled(cells) | (kernels == definitions.ALL_SET)
            labels = (source.label, source.machine, "kernel", kernels)
            yield Case(
                dict(zip(_LABELS, labels, strict=True)),
                cells[chosen],
                draws[chosen.to_numpy()],
                clock_hz,
                facts.multiprocessors,
            )


def _published_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per published time of a kernel that M0 models; naive has B = 32.

    Several published tables are used, because they were measured in the same way and agree where
    they repeat a cell.
    """
    order = {table: at for at, table in enumerate(_PUBLISHED_TABLES)}
    rows = rows[rows["table"].isin(order)].sort_values("table", key=lambda t: t.map(order))
    on_gpu = rows["implementation"].str.startswith("gpu_")
    rows = rows[on_gpu].drop_duplicates(["implementation", "n", "block_size"])
    variants = rows["implementation"].str.removeprefix("gpu_")
    sizes = rows["block_size"].mask(variants == "naive", NAIVE_BLOCK)
    cells = rows.assign(variant=variants, block_size=sizes, role=definitions.FITTED)
    cells = cells.reindex(columns=_CELLS)
    return with_work(cells[definitions.is_modelled(cells)].reset_index(drop=True), None)


def _measured_cells(source: MeasuredSource) -> pd.DataFrame:
    """Return the kernel times of a GPU's square cells; the index is the row in `source.cells`.

    Kernels without theory (such as a library's) and those on tensor cores are omitted, because no
    model has terms for them.
    """
    cells = source.gpu_square_cells
    cells = cells[cells["host_memory"] == source.memory("kernel")]
    modelled = [
        name
        for name, v in VARIANTS.items()
        if isinstance(v, CatalogKernel) and v.theory and not v.tensor_cores
    ]
    cells = cells[cells["variant"].isin(modelled) & cells["kernel_s"].notna()]
    held_out = cells["n"].isin(source.holdout_sizes)
    role = pd.Series(definitions.FITTED, cells.index).mask(held_out, definitions.HELD_OUT)
    role = role.mask(~cells["variant"].isin(definitions.SOURCE_V), definitions.UNSEEN)
    return cells.rename(columns=renaming("kernel_s", "time_s")).assign(role=role)[_CELLS]


def _clock_hz(source: MeasuredSource) -> float:
    samples = source.recording.samples
    clocks = samples.loc[samples["device"] == source.device, "sm_clock_hz"].dropna()
    return float(clocks.median()) if len(clocks) else float("nan")


def facts_of(source: MeasuredSource, code: pd.DataFrame, counted: pd.DataFrame) -> GpuFacts:
    """Return the facts of a source's GPU; `counted` is `analysis.kernels.counts.counters`."""
    gpu = source.gpu
    architecture = f"sm_{gpu['compute_capability'].replace('.', '')}"
    of_gpu = (code["recording"] == source.recording_id) & (code["architecture"] == architecture)
    return GpuFacts(
        int(gpu["multiprocessors"]),
        str(gpu["compute_capability"]),
        code[of_gpu],
        counted[counted["gpu"] == source.label],
    )


def _data(case: Case) -> Data:
    cells = case.cells[case.fitted]
    log_times, low, high = np.log(cells[with_bounds("time_s")].to_numpy(dtype=float)).T
    noise = np.log(case.draws[case.fitted.to_numpy()]).T - log_times
    return Data(
        np.empty((len(cells), 0)),
        log_times,
        np.nan_to_num(((high - low) / (2 * _NORMAL)) ** 2),
        cells.groupby(["variant", "block_size"], dropna=False).ngroup().to_numpy(),
        cells.groupby("n").ngroup().to_numpy(),
        np.nan_to_num(noise),
    )


def _candidates(case: Case) -> list[Candidate]:
    data, cells = _data(case), case.cells[case.fitted]
    candidates = []
    for name, model in definitions.MODELS.items() if len(cells) else ():
        design = model.design(cells)
        if np.isfinite(design).all() and design.any(axis=0).all() and len(cells) > design.shape[1]:
            designed = replace(data, design=design)
            candidates.append(candidate(name, designed, fit_model(designed)))
    return candidates


# ---- Tables


def _of_case(case: Case, candidates: list[Candidate]) -> dict[str, pd.DataFrame]:
    key = tuple(case.labels.values())
    fitted = case.cells[case.fitted]
    best = comparison.best_of(candidates)
    parameters, predictions = [], {}
    for one in candidates:
        uncertainty = Uncertainty(one.data, one.fit, *key, one.model)
        parameters.append(_parameters(case, one, uncertainty))
        predictions[one.model] = _predictions(case, one, one in (candidates[0], best))
    plain = curve_fits(_data(case), fitted["n"].to_numpy(dtype=float))
    compared = comparison.comparison(candidates, DRAWS, *key)
    worst = pd.DataFrame([_worst(one, fitted) for one in candidates])
    evaluated = evaluation.evaluate(candidates, plain, fitted, predictions, DRAWS, *key)
    seen = predictions[candidates[0].model]
    names = renaming("left_out_log_rms", "left_out_factor")
    factors = {factor: np.exp(compared[error]) for error, factor in names.items()}
    chosen_here = definitions.CHOSEN_ON in case.labels["machine"]
    shown = [predictions[best.model]]
    if best is not candidates[0]:
        shown.insert(0, seen[seen["role"] != definitions.UNSEEN])
    return {
        "models": pd.concat(parameters, ignore_index=True),
        "model_comparison": pd.concat([compared.assign(**factors), worst], axis=1),
        "model_tests": evaluated.assign(selected_on_this_gpu=chosen_here),
        "model_errors": pd.concat(
            [_errors(case, one.model) for one in candidates if one.model in ("M0", best.model)]
        ),
        "model_predictions": pd.concat(shown, ignore_index=True),
    }


def _ranges(case: Case, *further: tuple[int, int]) -> Iterator[tuple[int, int, Case]]:
    """Yield parts of a case with their least N and B: all cells, `_LARGE` ones, and `further`."""
    first = (int(case.cells.loc[case.fitted, "n"].min()), 1)
    for from_n, from_block in dict.fromkeys((first, _LARGE, *further)):
        blocks = case.cells["block_size"].astype(float)
        large = ((case.cells["n"] >= from_n) & ~(blocks < from_block)).to_numpy()
        part = replace(case, cells=case.cells[large], draws=case.draws[large])
        if part.cells.loc[part.fitted, "n"].nunique() > 2:
            yield from_n, from_block, part


def _errors(case: Case, model: str) -> pd.DataFrame:
    """Return one row of a model's errors per range of `_ranges`: at left-out sizes and variants."""
    rows = []
    for from_n, from_block, part in _ranges(case, _LARGEST):
        fitted = part.cells[part.fitted]
        data = replace(_data(part), design=definitions.MODELS[model].design(fitted))
        if data.design.any(axis=0).all() and len(fitted) > data.design.shape[1]:
            one = candidate(model, data, fit_model(data))
            for test, errors in (
                (evaluation.LEFT_OUT_SIZE, one.left_out),
                (evaluation.VARIANT, evaluation.variant_errors(one, fitted)),
            ):
                if np.isfinite(errors).all():
                    row = {"model": model, "test": test, "cells": len(errors)}
                    row |= {"from_n": from_n, "from_block_size": from_block}
                    rows.append(row | evaluation.spread(errors))
    return pd.DataFrame(rows)


def _parameters(case: Case, one: Candidate, spread: Uncertainty) -> pd.DataFrame:
    """Return one row per parameter of a model; the first is ρ."""
    names = definitions.MODELS[one.model].parameters
    above, below = (names.index(name) for name in definitions.MODELS[one.model].ratio)
    rows = [{"parameter": definitions.RHO, "unit": "", **_estimate(spread.ratio(above, below))}]
    for index, name in enumerate(names):
        row = {"parameter": name, "unit": "s", **_estimate(spread.parameter(index))}
        # One multiprocessor alone would need that many times as long for the work.
        at_once = case.multiprocessors if name.startswith("c_") else 1
        rows.append(row | {"cycles": one.fit.theta[index] * at_once * case.clock_hz})
    return pd.DataFrame(rows).assign(model=one.model)


def _estimate(estimate: Estimate) -> dict[str, object]:
    bounds = bounded("value", estimate.value, estimate.low, estimate.high)
    return {**bounds, "status": estimate.status, "method": estimate.method}


def _worst(one: Candidate, cells: pd.DataFrame) -> dict[str, object]:
    """Return how many cells from `LEAST_SIZE` on are predicted within `FACTOR`, and the worst one.

    Predictions are of the fit to all sizes. Factors above 1: the predicted time is longer.
    """
    residual = pd.Series(one.fit.residual, cells.index)[cells["n"] >= LEAST_SIZE]
    row: dict[str, object] = {
        "evaluated": len(residual),
        "evaluated_within": int((residual.abs() <= np.log(FACTOR)).sum()),
    }
    if residual.empty:
        return row
    worst = cells.loc[residual.abs().idxmax()]
    return row | {
        "worst_variant": worst["variant"],
        "worst_block_size": worst["block_size"],
        "worst_n": worst["n"],
        "worst_factor": float(np.exp(residual[worst.name])),
    }


def _predictions(case: Case, one: Candidate, whole: bool) -> pd.DataFrame:
    """Return one row per cell that a model predicts; fitted cells only if `whole`.

    Intervals of fitted variants come from the errors of the two nearest left-out sizes
    (`conformal`). Intervals of other variants come from the errors of left-out variants
    (`analysis.models.evaluation.half_width`).
    """
    cells = case.cells if whole else case.cells[~case.fitted]
    design = definitions.MODELS[one.model].design(cells)
    cells = cells[np.isfinite(design).all(axis=1)]
    design = design[np.isfinite(design).all(axis=1)]
    log_predicted = log_model(design, one.fit.theta)
    unseen = (cells["role"] == definitions.UNSEEN).to_numpy()
    fitted = case.cells[case.fitted]
    left_out = pd.Series(one.left_out, fitted.index)
    by_size = left_out.dropna().groupby(fitted["n"]).agg(np.array)
    variants = fitted.groupby("variant").ngroup().to_numpy()
    half = evaluation.half_width(evaluation.variant_errors(one, fitted), variants)
    width = np.full(len(cells), half)
    width[~unseen] = np.nan
    for n in cells["n"].unique() if len(by_size) else ():
        nearest = np.argsort(np.abs(np.log(by_size.index.to_numpy(float) / n)))[:2]
        of_size = ~unseen & (cells["n"] == n).to_numpy()
        width[of_size] = conformal(np.concatenate(by_size.iloc[nearest].to_list()))
    low, high = np.exp(log_predicted - width), np.exp(log_predicted + width)
    times = cells["time_s"].to_numpy(dtype=float)
    inside = pd.Series((low <= times) & (times <= high), cells.index, dtype="boolean")
    return cells.assign(
        model=one.model,
        in_interval=inside.mask(np.isnan(low)),
        **bounded("predicted_s", np.exp(log_predicted), low, high),
        log_residual=log_predicted - np.log(times),
    )
