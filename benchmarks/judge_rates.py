"""How often `compare` calls result files of one build slower, and which slowdowns it finds.

    python -m benchmarks.judge_rates FOLDER [--draws N] [--only BENCHMARK]

FOLDER has result files of one tool. Files with `planted` in the name are those of a slower build;
with `planted-one`, only BENCHMARK is slower in that build. Half of the other files give the
variation between sessions, the other half is compared. The halves are the first and the second
half, or every second file, each in both roles. Sides of 1, 3 and 5 sessions are drawn at random:
they alternate, or one is earlier. Slowdowns are also planted by multiplying times by 1.05, in one
benchmark or in all of B. The rules of other tools compare the first files of both sides: by means
(pytest-benchmark, --benchmark-compare-fail mean:5%), or by the U test of Google Benchmark's
compare.py (p < 0.05, the larger median is slower).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from analysis.results.command import sessions
from analysis.results.comparison import MOST, Builds, judged, located
from analysis.stats.significance import SLOWER
from base.errors import StudyError, exit_status

PLANTED, ONE = "planted", "planted-one"
SLOWDOWN = 1.05
SIZES = (1, 3, 5)  # sessions per side


def halves(files: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield the files that give the variation, and the files to compare."""
    middle = len(files) // 2
    for one, other in ((files[:middle], files[middle:]), (files[::2], files[1::2])):
        yield one, other
        yield other, one


def sides(
    files: Sequence[str], size: int, is_alternate: bool, rng: np.random.Generator
) -> list[list[str]]:
    """Return two sides of `size` files each: they alternate, or one side is earlier."""
    order = np.sort(rng.permutation(len(files))[: 2 * size])
    pair = order.reshape(size, 2).T if is_alternate else order.reshape(2, size)
    return [[files[at] for at in side] for side in rng.permutation(pair)]


def of_tools(times: pd.Series, a: str, b: str) -> dict[str, float]:
    """Return how many benchmarks are slower in session `b` by other tools: means, and U test."""
    means = u_test = 0
    for name in times.index.unique("benchmark"):
        one, other = (times.loc[name, session].to_numpy() for session in (a, b))
        means += other.mean() > SLOWDOWN * one.mean()
        u_test += (mannwhitneyu(one, other).pvalue < 0.05) & (np.median(other) > np.median(one))
    return {"means": means, "means_any": means > 0, "u_test": u_test, "u_test_any": u_test > 0}


def said(part: pd.DataFrame, builds: Builds, slow: str = "") -> dict[str, float]:
    """Return what a comparison says about benchmarks, and about row `slow`, which is slower in B.

    Columns: benchmarks and slower, the number of all and of slower ones without `slow` and `MOST`;
    most, whether `MOST` is slower; any, whether anything except `slow` is; able, whether the
    command says that it can find 5 % in `slow`; found, whether it then finds it.
    """
    frame = judged(part, builds, SLOWDOWN - 1).set_index("benchmark")
    slower = frame["verdict"] == SLOWER
    others, most = slower.drop(index=[*{slow, MOST} & {*frame.index}]), slower.get(MOST, False)
    able = slow in slower and frame["found"][slow] <= SLOWDOWN
    wrong = others.any() or (most and slow != MOST)
    values = len(others), others.sum(), most, wrong, able, able and slower[slow]
    names = ("benchmarks", "slower", "most", "any", "able", "found")
    return dict(zip(names, map(int, values), strict=True))


def rates(table: pd.DataFrame, builds: Builds, size: int, draws: int, only: str) -> pd.DataFrame:
    """Return one row per drawn comparison: size, kind, layout, and columns of `said`, `of_tools`.

    `builds` has the files of one build and planted ones; those with `ONE` in the name are slower
    only in the benchmark `only`.
    """
    rng, rows = np.random.default_rng(size), []
    times = table.set_index(["benchmark", "session"])["time_s"].sort_index()
    measured, names = located(table), times.index.unique("benchmark")
    for usual, others in halves(builds.a):
        for layout in ("alternate", "block") * draws:
            a, b = sides(others, size, layout == "alternate", rng)
            one = rng.choice(names)
            cases = {"same": (b, [], ""), "in one": (b, [one], one), "in all": (b, [*names], MOST)}
            for kind, slow in ((PLANTED, MOST), (ONE, only)):
                files = [name for name in builds.b if (ONE in name) == (kind == ONE)]
                if len(files) >= size:
                    cases[kind] = [*rng.permutation(files)[:size]], [], slow
            for kind, (other, changed, slow) in cases.items():
                row = said(slowed(measured, changed, other), Builds(a, other, usual), slow)
                head = {"size": size, "kind": kind, "layout": layout, "comparisons": 1}
                rows.append(head | row | of_tools(times, a[0], other[0]))
    return pd.DataFrame(rows)


def slowed(part: pd.DataFrame, benchmarks: Sequence[str], files: Sequence[str]) -> pd.DataFrame:
    """Return `located` sessions in which `benchmarks` are slower in `files`."""
    part = part.copy()
    part.loc[benchmarks, [("log_s", name) for name in files]] += np.log(SLOWDOWN)
    return part


def main() -> None:
    """Print the rates of a folder; raise StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge_rates", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20, help="comparisons per half and layout")
    parser.add_argument("--only", default=MOST, help=f"benchmark that is slower in {ONE}")
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.glob("*.*") if path.suffix in (".json", ".csv"))
    planted = [path for path in paths if PLANTED in path.name]
    files = [path for path in paths if path not in planted]
    if len(files) < 4 * max(SIZES):
        raise StudyError(f"{options.folder}: needs 20 files of one build")
    table, builds = sessions(files, planted, ())
    parts = [rates(table, builds, size, options.draws, options.only) for size in SIZES]
    print(f"{len(files)} files of one build, {len(planted)} planted: {options.folder.name}")
    print(pd.concat(parts).groupby(["kind", "size", "layout"]).sum().to_string())


if __name__ == "__main__":
    sys.exit(exit_status(main))
