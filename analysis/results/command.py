"""``gemm-study compare`` with result files of other tools: sides, output and exit status."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.results.comparison import FEWEST, Builds, Comparison, compare
from analysis.results.readers import read
from analysis.stats import significance
from analysis.stats.significance import SAME, SLOWER, THRESHOLD, UNDECIDED, VERDICTS, exit_status
from base.command_line import annotation, duration, excerpt, print_json
from base.errors import StudyError
from base.files import write_atomic

_MOST = 10  # rows of the table, annotations


def compare_files(
    a: Sequence[Path],
    b: Sequence[Path],
    repeat: Sequence[Path],
    threshold: float | None,
    form: str,
    csv: Path | None,
) -> int:
    """Print a comparison as text, github, junit or json; return its exit status 0, 1 or 3.

    `repeat` are sessions of one build. Raise StudyError for files that cannot be compared.
    """
    table, builds = sessions(a, b, repeat)
    comparison = compare(table, builds, THRESHOLD if threshold is None else threshold)
    frame = comparison.verdicts
    if csv:
        write_atomic(csv, frame.to_csv(index=False))
    if form == "json":
        print_json(builds._asdict() | comparison._asdict() | {"verdicts": frame.to_dict("records")})
    elif form == "github":
        for row in frame[frame["verdict"] == SLOWER].nlargest(_MOST, "ratio").itertuples():
            print(annotation("error", f"{row.benchmark}: {significance.slower(row.ratio)}"))
        print(annotation("notice", _counts(frame)), flush=True)
    elif form == "junit":
        cases = [("benchmark", name) for name in frame["benchmark"]]
        print(significance.junit(frame, cases, _counts(frame)), flush=True)
    else:
        print(*_summary(comparison, len(builds.repeats)), *_table(frame), sep="\n", flush=True)
    return exit_status(frame["verdict"])


def sessions(
    a: Sequence[Path], b: Sequence[Path], repeat: Sequence[Path]
) -> tuple[pd.DataFrame, Builds]:
    """Return the samples of all files, and the sessions of each side.

    A file may be one of A and a repeated one. Raise StudyError if it is one of A and of B.
    """
    sides = [[*dict.fromkeys(path.resolve() for path in side)] for side in (a, b, repeat)]
    if both := {*sides[0]} & {*sides[1]}:
        raise StudyError(f"{both.pop()}: is a file of A and of B; name it once")
    tables = {path: read(path) for side in sides for path in side}
    names = [[name for path in side for name in tables[path]["session"].unique()] for side in sides]
    joined = [table.astype({"benchmark": str, "session": str}) for table in tables.values()]
    return pd.concat(joined, ignore_index=True), Builds(*names)


def _counts(frame: pd.DataFrame) -> str:
    counts = frame["verdict"].value_counts()
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS)


def _summary(comparison: Comparison, repeated: int) -> list[str]:
    """Return lines with the verdicts, what can be found, the rate of false verdicts, and notes."""
    frame, slower = comparison.verdicts, comparison.same_build_slower
    lines = [_counts(frame), f"compared: the {comparison.location} of each session's samples"]
    if len(least := (frame["found"] - 1).dropna()):
        text = f"smallest slowdown found with 95 % power: {least.median():.1%} for half of the"
        lines.append(f"{text} benchmarks, {least.min():.1%} to {least.max():.1%}")
    if slower:
        hits, count = sum(map(bool, slower)), len(slower)
        text = f"the same build was called slower in {hits} of {count} comparisons of repeated"
        lines.append(f"{text} sessions, {sum(slower)} of {count * len(frame)} benchmarks")
    else:
        text = f"no rate of false verdicts is known: run the build of A {FEWEST - repeated} times"
        lines.append(f"{text} more, better 20 times, and name all files: --repeat base1.json ...")
    for name in ("samples", "sessions"):
        if len(needed := frame[f"{name}_needed"].dropna()):
            text = f"{len(needed)} undecided benchmarks need more {name}"
            lines.append(f"{text}: {needed.median():.0f} per side for half of them")
    return [*lines, *(f"note: {note}" for note in comparison.notes)]


def _table(frame: pd.DataFrame) -> list[str]:
    """Return lines with the benchmarks that differ most, slower and faster ones first."""
    rows = frame[frame["verdict"] != SAME]
    order = rows.assign(open=rows["verdict"] == UNDECIDED, nearness=-np.log(rows["ratio"]).abs())
    shown = order.sort_values(["open", "nearness"], kind="stable")[:_MOST]
    columns = {
        "benchmark": shown["benchmark"],
        "A": shown["time_a_s"].map(duration),
        "B": shown["time_b_s"].map(duration),
        "B/A": shown["ratio"].map("{:.3f}".format),
        "95 % interval": shown["ratio_low"].map("{:.3f} to ".format)
        + shown["ratio_high"].map("{:.3f}".format),
        "found from": (shown["found"] - 1).map("{:.1%}".format),
        "verdict": shown["verdict"],
    }
    return excerpt([*columns], [*zip(*columns.values(), strict=True)], len(rows))
