"""The report's tables on steps, machine code and ceilings: why a kernel is as fast as it is."""

import pandas as pd

from analysis.kernel_views import (
    OPERATIONS,
    Columns,
    compared_kernel_memory,
    largest,
    samples_of,
)
from analysis.kernels.machine_code import EXACT
from analysis.results import (
    COUNT,
    GFLOPS,
    MILLISECONDS,
    PERCENT,
    PLAIN,
    TIMES,
    Results,
    Subject,
    Unit,
    compared_memory,
    comparison_order,
    rows_of,
)
from analysis.views import Cell, Column, Row, Table, number, plain_table
from analysis.wording import Code, Part, shape, variant
from kernels.build import architecture

# What bounds the time of a kernel from below, by its name in roofline.csv.
BOUND_NAMES = {
    "compute": "multiply-adds",
    "l1": "first-level cache",
    "shared": "shared memory",
    "dram": "device memory",
}
_LOADS = {"global_loads": "LDG", "shared_loads": "LDS", "shared_stores": "STS"}


def ladder_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return every step at its largest shape: what it gains and what changed in the build."""
    frame = results.frame("ladder")
    own = largest(frame[frame["gpu"] == subject.label], ["variant", "dtype"])
    kernel = own[own["quantity"] == "kernel"]
    kernel = kernel[kernel["host_memory"] == compared_kernel_memory(kernel)]
    total = own[(own["quantity"] == "total") & (own["host_memory"] == compared_memory(own))]
    totals = {(row.variant, row.dtype): int(row.Index) for row in total.itertuples()}
    rows = []
    for index in rows_of(kernel):
        total_row = totals.get((frame.at[index, "variant"], frame.at[index, "dtype"]))
        cells = [
            Cell(tuple(variant(results, "ladder", index))),
            Cell(_after(results, index)),
            Cell((results.text("ladder", index, "dtype"),)),
            Cell(tuple(shape(results, "ladder", index))),
            number(results, "ladder", index, "time_s", MILLISECONDS),
            number(results, "ladder", index, "gain", TIMES),
            Cell((results.text("ladder", index, "verdict"),)),
        ]
        if total_row is None:
            cells += [Cell(("–",)), Cell(("–",))]
        else:
            cells.append(number(results, "ladder", total_row, "gain", TIMES))
            cells.append(Cell((results.text("ladder", total_row, "verdict"),)))
        rows.append(Row((*cells, Cell((results.text("ladder", index, "changed") or "–",)))))
    columns = (
        *(Column(title, is_number=False) for title in ("step", "after", "elements")),
        *(Column("shape"), Column("kernel", "ms"), Column("gain, kernel", "×")),
        *(Column("verdict", is_number=False), Column("gain, total", "×")),
        *(Column("verdict", is_number=False), Column("in the machine code", is_number=False)),
    )
    caption = (
        "Each step at the largest shape that it and the step before were measured with, "
        f"{subject.marked_title}: the time of the step before over its own, and what differs "
        "between the builds. Both in the same blocks where both take some, else each in its "
        "fastest. Intervals of gains are from the bootstrap; a step pays where its interval lies "
        "above 1.",
        *samples_of(results, subject, own),
    )
    name = f"Steps, {subject.label}"
    return Table(anchor, name, caption, columns, tuple(rows), ("ladder",))


def _after(results: Results, row: int) -> tuple[Part, ...]:
    block = results.cell("ladder", row, "after_block_size", COUNT)
    name = Code(results.text("ladder", row, "after"))
    return (name, " (B\u00a0=\u00a0", block, ")") if block else (name,)


def machine_code_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return what the compiler made of each exact build, beside the times of its kernel."""
    frame = results.frame("machine_code")
    own = frame[(frame["recording"] == subject.recording) & (frame["build"] == EXACT)]
    own = own[own["architecture"] == _architecture(results, subject)]
    cells = results.frame("summary")
    cells = cells[(cells["gpu"] == subject.label) & cells["kernel_s"].notna()]
    cells = cells[cells["host_memory"] == compared_kernel_memory(cells)]
    square = (cells["m"] == cells["n"]) & (cells["k"] == cells["n"]) & (cells["batch"] == 1)
    cells = cells[square]
    orders = sorted({comparison_order(cells), int(cells["n"].max())}) if len(cells) else []
    rows = []
    for index in rows_of(own):
        fields = [
            Cell((Code(results.text("machine_code", index, "variant")),)),
            Cell((results.text("machine_code", index, "dtype"),)),
            *(_code_cell(results, index, column, kind) for column, (_, kind) in _CODE.items()),
            *(Cell(_accesses(results, index, name)) for name in _LOADS),
        ]
        for n in orders:
            row = _timed(cells[cells["n"] == n], frame.loc[index])
            for column, unit in (("kernel_s", MILLISECONDS), ("kernel_flop_per_s", OPERATIONS)):
                found = (
                    Cell(("–",)) if row is None else number(results, "summary", row, column, unit)
                )
                fields.append(found)
        rows.append(Row(tuple(fields)))
    columns = [Column("kernel", is_number=False), Column("elements", is_number=False)]
    columns += [
        Column(title, kind.name if isinstance(kind, Unit) else "", kind != "text")
        for title, kind in _CODE.values()
    ]
    columns += [Column(f"{code} in the loop", is_number=False) for code in _LOADS.values()]
    for n in orders:
        columns += [Column(f"kernel at N = {n}", "ms"), Column(f"rate at N = {n}", "Gop/s")]
    caption = (
        "What the compiler made of each kernel without bounds checks, beside its times on "
        f"{subject.marked_title}. Occupancy is the theoretical one, with what allows no more of "
        "it. In the main loop: the share of multiply-adds, how many steps along k a turn does, and "
        "loads and stores by width. Conflicts are wavefronts beyond the fewest a request, by "
        "theory; flop a byte are over what threads load, and over sectors loaded and stored.",
        *samples_of(results, subject, cells[cells["n"].isin(orders)]),
    )
    name = f"Machine code, {subject.label}"
    return Table(anchor, name, caption, tuple(columns), tuple(rows), ("machine_code", "summary"))


_CODE: Columns = {
    "block_size": ("B", "count"),
    "registers_per_thread": ("registers", "count"),
    "static_shared_bytes": ("static shared", "count"),
    "dynamic_shared_bytes": ("dynamic shared", "count"),
    "spill_store_bytes": ("spilled", "count"),
    "threads_per_block": ("threads a block", "count"),
    "occupancy": ("occupancy", PERCENT),
    "limiter": ("limited by", "text"),
    "instructions": ("instructions", "count"),
    "multiply_add_share": ("multiply-adds", PERCENT),
    "loop_instructions": ("loop, instructions", "count"),
    "loop_multiply_add_share": ("loop, multiply-adds", PERCENT),
    "unrolling": ("loop, steps of k", "number"),
    "loop_barriers": ("loop, barriers", "count"),
    "shared_load_conflicts_per_request": ("conflicts a shared load", "number"),
    "shared_store_conflicts_per_request": ("conflicts a shared store", "number"),
    "flop_per_byte_accessed": ("flop a byte loaded", "number"),
    "flop_per_byte_of_sectors": ("flop a byte of sectors", "number"),
}


def _code_cell(results: Results, row: int, column: str, kind: str | Unit) -> Cell:
    if kind == "text":
        return Cell((results.text("machine_code", row, column) or "–",))
    unit = kind if isinstance(kind, Unit) else COUNT if kind == "count" else PLAIN
    return number(results, "machine_code", row, column, unit)


def _accesses(results: Results, row: int, name: str) -> tuple[Part, ...]:
    """Return the loads or stores of the main loop by width: "32 × LDS.32, 8 × LDS.128"."""
    frame = results.frame("machine_code")
    parts: list[Part] = []
    for bits in (32, 64, 128):
        column = f"loop_{name}_{bits}"
        if frame.at[row, column] > 0:
            value = results.cell("machine_code", row, column, COUNT)
            code = Code(_LOADS[name] + ("" if bits == 32 else f".{bits}"))
            parts += [", " if parts else "", value or "", "\u00a0×\u00a0", code]
    return tuple(parts) or ("–",)


def _timed(cells: pd.DataFrame, build: pd.Series) -> int | None:
    """Return the row of summary.csv of a kernel in the build's block size and elements."""
    same = (cells["variant"] == build["variant"]) & (cells["dtype"] == build["dtype"])
    block = build["block_size"]
    same &= cells["block_size"].isna() if pd.isna(block) else cells["block_size"] == block
    return int(cells.index[same][0]) if same.any() else None


def _architecture(results: Results, subject: Subject) -> str:
    limits = results.frame("limits")
    own = limits.loc[limits["gpu"] == subject.label, "compute_capability"]
    return architecture(str(own.iloc[0])) if len(own) else ""


def roofline_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return each variant's kernel against the ceilings of the card."""
    frame = results.frame("roofline")
    own = frame[frame["gpu"] == subject.label].sort_values("kernel_flop_per_s", ascending=False)
    columns: Columns = {
        "variant": ("variant", "code"),
        "block_size": ("B", "count"),
        "n": ("N", "count"),
        "kernel_s": ("kernel", MILLISECONDS),
        "kernel_flop_per_s": ("rate", GFLOPS),
        "flop_per_byte_of_sectors": ("flop a byte of sectors", "number"),
        **{f"{name}_bound_s": (f"by {text}", MILLISECONDS) for name, text in BOUND_NAMES.items()},
        "bound": ("nearest bound", "text"),
        "share_of_bound": ("share of it reached", PERCENT),
    }
    caption = (
        f"Each variant's kernel on {subject.marked_title} at its largest N, in its fastest blocks "
        "(naive: B\u00a0=\u00a032), beside the least time that each ceiling of the card leaves "
        "it: its multiply-adds at the card's rate, its sectors at the bandwidth of the first-level "
        "cache, its wavefronts at that of shared memory, A, B and C once at that of device memory. "
        "Sectors and wavefronts are those of theory, with neighbouring loads merged.",
        *samples_of(results, subject, own),
    )
    rows, name = rows_of(own), f"Ceilings and kernels, {subject.label}"
    return plain_table(results, "roofline", rows, columns, anchor, name, caption)
