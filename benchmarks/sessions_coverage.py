"""Simulate the coverage of intervals over sessions (table in docs/explanation/methods.md).

    python -m benchmarks.sessions_coverage [--repeats N]

Cells of one kind are simulated in a few sessions. Session effects are shared by all cells, separate
per cell, both or none. The output is the coverage of three intervals: of the cell's mean, within
one session and over all sessions, and of the median in a further session.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.stats import norm

from analysis.stats.estimates import CONFIDENCE, FloatArray
from analysis.stats.sessions import Medians
from base.intervals import interval_ranks

CELLS, SAMPLES, NOISE = 60, 15, 0.02
# Standard deviations of log time: shared effects, effects per cell; and whether effects have heavy
# tails (Student's t with three degrees of freedom).
EFFECTS = {
    "none": (0.0, 0.0, False),
    "of each cell": (0.0, 0.03, False),
    "shared by all": (0.03, 0.0, False),
    "both": (0.03, 0.03, False),
    "both, heavy tails": (0.03, 0.03, True),
}
SESSIONS = (2, 3, 4, 6)


def simulated(
    rng: np.random.Generator, sessions: int, shared: float, own: float, heavy: bool
) -> tuple[Medians, FloatArray]:
    """Return medians of cells with mean log time 0, and their bounds (2, rows)."""
    draw = (lambda size: rng.standard_t(3, size) / 3**0.5) if heavy else rng.standard_normal
    effects = shared * draw((sessions, 1)) + own * draw((sessions, CELLS))
    samples = effects[:, :, None] + NOISE * rng.standard_normal((sessions, CELLS, SAMPLES))
    ordered = np.sort(samples, axis=-1).reshape(sessions * CELLS, SAMPLES)
    ranks = interval_ranks(SAMPLES, CONFIDENCE)
    assert ranks is not None
    bounds = ordered[:, ranks].T
    noise = ((bounds[1] - bounds[0]) / (2 * norm.ppf((1 + CONFIDENCE) / 2))) ** 2
    session, cell = (part.ravel() for part in np.indices((sessions, CELLS)))
    kind = np.zeros(CELLS, np.intp)
    return Medians(cell, session, ordered[:, SAMPLES // 2], noise, kind), bounds


def coverages(repeats: int) -> Iterator[tuple[str, int, float, float, float]]:
    """Yield effects, number of sessions, and the coverage of the three intervals."""
    for name, effects in EFFECTS.items():
        for sessions in SESSIONS:
            rng = np.random.default_rng(sessions)
            held = []
            for _ in range(repeats):
                every, bounds = simulated(rng, sessions + 1, *effects)
                last = every.session == sessions
                medians = every.only(~last)
                first = every.session == 0
                within = (bounds[0, first] <= 0) & (bounds[1, first] >= 0)
                mean = np.abs(medians.means) <= medians.half_widths()
                miss = np.abs(every.log_s[last] - medians.means)
                another = miss <= medians.half_widths(new_session=True)
                held.append([np.mean(each) for each in (within, mean, another)])
            one, over, more = np.mean(held, axis=0)
            yield name, sessions, float(one), float(over), float(more)


def main() -> None:
    """Print a row of Markdown per effect and number of sessions."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sessions_coverage", description="Simulate session intervals."
    )
    parser.add_argument(
        "--repeats", type=int, default=2000, metavar="N", help="simulations (default: 2000)"
    )
    repeats = parser.parse_args().repeats
    print("| effects | sessions | one session | all sessions | further session |")
    print("|---|---|---|---|---|")
    for name, sessions, *held in coverages(repeats):
        print(f"| {name} | {sessions} | {' | '.join(f'{100 * each:.1f} %' for each in held)} |")


if __name__ == "__main__":
    main()
