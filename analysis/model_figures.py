"""The figures of the models of one source."""

from collections.abc import Iterator

import pandas as pd

from analysis import model_plots
from analysis.drawings import Drawing
from analysis.models.definitions import ALL_SET, MODELLED_SET, RHO, UNSEEN
from analysis.results import Results

_PLAINEST = "M0"


def of_models(results: Results, source: str, name: str, title: str) -> Iterator[Drawing]:
    """Draw gains and errors of a source's models; `name` ends the names of the files."""
    cells = results.frame("model_predictions")
    cells = cells[cells["source"] == source]
    modelled, every = (cells[cells["kernels"] == kernels] for kernels in (MODELLED_SET, ALL_SET))
    yield from _gains(results, modelled, source, name, title)
    if not modelled.empty:
        yield Drawing(
            f"residuals-{name}",
            "residuals",
            source,
            f"What M0 and the best model leave unexplained: {title}",
            "Predicted over measured time of every cell that M0 speaks of, held-out orders too, "
            f"{title}. A model that holds scatters around 1 without a pattern; above 1 the kernel "
            "is faster than the model says.",
            model_plots.errors(modelled, _models(modelled)),
        )
    fitted = every[every["role"] != UNSEEN]
    if not fitted.empty:
        yield Drawing(
            f"residuals-all-{name}",
            "residuals-all",
            source,
            f"One set of constants for all kernels of source V: {title}",
            "Predicted over measured time of every kernel of source V in every block size, held "
            f"out or not, by {_models(fitted)[-1]}, {title}.",
            model_plots.errors(fitted, _models(fitted)[-1:]),
        )
    others = every[every["role"] == UNSEEN]
    if not others.empty:
        yield Drawing(
            f"unseen-{name}",
            "unseen",
            source,
            f"Kernels that took no part in the fit: {title}",
            f"Predicted over measured time of the other sources' kernels by {_models(others)[-1]}, "
            f"whose constants were fitted to source V's alone, {title}.",
            model_plots.unseen(others),
        )


def _models(cells: pd.DataFrame) -> list[str]:
    """Return the models of some predictions, the plainest first."""
    return sorted(set(cells["model"]))


def _gains(
    results: Results, cells: pd.DataFrame, source: str, name: str, title: str
) -> Iterator[Drawing]:
    """Draw the gain of `block` over `naive`, which is what the source's model is about."""
    models = results.frame("models")
    rho = models[(models["source"] == source) & (models["parameter"] == RHO)]
    rho = rho[(rho["model"] == _PLAINEST) & (rho["kernels"] == MODELLED_SET)]
    gains = gains_of(cells[cells["model"] == _models(cells)[-1]] if len(cells) else cells)
    if gains.empty or rho.empty:
        return
    best = _models(cells)[-1]
    yield Drawing(
        f"model-{name}",
        "model",
        source,
        f"Gain of block over naive, measured and by the models: {title}",
        f"Gain of the block variant over the naive one against the block size B, {title}: markers "
        "are measured (one shape and colour for each N; a held-out one took no part in the fit), "
        f"the curve is M0 with the fitted ρ, the shading its interval, dotted lines are {best}, "
        "which tells the orders apart. Lines through the markers reach from the ends of both "
        "medians' intervals; a hollow marker has none.",
        model_plots.gains(gains, rho.iloc[0], best),
    )


def gains_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the gains of `block` over `naive` at the same n, measured and predicted.

    `cells` are rows of model_predictions.csv of one model. Columns: n, block_size, role, gain,
    gain_low, gain_high (from the ends of both intervals), predicted_gain.
    """
    names = ["time_s", "time_low_s", "time_high_s", "predicted_s"]
    naive = cells[cells["variant"] == "naive"].set_index("n")[names]
    block = cells[cells["variant"] == "block"]
    pairs = block.join(naive.add_suffix("_naive"), on="n", how="inner")
    return pairs.assign(
        gain=pairs["time_s_naive"] / pairs["time_s"],
        gain_low=pairs["time_low_s_naive"] / pairs["time_high_s"],
        gain_high=pairs["time_high_s_naive"] / pairs["time_low_s"],
        predicted_gain=pairs["predicted_s_naive"] / pairs["predicted_s"],
    )
