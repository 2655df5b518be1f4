"""Figures of the models: the rows that `analysis.models.plots` draws."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import PUBLISHED
from analysis.drawing import palette, style
from analysis.models import plots
from analysis.models.comparison import BEST
from analysis.models.definitions import ALL_SET, FITTED, HELD_OUT, MODELLED_SET, MODELS, RHO, UNSEEN
from analysis.models.plots import Series, Speedups

_M0 = "M0"


def model(store: Store, devices: Devices) -> Figure | None:
    """Draw the speedup of `block` over `naive` by block size, measured and by two models."""
    compared = _of(store["model_comparison"], MODELLED_SET)
    predictions = _of(store["model_predictions"], MODELLED_SET)
    fitted = predictions[predictions["role"] == FITTED]
    parameters = _of(store["models"], MODELLED_SET)
    rho = parameters[(parameters["parameter"] == RHO) & (parameters["model"] == _M0)]
    found = []
    for source, name in _sources(style.panelled(devices.gpus)).items():
        best = _best(compared, source)
        own = rho[rho["source"] == source]
        cells = speedups_of(_of_model(fitted, source, best))
        if len(cells) and len(own):
            bounds = tuple(float(own[f"value{end}"].iloc[0]) for end in ("", "_low", "_high"))
            found.append(Speedups(f"{_titled(name, cells)}, {best}", cells, bounds))
    return plots.speedups(found) if found else None


def speedups_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the speedups of `block` over `naive` at the same size, measured and predicted.

    `cells` are rows of model_predictions.csv of one model. Columns: machine, n, block_size,
    speedup, speedup_low and speedup_high (from the bounds of both medians), predicted_speedup.
    """
    names = ["time_s", "time_low_s", "time_high_s", "predicted_s"]
    naive = cells[cells["variant"] == "naive"].set_index("n")[names]
    block = cells[(cells["variant"] == "block") & cells["block_size"].notna()]
    pairs = block.join(naive.add_suffix("_naive"), on="n", how="inner")
    return pairs.assign(
        speedup=pairs["time_s_naive"] / pairs["time_s"],
        speedup_low=pairs["time_low_s_naive"] / pairs["time_high_s"],
        speedup_high=pairs["time_high_s_naive"] / pairs["time_low_s"],
        predicted_speedup=pairs["predicted_s_naive"] / pairs["predicted_s"],
    )


def errors(store: Store, devices: Devices) -> Figure | None:
    """Draw the error of each model at left-out sizes, on every GPU."""
    compared = _of(store["model_comparison"], MODELLED_SET)
    compared = compared[compared["left_out_log_rms"].notna()]
    gpus = _sources(devices.gpus[: style.MOST_COLOURS])
    found = [
        Series(_titled(name, own), own, look)
        for (source, name), look in zip(gpus.items(), _looks(gpus), strict=True)
        if len(own := compared[compared["source"] == source])
    ]
    names = [f"{name}: {one.adds}" for name, one in MODELS.items()]
    return plots.errors(found, dict(zip(MODELS, names, strict=True))) if found else None


def unseen(store: Store, devices: Devices) -> Figure | None:
    """Draw the best model's predictions of held-out sizes and of kernels never fitted."""
    compared = _of(store["model_comparison"], ALL_SET)
    predictions = _of(store["model_predictions"], ALL_SET)
    predictions = predictions[predictions["role"].isin((HELD_OUT, UNSEEN))]
    gpus = {gpu.label: gpu.short for gpu in devices.gpus[: style.MOST_COLOURS]}
    looks = palette.gpu_looks(gpus)
    found = [
        Series(name, own, looks[source])
        for source, name in gpus.items()
        if len(own := _of_model(predictions, source, _best(compared, source)))
    ]
    titles = {HELD_OUT: "held-out sizes", UNSEEN: "kernels excluded from every fit"}
    return plots.unseen(found, titles) if found else None


def residuals(store: Store, devices: Devices) -> Figure | None:
    """Draw the errors of M0 and of the best model on the GPU in focus, by B and by N."""
    source = devices.focus.label if devices.focus and devices.focus.is_gpu else PUBLISHED
    cells = _of(store["model_predictions"], MODELLED_SET)
    cells = cells[cells["source"] == source]
    best = _best(_of(store["model_comparison"], MODELLED_SET), source)
    names = [name for name in dict.fromkeys((_M0, best)) if (cells["model"] == name).any()]
    return plots.residuals(cells, names) if names else None


def _of(frame: pd.DataFrame, kernels: str) -> pd.DataFrame:
    return frame[frame["kernels"] == kernels]


def _of_model(predictions: pd.DataFrame, source: str, model: str) -> pd.DataFrame:
    return predictions[(predictions["source"] == source) & (predictions["model"] == model)]


def _best(compared: pd.DataFrame, source: str) -> str:
    """Return the model with the least left-out error, M0 if none was fitted."""
    best = compared[(compared["source"] == source) & (compared["verdict"] == BEST)]
    return str(best["model"].iloc[0]) if len(best) else _M0


def _sources(gpus: Sequence[Device]) -> dict[str, str]:
    """Return titles of the fitted sources by name in the tables: published, then GPUs."""
    return {PUBLISHED: PUBLISHED, **{gpu.label: gpu.short for gpu in gpus}}


def _titled(name: str, rows: pd.DataFrame) -> str:
    """Return a source's name; for the published times, with their GPU."""
    gpu = str(rows["machine"].iloc[0]).split(" + ")[-1]
    return f"{name}, {gpu}" if name == PUBLISHED else name


def _looks(names: dict[str, str]) -> list[palette.Look]:
    """Return the looks of the published times (grey) and of the GPUs."""
    gpus = [name for name in names if name != PUBLISHED]
    return [palette.Look(palette.GREY, "d", "-"), *palette.gpu_looks(gpus).values()]


FIGURES = style.named(model, errors, unseen, residuals)
