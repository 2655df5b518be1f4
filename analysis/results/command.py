"""``gemm-study compare`` for result files of other tools: sides, output and exit status."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.results.comparison import FEWEST, MOST, Builds, Comparison, compare
from analysis.results.readers import read
from analysis.stats import significance
from analysis.stats.significance import SAME, SLOWER, UNDECIDED
from base.command_line import ABSENT, annotation, duration, excerpt, print_json
from base.errors import StudyError
from base.files import write_atomic

Files = Sequence[Path]
_MOST = 10  # rows of the table, and annotations, that are printed


def compare_files(
    a: Files, b: Files, repeat: Files, threshold: float | None, form: str, csv: Path | None
) -> int:
    """Print a comparison as text, github, junit or json; return its exit status 0, 1 or 3.

    `repeat` are sessions of one build. Raise StudyError for files that cannot be compared.
    """
    table, builds = sessions(a, b, repeat)
    comparison = compare(table, builds, significance.THRESHOLD if threshold is None else threshold)
    frame, summary = comparison.verdicts, _summary(comparison, len(builds.repeats))
    if csv:
        write_atomic(csv, frame.to_csv(index=False))
    if form == "json":
        print_json(builds._asdict() | comparison._asdict() | {"verdicts": frame.to_dict("records")})
    elif form == "github":
        for row in frame[frame["verdict"] == SLOWER].nlargest(_MOST, "ratio").itertuples():
            print(annotation("error", f"{row.benchmark}: {significance.slower(row.ratio)}"))
        print(annotation("notice", "\n".join(summary)), flush=True)
    elif form == "junit":
        cases = [("benchmark", name) for name in frame["benchmark"]]
        print(significance.junit(frame, cases, "\n".join(summary)), flush=True)
    else:
        print(*summary, *_table(frame), sep="\n", flush=True)
    return significance.exit_status(frame["verdict"])


def sessions(a: Files, b: Files, repeat: Files) -> tuple[pd.DataFrame, Builds]:
    """Return the samples of all files, in order of their dates, and the sessions of each side."""
    sides = [[*dict.fromkeys(path.resolve() for path in side)] for side in (a, b, repeat)]
    if both := {*sides[0]} & {*sides[1]}:
        raise StudyError(f"{both.pop()}: is a file of A and of B; name it once")
    tables = {path: read(path) for side in sides for path in side}
    names = [[name for path in side for name in tables[path]["session"].unique()] for side in sides]
    joined = [table.astype({"benchmark": str, "session": str}) for table in tables.values()]
    joined.sort(key=lambda table: table["made_s"].iloc[0])
    return pd.concat(joined, ignore_index=True), Builds(names[0], names[1], names[2] or names[0])


def _summary(comparison: Comparison, repeated: int) -> list[str]:
    """Return lines with verdicts, the slowdowns that can be found, false verdicts, and notes."""
    frame, slower = comparison.verdicts, comparison.same_build_slower
    lines = [significance.counts(frame["verdict"])]
    if len(least := frame.set_index("benchmark")["found"].dropna()):
        typical, *ends = map(_slower, least.quantile([0.5, 0, 1]))
        text = f"smallest slowdown found with 95 % power: {typical} for half of the benchmarks"
        lines.append(f"{text}, {' to '.join(ends)}; of all {_slower(least.get(MOST, np.nan))}")
    if slower:
        hits, count = sum(map(bool, slower)), len(slower)
        text = f"the same build was called slower in {hits} of {count} comparisons of repeated"
        lines.append(f"{text} sessions, {sum(slower)} of {count * len(frame)} benchmarks")
    else:
        text = f"{repeated} repeated sessions bound neither the slowdown found nor the rate of"
        text += f" false verdicts: run the build of A {FEWEST - repeated} times more, better 20 in"
        lines.append(f"{text} all, and name all files: --repeat base1.json ...")
    return [*lines, *significance.needed(frame), *(f"note: {note}" for note in comparison.notes)]


def _slower(ratio: float) -> str:
    return ABSENT if np.isnan(ratio) else "over 100%" if ratio > 2 else f"{ratio - 1:.1%}"


def _table(frame: pd.DataFrame) -> list[str]:
    """Return lines with the benchmarks that differ most; slower and faster ones come first."""
    rows = frame[frame["verdict"] != SAME]
    order = rows.assign(open=rows["verdict"] == UNDECIDED, nearness=-np.log(rows["ratio"]).abs())
    shown = order.sort_values(["open", "nearness"], kind="stable")[:_MOST]
    ends = zip(shown["ratio_low"], shown["ratio_high"], strict=True)
    columns = {
        "benchmark": shown["benchmark"],
        "A": shown["time_a_s"].map(duration),
        "B": shown["time_b_s"].map(duration),
        "B/A": shown["ratio"].map("{:.3f}".format),
        "95 % interval": [ABSENT if np.isnan(a) else f"{a:.3f} to {b:.3f}" for a, b in ends],
        "found from": shown["found"].map(_slower),
        "verdict": shown["verdict"],
    }
    return excerpt([*columns], [*zip(*columns.values(), strict=True)], len(rows))
