"""The report's tables: columns, rows and captions, ready for the template, every number traced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.data.recordings import CPU
from analysis.results import (
    COUNT,
    GFLOPS,
    MILLISECONDS,
    PLAIN,
    TIMES,
    Number,
    Results,
    Subject,
    Text,
    Unit,
    interval_columns,
    order_cells,
    rows_of,
    without_swept_naive,
)
from analysis.wording import NO_INTERVAL, NOT_MEASURED, Code, Part, shape


@dataclass(frozen=True)
class Cell:
    """One cell: what it shows, the bounds of its interval, and a note in small print.

    `is_words`: it holds words of the report, such as a row's heading, and nothing of a CSV.
    """

    parts: tuple[Part, ...]
    low: Number | None = None
    high: Number | None = None
    note: str = ""
    badge: str = ""
    is_words: bool = False


@dataclass(frozen=True)
class Column:
    """A column's heading and unit; numbers are set flush right."""

    heading: str
    unit: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class Row:
    """A row; `kind` is its class in the style sheet ("published" or nothing)."""

    cells: tuple[Cell, ...]
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its caption; `files` are the CSV tables that hold its numbers.

    `name` is what a screen reader calls it, told apart from every other table's.
    """

    anchor: str
    name: str
    caption: tuple[Part, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    files: tuple[str, ...]


def words(text: str) -> Cell:
    """Return a cell of the report's own words."""
    return Cell((text,), is_words=True)


def flag(results: Results, table: str, row: int, column: str, unknown: str = "–") -> Text:
    """Return a truth value as "yes" or "no", a blank as `unknown`."""
    text = results.text(table, row, column)
    return text.shown_as({"True": "yes", "False": "no", "": unknown}.get(text, text))


def number(
    results: Results, table: str, row: int, column: str, unit: Unit, mark_interval: bool = True
) -> Cell:
    """Return the cell of a number with its interval, or of its absence.

    A number whose interval columns exist and are blank is marked as having none.
    """
    value = results.cell(table, row, column, unit)
    if value is None:
        return Cell(("–",))
    bounds = results.interval(table, row, column, unit)
    if bounds:
        return Cell((value.bare(),), bounds[0].bare(), bounds[1].bare())
    marked = mark_interval and interval_columns(column)[0] in results.frame(table)
    return Cell((value.bare(),), note=NO_INTERVAL if marked else "")


def measured_with(
    results: Results, subject: Subject, gpu: pd.DataFrame, cpu: pd.DataFrame
) -> list[Part]:
    """Return the sentence that says on what, from which memory and how often was measured.

    `gpu` and `cpu` are the rows of summary.csv behind the table.
    """
    parts: list[Part] = ["SIMULATED, not measured: " if subject.simulated else "Measured: "]
    if not gpu.empty:
        memories = " and ".join(sorted(gpu["host_memory"].dropna().unique()))
        parts += [f"{subject.name}, {memories} host memory"]
    if not cpu.empty:
        parts += ["" if gpu.empty else "; ", f"{subject.cpu_model} on ", *_threads(results, cpu)]
    rows = [*rows_of(gpu), *rows_of(cpu)]
    if not rows:
        return [*parts, "nothing."]
    parts += [". Medians of ", results.derived("summary", rows, "samples.min()", COUNT), " to "]
    parts += [results.derived("summary", rows, "samples.max()", COUNT)]
    return [*parts, " samples a cell; below each median its interval."]


def _threads(results: Results, cpu: pd.DataFrame) -> list[Part]:
    """Return on how many threads these rows of summary.csv are: "one thread and 16"."""
    counts = cpu["threads"].dropna()
    parts: list[Part] = ["one thread"] if counts.eq(1).any() else []
    if counts.gt(1).any():
        most = results.derived("summary", [int(i) for i in cpu.index], "threads.max()", COUNT)
        parts += [*([" and "] if parts else []), most, "" if parts else " threads"]
    return parts


def variants_table(results: Results, subject: Subject, n: int, anchor: str) -> Table:
    """Return every variant at order `n`, with its best block size, for each host memory kind."""
    summary = order_cells(results)
    cells = summary[(summary["gpu"] == subject.label) & (summary["device"] != CPU)]
    cells = without_swept_naive(cells[(cells["n"] == n) & cells["total_s"].notna()])
    best = cells.loc[cells.groupby(["variant", "host_memory"])["total_s"].idxmin()]
    rows = []
    for index in best.sort_values(["host_memory", "total_s"]).index:
        row = int(index)
        gains = _gain_row(results, subject, summary.loc[row])
        rows.append(
            Row(
                (
                    Cell((Code(results.text("summary", row, "variant")),)),
                    number(results, "summary", row, "block_size", COUNT),
                    Cell((results.text("summary", row, "host_memory"),)),
                    samples(results, row),
                    *(
                        number(results, "summary", row, f"{part}_s", MILLISECONDS)
                        for part in _PARTS
                    ),
                    number(results, "summary", row, "flop_per_s", GFLOPS),
                    number(results, "summary", row, "kernel_flop_per_s", GFLOPS),
                    *(
                        Cell(("–",))
                        if gains is None
                        else number(results, "gains", gains, name, TIMES)
                        for name in ("total_gain", "kernel_gain", "cpu_best_gain")
                    ),
                )
            )
        )
    columns = [Column("variant", is_number=False), Column("B"), Column("memory", is_number=False)]
    columns += [Column("samples"), *(Column(title, "ms") for title in _PARTS.values())]
    columns += [Column("rate, total", "GFLOP/s"), Column("rate, kernel", "GFLOP/s")]
    columns += [Column("gain over naive, total", "×"), Column("gain over naive, kernel", "×")]
    columns += [Column("gain over best CPU", "×")]
    caption: list[Part] = [
        f"Every variant at N\u00a0=\u00a0{n} with its best block; naive: B\u00a0=\u00a032. The "
        "best CPU is the fastest of all its versions, on one thread or all. "
    ]
    caption += measured_with(results, subject, best, best[:0])
    name = f"Every variant at N = {n}, {subject.label}"
    return Table(anchor, name, tuple(caption), tuple(columns), tuple(rows), ("summary", "gains"))


_PARTS = {
    "total": "total",
    "host": "host's work",
    "h2d": "copy to device",
    "kernel": "kernel",
    "d2h": "copy back",
    "overhead": "overhead",
}


def samples(results: Results, row: int) -> Cell:
    """Return the number of samples of a cell of summary.csv; a single one is marked."""
    count = results.cell("summary", row, "samples", COUNT)
    if count is None:
        return Cell(("–",))
    return Cell((count,), badge="single sample" if float(count.value) == 1 else "")


def _gain_row(results: Results, subject: Subject, cell: pd.Series) -> int | None:
    """Return the row of gains.csv for a cell of summary.csv."""
    gains = results.frame("gains")
    same = gains["source"] == subject.label
    for key in ("n", "variant", "host_memory"):
        same &= gains[key] == cell[key]
    block = cell["block_size"]
    same &= gains["block_size"].isna() if pd.isna(block) else gains["block_size"] == block
    return int(gains.index[same][0]) if same.any() else None


def cpu_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return every cell of a host's CPU."""
    summary = order_cells(results)
    cells = summary[(summary["recording"] == subject.recording) & (summary["device"] == CPU)]
    rows = []
    for index in cells.sort_values(["n", "total_s"]).index:
        row = int(index)
        rows.append(
            Row(
                (
                    number(results, "summary", row, "n", COUNT),
                    Cell((Code(results.text("summary", row, "variant")),)),
                    number(results, "summary", row, "block_size", COUNT),
                    number(results, "summary", row, "threads", COUNT),
                    samples(results, row),
                    number(results, "summary", row, "total_s", MILLISECONDS),
                    number(results, "summary", row, "flop_per_s", GFLOPS),
                )
            )
        )
    columns = (
        Column("N"),
        Column("variant", is_number=False),
        Column("cache block"),
        Column("threads"),
        Column("samples"),
        Column("time", "ms"),
        Column("rate", "GFLOP/s"),
    )
    caption = tuple(measured_with(results, subject, cells[:0], cells))
    name = f"CPU cells, {subject.label}"
    return Table(anchor, name, caption, columns, tuple(rows), ("summary",))


def plain_table(
    results: Results,
    name: str,
    rows: Sequence[int],
    columns: Mapping[str, tuple[str, str | Unit]],
    anchor: str,
    title: str,
    caption: tuple[Part, ...],
    decorate: Callable[[int, str], str] = lambda _row, _column: "",
) -> Table:
    """Return some rows of a CSV table.

    `columns` maps a CSV column to heading and kind: "count", "number", "code", "flag", "text",
    "shape" (of the product that the row is of), or the unit of a number that is shown with its
    interval; `decorate` gives a badge for a row and column.
    """

    def cell(row: int, column: str, kind: str | Unit) -> Cell:
        badge = decorate(row, column)
        if isinstance(kind, Unit):
            return replace(number(results, name, row, column, kind), badge=badge)
        if kind in ("count", "number"):
            value = results.cell(name, row, column, COUNT if kind == "count" else PLAIN)
            return Cell((value if value else "–",), badge=badge)
        if kind == "shape":
            return Cell(tuple(shape(results, name, row)), badge=badge)
        if kind == "flag":
            return Cell((flag(results, name, row, column),), badge=badge)
        text = results.text(name, row, column)
        return Cell(((Code(text) if kind == "code" else text) if text else "–",), badge=badge)

    body = [
        Row(tuple(cell(int(row), column, kind) for column, (_, kind) in columns.items()))
        for row in rows
    ]
    heads = [
        Column(title, kind.name)
        if isinstance(kind, Unit)
        else Column(title, is_number=kind in ("count", "number", "shape"))
        for title, kind in columns.values()
    ]
    return Table(anchor, title, caption, tuple(heads), tuple(body), (name,))


def environment_table(results: Results, anchor: str) -> Table:
    """Return the environment with one column a recording."""
    frame = results.frame("environment")
    recordings = list(dict.fromkeys(frame["recording"]))
    keys = zip(frame["recording"], frame["item"], strict=True)
    places = {key: row for row, key in enumerate(keys)}
    body = []
    for item in dict.fromkeys(frame["item"]):
        texts = [
            results.text("environment", places[recording, item], "value")
            if (recording, item) in places
            else NOT_MEASURED
            for recording in recordings
        ]
        named = results.text("environment", list(frame["item"]).index(item), "item")
        body.append(Row((Cell((named,)), *(Cell((text or "–",)) for text in texts))))
    columns = (
        Column("fact", is_number=False),
        *(Column(str(r), is_number=False) for r in recordings),
    )
    caption = ("Hosts, cards and software, one column a recording.",)
    return Table(anchor, "Environment", caption, columns, tuple(body), ("environment",))
