"""Coverage of intervals over sessions: simulated, and on hosts that no fit has seen.

    python -m benchmarks.sessions_coverage [--repeats N] [--seed N] [--recordings DIR ...]
                                           [--held-out DIR ...]

Each simulation takes cells of one kind from the recordings. Their samples are drawn from the
residuals of the recorded samples. The effects of sessions are those estimated from the recordings,
none, shared by all cells, or separate per cell. The first table gives the coverage of the intervals
of the mean, overall and by third of the cells' noise, and of the prediction intervals of one more
session. The second table counts the medians of the held-out recordings, by default the one that was
made last, that are inside the prediction intervals of the recordings.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.data.recordings import MeasuredSource, load, sources
from analysis.stats.estimates import FloatArray, IntArray, median_variance
from analysis.stats.sessions import Medians
from base.paths import ROOT
from measurement.recording.recording import CELL, KERNEL

RECORDED = [f"data/recordings/h100-sxm-{number}" for number in (4, 5, 6)]
HELD_OUT = ["data/recordings/h100-sxm-7"]
SESSIONS = (2, 3, 4, 8)
CELLS = 60  # per simulation
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
    """Cells of one kind.

    `residuals`: of the log samples of each cell about the median of their session; `samples`: their
    number per session; `tercile`: of each cell's noise; and the variances between sessions.
    """

    residuals: list[FloatArray]
    samples: list[int]
    tercile: IntArray
    common: float
    own: float

    def simulated(
        self, rng: np.random.Generator, chosen: IntArray, sessions: int, common: float, own: float
    ) -> Medians:
        """Return medians of the chosen cells with mean log time 0."""
        log_s, noise = np.empty((2, sessions, len(chosen)))
        shape = (sessions, len(chosen))
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
    """Yield the kinds of cells of a GPU and its host with at least two cells."""
    for part in PARTS:
        several = source.sessions(part)
        if several is None:
            continue
        medians, logs = several.medians(part), several.logs(part)
        apart = [values - np.median(values) for values in logs]
        rows = pd.Series(range(len(apart)))[medians.known].groupby(medians.cell[medians.known])
        of_cell = {cell: list(own) for cell, own in rows}
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


def coverages(
    found: Sequence[Kind], repeats: int, seed: int
) -> Iterator[tuple[str, int, list[float]]]:
    """Yield effects, number of sessions, and coverage: all, by tercile, of one more session."""
    for name, shares in EFFECTS.items():
        for sessions in SESSIONS:
            rng = np.random.default_rng([seed, sessions])
            covered = []
            for repeat in range(repeats):
                kind = found[repeat % len(found)]
                count = len(kind.residuals)
                chosen = rng.permutation(count)[:CELLS]
                total = kind.common + kind.own
                own = (kind.common, kind.own) if shares is None else np.multiply(shares, total)
                every = kind.simulated(rng, chosen, sessions + 1, *own)
                last = every.session == sessions
                medians = every.only(~last)
                inside = np.abs(medians.means) <= medians.half_widths()
                more = medians.inside(every.cell[last], every.log_s[last])
                thirds = [inside[kind.tercile[chosen] == third] for third in range(3)]
                means = [np.mean(each) if len(each) else np.nan for each in (inside, *thirds, more)]
                covered.append(means)
            yield name, sessions, [float(each) for each in np.nanmean(covered, axis=0)]


def held_out(source: MeasuredSource, others: Sequence[MeasuredSource]) -> pd.DataFrame:
    """Return how many medians of other GPUs and their CPUs are inside: by quantity and kind."""
    on = [name for name in CELL if name != "device"]
    frames = []
    for part in PARTS:
        several = source.sessions(part)
        assert several is not None
        medians, kinds = several.medians(part), several.kinds(part)
        kind = kinds["matrices_in"].fillna(several.cells["host_memory"]).fillna("CPU")
        cells = several.cells[on].assign(cell=range(len(kind)), quantity=part, kind=kind)
        if part == "kernel":  # its time does not depend on the host's memory
            cells = cells.drop_duplicates([name for name in on if name in KERNEL])
        for other in others:
            times = other.cells[[*on, f"{part}_s"]].dropna(subset=f"{part}_s")
            both = cells.merge(times, on=on)
            log_s = np.log(both[f"{part}_s"].to_numpy(dtype=float))
            inside = medians.inside(both["cell"].to_numpy(), log_s)
            frames.append(both.assign(inside=inside, count=1).dropna(subset="inside"))
    rows = pd.concat(frames).groupby(["quantity", "kind"])
    return rows[["inside", "count"]].sum().astype(int)


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sessions_coverage", description="Coverage of session intervals."
    )
    add = parser.add_argument
    add("--repeats", type=int, default=112, metavar="N", help="simulations per row (default: 112)")
    add("--seed", type=int, default=0, metavar="N", help="of the simulations (default: 0)")
    add("--recordings", type=Path, nargs="+", metavar="DIR", help="sessions of one GPU model")
    add("--held-out", type=Path, nargs="*", metavar="DIR", help="recordings to predict")
    arguments = parser.parse_args()
    recorded = arguments.recordings or [ROOT / path for path in RECORDED]
    others = arguments.held_out
    others = [ROOT / path for path in HELD_OUT] if others is None else others
    source, *_ = sources(load({"recorded": recorded}))
    found = list(kinds(source))
    print("| effects | sessions | all | least noise | middle | most noise | one more |")
    print("|---|---|---|---|---|---|---|")
    for name, sessions, covered in coverages(found, arguments.repeats, arguments.seed):
        shares = " | ".join(f"{100 * each:.1f} %" for each in covered)
        print(f"| {name} | {sessions} | {shares} |", flush=True)
    if others:
        new = sources(load({path.name: [path] for path in others}))
        print("\n| quantity | kind | inside |\n|---|---|---|")
        for key, row in held_out(source, new).iterrows():
            print(f"| {' | '.join(key)} | {row['inside']} of {row['count']} |")


if __name__ == "__main__":
    main()
