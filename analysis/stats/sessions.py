"""Times of cells measured in several sessions: their mean over these, and how far one lies from it.

log t(cell, session, sample) = mean of the cell + effect of the session + noise. A session has one
effect that all cells of a kind share and one of each cell's own, both with a variance that is that
of the kind: pooled over its cells, so that few sessions tell it. Kinds are told by the host memory,
by whether the host works on the matrices in the run, by how long it takes, and on a CPU by the
number of threads.
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

# Kinds of GPU cells are told by how long a part takes: effects of short ones are of another size.
LENGTHS = {"under 20 µs": 2e-5, "20 to 100 µs": 1e-4, "0.1 to 1 ms": 1e-3, "over 1 ms": np.inf}
KIND = ["host_memory", "host_work", "threads", "length"]
_UPPER = (1 + CONFIDENCE) / 2
_NORMAL = float(norm.ppf(_UPPER))


def lengths(time_s: FloatArray) -> list[str]:
    """Return which of `LENGTHS` times are of."""
    names = [*LENGTHS]
    return [names[place] for place in np.searchsorted([*LENGTHS.values()][:-1], time_s)]


@dataclass(frozen=True)
class Scatter:
    """How sessions scatter about the means of cells, by kind, in log time; each shape is (kinds,).

    `variance` of the medians of one session, of which `common` is shared by all cells of the kind
    and `noise` that of the medians themselves; `freedom`: degrees of freedom of the variance, by
    Satterthwaite (Biometrics Bulletin 2 (1946) 110): as many as there are sessions, less one, where
    all of it is shared, times the cells where none is. NaN where no cell has two sessions.
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
    """Medians of cells by session, one row each: which `cell`, which `session`, log seconds.

    `noise` is the variance of each, NaN where it has too few samples. `kind` is that of each cell.
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
        """How sessions scatter, by kind: of cells with several, all with enough samples."""
        kinds, sessions = int(self.kind.max(initial=-1)) + 1, int(self.session.max(initial=-1)) + 1
        known = (self.counts > 1) & np.isfinite(self.cell_noise)
        rows = known[self.cell]
        kind = self.kind[self.cell][rows]
        apart = (self.log_s - self.means[self.cell])[rows]
        count = np.bincount(kind, minlength=kinds)
        degrees_of_freedom = count - np.bincount(self.kind[known], minlength=kinds)
        place = kind * sessions + self.session[rows]
        size = (kinds, sessions)
        members = np.bincount(place, minlength=kinds * sessions).reshape(size)
        sums = np.bincount(place, apart, kinds * sessions).reshape(size)
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

    @property
    def half_widths(self) -> FloatArray:
        """Half of 95 % intervals of the cells' means over sessions, in log time, shape (cells,)."""
        between = self.scatter.between[self.kind]
        return self.scatter.quantile[self.kind] * np.sqrt(
            (between + self.cell_noise) / np.maximum(self.counts, 1)
        )

    @property
    def half_widths_of_another(self) -> FloatArray:
        """Half of 95 % prediction intervals of another session's medians, shape (cells,)."""
        one_more = 1 + 1 / np.maximum(self.counts, 1)
        between = self.scatter.between[self.kind]
        return self.scatter.quantile[self.kind] * np.sqrt((between + self.cell_noise) * one_more)

    def only(self, rows: FloatArray) -> "Medians":
        """Return some of the rows; cells keep their numbers, also those without rows."""
        return Medians(
            self.cell[rows], self.session[rows], self.log_s[rows], self.noise[rows], self.kind
        )

    def left_out(self) -> FloatArray:
        """Tell of each row (1, 0, NaN) whether the other sessions' interval for one more holds it.

        NaN where the others are fewer than two.
        """
        found = np.full(len(self.cell), np.nan)
        for session in np.unique(self.session):
            own = self.session == session
            others = self.only(~own)
            half, cells = others.half_widths_of_another, self.cell[own]
            miss = np.abs(self.log_s[own] - others.means[cells])
            known = np.isfinite(half[cells] + miss) & (others.counts[cells] > 1)
            found[own] = np.where(known, miss <= half[cells], np.nan)
        return found


class Sessions:
    """The samples of cells in several sessions; cells are numbered by their sorted keys."""

    def __init__(self, samples: pd.DataFrame) -> None:
        """Take samples with the columns `CELL`, session and the parts of their times."""
        self._samples = samples
        self._each = Groups.of(samples, [*CELL, "session"])
        keys = Groups.of(self._each.keys, CELL)
        self.cells, self._cell = keys.keys, keys.number
        self._session = self._each.keys["session"].to_numpy(dtype=np.intp)
        self._by_part: dict[str, tuple[FloatArray, Medians]] = {}

    def kinds(self, part: str) -> pd.DataFrame:
        """Return the kind of each cell's part ("total", "kernel", …): the columns `KIND`."""
        of_cpu = (self.cells["device"] == CPU).to_numpy()
        length = pd.Series(lengths(self._counted(part)), dtype="str").mask(of_cpu)
        works = pd.Series(np.isfinite(self._counted("host")), dtype="boolean")
        work = works.mask(of_cpu) if part == "total" else works.mask(np.ones(len(works), bool))
        return self.cells[["host_memory", "threads"]].assign(host_work=work, length=length)

    def _counted(self, part: str) -> FloatArray:
        """Return the geometric mean of the medians of each cell, NaN where it has no such part."""
        with np.errstate(divide="ignore"):
            logs = np.log(self._each.medians(self._samples[f"{part}_s"])[0])
        count = np.bincount(self._cell)
        return np.exp(np.bincount(self._cell, logs) / count)

    def medians(self, part: str) -> Medians:
        """Return the medians of a part of the times; cells without it have no rows."""
        return self._known(part)[1]

    def _known(self, part: str) -> tuple[FloatArray, Medians]:
        """Return medians and bounds by cell and session, shape (3, rows), and the `Medians`."""
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
        """Return the geometric mean over sessions of each cell, and its interval, shape (3, cells).

        Where a cell has one session it is that one's median, with the interval within it.
        """
        found, medians = self._known(part)
        half = medians.half_widths
        bounds = np.exp(medians.means + np.array([np.zeros(len(half)), -half, half]))
        single = medians.counts[medians.cell] == 1
        bounds[:, medians.cell[single]] = found[:, single]
        return bounds

    def summary(self) -> pd.DataFrame:
        """Return what `analysis.stats.estimates.summarise` does, over sessions (`bounds`)."""
        of_cells = Groups(self.cells, self._cell[self._each.number])
        table = self.cells.assign(
            samples=pd.array(of_cells.counts, "Int64"),
            sessions=pd.array(np.bincount(self._cell), "Int64"),
        )
        for part in PARTS:
            table[with_bounds(f"{part}_s")] = self.bounds(part).T
        overhead = self._each.medians(overheads(self._samples))[0]
        return table.assign(overhead_s=np.bincount(self._cell, overhead) / np.bincount(self._cell))

    def draws(self, part: str, seed: str, places: IntArray | None = None) -> FloatArray:
        """Return draws of the means of some cells or all, shape (cells, DRAWS).

        Of the samples of each session, and of the effects of sessions: one for all cells of a kind
        and one of each cell's own, scaled as Student's t is, since their variance is estimated.
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
        for cell in range(len(self.cells)) if places is None else places:
            at = rows[int(cell)]
            logs = [np.log(bootstrap_medians(values[i], seeded(seed, *names[i]))) for i in at]
            log_s = np.mean(logs, axis=0)
            if len(at) > 1:
                kind = medians.kind[cell]
                normal, stretch = shared[kind]
                effect = seeded("sessions", seed, *names[at[0]][:-1]).standard_normal(DRAWS)
                log_s += (share[kind] * normal + own[kind] * effect) * stretch / np.sqrt(len(at))
            found.append(np.exp(log_s))
        return np.array(found).reshape(-1, DRAWS)

    def _shared(self, part: str, seed: str) -> list[tuple[FloatArray, FloatArray]]:
        """Return for each kind the draws that its cells share: normal, and what scales them."""
        found = []
        for kind, degrees_of_freedom in enumerate(self.medians(part).scatter.degrees_of_freedom):
            rng = seeded("sessions", seed, kind)
            normal, free = (
                rng.standard_normal(DRAWS),
                degrees_of_freedom if degrees_of_freedom > 0 else 1.0,
            )
            found.append((normal, np.sqrt(free / rng.chisquare(free, DRAWS))))
        return found

    def scatters(self, part: str) -> pd.DataFrame:
        """Return one row a kind that several sessions tell of, as in the table sessions."""
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
        place = rows["length"].map({name: at for at, name in enumerate(LENGTHS)})
        rows = rows.assign(place=place).sort_values([*KIND[:-1], "place"], kind="stable")
        return rows[rows["cells"] > 0].drop(columns="place")


@dataclass(frozen=True)
class SessionVariance:
    """How far sessions of one GPU lie apart, by kind: what all GPUs with several tell together.

    `kinds` has variance (of log time, between sessions) and freedom (its degrees of freedom).
    """

    kinds: pd.DataFrame

    @classmethod
    def of(cls, table: pd.DataFrame) -> "SessionVariance":
        """Return what the table sessions tells.

        GPUs of one recording share its sessions, whose degrees of freedom count once.
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
        """Return variance and freedom of cells, NaN where nothing is known; the index stays.

        `rows` has quantity, host_memory, host_work, threads and time_s.
        """
        length = pd.Series(lengths(rows["time_s"].to_numpy(dtype=float)), rows.index, dtype="str")
        kinds = _kinds(rows.assign(length=length.mask(rows["threads"].notna())))
        return self.kinds.reindex(pd.MultiIndex.from_frame(kinds)).set_axis(rows.index)


_KNOWN = ["quantity", *KIND]


def _kinds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return kinds of rows, without blanks: of threads it counts whether they are several."""
    memory, length = (rows[name].astype("string").fillna("") for name in ("host_memory", "length"))
    several = (rows["threads"].astype("Int64") > 1).fillna(False).astype(bool)
    work = rows["host_work"].astype("boolean").fillna(False).astype(bool)
    columns = (rows["quantity"].astype("string"), memory, work, several, length)
    return pd.DataFrame(dict(zip(_KNOWN, columns, strict=True)))


def _factor(scatter: Scatter, times: FloatArray) -> FloatArray:
    """Return the factor to which an interval reaches, for so many times the variance."""
    return np.exp(scatter.quantile * np.sqrt((scatter.between + scatter.noise) * times))
