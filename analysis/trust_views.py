"""The report's tables on how far the numbers can be trusted; long lists of cells are cut short."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.cpu.cells import ALL, ONE, with_threads
from analysis.results import (
    CELSIUS,
    COUNT,
    CYCLES,
    FACTOR,
    GFLOPS,
    GIGABYTES,
    MEGAHERTZ,
    MICROSECONDS,
    MILLISECONDS,
    NANOSECONDS,
    PERCENT,
    SECONDS,
    TIMES,
    WATTS,
    Results,
    Subject,
    Unit,
    as_published,
    rows_of,
)
from analysis.trust.measuring import TOTAL
from analysis.trust.threats import WIDE
from analysis.views import Cell, Column, Row, Table, number, plain_table
from analysis.wording import Part

# Cells of a list shown in the page; the CSV has them all.
LONGEST_LIST = 40

# What is measured of a card: heading, quantity, host memory, unit.
_CEILINGS: tuple[tuple[str, str, str | None, Unit], ...] = (
    ("multiply-adds, single precision", "fp32_flop_per_s", None, GFLOPS),
    ("copy on the card, read and written", "device_copy_bytes_per_s", None, GIGABYTES),
    ("copy to the card, pinned", "h2d_bytes_per_s", "pinned", GIGABYTES),
    ("copy to the card, pageable", "h2d_bytes_per_s", "pageable", GIGABYTES),
    ("copy back, pinned", "d2h_bytes_per_s", "pinned", GIGABYTES),
    ("copy back, pageable", "d2h_bytes_per_s", "pageable", GIGABYTES),
    ("latency, shared memory", "shared_latency_s", None, NANOSECONDS),
    ("latency, first-level cache", "l1_latency_s", None, NANOSECONDS),
    ("latency, second-level cache", "l2_latency_s", None, NANOSECONDS),
    ("latency, device memory", "dram_latency_s", None, NANOSECONDS),
    ("step of the host's clock", "timer_resolution_s", None, NANOSECONDS),
    ("pass without copies and kernel", "empty_total_s", None, MICROSECONDS),
    ("events without a copy between them", "empty_h2d_s", None, MICROSECONDS),
    ("events without a kernel between them", "empty_kernel_s", None, MICROSECONDS),
)
# The same of a host's CPU: on one thread, on all, or (None) not of threads.
_ON_HOST: tuple[tuple[str, str, str | None, Unit], ...] = (
    ("CPU: multiply-adds, single precision, one thread", "fp32_flop_per_s", ONE, GFLOPS),
    ("CPU: the same, all threads", "fp32_flop_per_s", ALL, GFLOPS),
    ("CPU: triad in memory, one thread", "memory_bytes_per_s", ONE, GIGABYTES),
    ("CPU: the same, all threads", "memory_bytes_per_s", ALL, GIGABYTES),
    ("CPU: triad in the first-level cache", "l1_bytes_per_s", ONE, GIGABYTES),
    ("CPU: triad in the second-level cache", "l2_bytes_per_s", ONE, GIGABYTES),
    ("CPU: triad in the third-level cache", "l3_bytes_per_s", ONE, GIGABYTES),
    ("CPU: step of the clock", "timer_resolution_s", None, NANOSECONDS),
    ("CPU: sample without a product", "empty_total_s", None, NANOSECONDS),
)
_CELL: dict[str, tuple[str, str | Unit]] = {
    "variant": ("variant", "code"),
    "dtype": ("elements", "text"),
    "n": ("shape", "shape"),
    "block_size": ("B", "count"),
    "host_memory": ("memory", "text"),
}


def ceilings_table(results: Results, measured: list[Subject], anchor: str) -> Table:
    """Return what each card and its host can do at most, one column a card.

    Of copies between host and card it is the rate of the largest size.
    """
    frame = results.frame("ceilings")
    owned = [
        (subject, frame[frame["gpu"] == subject.label], _host_rows(frame, subject))
        for subject in measured
    ]
    rows = []
    for heading, quantity, memory, unit in _CEILINGS:
        cells = [_ceiling(results, own, quantity, memory, unit) for _, own, _ in owned]
        rows.append(_named_row(results, quantity, heading, cells))
    for heading, quantity, threads, unit in _ON_HOST:
        of_threads = [own[_are_of(own, threads)] for _, _, own in owned]
        cells = [_ceiling(results, own, quantity, None, unit) for own in of_threads]
        rows.append(_named_row(results, quantity, heading, cells))
    columns = [Column("what", is_number=False), *(Column(s.label) for s, _, _ in owned)]
    caption = (
        "Measured ceilings: the most that card, link, CPU and clock do. Copies between host and "
        "card are of the largest size; the triad of a CPU reads two arrays and writes a third "
        "(STREAM). Medians over rounds, below each its interval.",
    )
    shown = [row for row in rows if any(cell.parts != ("–",) for cell in row.cells[1:])]
    return Table(anchor, "Ceilings", caption, tuple(columns), tuple(shown), ("ceilings",))


def _named_row(results: Results, quantity: str, heading: str, cells: Sequence[Cell]) -> Row:
    """Return the row of one ceiling; its heading stands for the quantity's name in the CSV."""
    of = results.frame("ceilings")["quantity"]
    rows = of.index[of == quantity]
    named = (
        results.text("ceilings", int(rows[0]), "quantity").shown_as(heading) if len(rows) else ""
    )
    return Row((Cell((named or heading,)), *cells))


def _are_of(own: pd.DataFrame, threads: str | None) -> pd.Series:
    """Tell which rows are of a CPU on one thread or on all; None: which are not of threads."""
    return own["threads"].isna() if threads is None else with_threads(own, threads)


def _host_rows(frame: pd.DataFrame, subject: Subject) -> pd.DataFrame:
    return frame[(frame["recording"] == subject.recording) & frame["gpu"].isna()]


def _ceiling(
    results: Results, own: pd.DataFrame, quantity: str, memory: str | None, unit: Unit
) -> Cell:
    """Return one ceiling with its unit, and a latency in cycles too."""
    rows = own[(own["quantity"] == quantity) & (memory is None or own["host_memory"] == memory)]
    if rows.empty:
        return Cell(("–",))
    largest = int(rows["size_bytes"].fillna(0).astype(float).idxmax())
    shown = number(results, "ceilings", largest, "value", unit)
    value = results.cell("ceilings", largest, "value", unit)
    parts: list[Part] = [value] if value else []
    cycles = own[own["quantity"] == quantity.removesuffix("_s") + "_cycles"]
    if not cycles.empty:
        second = results.cell("ceilings", int(cycles.index[0]), "value", CYCLES)
        parts += [", ", second] if second else []
    return Cell(tuple(parts), shown.low, shown.high, shown.note)


def phases_table(results: Results, anchor: str) -> Table:
    """Return where the time of every recording went."""
    columns: dict[str, tuple[str, str | Unit]] = {
        "recording": ("recording", "code"),
        "device": ("device", "code"),
        "phase": ("phase", "text"),
        "wall_s": ("took", SECONDS),
        "busy_s": ("in copies, kernels, products", SECONDS),
        "share_not_busy": ("rest", PERCENT),
    }
    rows = list(results.frame("phases").index)
    caption = (
        "How long each part of a measurement took, and how long of it the device was at work. "
        f"The row {TOTAL} sums up its device; neighbours are measured on all cards at once.",
    )
    title = "Where the time of measuring went"
    return plain_table(results, "phases", rows, columns, anchor, title, caption)


def agreement_table(results: Results, anchor: str) -> Table:
    """Return how many medians of recordings of the same kind of card agree."""
    columns: dict[str, tuple[str, str | Unit]] = {
        "recording_a": ("A", "code"),
        "gpu_a": ("card of A", "code"),
        "recording_b": ("B", "code"),
        "gpu_b": ("card of B", "code"),
        "kind": ("cells", "text"),
        "quantity": ("time", "text"),
        "cells": ("in both", "count"),
        "cells_agreeing": ("agree", "count"),
        "share": ("share", PERCENT),
    }
    rows = list(results.frame("agreement").index)
    caption: list[Part] = ["Cells whose medians in two recordings of the same kind of card are "]
    if rows:
        tolerance = results.cell("agreement", int(rows[0]), "tolerance", as_published(PERCENT))
        caption += ["within ", tolerance or ""]
    caption += [" of each other."]
    name = "Agreement of recordings"
    return plain_table(results, "agreement", rows, columns, anchor, name, tuple(caption))


def apart_table(results: Results, anchor: str) -> Table:
    """Return the cells that agree least, with the state of both cards."""
    frame = results.frame("agreement_cells")
    apart = np.log(frame["ratio"].astype(float)).abs().sort_values(ascending=False, kind="stable")
    columns: dict[str, tuple[str, str | Unit]] = {
        "recording_a": ("A", "code"),
        "recording_b": ("B", "code"),
        "kind": ("cell", "text"),
        "quantity": ("time", "text"),
        **{name: kind for name, kind in _CELL.items() if name != "host_memory"},
        "median_a_s": ("A", MILLISECONDS),
        "median_b_s": ("B", MILLISECONDS),
        "ratio": ("B/A", FACTOR),
    }
    for side in "ab":
        columns |= {
            f"sm_clock_{side}_hz": (f"clock, {side.upper()}", MEGAHERTZ),
            f"temperature_max_{side}_celsius": (f"hottest, {side.upper()}", CELSIUS),
            f"power_{side}_w": (f"power, {side.upper()}", WATTS),
            f"samples_throttled_{side}": (f"throttled, {side.upper()}", "count"),
        }
    rows = rows_of(apart)
    caption = _cut(
        results, "agreement_cells", rows, "Cells whose medians do not agree, farthest apart first"
    )
    name, shown = "Cells that do not agree", rows[:LONGEST_LIST]
    return plain_table(results, "agreement_cells", shown, columns, anchor, name, caption)


def neighbours_table(results: Results, anchor: str) -> Table:
    """Return passes beside the traffic of other GPUs, over those alone."""
    frame = results.frame("neighbours")
    columns: dict[str, tuple[str, str | Unit]] = {
        "gpu": ("card", "code"),
        **_CELL,
        "neighbours": ("other GPUs", "count"),
        "quantity": ("time", "text"),
        "pairs": ("pairs", "count"),
        "alone_s": ("alone", MILLISECONDS),
        "beside_s": ("beside traffic", MILLISECONDS),
        "ratio": ("ratio", TIMES),
        "verdict": ("verdict", "text"),
    }
    moved = (frame["ratio"] - 1).abs().sort_values(ascending=False, kind="stable")
    rows = rows_of(moved)
    caption = (
        *_cut(results, "neighbours", rows, _BESIDE),
        " The verdict is on the passes beside it and controlled for many comparisons.",
    )
    name = "Neighbours' traffic"
    shown = rows[:LONGEST_LIST]
    return plain_table(results, "neighbours", shown, columns, anchor, name, caption)


_BESIDE = (
    "Passes alone and beside the traffic of the host's other GPUs, in pairs, those first whose "
    "times differ most"
)


def cold_starts_table(results: Results, anchor: str) -> Table:
    """Return what fresh processes paid until their first product."""
    columns: dict[str, tuple[str, str | Unit]] = {
        "gpu": ("card", "code"),
        **_CELL,
        "processes": ("processes", "count"),
        "init_s": ("driver", MILLISECONDS),
        "context_s": ("context", MILLISECONDS),
        "module_s": ("kernel loaded", MILLISECONDS),
        "allocation_s": ("buffers", MILLISECONDS),
        "h2d_s": ("copy to device", MILLISECONDS),
        "kernel_s": ("kernel", MILLISECONDS),
        "d2h_s": ("copy back", MILLISECONDS),
        "total_s": ("total", MILLISECONDS),
        "warm_total_s": ("warm pass", MILLISECONDS),
        "ratio": ("total over warm", TIMES),
    }
    caption = ("A program's first pass: medians over fresh processes, below each its interval.",)
    rows = list(results.frame("cold_starts").index)
    return plain_table(results, "cold_starts", rows, columns, anchor, "Cold starts", caption)


def threats_table(results: Results, anchor: str) -> Table:
    """Return what speaks against the numbers, a row a card (or a host without one)."""
    columns: dict[str, tuple[str, str | Unit]] = {
        "recording": ("recording", "code"),
        "gpu": ("card", "code"),
        "samples": ("samples", "count"),
        "samples_throttled": ("taken while it throttled", "count"),
        "share_throttled": ("their share", PERCENT),
        "share_moved": ("a total without them moves by, at most", PERCENT),
        "sm_clock_low_hz": ("clock, least", MEGAHERTZ),
        "sm_clock_high_hz": ("clock, most", MEGAHERTZ),
        "totals": ("totals", "count"),
        "totals_without_interval": ("without interval", "count"),
        "totals_wide": (f"whose interval reaches beyond {100 * WIDE:g}\u00a0%", "count"),
        "medians_compared": ("medians in another recording of the kind too", "count"),
        "medians_found_again": ("found again there", "count"),
        "cells_failed": ("cells failed", "count"),
        "stale": ("sources changed since", "flag"),
        "dirty": ("changes not committed", "flag"),
        "simulated": ("simulated", "flag"),
    }

    def decorate(row: int, column: str) -> str:
        flags = {"stale": "stale", "simulated": "SIMULATED"}
        is_set = column in flags and results.text("threats", row, column) == "True"
        return flags[column] if is_set else ""

    caption = (
        "What the recordings tell of threats to their own numbers. The CPU's totals count with "
        "each card of its host.",
    )
    rows, name = list(results.frame("threats").index), "Threats to validity"
    return plain_table(results, "threats", rows, columns, anchor, name, caption, decorate)


def telemetry_table(results: Results, anchor: str) -> Table:
    """Return the cells with marked samples whose totals move most without them."""
    frame = results.frame("telemetry")
    marked = frame[frame["samples_throttled"] > 0]
    moved = (marked["unmarked_total_s"] / marked["total_s"] - 1).abs()
    moved = moved.sort_values(ascending=False, na_position="first", kind="stable")
    rows = rows_of(moved)
    columns: dict[str, tuple[str, str | Unit]] = {
        "gpu": ("card", "code"),
        **_CELL,
        "samples": ("samples", "count"),
        "samples_throttled": ("marked", "count"),
        "throttle_reasons": ("reasons", "text"),
        "sm_clock_hz": ("clock", MEGAHERTZ),
        "sm_clock_min_hz": ("least clock", MEGAHERTZ),
        "temperature_max_celsius": ("hottest", CELSIUS),
        "power_w": ("power", WATTS),
        "total_s": ("total, all", MILLISECONDS),
        "unmarked_total_s": ("total, unmarked", MILLISECONDS),
        "kernel_s": ("kernel, all", MILLISECONDS),
        "unmarked_kernel_s": ("kernel, unmarked", MILLISECONDS),
    }
    text = "Cells with samples marked as throttled, those first that have no others or move most"
    caption = _cut(results, "telemetry", rows, text)
    name = "Cells with marked samples"
    return plain_table(results, "telemetry", rows[:LONGEST_LIST], columns, anchor, name, caption)


def _cut(results: Results, table: str, rows: list[int], text: str) -> tuple[Part, ...]:
    """Return a caption that says how many of the `rows` of a table are shown, if not all."""
    if len(rows) <= LONGEST_LIST:
        return (f"{text}.",)
    shown = results.derived(table, rows[:LONGEST_LIST], "variant.count()", COUNT)
    every = results.derived(table, rows, "variant.count()", COUNT)
    return (f"{text}: ", shown, " of ", every, "; the CSV file has them all.")
