"""The steps of the sources' ladders: the speedup and the changes in the build of each step.

A step is a variant with a predecessor (`after`) in the catalog, with which it is compared. Both
sides have the same matrices and host memory. If both have a block size, it is the same:
`PAGE_BLOCK` for the tiles of source T, as on its page, otherwise `NAIVE_BLOCK`. If one side was not
measured with this block size, both have the largest common block size. If only one side has a block
size, or both have several tile shapes, each side has its fastest. If the predecessor was not
measured, its own predecessor is used. End-to-end runs in pieces and as
graphs have a separate table.
"""

from collections.abc import Mapping

import pandas as pd

from analysis.data.ceilings import with_floors
from analysis.data.cells import whole
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import CPU, verdict
from analysis.kernels.machine_code import rows_of
from analysis.schema import bounded
from analysis.stats.estimates import ratios
from kernels.catalog.baselines import NAIVE_BLOCK
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import SEQUENTIAL
from kernels.cubins.compile import architecture

# Columns of a build that are compared, in sequence, and their texts.
_FACTS = (
    ("registers_per_thread", "registers per thread {}"),
    ("occupancy", "occupancy {} %"),
    ("spill_store_bytes", "bytes spilled {}"),
    ("loop_fma_share", "FMAs of the loop {} %"),
    ("unrolling", "K per iteration {}"),
    ("loop_barriers", "barriers per iteration {}"),
    ("widest_global_loads_bits", "widest global load {} bits"),
    ("widest_shared_loads_bits", "widest shared load {} bits"),
    ("shared_load_conflicts_per_request", "conflicts per shared load {}"),
    ("shared_store_conflicts_per_request", "conflicts per shared store {}"),
    ("flop_per_byte_accessed", "FLOP per byte loaded {}"),
)
PAGE_BLOCK = 16
QUANTITIES = ("kernel", "total")
_SAME = ["dtype", "batch", "m", "n", "k", "host_memory"]
_KERNEL = ["gpu", "variant", *_SAME[:-1], "block_size"]
_SIDE = ["variant", "block_size", "build", "row", "time_s"]
_KEY = ["device", "variant", *_SAME[:-1], "block_size", "host_memory"]
_OF_PAGE = [name for name, v in VARIANTS.items() if v.origin[:2] == "T," and v.family == "block"]
_FLOWS = [name for name, v in VARIANTS.items() if v.flow not in SEQUENTIAL]


def ladder_table(
    sources: list[MeasuredSource], machine_code: pd.DataFrame, energy: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per step, shape, data type, host memory, quantity and GPU.

    speedup: over the previous step, with an interval from the draws of both medians. verdict: see
    `analysis.domain.verdict`. changed: the differences between the two builds in `machine_code`
    (`analysis.kernels.machine_code`). energy_j, flop_per_j: for the quantity kernel, from `energy`
    (`analysis.kernels.properties`).
    """
    frames = []
    for source in with_gpu(sources):
        steps = pd.concat([_steps(source, quantity) for quantity in QUANTITIES], ignore_index=True)
        steps = steps.assign(changed=_changes(source, steps, machine_code))
        steps["rank"] = steps["variant"].map({name: at for at, name in enumerate(source.catalog)})
        steps = steps.assign(recording=source.recording_id, gpu=source.label)
        frames.append(steps.sort_values(["rank", "row", "quantity"], kind="stable"))
    ladder = stacked("ladder", frames).drop(columns=["energy_j", "flop_per_j"])
    read = energy[[*_KERNEL, "energy_j", "flop_per_j"]].assign(quantity="kernel")
    return stacked("ladder", [ladder.merge(read, how="left", on=[*_KERNEL, "quantity"])])


def _steps(source: MeasuredSource, quantity: str) -> pd.DataFrame:
    """Return the steps of one GPU and quantity; the column row is the index of the step's cell."""
    cells = source.cells[source.cells["device"] != CPU]
    cells = cells.merge(source.builds[["build", *_KEY]], how="left", on=_KEY).set_index(cells.index)
    cells = cells.assign(row=cells.index, time_s=cells[f"{quantity}_s"])
    steps = _pairs(cells[cells["time_s"].notna()], source.catalog)
    rows = steps["after_row"], steps["row"]
    bounds = ratios(source.cells[f"{quantity}_s"], source.draws[quantity], *rows)
    words = [verdict(*values) for values in zip(*bounds, strict=True)]
    return steps.assign(quantity=quantity, **bounded("speedup", *bounds), verdict=words)


def _pairs(cells: pd.DataFrame, catalog: Catalog) -> pd.DataFrame:
    """Return pairs of a step's cell and its predecessor's, one per variant and `_SAME`.

    Columns: `_SAME`; `_SIDE` of the step; `_SIDE` of its predecessor as after_… (variant: after).
    """
    measured = set(cells["variant"])
    after = {name: measured_before(catalog, name, measured) for name in measured}
    steps = cells[[*_SAME, *_SIDE]].assign(after=cells["variant"].map(after))
    names = {"variant": "after"} | {name: f"after_{name}" for name in _SIDE[1:]}
    before = cells[[*_SAME, *_SIDE]].rename(columns=names)
    pairs = steps[steps["after"].notna()].merge(before, on=["after", *_SAME])
    both = pairs["block_size"].notna() & pairs["after_block_size"].notna()
    both &= ~pairs["variant"].isin([name for name, v in catalog.items() if v.fixed_blocks])
    pairs = pairs[~both | (pairs["block_size"] == pairs["after_block_size"]).fillna(False)]
    of_page = pairs["variant"].isin(_OF_PAGE)
    wanted = pd.Series(NAIVE_BLOCK, pairs.index).mask(of_page, PAGE_BLOCK)
    ranked = pairs.assign(
        other=(pairs["block_size"] != wanted).where(both, False).astype(int),
        smaller=(-pairs["block_size"].astype("Float64")).where(both, 0.0),
    ).sort_values(["other", "smaller", "time_s", "after_time_s"], kind="stable")
    return ranked.drop_duplicates(["variant", *_SAME])


def measured_before(catalog: Catalog, name: str, measured: set[str]) -> str | None:
    """Return the nearest predecessor of a variant that was measured; None if there is none."""
    before = catalog[name].after
    while before is not None and before not in measured:
        before = catalog[before].after
    return before


def _changes(source: MeasuredSource, steps: pd.DataFrame, machine_code: pd.DataFrame) -> list[str]:
    where = (source.recording_id, architecture(source.gpu["compute_capability"]))
    sides = []
    for variant, prefix in (("variant", ""), ("after", "after_")):
        columns = [variant, "dtype", f"{prefix}block_size", f"{prefix}build"]
        keys = [
            (*where, source.catalog[name].kernel_name, dtype, whole(size), kind)
            for name, dtype, size, kind in steps[columns].itertuples(index=False, name=None)
        ]
        sides.append(rows_of(machine_code, keys))
    listed = machine_code.to_dict("records")
    return [
        "" if pd.isna(now) or pd.isna(before) else changed(listed[int(before)], listed[int(now)])
        for now, before in zip(*sides, strict=True)
    ]


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Return how two rows of machine_code.csv differ: "registers per thread 40 → 64; …".

    Unknown values, and values equal after rounding, are omitted.
    """
    texts = []
    for column, text in _FACTS:
        if pd.isna(before[column]) or pd.isna(after[column]):
            continue
        factor = 100 if "%" in text else 1
        values = [f"{factor * float(str(side[column])):.3g}" for side in (before, after)]
        if values[0] != values[1]:
            texts.append(text.format(" → ".join(values)))
    return "; ".join(texts)


def end_to_end_modes_table(ladder: pd.DataFrame, pieces: pd.DataFrame) -> pd.DataFrame:
    """Return one row per shape, GPU and variant whose runs are in pieces or a graph.

    The arguments are the tables with these names. The run is compared with that of the previous
    step; both have their fastest tile shapes. For settings and floors see `with_floors`.
    """
    rows = ladder[(ladder["quantity"] == "total") & ladder["variant"].isin(_FLOWS)]
    rows = rows.rename(columns={"time_s": "total_s", "after_time_s": "after_total_s"})
    return stacked("end_to_end_modes", [with_floors(rows, pieces)])
