"""Means over several sessions, and the variance between sessions.

log t(cell, session, sample) = mean of the cell + effect of the session + noise. The effect of a
session has one part shared by all cells of a kind and one part per cell. Both variances are pooled
over the cells of a kind, because sessions are few. A kind is a host memory, host work in the run,
the length of the time and, on a CPU, the number of threads.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student_t

from analysis.domain import CPU
from analysis.schema import with_bounds
from analysis.stats.estimates import (
    CONFIDENCE,
    DRAWS,
    PARTS,
    FloatArray,
    Groups,
    IntArray,
    bootstrap_medians,
    overheads,
    seeded,
)
from measurement.recording.recording import CELL

# Upper bounds in seconds of the lengths of GPU times: relative effects depend on the length.
LENGTHS = {"under 20 µs": 2e-5, "20 to 100 µs": 1e-4, "0.1 to 1 ms": 1e-3, "over 1 ms": np.inf}
KIND = ["host_memory", "host_work", "threads", "length"]
_UPPER = (1 + CONFIDENCE) / 2
_SEED = "sittings"  # any other text changes the bounds of all intervals over sessions
_NORMAL = float(norm.ppf(_UPPER))


def lengths(time_s: FloatArray) -> list[str]:
    """Return the name of the length in `LENGTHS` of each time."""
    names = [*LENGTHS]
    return [names[index] for index in np.searchsorted([*LENGTHS.values()][:-1], time_s)]


@dataclass(frozen=True)
class Scatter:
    """Variances of log time about the means of cells, by kind; each field has shape (kinds,).

    `variance` is that of the medians of one session, of which all cells of the kind share `common`
    and the medians themselves contribute `noise`. `degrees_of_freedom` of the variance follow
    Satterthwaite (Biometrics Bulletin 2 (1946) 110): sessions less one if all of it is shared,
    times the number of cells if none is. NaN: no cell has two sessions.
    """

    cells: IntArray
    variance: FloatArray
    common: FloatArray
    noise: FloatArray
    degrees_of_freedom: FloatArray

    @property
    def between(self) -> FloatArray:
        """The variance of sessions beyond the noise of their medians."""
        return np.maximum(self.variance - self.noise, 0)

    @property
    def quantile(self) -> FloatArray:
        """Student's t of a 95 % interval."""
        return np.asarray(student_t.ppf(_UPPER, self.degrees_of_freedom))


@dataclass(frozen=True)
class Medians:
    """Medians by cell and session in log seconds, one row each.

    `noise` is the variance of each median, NaN with too few samples; `kind` is one per cell.
    """

    cell: IntArray
    session: IntArray
    log_s: FloatArray
    noise: FloatArray
    kind: IntArray

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
        """Mean variance of each cell's medians, shape (cells,)."""
        with np.errstate(invalid="ignore"):
            return self._sum(self.noise) / self.counts

    @cached_property
    def scatter(self) -> Scatter:
        """The scatter by kind, from cells with several sessions that all have enough samples."""
        kinds, sessions = int(self.kind.max(initial=-1)) + 1, int(self.session.max(initial=-1)) + 1
        known = (self.counts > 1) & np.isfinite(self.cell_noise)
        rows = known[self.cell]
        kind = self.kind[self.cell][rows]
        apart = (self.log_s - self.means[self.cell])[rows]
        count = np.bincount(kind, minlength=kinds)
        degrees_of_freedom = count - np.bincount(self.kind[known], minlength=kinds)
        index = kind * sessions + self.session[rows]
        size = (kinds, sessions)
        members = np.bincount(index, minlength=kinds * sessions).reshape(size)
        sums = np.bincount(index, apart, kinds * sessions).reshape(size)
        shared = np.sum(sums**2 / np.maximum(members, 1), axis=1)
        free_shared = np.maximum((members > 0).sum(axis=1) - 1, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.bincount(kind, apart**2, kinds) / degrees_of_freedom
            common = shared / degrees_of_freedom
            own = np.nan_to_num(
                (variance - common) ** 2 / (degrees_of_freedom - free_shared), posinf=0
            )
            free = variance**2 / (common**2 / free_shared + own)
            noise = np.bincount(kind, self.noise[rows], kinds) / count
        cells = np.bincount(self.kind[known], minlength=kinds)
        return Scatter(
            cells, variance, common, noise, np.where(variance > 0, free, degrees_of_freedom)
        )

    def half_widths(self, new_session: bool = False) -> FloatArray:
        """Return half-widths of 95 % intervals in log time, shape (cells,).

        They are confidence intervals of the cells' means over sessions, or prediction intervals of
        the medians of a new session.
        """
        share = new_session + 1 / np.maximum(self.counts, 1)
        variance = (self.scatter.between[self.kind] + self.cell_noise) * share
        return self.scatter.quantile[self.kind] * np.sqrt(variance)

    def only(self, rows: FloatArray) -> "Medians":
        """Return some of the rows; cells keep their numbers."""
        return Medians(
            self.cell[rows], self.session[rows], self.log_s[rows], self.noise[rows], self.kind
        )

    def left_out(self) -> FloatArray:
        """Return per row whether the prediction interval of the other sessions contains it.

        Values are 1, 0 and, with fewer than two other sessions, NaN.
        """
        found = np.full(len(self.cell), np.nan)
        for session in np.unique(self.session):
            own = self.session == session
            others = self.only(~own)
            half, cells = others.half_widths(new_session=True), self.cell[own]
            miss = np.abs(self.log_s[own] - others.means[cells])
            known = np.isfinite(half[cells] + miss) & (others.counts[cells] > 1)
            found[own] = np.where(known, miss <= half[cells], np.nan)
        return found


class Sessions:
    """Samples of cells in several sessions; cells are numbered by their sorted keys."""

    def __init__(self, samples: pd.DataFrame) -> None:
        """`samples` has the columns `CELL`, session and the times."""
        self._samples = samples
        self._each = Groups.of(samples, [*CELL, "session"])
        keys = Groups.of(self._each.keys, CELL)
        self.cells, self._cell = keys.keys, keys.number
        self._session = self._each.keys["session"].to_numpy(dtype=np.intp)
        self._by_part: dict[str, tuple[FloatArray, Medians]] = {}

    def kinds(self, part: str) -> pd.DataFrame:
        """Return the kind (columns `KIND`) of each cell for a part ("total", "kernel", …)."""
        of_cpu = (self.cells["device"] == CPU).to_numpy()
        length = pd.Series(lengths(self._typical(part)), dtype="str").mask(of_cpu)
        works = pd.Series(np.isfinite(self._typical("host")), dtype="boolean")
        work = works.mask(of_cpu) if part == "total" else works.mask(np.ones(len(works), bool))
        return self.cells[["host_memory", "threads"]].assign(host_work=work, length=length)

    def _typical(self, part: str) -> FloatArray:
        """Return the geometric mean of the medians of each cell, NaN without that part."""
        with np.errstate(divide="ignore"):
            logs = np.log(self._each.medians(self._samples[f"{part}_s"])[0])
        count = np.bincount(self._cell)
        return np.exp(np.bincount(self._cell, logs) / count)

    def medians(self, part: str) -> Medians:
        """Return the medians of a part; cells without it have no rows."""
        return self._known(part)[1]

    def _known(self, part: str) -> tuple[FloatArray, Medians]:
        """Return medians and bounds by cell and session, shape (3, rows), and `Medians`."""
        if part not in self._by_part:
            found = self._each.medians(self._samples[f"{part}_s"], series=True)
            rows = np.isfinite(found[0]) & (found[0] > 0)
            log_s, low, high = np.log(found[:, rows])
            noise = ((high - low) / (2 * _NORMAL)) ** 2
            kind = self.kinds(part).groupby(KIND, dropna=False).ngroup().to_numpy()
            cell, session = self._cell[rows], self._session[rows]
            medians = Medians(cell, session, log_s, noise, kind)
            self._by_part[part] = found[:, rows], medians
        return self._by_part[part]

    def bounds(self, part: str) -> FloatArray:
        """Return the geometric mean over sessions of each cell with interval, shape (3, cells).

        A cell with one session has the median and interval of that session.
        """
        found, medians = self._known(part)
        half = medians.half_widths()
        bounds = np.exp(medians.means + np.array([np.zeros(len(half)), -half, half]))
        single = medians.counts[medians.cell] == 1
        bounds[:, medians.cell[single]] = found[:, single]
        return bounds

    def summary(self) -> pd.DataFrame:
        """Return the columns of `analysis.stats.estimates.summarise`, over sessions (`bounds`)."""
        of_cells = Groups(self.cells, self._cell[self._each.number])
        table = self.cells.assign(
            samples=pd.array(of_cells.counts, "Int64"),
            sessions=pd.array(np.bincount(self._cell), "Int64"),
        )
        for part in PARTS:
            table[with_bounds(f"{part}_s")] = self.bounds(part).T
        overhead = self._each.medians(overheads(self._samples))[0]
        return table.assign(overhead_s=np.bincount(self._cell, overhead) / np.bincount(self._cell))

    def draws(self, part: str, seed: str, chosen: IntArray | None = None) -> FloatArray:
        """Return draws of the means of the `chosen` cells (default: all), shape (cells, DRAWS).

        They draw the samples of each session and both parts of the effects of sessions. The effects
        are scaled as Student's t, because their variance is estimated.
        """
        medians = self.medians(part)
        values = self._each.split(self._samples[f"{part}_s"])
        names = self._each.names()
        rows = pd.Series(range(len(self._cell))).groupby(self._cell).indices
        shared = self._shared(part, seed)
        scatter = medians.scatter
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.sqrt(np.nan_to_num(scatter.between * scatter.common / scatter.variance))
            own = np.sqrt(np.maximum(np.nan_to_num(scatter.between) - share**2, 0))
        found = []
        for cell in range(len(self.cells)) if chosen is None else chosen:
            at = rows[int(cell)]
            logs = [np.log(bootstrap_medians(values[i], seeded(seed, *names[i]))) for i in at]
            log_s = np.mean(logs, axis=0)
            if len(at) > 1:
                kind = medians.kind[cell]
                normal, stretch = shared[kind]
                effect = seeded(_SEED, seed, *names[at[0]][:-1]).standard_normal(DRAWS)
                log_s += (share[kind] * normal + own[kind] * effect) * stretch / np.sqrt(len(at))
            found.append(np.exp(log_s))
        return np.array(found).reshape(-1, DRAWS)

    def _shared(self, part: str, seed: str) -> list[tuple[FloatArray, FloatArray]]:
        """Return the draws that all cells of a kind share: standard normal, and scale of t."""
        found = []
        for kind, degrees_of_freedom in enumerate(self.medians(part).scatter.degrees_of_freedom):
            rng = seeded(_SEED, seed, kind)
            normal = rng.standard_normal(DRAWS)
            free = degrees_of_freedom if degrees_of_freedom > 0 else 1.0
            found.append((normal, np.sqrt(free / rng.chisquare(free, DRAWS))))
        return found

    def scatters(self, part: str) -> pd.DataFrame:
        """Return one row per kind with several sessions, with columns of the table sessions."""
        medians = self.medians(part)
        scatter = medians.scatter
        inside = medians.left_out()
        evaluated = np.isfinite(inside)
        kind = medians.kind[medians.cell]
        kinds = self.kinds(part).assign(kind=medians.kind).drop_duplicates("kind")
        kinds = kinds.sort_values("kind").reset_index(drop=True)
        count = pd.Series(medians.session).groupby(kind).nunique().reindex(kinds["kind"]).to_numpy()
        rows = kinds[KIND].assign(
            quantity=part,
            sessions=count,
            cells=scatter.cells,
            between_log_sd=np.sqrt(scatter.between),
            common_log_sd=np.sqrt(scatter.common),
            noise_log_sd=np.sqrt(scatter.noise),
            degrees_of_freedom=scatter.degrees_of_freedom,
            mean_interval_factor=_factor(scatter, 1 / count),
            new_session_interval_factor=_factor(scatter, 1 + 1 / count),
            medians_evaluated=np.bincount(kind[evaluated], minlength=len(kinds)),
            medians_inside=np.bincount(kind[evaluated], inside[evaluated], len(kinds)),
        )
        order = rows["length"].map({name: at for at, name in enumerate(LENGTHS)})
        rows = rows.assign(order=order).sort_values([*KIND[:-1], "order"], kind="stable")
        return rows[rows["cells"] > 0].drop(columns="order")


@dataclass(frozen=True)
class SessionVariance:
    """Variance between sessions of one GPU by kind, pooled over all GPUs with several sessions.

    `kinds` has variance (of log time) and its degrees_of_freedom.
    """

    kinds: pd.DataFrame

    @classmethod
    def of(cls, table: pd.DataFrame) -> "SessionVariance":
        """Return the variances from the table sessions.

        GPUs of one recording share its sessions, so its degrees of freedom count once.
        """
        own = _kinds(table).assign(recording=table["recording"].to_numpy())
        degrees_of_freedom = table["degrees_of_freedom"].to_numpy(dtype=float)
        squares = table["between_log_sd"].to_numpy(dtype=float) ** 2 * degrees_of_freedom
        own = own.assign(degrees_of_freedom=degrees_of_freedom, squares=squares)
        by_kind = own.groupby(_KNOWN)[["squares", "degrees_of_freedom"]].sum()
        once = own.groupby([*_KNOWN, "recording"])["degrees_of_freedom"].max().groupby(_KNOWN).sum()
        variance = by_kind["squares"] / by_kind["degrees_of_freedom"]
        return cls(pd.DataFrame({"variance": variance, "degrees_of_freedom": once}))

    def at(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return variance and degrees_of_freedom of cells, NaN if unknown; the index stays.

        `rows` has quantity, host_memory, host_work, threads and time_s.
        """
        length = pd.Series(lengths(rows["time_s"].to_numpy(dtype=float)), rows.index, dtype="str")
        kinds = _kinds(rows.assign(length=length.mask(rows["threads"].notna())))
        return self.kinds.reindex(pd.MultiIndex.from_frame(kinds)).set_axis(rows.index)


_KNOWN = ["quantity", *KIND]


def _kinds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return kinds of rows without blanks; threads are reduced to one or several."""
    memory, length = (rows[name].astype("string").fillna("") for name in ("host_memory", "length"))
    several = (rows["threads"].astype("Int64") > 1).fillna(False).astype(bool)
    work = rows["host_work"].astype("boolean").fillna(False).astype(bool)
    columns = (rows["quantity"].astype("string"), memory, work, several, length)
    return pd.DataFrame(dict(zip(_KNOWN, columns, strict=True)))


def _factor(scatter: Scatter, times: FloatArray) -> FloatArray:
    """Return the half-width, as a factor, of an interval with `times` the variance."""
    return np.exp(scatter.quantile * np.sqrt((scatter.between + scatter.noise) * times))
