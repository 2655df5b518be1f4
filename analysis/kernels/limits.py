"""What a GPU allows a launch (source H's table): by its compute capability and by its driver."""

from dataclasses import dataclass

import pandas as pd

from analysis.data.frames import from_rows
from analysis.data.recordings import Source, with_gpu
from kernels.cubins.occupancy import LIMITS, WARP_SIZE, CapabilityLimits


@dataclass(frozen=True)
class _Limit:
    """A limit: what it is, its unit, and its names in the table and in a recording's provenance."""

    limit: str
    unit: str
    field: str | None
    attribute: str | None
    factor: int = 1


_LIMITS = (
    _Limit("threads of a block", "", "max_threads_per_block", "max_threads_per_block"),
    _Limit("threads of a warp", "", None, "warp_size"),
    _Limit(
        "threads of a multiprocessor",
        "",
        "max_warps_per_multiprocessor",
        "max_threads_per_multiprocessor",
        WARP_SIZE,
    ),
    _Limit(
        "blocks of a multiprocessor",
        "",
        "max_blocks_per_multiprocessor",
        "max_blocks_per_multiprocessor",
    ),
    _Limit("registers of a thread", "", "max_registers_per_thread", None),
    _Limit("registers of a block", "", "max_registers_per_block", "max_registers_per_block"),
    _Limit(
        "registers of a multiprocessor",
        "",
        "registers_per_multiprocessor",
        "registers_per_multiprocessor",
    ),
    _Limit(
        "shared memory of a block",
        "byte",
        "max_static_shared_bytes_per_block",
        "max_shared_bytes_per_block",
    ),
    _Limit(
        "shared memory of a block, if asked for",
        "byte",
        "max_shared_bytes_per_block",
        "max_shared_bytes_per_block_optin",
    ),
    _Limit(
        "shared memory of a multiprocessor",
        "byte",
        "shared_bytes_per_multiprocessor",
        "shared_bytes_per_multiprocessor",
    ),
    _Limit("blocks of a grid along x", "", None, "max_grid_x"),
    _Limit("blocks of a grid along y", "", None, "max_grid_y"),
    _Limit("blocks of a grid along z", "", None, "max_grid_z"),
    _Limit("second-level cache", "byte", None, "l2_cache_bytes"),
)


def limits_table(found: list[Source]) -> pd.DataFrame:
    """Return one row a GPU and limit.

    documented_value is the table's (`kernels.cubins.occupancy.LIMITS`), driver_value what the driver reported
    when it was recorded; each is empty where it says nothing, and so is agree then.
    """
    return from_rows(
        "limits",
        (
            {"recording": source.recording_id, "gpu": source.label} | row
            for source in with_gpu(found)
            for row in _rows(str(source.gpu["compute_capability"]), source.gpu["limits"])
        ),
    )


def _rows(capability: str, reported: dict[str, int]) -> list[dict[str, object]]:
    table = LIMITS.get(capability)
    rows: list[dict[str, object]] = []
    for limit in _LIMITS:
        own = _of_table(table, limit)
        driver = reported.get(limit.attribute or "")
        rows.append(
            {
                "compute_capability": capability,
                "limit": limit.limit,
                "unit": limit.unit,
                "documented_value": own,
                "driver_value": driver,
                "agree": None if own is None or driver is None else own == driver,
            }
        )
    return rows


def _of_table(table: CapabilityLimits | None, limit: _Limit) -> int | None:
    if table is None or limit.field is None:
        return None
    return limit.factor * int(getattr(table, limit.field))
