"""M0, the source's latency model, and its fit to published and to measured times.

The model charges t_G seconds for a global access and t_S for a shared one, counted per thread and
summed over all n² threads (an effective cost, not a latency). Gains of `block` over `naive` depend
on ρ = t_G/t_S alone, so ρ is fitted to gains; t_G comes from the naive times, and t_S = t_G/ρ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq, least_squares
from scipy.stats import norm
from scipy.stats import t as student_t

from analysis.statistics import CONFIDENCE, DRAWS, FloatArray, percentile_interval, seeded

Kind = Literal["naive", "buffered", "block"]
IntArray = npt.NDArray[np.intp]

RHO_RANGE = (1e-3, 1e6)
_LOG_RANGE = (float(np.log(RHO_RANGE[0])), float(np.log(RHO_RANGE[1])))
# What comes so near to an end of the range, in log ρ, has run to it.
_MARGIN = 1e-6
_LOG_STARTS = (-2.0, 2.0, 6.0)
_LOG_GRID = np.linspace(*_LOG_RANGE, 200)
# No median is trusted beyond one part in a million.
_LEAST_VARIANCE = 1e-12
_UPPER = (1 + CONFIDENCE) / 2


def m0_eta(rho: npt.ArrayLike, block_size: npt.ArrayLike) -> FloatArray:
    """Return M0's gain of `block` over `naive`, η = ρB/(ρ + B); arguments broadcast, no units."""
    with np.errstate(divide="ignore"):  # ρ = 0 has η = 0
        return np.exp(_log_eta(np.log(np.asarray(rho, float)), np.asarray(block_size, float)))


def m0_times(
    kind: Kind, n: npt.ArrayLike, block_size: npt.ArrayLike, t_g: npt.ArrayLike, t_s: npt.ArrayLike
) -> FloatArray:
    """Return M0's times in seconds for t_G and t_S in seconds per access; arguments broadcast.

    naive: 2n³·t_G. buffered: n³·t_G + n²·t_G + n³·t_S. block: 2n³·(t_G/B + t_S). `block_size`
    counts for block only.
    """
    n, block_size, t_g, t_s = (np.asarray(value, float) for value in (n, block_size, t_g, t_s))
    if kind == "naive":
        return np.asarray(2 * n**3 * t_g)
    if kind == "buffered":
        return np.asarray(n**3 * t_g + n**2 * t_g + n**3 * t_s)
    return np.asarray(2 * n**3 * (t_g / block_size + t_s))


@dataclass(frozen=True)
class Estimate:
    """A fitted value with its 95 % interval; NaN bounds where there is none.

    0 and infinity stand for an end to which the data set no bound.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """M0 fitted to one set of times: ρ without unit, t_G and t_S in seconds per access.

    `rho_bounded`: ρ and its interval lie inside `RHO_RANGE`. `log_rms` is the root mean square of
    log(η/gain) over the fitted gains.
    """

    rho: Estimate
    rho_bounded: bool
    t_g: Estimate
    t_s: Estimate
    log_rms: float


@dataclass(frozen=True)
class _Data:
    """Log gains, a row each, and log costs (naive time over 2n³), a row each order n.

    `order` is each gain's row among the costs. Variances are those of the measured medians (0: not
    known); noises are bootstrap deviations from them, shape (DRAWS, rows).
    """

    order: IntArray
    blocks: FloatArray
    log_gain: FloatArray
    gain_variance: FloatArray
    gain_noise: FloatArray
    log_cost: FloatArray
    cost_variance: FloatArray
    cost_noise: FloatArray


@dataclass(frozen=True)
class _Level:
    """A parameter (a logarithm), its residuals (prediction − data) and weights, a row a datum.

    `share` is the part of the residuals' variance that the measured medians do not explain.
    """

    value: float
    residual: FloatArray
    weights: FloatArray
    share: float


def paired(times: pd.DataFrame) -> pd.DataFrame:
    """Return the times of `block` beside those of `naive` at the same n, sorted by n and B.

    `times` is tidy as `analysis.study.Source.times` returns it. Columns: n, block_size, time_s,
    time_low_s, time_high_s, row (its index in `times`), the same with the prefix naive_, and gain.
    """
    columns = ["n", "block_size", "time_s", "time_low_s", "time_high_s", "row"]
    times = times.rename_axis("row").reset_index()
    block = times.loc[times["implementation"] == "gpu_block", columns]
    naive = times.loc[times["implementation"] == "gpu_naive", columns].drop(columns="block_size")
    naive = naive.rename(columns={name: f"naive_{name}" for name in columns if name != "n"})
    pairs = block.merge(naive, on="n", validate="m:1").sort_values(["n", "block_size"])
    return pairs.assign(gain=pairs["naive_time_s"] / pairs["time_s"]).reset_index(drop=True)


def fit(pairs: pd.DataFrame, draws: FloatArray | None = None) -> Fit:
    """Fit M0 to `pairs` (of `paired`; at least one row).

    ρ minimises the weighted squares of log(η(ρ, B)/gain) over all n and B together. Weights are the
    inverse of the medians' variance, read off their intervals, plus a variance of the model's own
    scatter, so that cells measured to 0.1 % do not pretend that the model is exact to 0.1 %. t_G is
    the weighted geometric mean of naive time/(2n³), with weights of the same kind.

    Intervals are percentiles of DRAWS bootstrap draws over cells and over the samples within them;
    `draws` holds the bootstrap medians of the cells of `times`, shape (cells, draws). They are NaN
    for fewer than two orders n. What runs to an end of `RHO_RANGE` is 0 or infinity.
    """
    data = _data(pairs, draws)
    gains = _with_scatter(lambda w: _fit_log_rho(data.log_gain, data.blocks, w), data.gain_variance)
    costs = _with_scatter(lambda w: _fit_mean(data.log_cost, w), data.cost_variance)
    log_rhos, log_t_gs = _bootstrap(data, gains, costs)
    if len(data.log_cost) < 2:
        log_rhos, log_t_gs = np.full(DRAWS, np.nan), np.full(DRAWS, np.nan)
    log_rho = float(_open_ended(gains.value))
    rho = _estimate(log_rho, log_rhos)
    return Fit(
        rho=rho,
        rho_bounded=all(0 < bound < np.inf for bound in (rho.value, rho.low, rho.high)),
        t_g=_estimate(costs.value, log_t_gs),
        t_s=_estimate(costs.value - log_rho, log_t_gs - log_rhos),
        log_rms=float(np.sqrt(np.mean(gains.residual**2))),
    )


def _data(pairs: pd.DataFrame, draws: FloatArray | None) -> _Data:
    pairs = pairs.sort_values(["n", "block_size"])
    naive = pairs.drop_duplicates("n")
    order = np.searchsorted(naive["n"].to_numpy(dtype=int), pairs["n"].to_numpy(dtype=int))
    cost_variance = _log_variance(naive["naive_time_low_s"], naive["naive_time_high_s"])
    cost_noise = _log_noise(naive["naive_time_s"], naive["naive_row"], draws)
    return _Data(
        order=order,
        blocks=pairs["block_size"].to_numpy(dtype=float),
        log_gain=np.log(pairs["gain"].to_numpy(dtype=float)),
        gain_variance=_log_variance(pairs["time_low_s"], pairs["time_high_s"])
        + cost_variance[order],
        gain_noise=cost_noise[:, order] - _log_noise(pairs["time_s"], pairs["row"], draws),
        log_cost=np.log((naive["naive_time_s"] / (2.0 * naive["n"] ** 3)).to_numpy(dtype=float)),
        cost_variance=cost_variance,
        cost_noise=cost_noise,
    )


def _log_variance(low: pd.Series, high: pd.Series) -> FloatArray:
    """Return the variance of log medians that their intervals tell, 0 where there is none."""
    width = np.log(high.to_numpy(dtype=float)) - np.log(low.to_numpy(dtype=float))
    return np.nan_to_num((width / (2 * norm.ppf(_UPPER))) ** 2)


def _log_noise(times: pd.Series, rows: pd.Series, draws: FloatArray | None) -> FloatArray:
    """Return log(bootstrap median/median), shape (DRAWS, rows), 0 where there are no draws."""
    if draws is None:
        return np.zeros((DRAWS, len(times)))
    drawn = np.log(draws[rows.to_numpy(dtype=int)]).T
    return np.nan_to_num(drawn - np.log(times.to_numpy(dtype=float)))


def _with_scatter(
    estimate: Callable[[FloatArray], tuple[float, FloatArray]], variance: FloatArray
) -> _Level:
    """Return `estimate(weights)` with weights 1/(variance + scatter), scatter found along with it.

    Scatter is the variance with which the weighted squares of the residuals sum to the degrees of
    freedom (Paule and Mandel, J. Res. NBS 87 (1982) 377), 0 if the medians' own variance does.
    """
    scatter = np.inf
    weights = np.ones(len(variance))
    for _ in range(50):
        value, residual = estimate(weights)
        before, scatter = scatter, _excess_variance(residual, variance)
        weights = 1 / (variance + scatter + _LEAST_VARIANCE)
        if abs(scatter - before) <= 1e-9 * scatter + _LEAST_VARIANCE:
            break
    value, residual = estimate(weights)
    return _Level(value, residual, weights, float(min(1.0, scatter * weights.mean())))


def _excess_variance(residual: FloatArray, variance: FloatArray) -> float:
    freedom = len(residual) - 1
    known = variance + _LEAST_VARIANCE

    def surplus(scatter: float) -> float:
        return float(np.sum(residual**2 / (known + scatter)) - freedom)

    if freedom < 1 or surplus(0.0) <= 0:
        return 0.0
    return float(brentq(surplus, 0.0, np.sum(residual**2) / freedom, xtol=1e-15))


def _fit_mean(log_cost: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    mean = float(np.average(log_cost, weights=weights))
    return mean, mean - log_cost


def _fit_log_rho(
    log_gain: FloatArray, blocks: FloatArray, weights: FloatArray
) -> tuple[float, FloatArray]:
    """Return log ρ of the least weighted squares, and log(η/gain).

    The squares may fall all the way to an end of the range, where a search stops short of it: both
    ends are candidates beside what the searches found.
    """
    root = np.sqrt(weights / weights.mean())

    def residual(theta: FloatArray) -> FloatArray:
        return root * (_log_eta(theta, blocks) - log_gain)

    found = [
        float(least_squares(residual, start, bounds=_LOG_RANGE, xtol=1e-12, ftol=1e-12).x[0])
        for start in _LOG_STARTS
    ]
    theta = min((*_LOG_RANGE, *found), key=lambda t: float(np.sum(residual(np.array(t)) ** 2)))
    return theta, _log_eta(theta, blocks) - log_gain


def _bootstrap(data: _Data, gains: _Level, costs: _Level) -> tuple[FloatArray, FloatArray]:
    """Return DRAWS values of log ρ and of log t_G, drawn together.

    Over cells: residuals are resampled in two steps, as gains at one n share its naive time, first
    orders n, then block sizes within each. They carry sampling noise already and are shrunk to the
    share that is the model's. Over samples: every cell's median is drawn anew. The deviations of
    both from the fit are added, so that a ρ at the end of its range can come back from there.
    """
    orders = len(data.log_cost)
    sizes, counts = _resampled(data.order)
    # Residuals of few orders are too small by sqrt((m−1)/m); means of few have Student's tails.
    spread = np.sqrt(orders / max(orders - 1, 1))
    tails = student_t.ppf(_UPPER, max(orders - 1, 1)) / norm.ppf(_UPPER)

    weights = gains.weights[None]
    predicted = data.log_gain + gains.residual
    of_model = predicted - spread * np.sqrt(gains.share) * gains.residual
    over_cells = _solve(counts * weights, of_model[None], data.blocks)
    over_samples = _solve(weights, data.log_gain + data.gain_noise, data.blocks)
    log_rhos = _open_ended(over_cells + over_samples - gains.value)

    deviations = -spread * tails * np.sqrt(costs.share) * costs.residual
    log_t_gs = (
        costs.value
        + np.average(
            np.broadcast_to(deviations, sizes.shape), axis=1, weights=sizes * costs.weights
        )
        + np.average(data.cost_noise, axis=1, weights=costs.weights)
    )
    return log_rhos, log_t_gs


def _resampled(order: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return how often each draw takes each order and each gain, a row a draw."""
    rng = seeded("m0")
    orders = int(order.max()) + 1
    sizes = rng.multinomial(orders, np.full(orders, 1 / orders), DRAWS)
    counts = np.empty((DRAWS, len(order)))
    for row in range(orders):
        members = np.flatnonzero(order == row)
        share = np.full(len(members), 1 / len(members))
        counts[:, members] = rng.multinomial(sizes[:, row] * len(members), share)
    return sizes.astype(float), counts


def _solve(weights: FloatArray, log_gain: FloatArray, blocks: FloatArray) -> FloatArray:
    """Return log ρ of the least weighted squares for each draw.

    `weights` and `log_gain` have the shape (draws, gains) or one that broadcasts to it with the
    other, `blocks` (gains,).

    All draws at once: the best point of a grid, then bisection of the derivative between its
    neighbours, to 1e-9.
    """
    grid = _log_eta(_LOG_GRID[:, None], blocks)
    squares = weights @ (grid**2).T - 2 * (weights * log_gain) @ grid.T
    best = np.argmin(squares, axis=1)
    low = _LOG_GRID[np.maximum(best - 1, 0)]
    high = _LOG_GRID[np.minimum(best + 1, len(_LOG_GRID) - 1)]
    for _ in range(30):
        middle = (low + high) / 2
        slope = blocks / (np.exp(middle)[:, None] + blocks)  # of log η by log ρ
        misses = log_gain - _log_eta(middle[:, None], blocks)
        rising = np.sum(weights * misses * slope, axis=1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return (low + high) / 2


def _log_eta(theta: npt.ArrayLike, blocks: FloatArray) -> FloatArray:
    """Return log η for log ρ = `theta`; arguments broadcast."""
    return np.asarray(-np.logaddexp(-np.asarray(theta, float), -np.log(blocks)))


def _estimate(log_value: float, log_draws: FloatArray) -> Estimate:
    low, high = percentile_interval(log_draws)
    return Estimate(*(float(np.exp(value)) for value in (log_value, low, high)))


def _open_ended(log_rho: FloatArray | float) -> FloatArray:
    """Return log ρ with the ends of `RHO_RANGE` as what they stand for, ρ = 0 and ρ = ∞."""
    log_rho = np.where(log_rho > _LOG_RANGE[1] - _MARGIN, np.inf, log_rho)
    return np.where(log_rho < _LOG_RANGE[0] + _MARGIN, -np.inf, log_rho)
