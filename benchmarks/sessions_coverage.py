"""Coverage of intervals over sessions: simulated, and on hosts that no fit has seen.

    python -m benchmarks.sessions_coverage [--repeats N]

Each simulation takes GPU cells of one kind from the H100 recordings. Their samples are drawn from
the residuals of the recorded samples. The effects of sessions are as estimated from the recordings,
or absent, or shared by all cells, or separate for each cell. The first table gives the coverage of
the intervals of the mean, overall and by third of the cells' noise, and of the prediction intervals
of one more session. For the second table, each recording is excluded in turn. The table counts how
many of its medians are inside the prediction intervals from the other recordings of its GPU model,
and gives the median half-width as a factor.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.data.recordings import MeasuredSource, load, sources
from analysis.domain import CPU
from analysis.stats.estimates import FloatArray, IntArray, median_variance
from analysis.stats.hosts import Hosts
from analysis.stats.sessions import Medians
from base.paths import ROOT
from measurement.recording.recording import KERNEL

RECORDED = {
    name: [ROOT / f"data/recordings/{name}-{number}" for number in numbers]
    for name, numbers in {"h100-sxm": (4, 5, 6, 7), "h200-sxm": (9, 10, 11)}.items()
}
SESSIONS = (2, 3, 4, 8)
CELLS = 60  # number of cells in a simulation
PARTS = ("kernel", "total")
# Shares of the variance between sessions that are shared and separate; None: as estimated.
EFFECTS: dict[str, tuple[float, float] | None] = {
    "as estimated": None,
    "none": (0.0, 0.0),
    "shared by all": (1.0, 0.0),
    "of each cell": (0.0, 1.0),
}


@dataclass(frozen=True)
class Kind:
    """Cells of one kind, with what a simulation needs.

    `residuals`: the log samples of each cell minus the median of their session; `samples`: their
    number per session; `tercile`: that of each cell's noise; and the variances between sessions.
    """

    residuals: list[FloatArray]
    samples: list[int]
    tercile: IntArray
    common: float
    own: float

    def simulated(
        self, rng: np.random.Generator, chosen: IntArray, sessions: int, common: float, own: float
    ) -> Medians:
        """Return simulated medians of the chosen cells, whose mean log time is 0."""
        shape = (sessions, len(chosen))
        log_s, noise = np.empty((2, *shape))
        effects = common**0.5 * rng.standard_normal((sessions, 1))
        effects = effects + own**0.5 * rng.standard_normal(shape)
        for at, cell in enumerate(chosen):
            drawn = rng.choice(self.residuals[cell], (sessions, self.samples[cell]))
            log_s[:, at] = np.median(drawn, axis=1) + effects[:, at]
            noise[:, at] = median_variance(drawn)
        session, number = (part.ravel() for part in np.indices(shape))
        kind = np.zeros(len(chosen), np.intp)
        return Medians(number, session, log_s.ravel(), noise.ravel(), kind)


def kinds(source: MeasuredSource) -> Iterator[Kind]:
    """Yield those kinds of a GPU's cells that have at least two cells."""
    for part in PARTS:
        several = source.sessions(part)
        if several is None:
            continue
        medians, logs = several.medians(part), several.logs(part)
        apart = [values - np.median(values) for values in logs]
        rows = pd.Series(range(len(apart)))[medians.known].groupby(medians.cell[medians.known])
        on_gpu = several.cells["device"] != CPU
        of_cell = {cell: list(own) for cell, own in rows if on_gpu[cell]}
        for kind in np.unique(medians.kind):
            cells = [cell for cell in of_cell if medians.kind[cell] == kind]
            if len(cells) > 1:
                order = np.argsort(np.argsort(medians.cell_noise[cells]))
                pooled = [np.concatenate([apart[row] for row in of_cell[cell]]) for cell in cells]
                yield Kind(
                    [values - np.median(values) for values in pooled],
                    [int(np.median([len(apart[row]) for row in of_cell[cell]])) for cell in cells],
                    order * 3 // len(cells),
                    float(medians.scatter.common[kind]),
                    float(medians.scatter.own[kind]),
                )


def coverages(found: Sequence[Kind], repeats: int) -> Iterator[tuple[str, int, list[float]]]:
    """Yield effects, number of sessions, and coverages: all, by tercile, of one more session."""
    for name, shares in EFFECTS.items():
        for sessions in SESSIONS:
            rng = np.random.default_rng([0, sessions])
            covered = []
            for repeat in range(repeats):
                kind = found[repeat % len(found)]
                chosen = rng.permutation(len(kind.residuals))[:CELLS]
                parts = np.array([kind.common, kind.own])
                effects = parts if shares is None else parts.sum() * np.array(shares)
                every = kind.simulated(rng, chosen, sessions + 1, *effects)
                last = every.session == sessions
                medians = every.only(~last)
                inside = np.abs(medians.means) <= medians.half_widths()
                more = medians.inside(every.cell[last], every.log_s[last])
                thirds = [inside[kind.tercile[chosen] == third] for third in range(3)]
                values = (inside, *thirds, more)
                covered.append([np.mean(each) if len(each) else np.nan for each in values])
            yield name, sessions, [float(each) for each in np.nanmean(covered, axis=0)]


def held_out(measured: Sequence[MeasuredSource]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a session's name, and by quantity and kind medians, those inside, and the factor."""
    for source in measured:
        for out, folder in enumerate(RECORDED[source.label]):
            seen = (one.recording.samples for one in measured if one is not source)
            samples = source.recording.samples
            hosts = Hosts.of([*seen, samples[samples["session"] != out]])
            rows = pd.concat([_predicted(source, part, out, hosts) for part in PARTS])
            columns = {"inside": ("inside", "sum"), "medians": ("inside", "count")}
            groups = rows.groupby(["quantity", "kind"])
            yield folder.name, groups.agg(**columns, factor=("factor", "median"))


def _predicted(source: MeasuredSource, part: str, out: int, hosts: Hosts) -> pd.DataFrame:
    """Return one row per median of session `out`: quantity, kind, inside and factor."""
    several = source.sessions(part)
    assert several is not None
    kinds, cells = several.kinds(part), several.cells
    kind = kinds["matrices_in"].fillna(cells["host_memory"]).fillna(CPU).to_numpy()
    medians = replace(several.medians(part), hosts=hosts)
    new = medians.session == out
    if part == "kernel":  # kernel times do not depend on the host's memory
        new &= ~cells.duplicated(KERNEL).to_numpy()[medians.cell]
    rest, cell = medians.only(medians.session != out), medians.cell[new]
    inside = rest.inside(cell, medians.log_s[new])
    factor = np.exp(rest.half_widths(new_session=True)[cell])
    rows = {"quantity": part, "kind": kind[cell], "inside": inside, "factor": factor}
    return pd.DataFrame(rows).dropna()


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser("python -m benchmarks.sessions_coverage")
    parser.add_argument("--repeats", type=int, default=112, help="simulations per row")
    repeats = parser.parse_args().repeats
    measured = sources(load(RECORDED))
    found = list(kinds(measured[0]))
    print("| effects | sessions | all | least noise | middle | most noise | one more |")
    print("|---" * 7 + "|")
    for name, sessions, covered in coverages(found, repeats):
        shares = " | ".join(f"{100 * share:.1f} %" for share in covered)
        print(f"| {name} | {sessions} | {shares} |", flush=True)
    print("\n| held out | quantity | kind | inside | factor |\n|---|---|---|---|---|")
    for name, rows in held_out(measured):
        for key, row in rows.iterrows():
            inside = f"{row['inside']:.0f} of {row['medians']:.0f}"
            print(f"| {' | '.join((name, *key))} | {inside} | {row['factor']:.3f} |")


if __name__ == "__main__":
    main()
