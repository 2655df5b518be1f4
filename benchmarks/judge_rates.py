"""How often `compare` calls result files of one build slower, and which slowdowns it finds.

    python -m benchmarks.judge_rates FOLDER [--draws N] [--threshold X]

FOLDER has result files of one tool, named in the order in which they were made, with `planted` in
the names of those of the build with planted slowdowns. Half of the other files give the variation
between sessions, the other half is compared: the first and the second half (*earlier*), or every
second file (*alternate*); either half gives the variation once. Sides of 1, 3 and 5 sessions are
drawn at random. Drawn comparisons share sessions, so intervals (Clopper and Pearson) count only as
many as there are without a common session.

Tools compare the first files of both sides: by means (pytest-benchmark, --benchmark-compare-fail
mean:5%), or by the U test of Google Benchmark's compare.py (p < 0.05, the larger median is slower).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import betaincinv
from scipy.stats import mannwhitneyu

from analysis.results.command import sessions
from analysis.results.comparison import Builds, decided
from analysis.stats.significance import SLOWER
from base.command_line import aligned
from base.errors import StudyError, exit_status

PLANTED = "planted"
SIZES = (1, 3, 5)  # sessions per side
_TITLES = (
    "halves",
    "sessions",
    "false slower",
    "comparisons with slower",
    "planted found",
    "said to find 5 %",
    "of these found",
    "means > 5 %: false, comparisons, found",
    "U test: false, comparisons, found",
)


def halves(files: Sequence[str]) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield name, files that give the variation, and files to compare."""
    middle = len(files) // 2
    yield "earlier", files[:middle], files[middle:]
    yield "earlier", files[middle:], files[:middle]
    yield "alternate", files[::2], files[1::2]
    yield "alternate", files[1::2], files[::2]


def interval(share: float, count: int) -> str:
    """Return a share with its 95 % interval for `count` independent comparisons."""
    hits = share * count
    low = betaincinv(hits, count - hits + 1, 0.025) if hits > 0 else 0.0
    high = betaincinv(hits + 1, count - hits, 0.975) if hits < count else 1.0
    return f"{share:.1%} ({low:.1%} – {high:.1%})"


def others(times: pd.Series, a: str, b: str) -> list[tuple[bool, bool]]:
    """Return for each benchmark whether means and the U test call session `b` slower than `a`."""
    found = []
    for name in times.index.unique("benchmark"):
        one, other = (times.loc[name, session].to_numpy() for session in (a, b))
        differs = mannwhitneyu(one, other).pvalue < 0.05
        means = other.mean() > 1.05 * one.mean()
        found.append((means, bool(differs and np.median(other) > np.median(one))))
    return found


def drawn(
    table: pd.DataFrame,
    files: Sequence[str],
    planted: Sequence[str],
    size: int,
    options: argparse.Namespace,
) -> pd.DataFrame:
    """Return a row per benchmark of each drawn comparison: what was said of it, by tool.

    Columns: halves, draw, planted, slower, found (said to be found at 5 %), means and u_test.
    """
    rng, parts = np.random.default_rng(size), []
    times = table.set_index(["benchmark", "session"])["time_s"].sort_index()
    for which, known, compared in halves(files):
        for draw in range(options.draws):
            order = [str(name) for name in rng.permutation(compared)]
            a, b = order[:size], order[size : 2 * size]
            changed = [str(name) for name in rng.permutation(planted)[:size]]
            for is_planted, other in ((False, b), (True, changed)):
                chosen = table[table["session"].isin([*known, *a, *other])]
                *_, frame = decided(chosen, Builds(a, other, known), options.threshold)
                tools = np.array(others(times, a[0], other[0]), bool)
                columns = {
                    "halves": which,
                    "draw": f"{known[0]} {draw}",
                    "planted": is_planted,
                    "slower": frame["verdict"] == SLOWER,
                    "found": frame["found"] <= 1.05,
                    "means": tools[:, 0],
                    "u_test": tools[:, 1],
                }
                parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def row(size: int, which: str, frame: pd.DataFrame, disjoint: int) -> list[str]:
    """Return the rates of one kind of halves as texts."""
    same, changed = frame[~frame["planted"]], frame[frame["planted"]]

    def rates(name: str) -> list[float]:
        comparisons = same.groupby("draw")[name].any()
        return [same[name].mean(), comparisons.mean(), changed[name].mean()]

    false, comparisons, found = rates("slower")
    said = changed[changed["found"]]
    of_said = interval(said["slower"].mean(), disjoint) if len(said) else "–"
    tools = (", ".join(f"{share:.1%}" for share in rates(name)) for name in ("means", "u_test"))
    texts = (f"{false:.2%}", interval(comparisons, disjoint), f"{found:.1%}")
    return [which, str(size), *texts, f"{changed['found'].mean():.1%}", of_said, *tools]


def main() -> None:
    """Print the rates of a folder; raise StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge_rates", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20, help="comparisons per half")
    parser.add_argument("--threshold", type=float, default=0.05)
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.glob("*.*") if path.suffix in (".json", ".csv"))
    planted = [path for path in paths if PLANTED in path.name]
    files = [path for path in paths if path not in planted]
    if len(files) < 4 * max(SIZES) or len(planted) < max(SIZES):
        raise StudyError(f"{options.folder}: needs 20 files of one build and 5 planted ones")
    table, builds = sessions(files, planted, ())
    lines: list[tuple[str, ...]] = [_TITLES]
    for size in SIZES:
        frame = drawn(table, builds.a, builds.b, size, options)
        for which, rows in frame.groupby("halves"):
            disjoint = 2 * (len(files) // 2 // (2 * size))  # both halves
            lines.append((*row(size, str(which), rows, disjoint),))
    print(f"{len(files)} files of one build, {len(planted)} planted: {options.folder.name}")
    print("\n".join(aligned(lines)))


if __name__ == "__main__":
    sys.exit(exit_status(main))
