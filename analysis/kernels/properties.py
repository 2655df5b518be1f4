"""Recorded properties of hardware and kernels: launch limits, errors, sustained launches."""

from pathlib import Path

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import is_library
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, labelled, with_gpu
from analysis.domain import SHAPE
from analysis.schema import with_bounds
from analysis.stats.estimates import Groups
from kernels.cubins.occupancy import LIMITS, WARP_SIZE
from measurement.recording.recording import KERNEL

_SM, _SHARED = "per_multiprocessor", "shared_bytes_per_block"
# Each limit: its name, its field of `CapabilityLimits`, its attribute in the provenance.
_LIMITS: tuple[tuple[str, str | None, str | None], ...] = (
    ("threads per block", "max_threads_per_block", "max_threads_per_block"),
    ("threads per warp", None, "warp_size"),
    ("threads per multiprocessor", f"max_warps_{_SM}", f"max_threads_{_SM}"),
    ("blocks per multiprocessor", f"max_blocks_{_SM}", f"max_blocks_{_SM}"),
    ("registers per thread", "max_registers_per_thread", None),
    ("registers per block", "max_registers_per_block", "max_registers_per_block"),
    ("registers per multiprocessor", f"registers_{_SM}", f"registers_{_SM}"),
    ("shared memory per block", f"max_static_{_SHARED}", f"max_{_SHARED}"),
    ("shared memory per block, opt-in", f"max_{_SHARED}", f"max_{_SHARED}_optin"),
    ("shared memory per multiprocessor", f"shared_bytes_{_SM}", f"shared_bytes_{_SM}"),
    ("blocks per grid along x", None, "max_grid_x"),
    ("blocks per grid along y", None, "max_grid_y"),
    ("blocks per grid along z", None, "max_grid_z"),
    ("L2 cache", None, "l2_cache_bytes"),
)
_SAME = ["device", "dtype", *SHAPE, "matrices"]  # equal in the rows of a kernel and of the library
_MEASURED = (
    "launches",
    "duration_s",
    "launch_s",
    "power_w",
    "idle_power_w",
    "energy_j",
    "sm_clock_hz",
)


def limits_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU and launch limit (source H's table).

    driver_value: the limit that the driver reported during the recording; agree: whether it equals
    the documented one (`kernels.cubins.occupancy.LIMITS`). An unknown value is empty.
    """
    rows = [
        {"recording": source.recording_id, "gpu": source.label} | row
        for source in with_gpu(sources)
        for row in _rows(str(source.gpu["compute_capability"]), source.gpu["limits"])
    ]
    return from_rows("limits", rows)


def _rows(capability: str, reported: dict[str, int]) -> list[dict[str, object]]:
    table = LIMITS.get(capability)
    rows = []
    for limit, field, attribute in _LIMITS:
        documented = getattr(table, field) if table and field else None
        if documented is not None and field == f"max_warps_{_SM}":
            documented *= WARP_SIZE
        driver = reported.get(attribute or "")
        agree = None if documented is None or driver is None else documented == driver
        rows.append({"limit": limit, "driver_value": driver, "agree": agree})
    return rows


def accuracy_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per kernel, tile shape and kind of matrices.

    worst_units, rms_units: maximum and root-mean-square error of the elements of C, in units of
    2⁻²⁴·|A|·|B|. over_library: worst_units divided by that of the library. All sessions have the
    same matrices; the values are the maxima over sessions.
    """
    return stacked("accuracy", [labelled(source, _errors(source)) for source in with_gpu(sources)])


def _errors(source: MeasuredSource) -> pd.DataFrame:
    measured = source.own(source.recording.accuracy)
    errors = measured.groupby([*KERNEL, "matrices"], dropna=False, sort=False, as_index=False)[
        ["worst_units", "rms_units"]
    ].max()
    library = errors.loc[is_library(errors), [*_SAME, "worst_units"]]
    both = errors.merge(library, how="left", on=_SAME, suffixes=("", "_of_library"))
    over_library = both["worst_units"] / both["worst_units_of_library"]
    return errors.assign(over_library=over_library.to_numpy())


def ranges_table(computed: Path | None, summary: pd.DataFrame) -> pd.DataFrame:
    """Return one row per GPU, variant and kind of unusual values: the errors of its products.

    `computed` is the file of `kernels.host_execution.ranges`; without it, there are no rows.
    `summary` is the table of this name, from which each row has the variant's kernel_flop_per_s at
    the largest size of square matrices.
    """
    is_square = (summary["m"] == summary["n"]) & (summary["k"] == summary["n"])
    cells = summary[is_square & (summary["dtype"] == "float32") & summary["gpu"].notna()]
    if computed is None or cells.empty:
        return stacked("ranges", [])
    by = ["recording", "gpu", "variant"]
    cells = cells[cells["n"] == cells.groupby(by)["n"].transform("max")]
    best = fastest(cells, "kernel_flop_per_s", by, most=True)[[*by, "n", "kernel_flop_per_s"]]
    gpus = best[by[:2]].drop_duplicates()
    rows = gpus.merge(pd.read_csv(computed), "cross").merge(best, how="left", on=by)
    return stacked("ranges", [rows])


def sustained_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per kernel that was launched back to back; values are medians over sessions.

    launch_s: the mean time per launch during duration_s; sustained_share: the kernel-only time
    kernel_s divided by launch_s. power_w and sm_clock_hz are means over this time, idle_power_w is
    the power with an open context and no running kernel. energy_j: joules per product of the whole
    GPU; flop_per_j: 2·batch·m·n·k over energy_j.
    """
    frames = [labelled(source, _sustained(source)) for source in with_gpu(sources)]
    return stacked("sustained", frames)


def _sustained(source: MeasuredSource) -> pd.DataFrame:
    measured = source.own(source.recording.energy)
    kernels = Groups.of(measured, KERNEL)
    medians = {name: kernels.medians(measured[name].astype(float))[0] for name in _MEASURED}
    rows = kernels.keys.assign(**medians)
    flop = 2.0 * rows[list(SHAPE)].astype(float).prod(axis=1)
    bursts = source.cells[[*KERNEL, *with_bounds("kernel_s")]].drop_duplicates(KERNEL)
    rows = rows.merge(bursts, how="left", on=KERNEL)
    return rows.assign(
        launches=rows["launches"].round(),
        sm_clock_hz=rows["sm_clock_hz"].round(),
        sustained_share=rows["kernel_s"] / rows["launch_s"],
        sustained_flop_per_s=flop / rows["launch_s"],
        flop_per_j=flop / rows["energy_j"],
    )
