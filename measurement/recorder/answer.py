"""The result of a small recording as a table in the terminal: the fastest kernel first."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from base.command_line import ABSENT, table
from base.intervals import median_interval
from kernels.catalog.entries import REFERENCE
from measurement.recording.recording import KERNEL, Recording, plain_rows
from study.cells import CPU, Cell

_HEADS = ("kernel", "B", "size", "type", "kernel ms", "95 % interval", "TFLOP/s", "of cuBLAS")
_MEMORIES = ("pinned", "pageable")


def answer(recording: Recording, ladder_of: str | None = None) -> list[str]:
    """Return one table per device: medians of kernel-only and end-to-end times in milliseconds.

    "of cuBLAS" is the library's time divided by the kernel's, for the same product. Cells that did
    not pass are listed below with their reasons. With `ladder_of`, this variant is marked, the
    other variants have only their fastest block size, and only failures of this variant are listed.
    """
    lines = []
    names = {d["device"]: d["name"] for d in recording.provenance["devices"]}
    names[CPU] = recording.provenance["host"]["cpu_model"]
    every = _kernels(recording)
    for device, name in names.items():
        kernels = [one for one in every if one.cell.device == device]
        if not kernels or (ladder_of and device == CPU):
            continue
        kinds = [""] if device == CPU else [f" ({memory})" for memory in _MEMORIES]
        heads = [*_HEADS, *(f"end-to-end ms{kind}" for kind in kinds)]
        lines += [f"{name} ({device})", *table([heads, *_rows(kernels, ladder_of)])]
    failed = recording.checks[recording.checks["status"] != "passed"]
    failed = failed.drop_duplicates([*KERNEL, "reason"])
    failed = failed[failed["variant"] == ladder_of] if ladder_of else failed
    for row in plain_rows(failed):
        block = "" if row["block_size"] is None else f" B={row['block_size']}"
        status = str(row["status"]).replace("_", " ")
        lines.append(f"{row['variant']}{block}, {Cell.of(row).shape}: {status}: {row['reason']}")
    return lines


@dataclass(frozen=True)
class _Kernel:
    """The times of one kernel in seconds: median and interval, kernel-only or end-to-end.

    `kernel_only` says which. `total_s` are the median end-to-end times by host memory.
    """

    cell: Cell
    median_s: float
    low_s: float
    high_s: float
    kernel_only: bool
    total_s: dict[str | None, float]

    @property
    def product(self) -> tuple[str, str]:
        return self.cell.dtype, str(self.cell.shape)

    def texts(self, library_s: float | None) -> Iterator[str]:
        number = self.cell.product.row()["block_size"]
        yield self.cell.variant
        yield ABSENT if number is None else str(number)
        yield str(self.cell.shape)
        yield self.cell.dtype
        yield _ms(self.median_s) if self.kernel_only else ABSENT
        has_interval = self.kernel_only and not pd.isna(self.low_s)
        yield f"{_ms(self.low_s)}–{_ms(self.high_s)}" if has_interval else ABSENT
        yield f"{self.cell.shape.flop / self.median_s / 1e12:.4g}"
        yield f"{library_s / self.median_s:.1%}" if library_s and self.kernel_only else ABSENT
        for memory in _MEMORIES if self.cell.device != CPU else [None]:
            yield _ms(self.total_s[memory]) if memory in self.total_s else ABSENT


def _kernels(recording: Recording) -> list[_Kernel]:
    """Return the kernels of a recording, sorted by size of the product, then by time."""
    runs: dict[Cell, dict[str | None, list[float]]] = {}
    kernel_s: dict[Cell, list[float]] = defaultdict(list)
    for row in plain_rows(recording.samples):
        by_memory = runs.setdefault(Cell.kernel_of(row), defaultdict(list))
        by_memory[row["host_memory"]].append(row["total_s"])
    for row in plain_rows(recording.kernels):
        kernel_s[Cell.kernel_of(row)].append(row["kernel_s"])
    kernels = []
    for cell, by_memory in runs.items():
        times = kernel_s[cell] or [time_s for part in by_memory.values() for time_s in part]
        totals = {memory: float(np.median(part)) for memory, part in by_memory.items()}
        interval = median_interval(np.array(times))
        kernels.append(_Kernel(cell, *interval, bool(kernel_s[cell]), totals))
    return sorted(kernels, key=lambda one: (one.cell.shape.flop, one.product, one.median_s))


def _rows(kernels: list[_Kernel], ladder_of: str | None) -> Iterator[list[str]]:
    library = {one.product: one.median_s for one in kernels if one.cell.variant == REFERENCE}
    fastest = {(one.product, one.cell.variant): one for one in reversed(kernels)}
    for one in kernels:
        row = list(one.texts(library.get(one.product)))
        if one.cell.variant == ladder_of:
            yield [f"> {row[0]}", *row[1:]]
        elif not ladder_of or fastest[one.product, one.cell.variant] is one:
            yield row


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g}"
