"""The report's tables on break-even orders, the transfer model, and held-out orders."""

from collections.abc import Mapping

from analysis.decide.advise import OPPONENTS
from analysis.decide.break_even import STUDY
from analysis.decision_findings import WAYS, break_even_parts
from analysis.results import (
    COUNT,
    GIGABYTES,
    MICROSECONDS,
    MILLISECONDS,
    PERCENT,
    Results,
    Subject,
    Unit,
    rows_of,
    subjects,
)
from analysis.views import Cell, Column, Row, Table, number, plain_table

_LOG = Unit(1.0, "", 2)
_MEGABYTES = Unit(1e-6, "MB", 3)
_KERNELS = {STUDY: "of this study"}


def decision_tables(results: Results, names: Mapping[str, str]) -> dict[str, list[Table]]:
    """Return the tables of every GPU by its label; `names` are the anchors by label."""
    makers = {
        "break-even": break_even_table,
        "transfers": transfers_table,
        "predictions": predictions_table,
    }
    return {
        gpu.label: [
            make(results, gpu, f"table-{name}-{names[gpu.label]}") for name, make in makers.items()
        ]
        for gpu in subjects(results)
        if gpu.is_gpu
    }


def break_even_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return from which order on a card is faster than each way of its CPU."""
    frame = results.frame("break_even")
    rows = []
    for index in frame.index[frame["gpu"] == subject.label]:
        row = int(index)
        text = {
            name: results.text("break_even", row, name)
            for name in ("opponent", "host_memory", "kernels")
        }
        opponent, kernels = text["opponent"], text["kernels"]
        cells = [Cell((opponent.shown_as(OPPONENTS[opponent]),)), Cell((text["host_memory"],))]
        cells += [Cell((kernels.shown_as(_KERNELS.get(kernels, "of the library")),))]
        cells += [Cell(tuple(break_even_parts(results, row)))]
        counts = ("loses_at", "wins_at", "cells_without_interval")
        cells += [number(results, "break_even", row, name, COUNT) for name in counts]
        rows.append(Row(tuple(cells)))
    columns = (
        *(Column(title, is_number=False) for title in ("on the CPU", "memory", "kernels")),
        Column("the card is faster", is_number=False),
        *(Column(title) for title in ("last N lost", "first N won", "cells without interval")),
    )
    caption = (
        f"The smallest N from which on {subject.marked_title}, copies included, stays faster than "
        "the CPU, up to the largest N that both have. In brackets the interval, by bootstrap of "
        "the medians and of what the curves between them may be off by; a cell without interval "
        "counts as known.",
    )
    name = f"Break-even, {subject.label}"
    return Table(anchor, name, caption, columns, tuple(rows), ("break_even",))


def transfers_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return the fits of the transfer model on one card."""
    frame = results.frame("transfers")
    rows = []
    for index in frame.index[frame["gpu"] == subject.label]:
        row = int(index)
        text = {
            name: results.text("transfers", row, name)
            for name in ("host_memory", "direction", "data", "model", "used")
        }
        way = WAYS.get(text["direction"], "beside copies and kernel")
        badge = "used" if text["used"] == "True" else ""
        way = text["direction"].shown_as(way)
        cells = [Cell((text["host_memory"],)), Cell((way,)), Cell((text["data"],))]
        cells += [Cell((text["model"],), badge=badge)]
        cells += [
            number(results, "transfers", row, name, unit, mark_interval=text["model"] == "line")
            for name, (_, unit) in _TRANSFERS.items()
        ]
        rows.append(Row(tuple(cells)))
    columns = (
        *(Column(title, is_number=False) for title in ("memory", "way", "copies", "model")),
        *(Column(title, unit.name) for title, unit in _TRANSFERS.values()),
    )
    caption = (
        f"Time of a copy = latency + bytes/bandwidth, {subject.marked_title}. Passes: the copies "
        "of whole passes, whose buffers were in use before; single copies: of buffers that were "
        "not. With a knee, what is beyond it moves at another bandwidth. Errors are logarithms; "
        "left out: each size predicted by the others. The model with the badge predicts.",
    )
    name = f"Transfer model, {subject.label}"
    return Table(anchor, name, caption, columns, tuple(rows), ("transfers",))


_TRANSFERS = {
    "sizes": ("sizes", COUNT),
    "latency_s": ("latency", MICROSECONDS),
    "bytes_per_s": ("bandwidth", GIGABYTES),
    "knee_bytes": ("knee", _MEGABYTES),
    "beyond_bytes_per_s": ("beyond the knee", GIGABYTES),
    "log_rms": ("error of the fit", _LOG),
    "left_out_log_rms": ("error, left out", _LOG),
    "holdout_log_rms": ("error, held-out orders", _LOG),
}


def predictions_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return, at the held-out orders, the fastest kernels and the library's."""
    frame = results.frame("predictions")
    own = frame[frame["gpu"] == subject.label]
    marked = [own[name].astype(str) == "True" for name in _MARKS]
    shown = own[marked[0] | marked[1] | marked[2]].sort_values(["n", "host_memory", "time_s"])

    def decorate(row: int, column: str) -> str:
        names = [text for name, text in _MARKS.items() if _is(results, row, name)]
        return ", ".join(names) if column == "variant" else ""

    columns: dict[str, tuple[str, str | Unit]] = {
        "variant": ("variant", "code"),
        "block_size": ("B", "count"),
        "host_memory": ("memory", "text"),
        "n": ("N", "count"),
        "time_s": ("measured", MILLISECONDS),
        "predicted_s": ("predicted", MILLISECONDS),
        "error_share": ("error", PERCENT),
        "inside": ("in the interval", "flag"),
    }
    caption = (
        f"Passes at orders that took no part in any fit, {subject.marked_title}: the fastest as "
        "measured and as predicted, and the library's; all others are in the CSV. In small print "
        "the interval of the median, and that of the prediction.",
    )
    rows = rows_of(shown)
    name = f"Passes at held-out orders, {subject.label}"
    return plain_table(results, "predictions", rows, columns, anchor, name, caption, decorate)


_MARKS = {
    "is_fastest": "fastest",
    "is_predicted_fastest": "predicted fastest",
    "is_library": "library",
}


def _is(results: Results, row: int, name: str) -> bool:
    return results.text("predictions", row, name) == "True"
