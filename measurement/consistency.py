"""What must hold between a recording's provenance and its tables, and of the values in them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

import cpu_reference.catalog
import kernels.catalog
from kernels.cubins import INSTRUMENTS
from kernels.variant import ELEMENTS
from measurement.cells import CPU
from measurement.recording_files import CELL, KERNEL, PROVENANCE, brought

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
_VARIANTS = {CPU: set(cpu_reference.catalog.VARIANTS), "a GPU": set(kernels.catalog.VARIANTS)}
_BUILT = _VARIANTS["a GPU"] | {build.variant for build in INSTRUMENTS}
_PATTERNS = {"architecture": "sm_[0-9]{2,3}[af]?"}
# A time shorter or longer was not taken, nor is a number larger that of anything.
_TIMES_S = (1e-12, 1e10)
_LARGEST = 2.0**53
_MAY_BE_ZERO = {"other_threads_s"}  # threads of which none was needed
_MAY_BE_INFINITE = {"worst_error", "worst_bound"}  # a product that overflowed
_ROWS_AT_ONCE = 1 << 16
_FROM_ONE = {"batch", "m", "n", "k", "block_size", "threads", "launches", "count"}


def value_fault(column: str, values: pd.Series) -> tuple[int, str] | None:
    """Return the place of the first value that cannot be in a column, and why; None: all can."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        least, most = _bounds(column)
        if not len(values.dropna()) or least <= values.min() <= values.max() <= most:
            return None
        wrong = ~values.between(least, most) & values.notna()
        said = "has no time" if column.endswith("_s") else "has no number that anything has"
    elif column in _ALLOWED or column in _PATTERNS:
        known = _ALLOWED.get(column)
        fits = values.isin(known) if known else values.str.fullmatch(_PATTERNS[column])
        wrong = ~fits & values.notna()
        said = f"is none of {sorted(known)}" if known else "is none"
    else:
        return None
    if not wrong.any():
        return None
    place = int(wrong.to_numpy(dtype=bool, na_value=False).argmax())
    shown = "" if pd.api.types.is_numeric_dtype(values.dtype) else f"{values.iloc[place]!r} "
    return place, f"{shown}{said}"


def _bounds(column: str) -> tuple[float, float]:
    if column.endswith("_s") and column not in _MAY_BE_ZERO:
        return _TIMES_S
    if column in _MAY_BE_INFINITE:
        return 0.0, float("inf")
    return float(column in _FROM_ONE), _LARGEST


def fault(provenance: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> str | None:
    """Return what first contradicts itself in a recording; None: nothing does.

    Every row is of a device that the provenance names, and of a variant of the catalogs or one
    whose source it names as brought; every cell and kernel was checked, once; of those that passed,
    and of no others, there are samples.
    """
    devices = {CPU, *(card["device"] for card in provenance["devices"])}
    outside = set(brought(provenance))
    checks = frames[_CHECKS]
    cells = _distinct(checks, CELL)
    if len(cells) < len(checks):
        return f"{_CHECKS}: a cell stands there twice ({_named(checks, checks.duplicated(CELL))})"
    kernels_checked = _distinct(checks, KERNEL)
    for name, frame in frames.items():
        found = _first_fault(name, frame, devices, outside)
        if found is None and name not in (_CHECKS, *_AFTERWARDS) and set(KERNEL) <= set(frame):
            key, known = (CELL, cells) if "threads" in frame else (KERNEL, kernels_checked)
            own = _distinct(frame, key)
            found = _unknown(own, known, f"{name}: a row is of a cell that {_CHECKS} lacks")
        if found:
            return found
    passed = _distinct(checks[checks["status"] == "passed"], CELL)
    sampled = _distinct(frames[_SAMPLES], CELL)
    return _unknown(sampled, passed, f"{_SAMPLES}: has a cell that did not pass") or _unknown(
        passed, sampled, f"{_SAMPLES}: lacks a cell that passed"
    )


def _first_fault(
    name: str, frame: pd.DataFrame, devices: set[str], outside: set[str]
) -> str | None:
    if "device" in frame:
        strange = ~frame["device"].isin(devices)
        if strange.any():
            at, device = int(strange.argmax()), frame["device"][strange].iloc[0]
            return f"{name}: row {at + 2} is of {device}, which is no device of {PROVENANCE}"
    if "variant" not in frame:
        return None
    if "device" not in frame:
        kinds = {"a build": (_BUILT | outside, pd.Series(True, frame.index))}
    else:
        on_cpu = frame["device"] == CPU
        of_gpus = _VARIANTS["a GPU"] | outside
        kinds = {CPU: (_VARIANTS[CPU], on_cpu), "a GPU": (of_gpus, ~on_cpu)}
    for kind, (known, of_kind) in kinds.items():
        strange = of_kind & ~frame["variant"].isin(known)
        if strange.any():
            at, variant = int(strange.argmax()), frame["variant"][strange].iloc[0]
            return f"{name}: row {at + 2} is of {variant}, which is no variant of {kind}"
    return None


def _distinct(frame: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the distinct rows of some columns; found in parts, in a fraction of the memory."""
    starts = range(0, len(frame), _ROWS_AT_ONCE) or [0]
    parts = [frame.iloc[at : at + _ROWS_AT_ONCE][key].drop_duplicates() for at in starts]
    return pd.concat(parts).drop_duplicates()


def _unknown(rows: pd.DataFrame, known: pd.DataFrame, problem: str) -> str | None:
    """Say which of `rows` is first not among those known."""
    side = rows.merge(known, how="left", on=list(rows), indicator=True)["_merge"]
    lacking = (side == "left_only").to_numpy()
    return f"{problem} ({_named(rows, lacking)})" if lacking.any() else None


def _named(rows: pd.DataFrame, where: Any) -> str:
    first = rows[where].iloc[0]
    return " ".join(str(first[name]) for name in KERNEL if pd.notna(first[name]))
