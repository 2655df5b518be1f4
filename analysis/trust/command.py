"""``gemm-study compare``: compare recordings and print the comparison."""

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
    recordings: Sequence[Path],
    against: Sequence[Path] = (),
    threshold: float | None = None,
    form: str = "text",
    with_hardware: bool = False,
    with_telemetry: bool = False,
    csv: Path | None = None,
) -> int:
    """Print a comparison as text, github, junit or json; return its exit status.

    `recordings` are A and B, or without B all sessions of A. Times of identical code count only
    `with_hardware`. `csv` gets every comparison. Raise StudyError for recordings that cannot be
    compared.
    """
    if csv and not csv.parent.is_dir():
        raise StudyError(f"--csv {csv}: there is no folder {csv.parent}; create it first")
    sides = _read(recordings, against)
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


def _read(recordings: Sequence[Path], against: Sequence[Path]) -> Sides:
    """Return the recordings of both sides; raise StudyError if two contain the same samples."""
    if not against:
        if len(recordings) != 2:
            raise StudyError("give two recordings, or A1 A2 --against B1 B2")
        recordings, against = recordings[:1], recordings[1:]
    sides = [read(path) for path in recordings], [read(path) for path in against]
    if len(recordings) + len(against) > 2:
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
