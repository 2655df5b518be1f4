"""The steps of the sources' ladders: what each gains over the step before, and what it changed.

A step is a variant of which the catalog says what it comes `after`. Both sides have the same
matrices, host memory and, where both take one, block size: `PAGE_BLOCK` for the tiles of source T,
as on its page, else `BASELINE_BLOCK`; where not both were measured with that one, the largest with
which both were. Where only one of them takes a block size, it has its fastest.
"""

from collections.abc import Mapping

import pandas as pd

from analysis.data.frames import concatenated
from analysis.data.recordings import Source, labelled
from analysis.domain import CPU, step_verdict
from analysis.kernels.machine_code import rows_of
from analysis.stats.estimates import ratios
from kernels.build import architecture
from kernels.catalog import VARIANTS
from kernels.plan import BASELINE_BLOCK

PAGE_BLOCK = 16
QUANTITIES = ("kernel", "total")
_SAME = ["dtype", "batch", "m", "n", "k", "host_memory"]
_SIDE = ["variant", "block_size", "build", "row", "time_s"]
COLUMNS = [
    *("recording", "gpu", "variant", "block_size", "after", "after_block_size", *_SAME),
    *("quantity", "time_s", "after_time_s", "gain", "gain_low", "gain_high", "verdict", "changed"),
]


def ladder_table(found: list[Source], machine_code: pd.DataFrame) -> pd.DataFrame:
    """Return one row a step, shape, type of elements, host memory, quantity and GPU.

    gain is the time of the step before over the step's own, with its interval from the draws of
    both medians. Verdict: `PAYS` where the interval lies above 1, `DOES_NOT_PAY` where its upper
    bound is 1 or below, undecided where it holds 1 inside. changed says what differs between the
    two builds in `machine_code` (`analysis.kernels.machine_code`).
    """
    frames = [pd.DataFrame(columns=COLUMNS)]
    for source in (source for source in found if source.device):
        steps = pd.concat([_steps(source, quantity) for quantity in QUANTITIES])
        steps = steps.assign(device=source.device, changed=_changes(source, steps, machine_code))
        places = steps["variant"].map({name: place for place, name in enumerate(VARIANTS)})
        steps = labelled(source, steps.assign(place=places))
        frames.append(steps.sort_values(["place", "row", "quantity"], kind="stable")[COLUMNS])
    return concatenated(frames)


def _steps(source: Source, quantity: str) -> pd.DataFrame:
    """Return the steps of one GPU, of one quantity; `row` is that of the step's cell."""
    cells = source.cells[source.cells["device"] != CPU]
    cells = cells.merge(source.checks[["build", *_KEY]], how="left", on=_KEY).set_index(cells.index)
    cells = cells.assign(row=cells.index, time_s=cells[f"{quantity}_s"])
    cells = cells[cells["time_s"].notna()]
    pairs = [
        _pairs(cells[cells["variant"] == name], cells[cells["variant"] == entry.after], name)
        for name, entry in VARIANTS.items()
        if entry.after
    ]
    steps = pd.concat(pairs, ignore_index=True)
    gain, low, high = ratios(
        source.cells[f"{quantity}_s"], source.draws[quantity], steps["after_row"], steps["row"]
    )
    words = [step_verdict(*bounds) for bounds in zip(gain, low, high, strict=True)]
    return steps.assign(quantity=quantity, gain=gain, gain_low=low, gain_high=high, verdict=words)


_KEY = ["device", "variant", *_SAME[:-1], "block_size", "host_memory"]


def _pairs(own: pd.DataFrame, before: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return cells of a variant beside those of the step before, one pair for all that is alike.

    Columns: `_SAME`, those of `_SIDE`, and of the step before with the prefix after_.
    """
    sides = [frame[[*_SAME, *_SIDE]] for frame in (own, before)]
    sides[1] = sides[1].rename(columns={column: f"after_{column}" for column in _SIDE})
    sides[1] = sides[1].rename(columns={"after_variant": "after"})
    pairs = sides[0].merge(sides[1], on=_SAME)
    both = pairs["block_size"].notna() & pairs["after_block_size"].notna()
    pairs = pairs[~both | (pairs["block_size"] == pairs["after_block_size"]).fillna(False)]
    of_page = VARIANTS[name].origin.startswith("T,") and VARIANTS[name].family == "block"
    wanted = PAGE_BLOCK if of_page else BASELINE_BLOCK
    ranked = pairs.assign(
        other=(pairs["block_size"] != wanted).where(both, False).astype(int),
        smaller=(-pairs["block_size"].astype("Float64")).where(both, 0.0),
    ).sort_values([*_SAME, "other", "smaller", "time_s", "after_time_s"], kind="stable")
    return ranked.drop_duplicates(_SAME)[list(pairs)]


def _changes(source: Source, steps: pd.DataFrame, machine_code: pd.DataFrame) -> list[str]:
    """Return what differs between the builds of each step and of the step before, as text."""
    devices = source.recording.provenance["devices"]
    capability = next(d["compute_capability"] for d in devices if d["device"] == source.device)
    where = (source.recording_id, architecture(capability))
    sides = []
    for variant, block, build in (
        ("variant", "block_size", "build"),
        ("after", "after_block_size", "after_build"),
    ):
        keys = [
            (*where, VARIANTS[name].kernel, dtype, None if pd.isna(size) else size, kind)
            for name, dtype, size, kind in steps[[variant, "dtype", block, build]].itertuples(
                index=False, name=None
            )
        ]
        sides.append(rows_of(machine_code, keys))
    listed = machine_code.to_dict("records")
    return [
        "" if pd.isna(own) or pd.isna(before) else changed(listed[int(before)], listed[int(own)])
        for own, before in zip(*sides, strict=True)
    ]


# What is told of a build, and how; in this order.
_FACTS = (
    ("registers_per_thread", "registers a thread {}"),
    ("occupancy", "occupancy {} %"),
    ("spill_store_bytes", "bytes spilled {}"),
    ("loop_multiply_add_share", "multiply-adds of the loop {} %"),
    ("unrolling", "steps of k a turn {}"),
    ("loop_barriers", "barriers a turn {}"),
    ("widest_global_loads_bits", "widest global load {} bits"),
    ("widest_shared_loads_bits", "widest shared load {} bits"),
    ("shared_load_conflicts_per_request", "conflicts a shared load {}"),
    ("shared_store_conflicts_per_request", "conflicts a shared store {}"),
    ("flop_per_byte_accessed", "flop a byte loaded {}"),
)


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Return the differences of two rows of machine_code.csv: "registers a thread 40 → 64; …".

    What is not known of one of them, or is shown alike of both, is left out.
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
