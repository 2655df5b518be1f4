"""``gemm-study compare`` with result files of other tools: sides, output and exit status."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.results.comparison import FEWEST, Builds, Comparison, compare
from analysis.results.readers import read
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, VERDICTS, exit_status
from base.command_line import annotation, duration, excerpt, print_json
from base.errors import StudyError
from base.files import write_atomic

_MOST = 10  # rows of the table, annotations, names in a note
_TITLES = ("benchmark", "sessions", "A", "B", "B/A", "95 % interval", "found from", "verdict")


def compare_files(
    files: Sequence[Path],
    against: Sequence[Path],
    repeat: Sequence[Path],
    threshold: float | None,
    form: str,
    csv: Path | None,
) -> int:
    """Print a comparison as text, github or json; return its exit status 0, 1 or 3.

    `files` are A and B, or without B all sessions of A; `repeat` are sessions of one build. Raise
    StudyError for files that cannot be compared.
    """
    if form == "junit" or (csv and not csv.parent.is_dir()):
        wrong = "--format junit: needs recordings" if form == "junit" else f"--csv {csv}: no folder"
        raise StudyError(f"{wrong}; use --format github, or an existing folder for --csv")
    if not against and len(files) != 2:
        raise StudyError("give two result files, or A1 A2 ... --against B1 B2 ...")
    sides = (files, against) if against else (files[:1], files[1:])
    table, builds = sessions(*sides, repeat)
    comparison = compare(table, builds, THRESHOLD if threshold is None else threshold)
    if csv:
        write_atomic(csv, comparison.frame.to_csv(index=False))
    if form == "json":
        frame = comparison.frame
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        rate = comparison.rate._asdict() if comparison.rate else None
        facts = {"location": comparison.location, "same_build": rate, "notes": comparison.notes}
        print_json(builds._asdict() | facts | {"comparisons": rows})
    elif form == "github":
        print("\n".join(_annotations(comparison)), flush=True)
    else:
        names = {"A": sides[0], "B": sides[1], "repeated": repeat}
        lines = [f"{name}: {_listed(paths)}" for name, paths in names.items() if paths]
        print(
            "\n".join([*lines, "", *_summary(comparison, builds), *_table(comparison.frame)]),
            flush=True,
        )
    return exit_status(comparison.frame["verdict"])


def sessions(
    a: Sequence[Path], b: Sequence[Path], repeat: Sequence[Path]
) -> tuple[pd.DataFrame, Builds]:
    """Return the samples of all files, and the sessions of each side.

    A file may be one of A and a repeated one. Raise StudyError if two files have the same samples.
    """
    tables = {path.resolve(): read(path) for path in (*a, *b, *repeat)}
    seen: dict[bytes, Path] = {}
    for path, table in tables.items():
        other = seen.setdefault(table["time_s"].to_numpy().tobytes(), path)
        if (
            other != path
            and table.groupby("benchmark", observed=True)["time_s"].nunique().max() > 1
        ):
            raise StudyError(f"{other} and {path} contain the same samples; name one of them")
    if {path.resolve() for path in a} & {path.resolve() for path in b}:
        raise StudyError("A and B: contain the same file; name two files")
    names = [
        [
            name
            for path in dict.fromkeys(paths)
            for name in tables[path.resolve()]["session"].unique()
        ]
        for paths in (a, b, repeat)
    ]
    frame = pd.concat(
        [table.astype({"benchmark": object, "session": object}) for table in tables.values()]
    )
    return frame.reset_index(drop=True), Builds(*names)


def _listed(paths: Sequence[Path]) -> str:
    more = f" ... {paths[-1]} ({len(paths)} files)" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


def _summary(comparison: Comparison, builds: Builds) -> list[str]:
    """Return lines with the verdicts, what can be found, the rate of false verdicts, and notes."""
    frame, repeated = comparison.frame, len(builds.repeats)
    counts = frame["verdict"].value_counts()
    lines = [", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS)]
    lines.append(f"compared: the {comparison.location} of each session's samples")
    if frame["found"].notna().any():
        least = 100 * (frame["found"] - 1)
        text = f"smallest slowdown found with 95 % power: {least.median():.2g} % for half of the"
        lines.append(f"{text} benchmarks, {least.min():.2g} to {least.max():.2g} %")
    if comparison.rate:
        rate = comparison.rate
        lines.append(
            f"the same build was called slower in {rate.slower_comparisons} of {rate.comparisons} "
            f"comparisons of two repeated sessions (95 % interval up to {rate.high:.0%}), "
            f"{rate.slower_benchmarks} of {rate.benchmarks} benchmarks"
        )
    elif repeated < 2:
        lines.append(
            "no rate of false verdicts is known, because no session was repeated: run the build of "
            "A 10 times, and name the files: --repeat base1.json base2.json ..."
        )
    else:
        more = FEWEST - repeated
        lines.append(f"no rate of false verdicts is known: repeat the build of A {more} times more")
    needed = {name: frame[f"{name}_needed"].dropna() for name in ("samples", "sessions")}
    lines += [
        f"{len(each)} undecided benchmarks need more {name}: {each.median():.0f} per side for half"
        for name, each in needed.items()
        if len(each)
    ]
    return [*lines, *(f"note: {note}" for note in comparison.notes)]


def _table(frame: pd.DataFrame) -> list[str]:
    """Return lines with the benchmarks that differ most, slower and faster ones first."""
    rows = frame[frame["verdict"] != SAME]
    decided = rows["verdict"].isin([SLOWER, FASTER])
    order = rows.assign(decided=decided, distance=np.log(rows["ratio"]).abs())
    shown = order.sort_values(["decided", "distance"], ascending=False, kind="stable")[:_MOST]
    return excerpt(_TITLES, [_cells(row) for row in shown.to_dict("records")], len(rows))


def _cells(row: dict) -> tuple[str, ...]:
    has_interval = not np.isnan(row["ratio_low"])
    return (
        row["benchmark"],
        f"{row['sessions_a']}, {row['sessions_b']}",
        duration(row["time_a_s"]),
        duration(row["time_b_s"]),
        f"{row['ratio']:.3f}",
        f"[{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]" if has_interval else "",
        f"{row['found'] - 1:.1%}" if has_interval else "",
        row["verdict"],
    )


def _annotations(comparison: Comparison) -> list[str]:
    slower = comparison.frame[comparison.frame["verdict"] == SLOWER].nlargest(_MOST, "ratio")
    texts = [f"{row.benchmark}: {row.ratio - 1:.1%} slower in B" for row in slower.itertuples()]
    counts = comparison.frame["verdict"].value_counts()
    summary = ", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS)
    return [*(annotation("error", text) for text in texts), annotation("notice", summary)]
