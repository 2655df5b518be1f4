"""``gemm-study compare`` for recordings: compares them and prints the result."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pandas as pd

from analysis.stats.significance import THRESHOLD
from analysis.trust import comparison, comparison_text
from base.command_line import print_json
from base.errors import StudyError
from base.files import write_atomic
from measurement.recording.recording import Recording, read

Sides = tuple[list[Recording], list[Recording]]


def compare(
    paths_a: Sequence[Path],
    paths_b: Sequence[Path],
    threshold: float | None,
    form: str,
    with_hardware: bool,
    with_telemetry: bool,
    csv: Path | None,
) -> int:
    """Print a comparison as text, github, junit or json; return its exit status.

    Times of identical code count only if `with_hardware` is set. The file `csv` gets every
    comparison. Raise StudyError for recordings that cannot be compared.
    """
    sides = _read(paths_a, paths_b)
    (a, *more_a), (b, *more_b) = sides
    threshold, more = threshold or THRESHOLD, (more_a, more_b)
    frame = comparison.compare(a, b, threshold, more)
    if csv:
        write_atomic(csv, frame.to_csv(index=False))
    status = comparison.status(frame, with_hardware)
    if form == "json":
        _print_json(sides, frame)
    elif form == "junit":
        print(comparison_text.junit(frame, with_hardware), flush=True)
    elif comparison.identical(a, b):
        print(f"A and B contain the same samples: {a.path} and {b.path}", flush=True)
        return 0
    elif form == "github":
        print("\n".join(comparison_text.annotations(frame, with_hardware)), flush=True)
    else:
        lines = [
            f"{name}: {', '.join(_paths(side))}" for name, side in zip("AB", sides, strict=True)
        ]
        lines += ["", comparison_text.summary(frame, threshold)]
        lines += [f"note: {note}" for note in comparison_text.notes(a, b, frame, more)]
        shown = comparison_text.with_state(frame, a, b) if with_telemetry else frame
        lines += [*comparison_text.table(shown), *comparison_text.causes(frame, a, b)]
        print("\n".join(lines), flush=True)
    return status


def _read(a: Sequence[Path], b: Sequence[Path]) -> Sides:
    """Return the recordings of both sides; raise StudyError if two contain the same samples."""
    sides = [read(path) for path in a], [read(path) for path in b]
    if len(a) + len(b) > 2:
        for one, other in combinations([*sides[0], *sides[1]], 2):
            if comparison.identical(one, other):
                raise StudyError(f"{one.path} and {other.path} contain the same samples; name one")
    return sides


def _paths(side: Sequence[Recording]) -> list[str]:
    return [str(recording.path) for recording in side]


def _print_json(sides: Sides, frame: pd.DataFrame) -> None:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    (a, *more_a), (b, *more_b) = map(_paths, sides)
    print_json({"a": a, "b": b, "comparisons": rows, "more_a": more_a, "more_b": more_b})
