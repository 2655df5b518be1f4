"""Launch limits of each GPU (source H's table), as documented and as reported by the driver."""

import pandas as pd

from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from kernels.cubins.occupancy import LIMITS, WARP_SIZE

_SM, _SHARED = "per_multiprocessor", "shared_bytes_per_block"
# Limit, unit, field of `CapabilityLimits`, attribute in the provenance.
_LIMITS: tuple[tuple[str, str, str | None, str | None], ...] = (
    ("threads per block", "", "max_threads_per_block", "max_threads_per_block"),
    ("threads per warp", "", None, "warp_size"),
    ("threads per multiprocessor", "", f"max_warps_{_SM}", f"max_threads_{_SM}"),
    ("blocks per multiprocessor", "", f"max_blocks_{_SM}", f"max_blocks_{_SM}"),
    ("registers per thread", "", "max_registers_per_thread", None),
    ("registers per block", "", "max_registers_per_block", "max_registers_per_block"),
    ("registers per multiprocessor", "", f"registers_{_SM}", f"registers_{_SM}"),
    ("shared memory per block", "byte", f"max_static_{_SHARED}", f"max_{_SHARED}"),
    ("shared memory per block, opt-in", "byte", f"max_{_SHARED}", f"max_{_SHARED}_optin"),
    ("shared memory per multiprocessor", "byte", f"shared_bytes_{_SM}", f"shared_bytes_{_SM}"),
    ("blocks per grid along x", "", None, "max_grid_x"),
    ("blocks per grid along y", "", None, "max_grid_y"),
    ("blocks per grid along z", "", None, "max_grid_z"),
    ("L2 cache", "byte", None, "l2_cache_bytes"),
)


def limits_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU and limit.

    documented_value: from `kernels.cubins.occupancy.LIMITS`; driver_value: as reported during the
    recording. An unknown value is empty, and so is agree.
    """
    rows = [
        {"recording": source.recording_id, "gpu": source.label} | row
        for source in with_gpu(found)
        for row in _rows(str(source.gpu["compute_capability"]), source.gpu["limits"])
    ]
    return from_rows("limits", rows)


def _rows(capability: str, reported: dict[str, int]) -> list[dict[str, object]]:
    table = LIMITS.get(capability)
    rows: list[dict[str, object]] = []
    for limit, unit, field, attribute in _LIMITS:
        documented = getattr(table, field) if table and field else None
        if documented is not None and field == f"max_warps_{_SM}":
            documented *= WARP_SIZE
        driver = reported.get(attribute or "")
        row: dict[str, object] = {"compute_capability": capability, "limit": limit, "unit": unit}
        row |= {"documented_value": documented, "driver_value": driver}
        row["agree"] = None if documented is None or driver is None else documented == driver
        rows.append(row)
    return rows
