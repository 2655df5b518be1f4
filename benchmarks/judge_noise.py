"""Rates of `compare` on simulated sessions, with different noise.

    python -m benchmarks.judge_noise COMPARISONS

Printed: false *slower* of benchmarks and of comparisons; 5 % said to be found, and found of these.
"""

import sys
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.results.comparison import Builds, judged, located

KINDS = ("normal", "lognormal", "t2", "bad sessions", "bursts", "drift", "regime", "modes")
BENCHMARKS, REPEATS, SAMPLES = 10, 15, 10


def world(kind: str, rng: np.random.Generator, sessions: int) -> np.ndarray:
    """Return log times, shape (benchmarks, sessions, samples); the repeated sessions are first."""
    heavy: dict[str, Any] = {"lognormal": rng.lognormal, "t2": partial(rng.standard_t, 2)}
    draw = heavy.get(kind, rng.standard_normal)
    shapes = [(1, sessions, 1), (BENCHMARKS, sessions, 1), (BENCHMARKS, sessions, SAMPLES)]
    common, single, sample = (0.004 * draw(size=shape) for shape in shapes)
    single, sample = (part * rng.lognormal(0, 0.6, (BENCHMARKS, 1, 1)) for part in (single, sample))
    is_late = np.arange(sessions)[:, None] >= 0.8 * REPEATS
    extra = {
        "bad sessions": 0.2 * (rng.random(shapes[0]) < 0.05),
        "bursts": (rng.random(shapes[2]) < rng.beta(0.5, 1.5, shapes[0])) * rng.exponential(0.4),
        "drift": np.cumsum(common, axis=1),
        "modes": 0.03 * (rng.random(shapes[1]) < rng.choice([0, 0.2, 0.5], (BENCHMARKS, 1, 1))),
    }
    noise = common + single + 2.5 * sample
    return noise * np.where(is_late & (kind == "regime"), 3, 1) + extra.get(kind, 0)


def verdicts(log_s: np.ndarray, size: int) -> pd.DataFrame:
    """Return the verdicts on the last sessions, `size` of each build."""
    index = pd.MultiIndex.from_product(map(range, log_s.shape), names=["benchmark", "session", "n"])
    table = pd.DataFrame({"time_s": np.exp(log_s).ravel()}, index).reset_index()
    names = [*range(log_s.shape[1])]
    builds = Builds(names[-2 * size : -size], names[-size:], names[:REPEATS])
    return judged(located(table), builds, 0.05)[1]


if __name__ == "__main__":
    for kind, size in ((kind, size) for kind in KINDS for size in (1, 3)):
        rng, rows = np.random.default_rng(size), []
        for _ in range(int(sys.argv[1])):
            log_s = world(kind, rng, REPEATS + 2 * size)
            slower = verdicts(log_s, size)["verdict"] == "slower"
            log_s[:, -size:] += np.log(1.05)
            planted = verdicts(log_s, size)
            said = planted["found"] <= 1.05
            found = (planted["verdict"] == "slower") & said
            rows.append((slower.mean(), slower.any(), said.mean(), found.mean()))
        one, comparisons, said, found = np.mean(rows, axis=0)
        print(f"{kind:12} {size}: {one:.2%} {comparisons:.1%} {said:.0%}, {found / said:.1%}")
