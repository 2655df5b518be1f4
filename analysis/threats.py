"""Threats to the validity of the numbers, as far as the recordings themselves can tell of them."""

from collections.abc import Callable, Sequence

from analysis.results import COUNT, MEGAHERTZ, PERCENT, Results, Subject
from analysis.study import CPU
from analysis.views import Cell, Column, Row, Table, flag, words
from analysis.wording import NOT_MEASURED

# An interval that reaches farther than this to either side of its median is called wide.
_WIDE = 0.05
_NONE = Cell((NOT_MEASURED,))


def threats_table(results: Results, subjects: Sequence[Subject], anchor: str) -> Table:
    """Return one row a threat, one column a card (or host): how much of it shows there."""
    rows = [
        Row((words(text), *(cell(results, subject) for subject in subjects)))
        for text, cell in _THREATS.items()
    ]
    columns = [Column("threat", is_number=False)]
    columns += [Column(subject.label, is_number=False) for subject in subjects]
    caption = (
        "What the recordings tell of threats to their own numbers; the CPU's cells count with each "
        "card of its host.",
    )
    files = ("telemetry", "summary", "recordings", "agreement")
    return Table(anchor, "Threats to validity", caption, tuple(columns), tuple(rows), files)


def _throttled(results: Results, subject: Subject) -> Cell:
    """Return the share of the card's samples during which it said that it throttles."""
    rows = _telemetry(results, subject, "samples_throttled")
    if not rows:
        return _NONE
    share = "samples_throttled.sum() / samples.sum()"
    return Cell((results.derived("telemetry", rows, share, PERCENT),))


def _moved(results: Results, subject: Subject) -> Cell:
    """Return how far a median moves at most without those samples."""
    rows = _telemetry(results, subject, "unmarked_total_s")
    if not rows:
        return _NONE
    moved = "abs(unmarked_total_s / total_s - 1).max()"
    return Cell((results.derived("telemetry", rows, moved, PERCENT),))


def _clocks(results: Results, subject: Subject) -> Cell:
    """Return the least and the highest clock of the card in the medians of its cells."""
    rows = _telemetry(results, subject, "sm_clock_hz")
    if not rows:
        return _NONE
    low, high = (
        results.derived("telemetry", rows, f"sm_clock_hz.{end}()", MEGAHERTZ)
        for end in ("min", "max")
    )
    return Cell((low, " to ", high))


def _telemetry(results: Results, subject: Subject, column: str) -> list[int]:
    """Return the card's rows of telemetry.csv in which `column` is known."""
    frame = results.frame("telemetry")
    known = frame[(frame["gpu"] == subject.label) & frame[column].notna()]
    return [int(index) for index in known.index] if subject.is_gpu else []


def _without_interval(results: Results, subject: Subject) -> Cell:
    """Return how many medians have no interval, of how many."""
    return _of_all(results, subject, "total_low_s.isna().sum()")


def _wide(results: Results, subject: Subject) -> Cell:
    """Return how many medians have a wide interval, of how many."""
    reach = "((total_high_s - total_s > {0} * total_s) | (total_s - total_low_s > {0} * total_s))"
    return _of_all(results, subject, f"{reach.format(_WIDE)}.sum()")


def _of_all(results: Results, subject: Subject, expression: str) -> Cell:
    frame = results.frame("summary")
    own = (frame["recording"] == subject.recording) & frame["total_s"].notna()
    own &= (frame["gpu"] == subject.label) | (frame["device"] == CPU)
    rows = [int(index) for index in frame.index[own]]
    if not rows:
        return _NONE
    count = results.derived("summary", rows, expression, COUNT)
    return Cell((count, " of ", results.derived("summary", rows, "total_s.count()", COUNT)))


def _apart(results: Results, subject: Subject) -> Cell:
    """Return how many medians another recording of the same kind of card finds again."""
    frame = results.frame("agreement")
    sides = [frame[f"gpu_{side}"].fillna(frame[f"recording_{side}"]) for side in "ab"]
    own = (sides[0] == subject.label) | (sides[1] == subject.label)
    rows = [int(index) for index in frame.index[own]]
    if not rows:
        return words("no other recording")
    found = results.derived("agreement", rows, "cells_agreeing.sum()", COUNT)
    return Cell((found, " of ", results.derived("agreement", rows, "cells.sum()", COUNT)))


def _failed(results: Results, subject: Subject) -> Cell:
    """Return how many cells failed the correctness gate."""
    return Cell((results.cell("recordings", subject.row, "cells_failed", COUNT) or NOT_MEASURED,))


def _stale(results: Results, subject: Subject) -> Cell:
    badge = "stale" if subject.stale_sources else ""
    return Cell((flag(results, "recordings", subject.row, "stale"),), badge=badge)


def _uncommitted(results: Results, subject: Subject) -> Cell:
    return Cell((flag(results, "recordings", subject.row, "dirty", unknown="not known"),))


def _simulated(results: Results, subject: Subject) -> Cell:
    badge = "SIMULATED" if subject.simulated else ""
    return Cell((flag(results, "recordings", subject.row, "simulated"),), badge=badge)


_THREATS: dict[str, Callable[[Results, Subject], Cell]] = {
    "samples taken while the card throttled": _throttled,
    "a total without those samples moves by, at most": _moved,
    "clock of the card, least and most": _clocks,
    "totals without interval": _without_interval,
    f"totals whose interval reaches beyond {100 * _WIDE:g}\u00a0% of the median": _wide,
    "medians that another recording of the same kind of card finds again": _apart,
    "cells that failed the correctness gate": _failed,
    "measured sources changed since": _stale,
    "made from a tree with changes that are not committed": _uncommitted,
    "simulated, not measured": _simulated,
}
