"""A small recording as a table for the terminal: one row per kernel, the fastest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from base.command_line import ABSENT, table
from base.intervals import median_interval
from kernels.catalog.entries import LIBRARIES
from kernels.products.shape import Shape
from measurement.recording.recording import KERNEL, Recording
from study.cells import CPU

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
    for device, name in names.items():
        if ladder_of and device == CPU:
            continue
        rows = _rows(recording, device, ladder_of)
        if rows:
            kinds = [""] if device == CPU else [f" ({memory})" for memory in _MEMORIES]
            totals = [f"end-to-end ms{kind}" for kind in kinds]
            lines += [f"{name} ({device})", *table([[*_HEADS, *totals], *rows])]
    failed = recording.checks[recording.checks["status"] != "passed"]
    failed = failed.drop_duplicates([*KERNEL, "reason"])
    failed = failed[failed["variant"] == ladder_of] if ladder_of else failed
    for row in failed.to_dict("records"):
        block = "" if pd.isna(row["block_size"]) else f" B={row['block_size']}"
        status = str(row["status"]).replace("_", " ")
        lines.append(f"{row['variant']}{block}, {_shape(row)}: {status}: {row['reason']}")
    return lines


def _rows(recording: Recording, device: str, ladder_of: str | None) -> list[list[str]]:
    samples = recording.samples[recording.samples["device"] == device]
    kernels = []
    for _, runs in samples.groupby(KERNEL, dropna=False, sort=False):
        first = runs.iloc[0].to_dict()
        kernel_s = _of_kernel(recording.kernels, first)["kernel_s"]
        times = (kernel_s if len(kernel_s) else runs["total_s"]).to_numpy(float)
        kernels.append(_Kernel(first, *median_interval(times), bool(len(kernel_s)), runs))
    kernels.sort(key=lambda one: (one.flop, str(one.product), one.median_s))
    library = {one.product: one.median_s for one in kernels if one.cell["variant"] in LIBRARIES}
    if ladder_of:
        firsts = {(one.product, one.cell["variant"]): one for one in reversed(kernels)}
        kernels = [
            one for one in kernels if one.cell["variant"] == ladder_of or one in firsts.values()
        ]
    rows = [[*one.texts(library.get(one.product)), *one.totals()] for one in kernels]
    for row in rows:
        row[0] = f"> {row[0]}" if row[0] == ladder_of else row[0]
    return rows


@dataclass(frozen=True)
class _Kernel:
    """Median and interval in seconds: kernel-only times (`kernel_only`) or end-to-end times."""

    cell: dict[str, Any]
    median_s: float
    low_s: float
    high_s: float
    kernel_only: bool
    runs: pd.DataFrame

    @property
    def product(self) -> tuple[Any, ...]:
        return tuple(self.cell[name] for name in ("dtype", "batch", "m", "n", "k"))

    @property
    def flop(self) -> int:
        return _shape(self.cell).flop

    def texts(self, library_s: float | None) -> Iterator[str]:
        yield str(self.cell["variant"])
        yield ABSENT if pd.isna(self.cell["block_size"]) else str(self.cell["block_size"])
        yield str(_shape(self.cell))
        yield str(self.cell["dtype"])
        yield _ms(self.median_s) if self.kernel_only else ABSENT
        has_interval = self.kernel_only and not pd.isna(self.low_s)
        yield f"{_ms(self.low_s)}–{_ms(self.high_s)}" if has_interval else ABSENT
        yield f"{self.flop / self.median_s / 1e12:.4g}"
        yield f"{library_s / self.median_s:.1%}" if library_s and self.kernel_only else ABSENT

    def totals(self) -> Iterator[str]:
        memories = self.runs["host_memory"]
        for memory in _MEMORIES if self.cell["device"] != CPU else [None]:
            runs = self.runs.loc[memories.isna() if memory is None else memories == memory]
            yield _ms(runs["total_s"].median()) if len(runs) else ABSENT


def _of_kernel(rows: pd.DataFrame, first: dict[str, Any]) -> pd.DataFrame:
    same = pd.Series(True, rows.index)
    for name in KERNEL:
        value = first[name]
        same &= rows[name].isna() if pd.isna(value) else (rows[name] == value).fillna(False)
    return rows[same.astype(bool)]


def _shape(row: dict[str, Any]) -> Shape:
    return Shape(*(int(row[edge]) for edge in ("batch", "m", "n", "k")))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g}"
