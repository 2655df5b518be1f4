"""Consistency checks of a recording: between provenance and tables, and of values."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import cpu_reference.catalog
import kernels.catalog.entries
from kernels.cubins.build import INSTRUMENTS, STEPS
from kernels.products.elements import ELEMENTS
from measurement.recording.files import CELL, KERNEL, PROVENANCE, user_supplied
from study.cells import CPU

_CHECKS, _SAMPLES = "checks.csv", "samples.csv.gz"
_ADDED = ("counters.csv", "accuracy.csv")  # may contain sizes that were not timed
# Allowed values of columns.
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
    "a build": _OF_GPUS | {build.variant for build in INSTRUMENTS} | STEPS,
}
_PATTERNS = {"architecture": "sm_[0-9]{2,3}[af]?"}
# Plausible times, and the largest plausible number.
_TIMES_S = (1e-12, 1e10)
_LARGEST = 2.0**53
_MAY_BE_ZERO = {"other_threads_s"}  # 0 for a single thread
_MAY_BE_INFINITE = {"worst_error", "worst_bound"}  # if a product overflowed
_AT_LEAST_ONE = {"batch", "m", "n", "k", "block_size", "threads", "launches", "count"}


def text_fault(column: str, text: str) -> str | None:
    """Return why a text is invalid in a column; None if it is valid."""
    known = _ALLOWED.get(column)
    if known and text not in known:
        return f"{text!r} is not one of {sorted(known)}"
    if column in _PATTERNS and not re.fullmatch(_PATTERNS[column], text):
        return f"{text!r} is not valid"
    return None


def number_fault(column: str, values: np.ndarray, given: np.ndarray) -> tuple[int, str] | None:
    """Return the index of the first invalid number in a column, and why; None if all are valid.

    `given` is False where a value is missing.
    """
    least, most = _bounds(column)
    wrong = given & ~((least <= values) & (values <= most))
    if not wrong.any():
        return None
    at = int(wrong.argmax())
    return at, f"is {values[at]:g}, not from {least:g} to {most:g}"


def _bounds(column: str) -> tuple[float, float]:
    if column.endswith("_s") and column not in _MAY_BE_ZERO:
        return _TIMES_S
    if column in _MAY_BE_INFINITE:
        return 0.0, float("inf")
    return float(column in _AT_LEAST_ONE), _LARGEST


def fault(provenance: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> str | None:
    """Return the first inconsistency of a recording; None if there is none.

    Each row's device must be in the provenance, and its variant in a catalog or in the
    provenance's user-supplied sources. Each cell and kernel must have one check. A cell must have
    samples if and only if it passed.
    """
    devices = {CPU, *(gpu["device"] for gpu in provenance["devices"])}
    outside = set(user_supplied(provenance))
    checks, numbers = frames[_CHECKS], dict[str, int]()
    coded = {
        name: _coded(frame, CELL if "threads" in frame else KERNEL, numbers)
        for name, frame in frames.items()
        if name not in _ADDED and set(KERNEL) <= set(frame)
    }
    cells, sampled = coded[_CHECKS], coded[_SAMPLES]
    if len(np.unique(cells)) < len(cells):
        return f"{_CHECKS}: a cell is listed twice ({_named(checks, checks.duplicated(CELL))})"
    kernels_checked = _coded(checks, KERNEL, numbers)
    for name, frame in frames.items():
        found = _first_fault(name, frame, devices, outside)
        if found is None and name in coded:
            missing = ~np.isin(coded[name], cells if "threads" in frame else kernels_checked)
            if missing.any():
                found = f"{name}: a row's cell is missing in {_CHECKS} ({_named(frame, missing)})"
        if found:
            return found
    passed = (checks["status"] == "passed").to_numpy(dtype=bool)
    strange = ~np.isin(sampled, cells[passed])
    if strange.any():
        named = _named(frames[_SAMPLES], strange)
        return f"{_SAMPLES}: contains a cell that did not pass ({named})"
    missing = passed & ~np.isin(cells, sampled)
    if missing.any():
        return f"{_SAMPLES}: a passed cell is missing ({_named(checks, missing)})"
    return None


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
            problem = f"{device} is not a device of {PROVENANCE}"
        elif "variant" in of and of["variant"] not in known:
            problem = f"{of['variant']} is not a variant of {kind}"
        else:
            continue
        return f"{name}: row {at + 2}: {problem}"
    return None


def _coded(frame: pd.DataFrame, key: list[str], numbers: dict[str, int]) -> np.ndarray:
    """Return a 64-bit hash of each row's values in the columns `key`.

    Different rows collide with a probability of 10⁻¹⁹; row objects would take fifty times the
    memory. `numbers` maps texts to numbers and is extended.
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
        # Mixing steps of SplitMix64 (Steele, Lea and Flood 2014).
        rows = (rows ^ codes.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            rows = (rows ^ (rows >> np.uint64(shift))) * np.uint64(factor)
        rows ^= rows >> np.uint64(31)
    return rows


def _named(rows: pd.DataFrame, where: Any) -> str:
    first = rows[where].iloc[0]
    return " ".join(str(first[name]) for name in KERNEL if pd.notna(first[name]))
