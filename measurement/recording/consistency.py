"""Rules for the rows, tables and provenance of a recording, and for several recordings."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cpu_reference.catalog
from base.dictionary import FILES
from base.errors import StudyError
from kernels.catalog.catalog import Catalog
from kernels.catalog.user_supplied import catalog_of
from kernels.cubins.build import INSTRUMENTS, STEPS
from measurement.recording.files import PROVENANCE, RecordingError
from measurement.recording.provenance_schema import CLOCK_SLACK_S
from measurement.recording.schema import BUILD, CELL, KERNEL
from study.cells import CPU

_CHECKS, _SAMPLES, _CEILINGS = "checks.csv", "samples.csv.gz", "ceilings.csv"
_ADDED = ("counters.csv", "accuracy.csv")  # may contain sizes that were not timed
_FORM = ["variant", "dtype", "block_size"]
# Columns of a run's parts, which follow each other, and of the values that distinguish two samples.
_PARTS = ["host_s", "h2d_s", "kernel_s", "d2h_s"]
_CLOCKS_DIFFER = 1.01  # the CPU times the run, the GPU its parts
# Columns with the time of a row, and with the number of runs of which it is the mean.
_TIMES = {_SAMPLES: ("total_s", None), "kernels.csv.gz": ("kernel_s", "launches")}
# Shorter samples may be equal by chance, because clocks count nanoseconds.
_DISTINCT_S = 2e-5
_LONGEST = 300  # longest quoted error, in characters
_MOST_EQUAL = 0.25  # largest share of equal samples; it is 0.0004 in the published recordings


def fault(provenance: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> str | None:
    """Return the first broken rule of a recording as text; None if there is none."""
    return next(_faults(provenance, frames), None)


def _faults(provenance: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield each broken rule of a recording as text.

    Each row's device must be in the provenance. Its variant, data type and block size must be in
    the catalog extended by the user-supplied sources of the provenance. No row may have the key of
    another row. Each cell and kernel must have one check, each GPU at least one. A cell must have
    samples if and only if it passed. Times must fit into the recording, and the parts of a run into
    its total.
    """
    gpus = [gpu["device"] for gpu in provenance["devices"]]
    try:
        catalog = catalog_of(provenance.get("texts", {}))
    except StudyError as error:
        yield f"{PROVENANCE}: {error!s:.{_LONGEST}}"
        return
    checks = frames[_CHECKS]
    coded = {
        name: _coded(frame, CELL if "threads" in frame else KERNEL)
        for name, frame in frames.items()
        if set(KERNEL) <= set(frame)
    }
    cells, sampled = coded[_CHECKS], coded[_SAMPLES]
    kernels_checked = _coded(checks, KERNEL)
    for name, frame in frames.items():
        yield from _strangers(name, frame, {CPU, *gpus}, catalog)
        yield from _repeated(name, frame)
        for wrong, rule in _row_faults(name, frame, provenance):
            if np.any(wrong):
                yield f"{name}: row {int(np.argmax(wrong)) + 2}: {rule}"
        yield from _too_long(name, frame, provenance)
    for name in sorted(coded.keys() - {*_ADDED}):
        frame = frames[name]
        missing = ~np.isin(coded[name], cells if "threads" in frame else kernels_checked)
        if missing.any():
            yield f"{name}: a row's cell is missing in {_CHECKS} ({_named(frame, missing)})"
    for gpu in gpus:
        if not (checks["device"] == gpu).any():
            yield f"{_CHECKS}: contains no row of {gpu}, a device of {PROVENANCE}"
    passed = (checks["status"] == "passed").to_numpy(dtype=bool)
    strange = ~np.isin(sampled, cells[passed])
    if strange.any():
        named = _named(frames[_SAMPLES], strange)
        yield f"{_SAMPLES}: contains a cell that did not pass ({named})"
    missing = passed & ~np.isin(cells, sampled)
    if missing.any():
        yield f"{_SAMPLES}: a passed cell is missing ({_named(checks, missing)})"


def _strangers(
    name: str, frame: pd.DataFrame, devices: set[str], catalog: Catalog
) -> Iterator[str]:
    """Yield a fault for each row whose device or variant is unknown.

    A variant that does not exist with the data type and block size of the row is unknown, too.
    """
    key = [column for column in ("device", *_FORM) if column in frame]
    for at, *values in frame[key].drop_duplicates().itertuples() if key else ():
        of = dict(zip(key, values, strict=True))
        if "device" in of and of["device"] not in devices:
            yield f"{name}: row {at + 2}: {of['device']} is not a device of {PROVENANCE}"
        elif "variant" in of and (said := _form_fault(of, catalog)):
            yield f"{name}: row {at + 2}: {of['variant']} {said}"


def _form_fault(row: Mapping[str, Any], catalog: Catalog) -> str | None:
    """Return why a row's variant does not exist with its data type and block size."""
    name, dtype = row["variant"], row["dtype"]
    block = None if pd.isna(row["block_size"]) else int(row["block_size"])
    if row.get("device") == CPU:
        on_cpu = cpu_reference.catalog.VARIANTS.get(name)
        if not on_cpu:
            return f"is not a variant of {CPU}"
        fits = (block is not None) == on_cpu.blocked and dtype == "float32"
        return None if fits else f"does not exist for {dtype} with block size {block}"
    entry = catalog.get(name)
    if "device" not in row and (not entry or not entry.kernel_name):
        without_kernel = STEPS | {build.variant for build in INSTRUMENTS}
        return None if name in without_kernel else "is not a variant of a build"
    if not entry:
        return "is not a variant of a GPU"
    if entry.fixed_blocks:
        fits = entry.takes_block(entry.block_size(block))
    else:  # a study chooses the sizes
        fits = (block is not None) == (entry.block_sizes is not None)
    return (
        None
        if fits and dtype in entry.dtypes
        else f"does not exist for {dtype} with block size {block}"
    )


def _repeated(name: str, frame: pd.DataFrame) -> Iterator[str]:
    for key in map(list, FILES[name].keys):
        rows = _coded(frame, key)
        ordered = np.sort(rows)  # takes less memory than a hash table
        if (ordered[1:] == ordered[:-1]).any():
            yield f"{name}: {_same_rows(rows, key)}"


def _same_rows(rows: np.ndarray, key: list[str]) -> str:
    again = int(pd.Series(rows).duplicated().argmax())
    first = int((rows == rows[again]).argmax())
    names = {"cell": CELL, "kernel": KERNEL, "build": BUILD}
    what = next((kind for kind, columns in names.items() if set(columns) <= set(key)), "device")
    part = names.get(what, ["device"])
    same = " and ".join([what, *(column for column in key if column not in part)])
    return f"rows {first + 2} and {again + 2} have the same {same}"


def _row_faults(
    name: str, frame: pd.DataFrame, provenance: Mapping[str, Any]
) -> Iterator[tuple[Any, str]]:
    """Yield for each rule of a table which rows break it, and the rule as text."""
    if "device" not in frame:
        return
    on_cpu = (frame["device"] == CPU).to_numpy(bool)
    if "threads" in frame and name != _CEILINGS:
        yield frame["threads"].notna() != on_cpu, "a CPU has threads, a GPU has none"
        yield frame["host_memory"].isna() != on_cpu, "a GPU has a host memory, a CPU has none"
    elif name != _CEILINGS:
        yield on_cpu, "only GPUs have rows in this table"
    if "total_s" in frame:
        most = _CLOCKS_DIFFER * frame["total_s"]
        yield frame["kernel_s"] > most, "kernel_s is longer than total_s"
        yield frame[_PARTS].sum(axis=1) > most, "the parts of the run are longer than total_s"
    if "time_unix_s" in frame:
        begin, end = _begin_end_s(provenance)
        inside = frame["time_unix_s"].between(begin - CLOCK_SLACK_S, end + CLOCK_SLACK_S)
        yield ~inside, "time_unix_s is not between started_utc and finished_utc"


def _too_long(name: str, frame: pd.DataFrame, provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yield a fault for each device whose runs took longer than the whole recording."""
    if name not in _TIMES:
        return
    column, count = _TIMES[name]
    begin, end = _begin_end_s(provenance)
    times = frame[column] * (frame[count].astype(float) if count else 1.0)
    for device, time_s in times.groupby(frame["device"]).sum().items():
        if time_s > end - begin + CLOCK_SLACK_S:
            yield (
                f"{name}: column {column}: the runs of {device} take {time_s:.3g} s, longer than "
                f"the recording ({end - begin:g} s)"
            )


def _begin_end_s(provenance: Mapping[str, Any]) -> list[float]:
    names = ("started_utc", "finished_utc")
    return [datetime.fromisoformat(provenance[name]).timestamp() for name in names]


def fingerprint(samples: pd.DataFrame) -> np.ndarray:
    """Return a 64-bit hash of each sample: of its cell, without the device, and of its times.

    Names, rounds, order and dates do not affect it. Very short samples are omitted.
    """
    times = ["total_s", *(name for name in (*_PARTS, "in_run_kernel_s") if name in samples)]
    hashes: np.ndarray = _coded(samples, [*CELL[1:], *times])
    return hashes[(samples["total_s"] >= _DISTINCT_S).to_numpy(bool)]


def check_distinct(samples: Iterable[tuple[Path, np.ndarray]]) -> None:
    """Raise RecordingError, naming both, if two recordings contain the same samples.

    `samples` has the folder of each recording, and the result of `fingerprint`.
    """
    seen: list[tuple[Path, np.ndarray]] = []
    for path, hashes in samples:
        for other, seen_hashes in seen:
            equal = int(np.isin(hashes, seen_hashes).sum())
            if equal > _MOST_EQUAL * min(len(hashes), len(seen_hashes)):
                raise RecordingError(
                    f"recording {path}: {equal} of {len(hashes)} samples are also in {other}; "
                    "remove one of the two from gpus in the config"
                )
        seen.append((path, hashes))


def _coded(frame: pd.DataFrame, key: list[str]) -> np.ndarray:
    """Return a 64-bit hash of each row's values in the columns `key`.

    Two different rows have the same hash with a probability of 10⁻¹⁹. Hashes are used because row
    objects would take fifty times the memory.
    """
    codes: np.ndarray = pd.util.hash_pandas_object(frame[key], index=False).to_numpy()
    return codes


def _named(rows: pd.DataFrame, where: Any) -> str:
    first = rows[where].iloc[0]
    return " ".join(str(first[name]) for name in KERNEL if pd.notna(first[name]))
