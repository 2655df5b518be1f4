"""The source's Tables 1–6 in the report: each published row above its measured twin."""

import pandas as pd

from analysis.data.published import SOURCE as PUBLISHED
from analysis.data.recordings import CPU
from analysis.results import (
    COUNT,
    GFLOPS,
    MILLISECONDS,
    SECONDS,
    TIMES,
    Results,
    Subject,
    Unit,
    as_published,
    compared_memory,
    order_cells,
)
from analysis.views import Cell, Column, Row, Table, measured_with, number
from analysis.wording import Code, Part
from kernels.plan import BASELINE_BLOCK

_SOURCE_TITLES = {
    1: "Naive multiplication on CPU and GPU, the source's older machine",
    2: "Naive multiplication on CPU and GPU, the source's newer machine",
    3: "A column of B in shared memory",
    4: "A column of B or a row of A in shared memory",
    5: "Tiles of A and B in shared memory: block",
    6: "Four elements a thread: block_unroll4",
}
# The source's tables: number and title.
SOURCE_TABLES = tuple(_SOURCE_TITLES.items())


def source_table(results: Results, which: int, subject: Subject | None, anchor: str) -> Table:
    """Return one of the source's tables: each published row next to its measured twin.

    Without `subject` the published rows stand alone.
    """
    name = f"table{which}"
    frame = results.frame(name)
    measures = [c for c in frame if c.endswith(("_time_s", "flop_per_s", "gain"))]
    wanted = [PUBLISHED] + ([subject.label] if subject else [])
    own = frame[frame["source"].isin(wanted)]
    own = own.assign(place=own["source"].map({source: i for i, source in enumerate(wanted)}))
    rows = []
    for index in own.sort_values(["n", "place"]).index:
        row = int(index)
        printed = frame.at[row, "source"] == PUBLISHED
        cells = [number(results, name, row, "n", COUNT)]
        source = results.text(name, row, "source")
        cells.append(Cell((source,)) if printed or not subject else source_cell(subject, source))
        for column in measures:
            unit = _unit_of(column)
            unit = as_published(unit) if printed else unit
            cells.append(number(results, name, row, column, unit, mark_interval=not printed))
        rows.append(Row(tuple(cells), PUBLISHED if printed else ""))
    columns = [Column("N"), Column("source", is_number=False)]
    columns += [Column(_heading(column, which), _unit_of(column).name) for column in measures]
    caption = _source_caption(results, which, subject, own)
    title = f"Table {which}, {subject.label if subject else PUBLISHED}"
    return Table(anchor, title, caption, tuple(columns), tuple(rows), (name,))


def source_cell(subject: Subject, source: str) -> Cell:
    """Return the cell that names a card by its `source`, marked where it is simulated."""
    return Cell((Code(source),), badge="SIMULATED" if subject.simulated else "")


def _unit_of(column: str) -> Unit:
    if column.endswith("gain"):
        return TIMES
    if column.endswith("flop_per_s"):
        return GFLOPS
    return SECONDS if column.startswith("cpu") else MILLISECONDS


def _heading(column: str, which: int) -> str:
    """Return a column's heading, such as "B = 8 gain" for ``block_8_gain`` of Table 5."""
    kinds = {"time_s": "time", "flop_per_s": "rate", "gain": "gain"}
    suffix, text = next((end, kind) for end, kind in kinds.items() if column.endswith(end))
    stem = column.removesuffix(suffix).rstrip("_")
    if which in (1, 2):
        return f"{stem.upper()} {text}".strip()
    block = stem.rsplit("_", 1)[-1]
    return f"B\u00a0=\u00a0{block} {text}" if block.isdigit() else f"{stem} {text}"


def _source_caption(
    results: Results, which: int, subject: Subject | None, rows: pd.DataFrame
) -> tuple[Part, ...]:
    published = rows[rows["source"] == PUBLISHED]["machine"]
    machines = " and ".join(str(machine) for machine in published.dropna().unique())
    parts: list[Part] = [f"Published: {machines}. "]
    measured = rows[rows["source"] == subject.label] if subject else rows[:0]
    if subject is None or measured.empty:
        return (*parts, "Measured: nothing.")
    cells = order_cells(results)
    cells = cells[cells["n"].isin(measured["n"])]
    naive = cells["variant"] == "naive"
    baseline = naive & (cells["block_size"] == BASELINE_BLOCK)
    gpu = cells[(cells["gpu"] == subject.label) & (cells["device"] != CPU)]
    gpu = gpu[baseline[gpu.index] | gpu["variant"].isin(_VARIANTS[which])]
    gpu = gpu[gpu["host_memory"] == compared_memory(gpu)]
    cpu = cells[(cells["recording"] == subject.recording) & (cells["device"] == CPU) & naive]
    return (*parts, *measured_with(results, subject, gpu, cpu if which in (1, 2) else cpu[:0]))


# Which variants stand beside the naive one.
_VARIANTS: dict[int, tuple[str, ...]] = {
    1: (),
    2: (),
    3: ("buffered_column",),
    4: ("buffered_column", "buffered_row"),
    5: ("block",),
    6: ("block_unroll4",),
}
