"""How far the numbers can be trusted, in sentences whose numbers are computed.

What was not recorded is said not to be, or has no sentence where a study need not have it: batches,
cold starts, neighbours.
"""

import math
from collections.abc import Iterator

import pandas as pd

from analysis.data.published import SOURCE as PUBLISHED
from analysis.data.recordings import CPU
from analysis.findings import Findings, Sentence
from analysis.results import (
    COUNT,
    MICROSECONDS,
    MILLISECONDS,
    NANOSECONDS,
    PERCENT,
    SECONDS,
    TIMES,
    Results,
    Subject,
    as_published,
    rows_of,
    subjects,
)
from analysis.stats.significance import FASTER, SAME, SLOWER, UNDECIDED
from analysis.trust.measuring import MEASURING
from analysis.wording import (
    NOT_MEASURED,
    STATED,
    Code,
    Part,
    cell,
    measured,
    order,
    size,
    variant,
)

_NBSP = "\u00a0"


def trust_findings(results: Results) -> list[Findings]:
    """Return these findings on every measured device, in the order of recordings.csv."""
    found = []
    for subject in subjects(results):
        sentences = [*_clock(results, subject), *_busy(results, subject)]
        if subject.is_gpu:
            sentences = [
                *_throttling(results, subject),
                *sentences,
                *_batches(results, subject),
                *_cold(results, subject),
                *_neighbours(results, subject),
            ]
        found.append(Findings(subject, tuple(sentences)))
    return found


def _own(results: Results, table: str, subject: Subject) -> pd.DataFrame:
    """Return the rows of a GPU, or of the CPU of a host without one."""
    frame = results.frame(table)
    if subject.is_gpu:
        return frame[frame["gpu"] == subject.label]
    return frame[(frame["recording"] == subject.recording) & (frame["device"] == CPU)]


def _throttling(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Say how many samples are marked, by what, and what leaving them out changes."""
    own = _own(results, "telemetry", subject)
    known = own[own["samples_throttled"].notna()]
    if known.empty:
        text = "What clocks, temperature and power were during the samples was not recorded."
        yield Sentence("throttling", NOT_MEASURED, (text,))
        return
    count = results.derived("telemetry", rows_of(known), "samples.sum()", COUNT)
    marked = known[known["samples_throttled"] > 0]
    if marked.empty:
        parts = ("The card throttled during none of its ", count, " samples.")
        yield Sentence("throttling", STATED, parts)
        return
    rows = rows_of(marked)
    slowed = results.derived("telemetry", rows, "samples_throttled.sum()", COUNT)
    share = "samples_throttled.sum() / samples.sum()"
    lists = (results.text("telemetry", row, "throttle_reasons").split(" + ") for row in rows)
    reasons = sorted({reason for names in lists for reason in names})
    yield Sentence(
        "throttling",
        STATED,
        (
            *("The card throttled during ", slowed, " of its ", count, " samples ("),
            *(results.derived("telemetry", rows_of(known), share, PERCENT), "; "),
            *_listed([Code(reason) for reason in reasons]),
            *("). They stay in every median. ", *_without_marked(results, marked)),
        ),
    )


def _without_marked(results: Results, marked: pd.DataFrame) -> list[Part]:
    """Say how far the medians move without the marked samples."""
    left = marked[marked["unmarked_total_s"].notna()]
    parts: list[Part] = []
    if not left.empty:
        parts += ["Left out, they move the median "]
        for position, part in enumerate(("total", "kernel")):
            moved = f"abs(unmarked_{part}_s / {part}_s - 1)"
            row = int(left.eval(moved, engine="python").idxmax())
            parts += [" and that " if position else "", f"of the {part} time by "]
            parts += [results.derived("telemetry", [row], moved, PERCENT), " at most ("]
            parts += [*variant(results, "telemetry", row), ", ", *size(results, "telemetry", row)]
            parts += [f", {results.text('telemetry', row, 'host_memory')})"]
        parts += ["."]
    lost = marked[marked["unmarked_total_s"].isna()]
    if not lost.empty:
        number = results.derived("telemetry", rows_of(lost), "variant.count()", COUNT)
        parts += [" " if parts else "", "Cells in which every sample is marked: ", number, "."]
    return parts


def _listed(parts: list[Code]) -> list[Part]:
    listed: list[Part] = []
    for position, part in enumerate(parts):
        listed += [", " if position else "", part]
    return listed


def _clock(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Give what timing itself costs, beside the shortest pass and the shortest kernel."""
    own = _own(results, "ceilings", subject)
    rows = {str(row["quantity"]): int(str(index)) for index, row in own.iterrows()}
    if not {"timer_resolution_s", "empty_total_s"} <= set(rows):
        yield Sentence("clock", NOT_MEASURED, ("What timing itself costs was not measured.",))
        return
    timer = measured(results, "ceilings", rows["timer_resolution_s"], "value", NANOSECONDS)
    unit = MICROSECONDS if subject.is_gpu else NANOSECONDS
    empty = measured(results, "ceilings", rows["empty_total_s"], "value", unit)
    parts: list[Part] = ["The host's clock moves in steps of ", *timer]
    parts += ["; a pass with nothing to do takes ", *empty]
    cells = _own(results, "summary", subject)
    if cells["total_s"].notna().any():
        parts += [", the shortest that was timed ", *_shortest(results, cells, "total_s")]
    if "empty_kernel_s" in rows and cells["kernel_s"].notna().any():
        nothing = measured(results, "ceilings", rows["empty_kernel_s"], "value", MICROSECONDS)
        parts += [". Events with nothing between them are ", *nothing, " apart, the shortest "]
        parts += ["kernel between them takes ", *_shortest(results, cells, "kernel_s")]
    yield Sentence("clock", STATED, (*parts, "."))


def _shortest(results: Results, cells: pd.DataFrame, column: str) -> list[Part]:
    """Return the shortest time and the cell that it is of."""
    row = int(cells[column].idxmin())
    time = cell(results, "summary", row, column, MICROSECONDS)
    named = variant(results, "summary", row)
    return [time, " (", *named, ", ", *size(results, "summary", row), ")"]


def _busy(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Give the share of the time of measuring that was not the device's work."""
    own = _own(results, "phases", subject)
    rows = rows_of(own[own["phase"].isin(MEASURING) & (own["wall_s"] > 0)])
    if not rows:
        yield Sentence("busy", NOT_MEASURED, ("How long the measurement took was not recorded.",))
        return
    wall = results.derived("phases", rows, "wall_s.sum()", SECONDS)
    idle = results.derived("phases", rows, "1 - busy_s.sum() / wall_s.sum()", PERCENT)
    work = "neither copies nor kernels" if subject.is_gpu else "no products"
    parts = ("Checking and timing took ", wall, ", of which ", idle, f" were {work}.")
    yield Sentence("busy", STATED, parts)


def _batches(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Say how much longer short kernels appear one at a time than back to back."""
    own = _own(results, "batches", subject)
    own = own[own["ratio"].notna()]
    if own.empty:
        return
    rows, worst = rows_of(own), int(own["ratio"].idxmax())
    yield Sentence(
        "batches",
        STATED,
        (
            *(results.derived("batches", rows, "variant.count()", COUNT), " kernels are short: "),
            "launched one at a time, between events, they take ",
            *(results.derived("batches", rows, "ratio.median()", TIMES), " in the median, and "),
            *(*measured(results, "batches", worst, "ratio", TIMES), " at most, of the time that "),
            *("they take back to back (most: ", *variant(results, "batches", worst)),
            *(", ", *size(results, "batches", worst), ", "),
            *(cell(results, "batches", worst, "kernel_s", MICROSECONDS), " for "),
            *(cell(results, "batches", worst, "kernel_batch_s", MICROSECONDS), ")."),
        ),
    )


_COLD_WORDS = {
    "init": "to start the driver",
    "context": "for the context",
    "module": "to load the kernel",
    "allocation": "for the buffers",
}


def _cold(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Give what a fresh process pays, beside a warm pass and what the source printed."""
    for row in rows_of(_own(results, "cold_starts", subject)):
        memory = results.text("cold_starts", row, "host_memory")
        parts: list[Part] = ["From the start of the driver to the product of "]
        parts += [*variant(results, "cold_starts", row), " at "]
        parts += [*size(results, "cold_starts", row), f" from {memory} host memory, a fresh "]
        parts += ["process takes "]
        parts += measured(results, "cold_starts", row, "total_s", MILLISECONDS)
        if not math.isnan(float(results.frame("cold_starts").at[row, "ratio"])):
            ratio = measured(results, "cold_starts", row, "ratio", TIMES)
            parts += [", ", *ratio, " as long as a warm pass"]
        for position, (part, words) in enumerate(_COLD_WORDS.items()):
            time = cell(results, "cold_starts", row, f"{part}_s", MILLISECONDS)
            parts += [", " if position else ": ", time, f" {words}"]
        yield Sentence("cold", STATED, (*parts, ".", *_printed_cold(results)))


def _printed_cold(results: Results) -> list[Part]:
    """Return the shortest GPU time that the source printed in its Table 5."""
    frame = results.frame("table5")
    printed = frame[frame["source"] == PUBLISHED]
    times = printed[[column for column in frame if column.endswith("_time_s")]]
    if times.empty:
        return []
    row, column = times.stack().idxmin()
    time = results.cell("table5", int(row), str(column), as_published(MILLISECONDS))
    return [" In the source's table of tiles no time is below ", time, "."] if time else []


def _neighbours(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Say whether the traffic of the host's other GPUs slows the copies, at the largest order."""
    own = _own(results, "neighbours", subject)
    own = own[own["quantity"].isin(_WAYS)]
    if own.empty:
        return
    own = own[own["n"] == own["n"].max()]
    for memory, rows in own.groupby("host_memory", sort=True):
        yield _neighbours_of(results, str(memory), rows)


def _neighbours_of(results: Results, memory: str, rows: pd.DataFrame) -> Sentence:
    """Say whether the traffic slows copies from and to one kind of host memory."""
    words = set(rows["verdict"])
    overall = next(word for word in _SLOWS if word in words)
    slows = "slows some copies" if SLOWER in words and len(words) > 1 else _SLOWS[overall]
    first = rows_of(rows)[0]
    parts: list[Part] = [f"With {memory} host memory the traffic of the host's other GPUs ("]
    parts += [order(results, "neighbours", first, "neighbours"), f") {slows}"]
    parts += [f" at N{_NBSP}={_NBSP}", order(results, "neighbours", first)]
    for quantity, way in _WAYS.items():
        for row in rows_of(rows[rows["quantity"] == quantity]):
            ratio = measured(results, "neighbours", row, "ratio", TIMES)
            word = results.text("neighbours", row, "verdict")
            parts += [": " if quantity == "h2d" else ", ", f"{way} ", *ratio]
            parts += [f" of the time alone ({word})"]
    return Sentence(f"neighbours_{memory}", overall, (*parts, "."))


_WAYS = {"h2d": "the copy to the card takes", "d2h": "that back"}
# What is said, by the worst verdict among the copies.
_SLOWS = {
    SLOWER: "slows copies",
    UNDECIDED: "may or may not slow copies",
    FASTER: "does not slow copies",
    SAME: "does not slow copies",
}


_QUANTITIES = {
    "total": "total times",
    "kernel": "kernel times",
    "kernel_batch": "kernel times",
}


def agreement_sentences(results: Results) -> list[tuple[str, Sentence]]:
    """Return what pair of recordings each sentence is on, and how many of their medians agree."""
    frame = results.frame("agreement")
    found: list[tuple[str, Sentence]] = []
    labels = [frame[f"gpu_{side}"].fillna(frame[f"recording_{side}"]) for side in "ab"]
    for (a, b), pair in frame.groupby(labels, sort=False):
        tolerance = cell(results, "agreement", rows_of(pair)[0], "tolerance", as_published(PERCENT))
        parts: list[Part] = ["Within ", tolerance, " of each other are the medians of "]
        for position, row in enumerate(rows_of(pair)):
            quantity = _QUANTITIES[results.text("agreement", row, "quantity")]
            kind = results.text("agreement", row, "kind")
            parts += [", " if position else ""]
            parts += [cell(results, "agreement", row, "cells_agreeing", COUNT), " of "]
            parts += [cell(results, "agreement", row, "cells", COUNT), f" {quantity} ({kind}; "]
            parts += [cell(results, "agreement", row, "share", PERCENT), ")"]
        found.append((f"{a} and {b}", Sentence("agreement", STATED, (*parts, "."))))
    return found
