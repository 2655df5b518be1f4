"""What must hold between a recording's provenance and its tables, and of the values in them."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import cpu_reference.catalog
import kernels.catalog.entries
from kernels.cubins.build import INSTRUMENTS
from kernels.products.elements import ELEMENTS
from measurement.recording.files import CELL, KERNEL, PROVENANCE, user_supplied
from study.cells import CPU

_CHECKS, _SAMPLES = "checks.csv", "samples.csv.gz"
_AFTERWARDS = ("counters.csv", "accuracy.csv")  # may be of orders that were not timed
# What may stand in a column, besides nothing where that is allowed.
_ALLOWED = {
    "status": {"passed", "failed", "not_launchable"},
    "dtype": set(ELEMENTS),
    "host_memory": {"pinned", "pageable"},
    "build": {"exact", "guarded"},
    "caches": {"warm", "flushed"},
    "scope": {"kernel", "loop"},
}
_OF_GPUS = set(kernels.catalog.entries.VARIANTS)
_VARIANTS = {
    CPU: set(cpu_reference.catalog.VARIANTS),
    "a GPU": _OF_GPUS,
    "a build": _OF_GPUS | {build.variant for build in INSTRUMENTS},
}
_PATTERNS = {"architecture": "sm_[0-9]{2,3}[af]?"}
# A time shorter or longer was not taken, nor is a number larger that of anything.
_TIMES_S = (1e-12, 1e10)
_LARGEST = 2.0**53
_MAY_BE_ZERO = {"other_threads_s"}  # threads of which none was needed
_MAY_BE_INFINITE = {"worst_error", "worst_bound"}  # a product that overflowed
_FROM_ONE = {"batch", "m", "n", "k", "block_size", "threads", "launches", "count"}


def text_fault(column: str, text: str) -> str | None:
    """Return why a text cannot be in a column; None: it can."""
    known = _ALLOWED.get(column)
    if known and text not in known:
        return f"{text!r} is none of {sorted(known)}"
    if column in _PATTERNS and not re.fullmatch(_PATTERNS[column], text):
        return f"{text!r} is none"
    return None


def number_fault(column: str, values: np.ndarray, there: np.ndarray) -> tuple[int, str] | None:
    """Return the place of the first number that cannot be in a column, and why; None: all can.

    `there`: where the column has one.
    """
    least, most = _bounds(column)
    wrong = there & ~((least <= values) & (values <= most))
    if not wrong.any():
        return None
    said = "has no time" if column.endswith("_s") else "has no number that anything has"
    return int(wrong.argmax()), said


def _bounds(column: str) -> tuple[float, float]:
    if column.endswith("_s") and column not in _MAY_BE_ZERO:
        return _TIMES_S
    if column in _MAY_BE_INFINITE:
        return 0.0, float("inf")
    return float(column in _FROM_ONE), _LARGEST


def fault(provenance: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> str | None:
    """Return what first contradicts itself in a recording; None: nothing does.

    Every row is of a device that the provenance names, and of a variant of the catalogs or one
    whose source it names as user-supplied; every cell and kernel was checked, once; of those that passed,
    and of no others, there are samples.
    """
    devices = {CPU, *(card["device"] for card in provenance["devices"])}
    outside = set(user_supplied(provenance))
    checks, numbers = frames[_CHECKS], dict[str, int]()
    coded = {
        name: _coded(frame, CELL if "threads" in frame else KERNEL, numbers)
        for name, frame in frames.items()
        if name not in _AFTERWARDS and set(KERNEL) <= set(frame)
    }
    cells, sampled = coded[_CHECKS], coded[_SAMPLES]
    if len(np.unique(cells)) < len(cells):
        return f"{_CHECKS}: a cell stands there twice ({_named(checks, checks.duplicated(CELL))})"
    kernels_checked = _coded(checks, KERNEL, numbers)
    for name, frame in frames.items():
        found = _first_fault(name, frame, devices, outside)
        if found is None and name in coded:
            lacking = ~np.isin(coded[name], cells if "threads" in frame else kernels_checked)
            if lacking.any():
                found = (
                    f"{name}: a row is of a cell that {_CHECKS} lacks ({_named(frame, lacking)})"
                )
        if found:
            return found
    passed = (checks["status"] == "passed").to_numpy(dtype=bool)
    strange = ~np.isin(sampled, cells[passed])
    if strange.any():
        told = _named(frames[_SAMPLES], strange)
        return f"{_SAMPLES}: has a cell that did not pass ({told})"
    lacking = passed & ~np.isin(cells, sampled)
    return (
        f"{_SAMPLES}: lacks a cell that passed ({_named(checks, lacking)})"
        if lacking.any()
        else None
    )


def _first_fault(
    name: str, frame: pd.DataFrame, devices: set[str], outside: set[str]
) -> str | None:
    key = [column for column in ("device", "variant") if column in frame]
    for at, *values in frame[key].drop_duplicates().itertuples() if key else ():
        of = dict(zip(key, values, strict=True))
        device = of.get("device")
        kind = "a build" if device is None else CPU if device == CPU else "a GPU"
        known = _VARIANTS[kind] if kind == CPU else _VARIANTS[kind] | outside
        if device is not None and device not in devices:
            problem = f"{device}, which is no device of {PROVENANCE}"
        elif "variant" in of and of["variant"] not in known:
            problem = f"{of['variant']}, which is no variant of {kind}"
        else:
            continue
        return f"{name}: row {at + 2} is of {problem}"
    return None


def _coded(frame: pd.DataFrame, key: list[str], numbers: dict[str, int]) -> np.ndarray:
    """Return a number of 64 bits for each row, by its values in some columns.

    Rows that differ in them have the same number once in 10¹⁹; as objects they would take fifty
    times the memory. `numbers` has a number for each text so far, and gets those of others.
    """
    rows = np.zeros(len(frame), np.uint64)
    for name in key:
        values = frame[name].array
        if isinstance(values, pd.arrays.IntegerArray):
            codes = values.to_numpy(np.int64, na_value=-1)
        else:
            places, found = pd.factorize(values)
            codes = np.array([*(numbers.setdefault(text, len(numbers)) for text in found), -1])
            codes = codes[places]
        # Steps of SplitMix64 (Steele, Lea and Flood 2014), which spread what differs over all bits.
        rows = (rows ^ codes.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            rows = (rows ^ (rows >> np.uint64(shift))) * np.uint64(factor)
        rows ^= rows >> np.uint64(31)
    return rows


def _named(rows: pd.DataFrame, where: Any) -> str:
    first = rows[where].iloc[0]
    return " ".join(str(first[name]) for name in KERNEL if pd.notna(first[name]))
