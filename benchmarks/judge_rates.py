"""How often `compare` calls result files of one build slower, and which slowdowns it finds.

    python -m benchmarks.judge_rates FOLDER [--draws N]

FOLDER has result files of one tool, named in the order in which they were made, `planted` for those
with planted slowdowns. Half of the others give the variation between sessions, the other half is
compared: the first and second half, or every second file, both ways. Sides of 1, 3 and 5 sessions
are drawn at random. A slowdown of 5 % is also planted in each benchmark of B by factor.
Tools compare the first files of both sides: by means (pytest-benchmark, --benchmark-compare-fail
mean:5%), or by the U test of Google Benchmark's compare.py (p < 0.05, the larger median is slower).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from analysis.results.command import sessions
from analysis.results.comparison import Builds, judged, located
from analysis.stats.significance import SLOWER
from base.command_line import aligned
from base.errors import StudyError, exit_status

PLANTED = "planted"
SLOWDOWN = 1.05
SIZES = (1, 3, 5)  # sessions per side


def halves(files: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield files that give the variation, and files to compare."""
    middle = len(files) // 2
    for one, other in ((files[:middle], files[middle:]), (files[::2], files[1::2])):
        yield one, other
        yield other, one


def of_tools(times: pd.Series, a: str, b: str) -> pd.DataFrame:
    """Return for each benchmark whether means and the U test call session `b` slower than `a`."""
    rows = []
    for name in times.index.unique("benchmark"):
        one, other = (times.loc[name, session].to_numpy() for session in (a, b))
        differs = mannwhitneyu(one, other).pvalue < 0.05
        means = other.mean() > SLOWDOWN * one.mean()
        rows.append((means, differs and np.median(other) > np.median(one)))
    return pd.DataFrame(rows, columns=["means", "u_test"])


def rates(table: pd.DataFrame, builds: Builds, size: int, draws: int) -> pd.DataFrame:
    """Return a row per benchmark of each drawn comparison: what was said of it.

    `builds` are the files of one build and the planted ones. Columns: kind (same, planted, by
    factor), draw, slower, found (a slowdown of 5 % is said to be found), means and u_test.
    """
    rng, rows = np.random.default_rng(size), []
    times = table.set_index(["benchmark", "session"])["time_s"].sort_index()
    for number, (known, compared) in enumerate(halves(builds.a)):
        for draw in range(draws):
            order = rng.permutation(compared)
            a, b = [*order[:size]], [*order[size : 2 * size]]
            slowed = table["time_s"].where(~table["session"].isin(b), table["time_s"] * SLOWDOWN)
            sides = {"same": (table, b), "by factor": (table.assign(time_s=slowed), b)}
            if len(builds.b) >= size:
                sides["planted"] = (table, [*rng.permutation(builds.b)[:size]])
            for kind, (samples, other) in sides.items():
                chosen = samples[samples["session"].isin([*known, *a, *other])]
                _, frame = judged(located(chosen), Builds(a, other, known), SLOWDOWN - 1)
                said = {"slower": frame["verdict"] == SLOWER, "found": frame["found"] <= SLOWDOWN}
                part = pd.DataFrame(said).join(of_tools(times, a[0], other[0]))
                rows.append(part.assign(kind=kind, draw=f"{number} {draw}"))
    return pd.concat(rows, ignore_index=True)


def row(size: int, frame: pd.DataFrame) -> list[str]:
    """Return the rates of one size as texts."""
    of = dict([*frame.groupby("kind")])
    same = of["same"]

    def falsely(name: str) -> str:
        comparisons = same.groupby("draw")[name].any()
        return f"{same[name].mean():.2%}, {comparisons.mean():.1%} of {len(comparisons)}"

    texts = [str(size), falsely("slower")]
    for kind in ("by factor", "planted"):
        part = of.get(kind, same[:0])
        said = part[part["found"]]
        texts.append(f"{part['found'].mean():.0%}, {said['slower'].mean():.1%}")
    planted = of.get(PLANTED, same[:0])
    return texts + [f"{falsely(name)}; {planted[name].mean():.0%}" for name in ("means", "u_test")]


def main() -> None:
    """Print the rates of a folder; raise StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge_rates", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20, help="comparisons per half")
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.glob("*.*") if path.suffix in (".json", ".csv"))
    planted = [path for path in paths if PLANTED in path.name]
    files = [path for path in paths if path not in planted]
    if len(files) < 4 * max(SIZES):
        raise StudyError(f"{options.folder}: needs 20 files of one build")
    table, builds = sessions(files, planted, ())
    titles = ["sessions per side", "false slower: benchmarks, comparisons"]
    titles += [f"5 % {how}: said to be found, found of these" for how in ("by factor", PLANTED)]
    titles += [f"{tool}: the same; planted found" for tool in ("means > 5 %", "U test")]
    lines = [titles, *(row(size, rates(table, builds, size, options.draws)) for size in SIZES)]
    print(f"{len(files)} files of one build, {len(planted)} planted: {options.folder.name}")
    print("\n".join(aligned(lines)))


if __name__ == "__main__":
    sys.exit(exit_status(main))
