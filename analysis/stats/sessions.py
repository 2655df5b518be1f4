"""Means over several sessions, and the variances between sessions.

The model is log t(cell, session, sample) = mean of the cell + effect of the session + noise. The
effect of a session has one part shared by all cells of a kind and one part per cell. Both variances
are pooled over the cells of a kind, because sessions are few. Cells of one kind have the same host
memory and the same host work. For kernel times they also have their matrices in the same memory;
for other times, similar lengths of the time and, on a CPU, the same number of threads. CPU times
have a further effect, that of the host (`Hosts`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import minimize
from scipy.special import ndtri, stdtrit

from analysis.domain import CPU
from analysis.schema import with_bounds
from analysis.stats import estimates
from analysis.stats.estimates import DRAWS, FloatArray, Groups, IntArray, drawn_medians, seeded
from analysis.stats.hosts import NO_HOSTS, Hosts, host_effects
from kernels.products.elements import ELEMENTS
from measurement.recording.recording import CELL

# Upper bounds in seconds of the lengths of runs: relative effects depend on the length.
LENGTHS = {"under 20 µs": 2e-5, "20 to 100 µs": 1e-4, "0.1 to 1 ms": 1e-3, "over 1 ms": np.inf}
# The memory that holds A, B and C. Its bandwidth bounds kernels that reuse little, and differs
# between GPUs of one model by some per cent.
L2, DEVICE_MEMORY = "L2", "device memory"
KERNELS = ("kernel", "in_run_kernel")
KIND = ["host_memory", "host_work", "threads", "matrices_in", "length"]
_KNOWN = ["quantity", "host_memory", "host_work", "matrices_in", "length"]
_UPPER = (1 + estimates.CONFIDENCE) / 2
# Seed of the draws; any other changes the bounds of all intervals over sessions.
_SEED = (8316306230250202995).to_bytes(8, "big").decode()
_NORMAL = float(ndtri(_UPPER))
# Logarithms of variances relative to that of the medians: where the search starts, and its limits.
_START, _LIMITS = (-1.0, -1.0), (-14.0, 4.0)
# Steps of the search. Rounding changes a deviance by about 1e-10. With the default step of 1e-8 the
# gradients are wrong: searches end too early, at variances that differ between CPUs.
_SEARCH = {"eps": 1e-5, "ftol": 1e-12}
_FEWEST = 3  # least sessions for an interval from a cell's own medians only
_MOST = 100.0  # limit of drawn logarithms, because e to the 100 is still finite
# Weight of the shared part's quantile: this power of its share of the variance. At 1, Cochran's
# approximation (Biometrics 20 (1964) 191), two sessions cover 94 to 98 %, depending on the share;
# at 1.25 they cover 93 to 97 %.
_POWER = 1.25
_NONE = np.exp(_LIMITS[0] + 1)


def lengths(time_s: FloatArray) -> list[str]:
    """Return for each time the name of its range in `LENGTHS`."""
    names = [*LENGTHS]
    return [names[index] for index in np.searchsorted([*LENGTHS.values()][:-1], time_s)]


def matrices_in(cells: pd.DataFrame, l2_bytes: pd.Series | float | None) -> pd.Series:
    """Return where each cell's matrices fit, `L2` or `DEVICE_MEMORY`; blank if L2 is unknown."""
    m, n, k, batch = (cells[name].astype(float) for name in ("m", "n", "k", "batch"))
    used = batch * (m * k + k * n + m * n) * cells["dtype"].map(lambda name: ELEMENTS[name].bytes)
    limit = pd.Series(l2_bytes, cells.index, dtype=float)
    memory = pd.Series(L2, cells.index, dtype="str").mask(used > limit, DEVICE_MEMORY)
    return memory.mask(limit.isna())


def components(
    cell: IntArray, session: IntArray, log_s: FloatArray, noise: FloatArray
) -> tuple[float, float]:
    """Return the variances of session effects that cells share, and of their own, by REML.

    log_s has one median per cell and session, `noise` the variance of each. The residual likelihood
    of the covariance shared·ZZ' + diag(own + noise) needs only matrices of the size of the sessions
    (Searle, Casella and McCulloch, Variance Components, 1992, chapter 6). With one cell the whole
    variance is shared.
    """
    cells, sessions = int(cell.max()) + 1, int(session.max()) + 1
    mean = np.bincount(cell, log_s) / np.maximum(np.bincount(cell), 1)
    scale = float(np.mean((log_s - mean[cell]) ** 2))
    if scale == 0:
        return 0.0, 0.0
    values = (log_s - mean[cell]) / np.sqrt(scale)
    own_noise = np.maximum(noise / scale, _NONE)  # if all samples are equal, there is no noise
    unit = np.eye(sessions)

    def deviance(logs: FloatArray) -> float:
        shared, of_cells = np.exp(logs)
        weight = 1 / ((of_cells if cells > 1 else 0) + own_noise)
        of_cell = np.bincount(cell, weight)
        rest = values - (np.bincount(cell, weight * values) / of_cell)[cell]
        table = np.bincount(cell * sessions + session, weight, cells * sessions)
        table = table.reshape(cells, sessions)
        joint = unit + shared * (np.diag(table.sum(axis=0)) - (table.T / of_cell) @ table)
        sums = np.bincount(session, weight * rest, sessions)
        explained = shared * sums @ np.linalg.solve(joint, sums)
        logs_of = np.log(of_cell).sum() - np.log(weight).sum() + np.linalg.slogdet(joint)[1]
        return float(logs_of + np.sum(weight * rest**2) - explained)

    limits = [_LIMITS] * 2
    variances = np.exp(minimize(deviance, _START, method="SLSQP", bounds=limits, options=_SEARCH).x)
    shared, of_cells = np.where(variances > _NONE, variances, 0) * scale
    return float(shared), float(of_cells if cells > 1 else 0)


@dataclass(frozen=True)
class Scatter:
    """Variances of log time about the means of cells, by kind: arrays (kinds,).

    `common`: of the session effects that all cells of the kind share; `own`: of the session effects
    of single cells; `noise`: mean variance of the medians. NaN: no cell has two sessions. `on_cpu`:
    whether the effects of `hosts` are added.
    """

    cells: IntArray
    sessions: IntArray
    common: FloatArray
    own: FloatArray
    noise: FloatArray
    on_cpu: npt.NDArray[np.bool_] | bool = False
    hosts: Hosts = NO_HOSTS

    @property
    def shared(self) -> FloatArray:
        """The variance of the effects that all cells of a kind share, including those of hosts."""
        return self.common + np.where(self.on_cpu, self.hosts.variance, 0)

    @property
    def between(self) -> FloatArray:
        """The variance between sessions beyond the noise of their medians."""
        return self.shared + self.own

    @property
    def degrees_of_freedom(self) -> FloatArray:
        """Degrees of freedom of the shared effects: on a GPU, sessions less one; NaN below 2."""
        of_kind = np.where(self.sessions > 1, self.sessions - 1.0, np.nan)
        return np.where(self.on_cpu, self.hosts.freedom_with(self.common, of_kind), of_kind)

    @property
    def own_degrees_of_freedom(self) -> FloatArray:
        """The degrees of freedom of the cells' own effects."""
        of_sessions = np.where(self.sessions > 1, self.sessions - 1.0, np.nan)
        return of_sessions * np.maximum(self.cells - 1, 1)

    def half_widths(self, kind: IntArray, noise: FloatArray, times: FloatArray) -> FloatArray:
        """Return half-widths of 95 % intervals in log time, for cells of these kinds and `noise`.

        `times`: the variance of the estimate, as a multiple of one session's variance. The quantile
        is between those of Student's t for the shared and for the own effects.
        """
        common, single = self.shared[kind], self.own[kind] + noise
        of_common = stdtrit(self.degrees_of_freedom[kind], _UPPER)
        of_own = stdtrit(self.own_degrees_of_freedom[kind], _UPPER)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(common + single > 0, common / (common + single), 0) ** _POWER
        return (of_own + (of_common - of_own) * share) * np.sqrt((common + single) * times)


@dataclass(frozen=True)
class Medians:
    """The medians of each cell and session in log seconds, one row each.

    `noise` is the variance of each median, NaN with too few samples. `kind` is the kind of each
    cell; `on_cpu` says for each kind whether it has the effects of `hosts`.
    """

    cell: IntArray
    session: IntArray
    log_s: FloatArray
    noise: FloatArray
    kind: IntArray
    on_cpu: npt.NDArray[np.bool_] | bool = False
    hosts: Hosts = NO_HOSTS

    def _sum(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.cell, values, len(self.kind)).astype(float)

    @cached_property
    def counts(self) -> FloatArray:
        """The number of sessions of each cell, shape (cells,)."""
        return self._sum(np.ones(len(self.cell)))

    @cached_property
    def means(self) -> FloatArray:
        """Mean of each cell's log medians, shape (cells,)."""
        with np.errstate(invalid="ignore"):
            return self._sum(self.log_s) / self.counts

    @cached_property
    def cell_noise(self) -> FloatArray:
        """The variance of each cell's medians that its samples cause, shape (cells,).

        It is the geometric mean over sessions. The bootstrap variance of few samples is skewed: for
        nine normal samples its mean is 1.3 times the variance of the median.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.exp(self._sum(np.log(self.noise)) / self.counts)

    @cached_property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether the cell of each row has several sessions, all with enough samples."""
        return ((self.counts > 1) & np.isfinite(self.cell_noise))[self.cell]

    @cached_property
    def scatter(self) -> Scatter:
        """The variances by kind, from the `known` rows."""
        kinds = int(self.kind.max(initial=-1)) + 1
        cells, sessions = np.zeros((2, kinds), np.intp)
        variances = np.full((3, kinds), np.nan)
        on_cpu = np.broadcast_to(self.on_cpu, kinds)
        rows = on_cpu[self.kind[self.cell]]
        effects = host_effects(pd.Series(self.log_s, [self.cell, self.session])[rows])
        of_hosts = effects.reindex(self.session).fillna(0).to_numpy(dtype=float)
        log_s = self.log_s - np.where(rows, of_hosts, 0)
        for kind in np.unique(self.kind[self.cell[self.known]]):
            rows = self.known & (self.kind[self.cell] == kind)
            numbers, cell = np.unique(self.cell[rows], return_inverse=True)
            present, session = np.unique(self.session[rows], return_inverse=True)
            cells[kind], sessions[kind] = len(numbers), len(present)
            noise = self.cell_noise[self.cell[rows]]
            parts = components(cell, session, log_s[rows], noise)
            variances[:, kind] = *parts, np.mean(noise)
        common, own, of_medians = variances
        return Scatter(cells, sessions, common, own, of_medians, on_cpu, self.hosts)

    def half_widths(self, new_session: bool = False) -> FloatArray:
        """Return half-widths of 95 % intervals in log time, shape (cells,).

        They are confidence intervals of the cells' means over sessions, or prediction intervals of
        the medians of a new session. For a cell with too few samples in a session, it is Student's
        t interval of the cell's own medians, if there are at least `_FEWEST` sessions.
        """
        times = new_session + 1 / np.maximum(self.counts, 1)
        pooled = self.scatter.half_widths(self.kind, self.cell_noise, times)
        unpooled = stdtrit(self.counts - 1, _UPPER) * np.sqrt(self._spread * times)
        return np.where(np.isnan(pooled) & (self.counts >= _FEWEST), unpooled, pooled)

    @cached_property
    def _spread(self) -> FloatArray:
        """The variance between sessions of each cell's log medians, shape (cells,)."""
        squares = self._sum((self.log_s - self.means[self.cell]) ** 2)
        return squares / np.maximum(self.counts - 1, 1)

    def only(self, rows: npt.NDArray[np.bool_]) -> "Medians":
        """Return only these rows; cells keep their numbers."""
        cell, session, log_s = self.cell[rows], self.session[rows], self.log_s[rows]
        return replace(self, cell=cell, session=session, log_s=log_s, noise=self.noise[rows])

    def inside(self, cell: IntArray, log_s: FloatArray) -> FloatArray:
        """Return whether prediction intervals contain the medians that cells had in a new session.

        Values are 1, 0 and, for cells with fewer than two sessions, NaN.
        """
        half, miss = self.half_widths(new_session=True)[cell], np.abs(log_s - self.means[cell])
        is_known = np.isfinite(half + miss) & (self.counts[cell] > 1)
        return np.where(is_known, miss <= half, np.nan)


class Sessions:
    """The samples of cells in several sessions; cells are numbered in the order of their keys."""

    def __init__(
        self, samples: pd.DataFrame, l2_bytes: float | None = None, hosts: Hosts | None = None
    ) -> None:
        """Use `samples` (columns `CELL`, session and the times) and the GPU's L2 size.

        `hosts` has the variance between hosts of several recordings; None: of these samples.
        """
        self._samples, self._hosts = samples, hosts or Hosts.of([samples])
        self._each = Groups.of(samples, [*CELL, "session"])
        keys = Groups.of(self._each.keys, CELL)
        self.cells, self._cell = keys.keys, keys.number
        self._l2_bytes = l2_bytes
        self._session = self._each.keys["session"].to_numpy(dtype=np.intp)
        self._by_part: dict[str, tuple[FloatArray, Medians, list[FloatArray]]] = {}

    def kinds(self, part: str) -> pd.DataFrame:
        """Return each cell's kind (columns `KIND`) for a part of time ("total", "kernel", …)."""
        of_cpu = (self.cells["device"] == CPU).to_numpy()
        nothing = pd.Series(pd.NA, self.cells.index, dtype="str")
        memory = matrices_in(self.cells, self._l2_bytes) if part in KERNELS else nothing
        length = pd.Series(lengths(self._typical(part)), dtype="str")
        length = nothing if part in KERNELS else length
        works = pd.Series(np.isfinite(self._typical("host")), dtype="boolean")
        work = works.mask(of_cpu) if part == "total" else works.mask(np.ones(len(works), bool))
        kinds = self.cells[["host_memory", "threads"]]
        return kinds.assign(host_work=work, matrices_in=memory.mask(of_cpu), length=length)

    def _typical(self, part: str) -> FloatArray:
        """Return the geometric mean of each cell's medians of a part; NaN for cells without it."""
        with np.errstate(divide="ignore"):
            logs = np.log(self._each.medians(self._samples[f"{part}_s"])[0])
        count = np.bincount(self._cell)
        return np.exp(np.bincount(self._cell, logs) / count)

    def medians(self, part: str) -> Medians:
        """Return the medians of a part of the time; cells without this part have no rows."""
        return self._known(part)[1]

    def logs(self, part: str) -> list[FloatArray]:
        """Return for each row of `medians` the log times of its samples."""
        return self._known(part)[2]

    def _known(self, part: str) -> tuple[FloatArray, Medians, list[FloatArray]]:
        """Return medians with bounds by cell and session, (3, rows), `Medians`, and log times."""
        if part not in self._by_part:
            bounds = self._each.medians(self._samples[f"{part}_s"], series=True)
            rows = np.isfinite(bounds[0]) & (bounds[0] > 0)
            split = self._each.split(self._samples[f"{part}_s"])
            logs = [np.log(split[row]) for row in np.flatnonzero(rows)]
            noise = np.array([estimates.median_variance(values) for values in logs])
            kind = self.kinds(part).groupby(KIND, dropna=False).ngroup().to_numpy()
            cell, session = self._cell[rows], self._session[rows]
            on_cpu = np.zeros(kind.max() + 1, bool)
            on_cpu[kind[self.cells["device"] == CPU]] = True
            log_s = np.log(bounds[0, rows])
            medians = Medians(cell, session, log_s, noise, kind, on_cpu, self._hosts)
            self._by_part[part] = bounds[:, rows], medians, logs
        return self._by_part[part]

    def bounds(self, part: str) -> FloatArray:
        """Return each cell's geometric mean over sessions, with its interval: (3, cells).

        For a cell with one session, these are the median and interval of that session.
        """
        by_session, medians, _ = self._known(part)
        half = medians.half_widths()
        bounds = np.exp(medians.means + np.array([np.zeros(len(half)), -half, half]))
        single = medians.counts[medians.cell] == 1
        bounds[:, medians.cell[single]] = by_session[:, single]
        return bounds

    def summary(self) -> pd.DataFrame:
        """Return the columns of `analysis.stats.estimates.summarise`, over all sessions."""
        of_cells = Groups(self.cells, self._cell[self._each.number])
        table = self.cells.assign(
            samples=pd.array(of_cells.counts, "Int64"),
            sessions=pd.array(np.bincount(self._cell), "Int64"),
        )
        for part in estimates.PARTS:
            table[with_bounds(f"{part}_s")] = self.bounds(part).T
        overhead = self._each.medians(estimates.overheads(self._samples))[0]
        return table.assign(overhead_s=np.bincount(self._cell, overhead) / np.bincount(self._cell))

    def draws(self, part: str, seed: str, chosen: IntArray | None = None) -> FloatArray:
        """Return draws of the means of the `chosen` cells (default: all), shape (cells, DRAWS).

        Drawn are the samples of each session, and the shared and own effects of sessions. The
        effects follow a scaled Student's t, because their variance is estimated.
        """
        medians = self.medians(part)
        values = self._each.split(self._samples[f"{part}_s"])
        names = self._each.names()
        rows = pd.Series(range(len(self._cell))).groupby(self._cell).indices
        shared = self._shared(part, seed)
        scatter = medians.scatter
        drawn = []
        for cell in range(len(self.cells)) if chosen is None else chosen:
            at = rows[int(cell)]
            logs = [np.log(drawn_medians(values[i], seeded(seed, *names[i]))) for i in at]
            log_s = np.mean(logs, axis=0)
            if np.isnan(log_s).any() and len(at) >= _FEWEST:
                rng = seeded(_SEED, seed, *names[at[0]][:-1])
                deviation = np.sqrt(medians._spread[cell] / len(at))
                log_s = medians.means[cell] + deviation * rng.standard_t(len(at) - 1, DRAWS)
            elif len(at) > 1:
                kind = medians.kind[cell]
                effect, stretch = shared[kind]
                single = seeded(_SEED, seed, *names[at[0]][:-1]).standard_normal(DRAWS) * stretch
                log_s += (effect + np.sqrt(scatter.own[kind]) * single) / np.sqrt(len(at))
            drawn.append(np.exp(log_s))
        return np.array(drawn).reshape(-1, DRAWS)

    def _shared(self, part: str, seed: str) -> list[tuple[FloatArray, FloatArray]]:
        """Return for each kind draws of the shared log effects, and of the own effects' scale."""
        drawn, scatter = [], self.medians(part).scatter
        on_cpu = np.broadcast_to(scatter.on_cpu, len(scatter.cells))
        of_hosts = self._hosts.draws(seeded(_SEED, seed, "hosts"))
        both = np.maximum((scatter.sessions - 1, scatter.own_degrees_of_freedom), 1)
        for kind, free in enumerate(np.transpose(np.nan_to_num(both, nan=1.0))):
            rng = seeded(_SEED, seed, kind)
            normal = rng.standard_normal(DRAWS)
            scale, single = (np.sqrt(each / rng.chisquare(each, DRAWS)) for each in free)
            effect = np.sqrt(scatter.common[kind]) * normal * scale
            effect += on_cpu[kind] * of_hosts
            drawn.append((np.clip(effect, -_MOST, _MOST), np.minimum(single, _MOST)))
        return drawn

    def scatters(self, part: str) -> pd.DataFrame:
        """Return one row per kind with several sessions, with columns of the table sessions."""
        medians = self.medians(part)
        scatter = medians.scatter
        kinds = self.kinds(part).assign(kind=medians.kind).drop_duplicates("kind")
        kinds = kinds.sort_values("kind").reset_index(drop=True)
        rows = kinds[KIND].assign(
            quantity=part,
            sessions=scatter.sessions,
            cells=scatter.cells,
            between_log_sd=np.sqrt(scatter.between),
            common_log_sd=np.sqrt(scatter.shared),
            noise_log_sd=np.sqrt(scatter.noise),
            degrees_of_freedom=scatter.degrees_of_freedom,
            mean_interval_factor=_factor(scatter, False),
            new_session_interval_factor=_factor(scatter, True),
        )
        order = rows["length"].map({name: at for at, name in enumerate(LENGTHS)})
        rows = rows.assign(order=order).sort_values([*KIND[:-1], "order"], kind="stable")
        return rows[rows["cells"] > 0].drop(columns="order")


@dataclass(frozen=True)
class SessionVariance:
    """The variance between sessions of one GPU by kind, pooled over all GPUs with several sessions.

    `kinds` has variance (of log time) and its degrees_of_freedom.
    """

    kinds: pd.DataFrame

    @classmethod
    def of(cls, table: pd.DataFrame) -> "SessionVariance":
        """Return the variances from the table sessions.

        GPUs of one recording share its sessions, so its degrees of freedom count once.
        """
        table = table[table["host_memory"].notna()]  # rows of CPUs are dropped
        rows = _kinds(table).assign(recording=table["recording"].to_numpy())
        degrees_of_freedom = table["degrees_of_freedom"].to_numpy(dtype=float)
        squares = table["between_log_sd"].to_numpy(dtype=float) ** 2 * degrees_of_freedom
        rows = rows.assign(degrees_of_freedom=degrees_of_freedom, squares=squares)
        by_kind = rows.groupby(_KNOWN)[["squares", "degrees_of_freedom"]].sum()
        once = rows.groupby([*_KNOWN, "recording"])["degrees_of_freedom"].max()
        once = once.groupby(_KNOWN).sum()
        variance = by_kind["squares"] / by_kind["degrees_of_freedom"]
        return cls(pd.DataFrame({"variance": variance, "degrees_of_freedom": once}))

    def at(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return variance and degrees_of_freedom of a GPU's cells, NaN if unknown; the index stays.

        `rows` has quantity, host_memory, host_work, matrices_in and time_s.
        """
        length = pd.Series(lengths(rows["time_s"].to_numpy(dtype=float)), rows.index, dtype="str")
        of_kernel = rows["quantity"].isin(KERNELS)
        memory = rows["matrices_in"].where(of_kernel)
        kinds = _kinds(rows.assign(matrices_in=memory, length=length.mask(of_kernel)))
        return self.kinds.reindex(pd.MultiIndex.from_frame(kinds)).set_axis(rows.index)


def _kinds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the kind for each row, without blanks."""
    work = rows["host_work"].astype("boolean").fillna(False).astype(bool)
    return rows[_KNOWN].astype("string").fillna("").assign(host_work=work)


def _factor(scatter: Scatter, new_session: bool) -> FloatArray:
    times = new_session + 1 / np.maximum(scatter.sessions, 1)
    kinds = np.arange(len(scatter.cells), dtype=np.intp)
    return np.exp(scatter.half_widths(kinds, scatter.noise, times))
