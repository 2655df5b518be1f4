"""How often `compare` errs on simulated sessions, for different kinds of noise of the machine.

    python -m benchmarks.judge_noise COMPARISONS [NOISE ...]

The sessions of B follow those of A or alternate with them, or the sessions of A are the first of
the repeated ones (layouts). Printed rates: false *slower* verdicts on benchmarks, on `MOST` and in
whole comparisons; slowdowns of 5 % of one benchmark and of all that the command says it can find,
and how many of these it finds.
"""

import sys
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from analysis.results.comparison import MOST, Builds, located
from benchmarks.judge_rates import said, slowed

KINDS = ("normal", "t2", "one bad", "bad sessions", "bursts", "drift", "walk", "busier")
LAYOUTS = ("block", "alternate", "first")
NAMES, SAMPLES = [*"abcdefghij"], 10  # names of benchmarks; samples of each in a session


def world(kind: str, rng: np.random.Generator, sessions: int) -> np.ndarray:
    """Return simulated log times, (benchmarks, sessions, samples), sessions in order of time."""
    draw = partial(rng.standard_t, 2) if kind == "t2" else rng.standard_normal
    shapes = [(1, sessions, 1), (len(NAMES), sessions, 1), (len(NAMES), sessions, SAMPLES)]
    common, single, sample = (0.004 * draw(size=shape) for shape in shapes)
    single, sample = (part * rng.lognormal(0, 0.6, (len(NAMES), 1, 1)) for part in (single, sample))
    place = np.arange(sessions)[:, None]
    extra = {
        "one bad": 0.2 * (place == rng.integers(sessions)),
        "bad sessions": 0.2 * (rng.random(shapes[0]) < 0.05),
        "bursts": (rng.random(shapes[2]) < rng.beta(0.5, 1.5, shapes[0])) * rng.exponential(0.4),
        "drift": 0.03 * place / (sessions - 1) * rng.choice([-1, 1]),
        "walk": np.cumsum(1.5 * common, axis=1),
    }
    busier = np.where((place >= 0.7 * sessions) & (kind == "busier"), 3, 1)
    return (common + single + 2.5 * sample) * busier + extra.get(kind, 0)


def builds(layout: str, repeats: int, size: int) -> Builds:
    """Return the names of sessions in order of time, `size` of each build."""
    names = [f"{number:02}" for number in range(repeats + 2 * size)]
    usual, last = names[:repeats], names[repeats:]
    if layout == "alternate":
        return Builds(last[::2], last[1::2], usual)
    a, b = (last[:size], last[size:]) if layout == "block" else (usual[:size], last[:size])
    return Builds(a, b, usual)


def rates(kind: str, sides: Builds, rng: np.random.Generator) -> list[float]:
    """Return the values to print, from one simulated comparison."""
    names = {"benchmark": NAMES, "session": sorted({*sides.a, *sides.b, *sides.repeats})}
    log_s = world(kind, rng, len(names["session"]))
    index = pd.MultiIndex.from_product([*names.values(), range(SAMPLES)], names=[*names, "sample"])
    simulated = located(pd.DataFrame({"time_s": np.exp(log_s).ravel()}, index).reset_index())
    same = said(simulated, sides)
    values = [same["slower"] / len(NAMES), same["most"], same["any"]]
    for name, changed in (("a", ["a"]), (MOST, NAMES)):
        planted = said(slowed(simulated, changed, sides.b), sides, name)
        values += [planted["able"], planted["found"]]
    return values


if __name__ == "__main__":
    for kind, layout in product(sys.argv[2:] or KINDS, LAYOUTS):
        for repeats, size in product((3, 5, 10, 15), (1, 3)):
            rng, sides = np.random.default_rng(size), builds(layout, repeats, size)
            means = np.mean([rates(kind, sides, rng) for _ in range(int(sys.argv[1]))], axis=0)
            print(f"{kind:12} {layout:9} {repeats:2} {size}:", (means * 100).round(1), flush=True)
