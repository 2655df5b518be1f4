"""Source V's Figure 2 as a table, and what of a GPU goes with how fast its kernels are there.

The source says that neither bandwidth nor the number of units decides, but the balance of both.
Here the balance is what both allow together: a tile of 32×32 does `TILE_FLOP_PER_BYTE` operations
for each byte that it loads, so a GPU can do no more than the smaller of its rate of FMAs
and that many operations a byte of its memory's bandwidth.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from analysis.data.cells import comparison_size, of_sizes
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import Source, with_gpu
from analysis.domain import CPU, UNDECIDED
from analysis.schema import bounded, interval_columns
from analysis.stats.estimates import FloatArray, IntArray, seeded
from kernels.catalog.entries import VARIANTS

_SOURCE_V = {name for name, entry in VARIANTS.items() if entry.origin.startswith("V")}
TILE_FLOP_PER_BYTE = 8.0
# Performance at the source's size, and what of a GPU may go with it.
QUANTITIES = {"kernel": "kernel", "pinned": "total", "pageable": "total"}
PROPERTIES = {
    "memory bandwidth": "memory_bytes_per_s",
    "FMA rate": "fma_flop_per_s",
    "multiprocessors": "multiprocessors",
    "link": "link_bytes_per_s",
    "balance": "roofline_flop_per_s",
}
_ALONE = ("memory bandwidth", "FMA rate", "multiprocessors")
# Of so many GPU models, a perfect order is found by chance less often than once in a hundred
# (twice in 6!), which is what five properties at once ask for; of fewer it is not.
LEAST_KINDS = 6
_LEVEL = 0.05 / len(PROPERTIES)
_DRAWS = 4_000
HOLDS, DOES_NOT_HOLD, TOO_FEW = "holds", "does not hold", "too few kinds"
RANKS_ALIKE, NOT_SHOWN = "ranks alike", "not shown"


def fleet_table(found: list[Source], summary: pd.DataFrame, ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return one row a GPU: the rate of the fastest of the source's kernels, and its properties.

    At the source's matrix size, or the largest that was measured: of the kernel alone, and of
    end-to-end runs from pinned and from pageable memory. `summary` and `ceilings` are the tables of
    these names. Bandwidth is that of a copy within the GPU, the link that of the largest copy to
    it from pinned memory. What was not measured is empty.
    """
    cells = of_sizes(summary)
    cells = cells[(cells["device"] != CPU) & cells["variant"].isin(_SOURCE_V)]
    if cells.empty:
        return stacked("fleet", [])
    cells = cells[cells["n"] == comparison_size(cells)]
    links = ceilings["host_memory"].isna() | (ceilings["host_memory"] == "pinned")
    known = ceilings[links].sort_values("size_bytes").groupby(["gpu", "quantity"])["value"].last()
    return from_rows(
        "fleet",
        (
            {"recording": source.recording_id, "gpu": source.label, "gpu_name": source.gpu_name}
            | {"simulated": source.recording.provenance["simulated"]}
            | {"multiprocessors": source.gpu["multiprocessors"]}
            | _properties(known.get(source.label, pd.Series(dtype=float)))
            | _performance(cells[cells["gpu"] == source.label])
            for source in with_gpu(found)
            if (cells["gpu"] == source.label).any()
        ),
    )


def _properties(known: pd.Series) -> dict[str, object]:
    """Return what a GPU's ceilings, by quantity, say of it."""
    units, memory = known.get("fp32_flop_per_s"), known.get("device_copy_bytes_per_s")
    allowed = min(units, TILE_FLOP_PER_BYTE * memory) if units and memory else None
    return {
        "fma_flop_per_s": units,
        "memory_bytes_per_s": memory,
        "link_bytes_per_s": known.get("h2d_bytes_per_s"),
        "roofline_flop_per_s": allowed,
    }


def _performance(cells: pd.DataFrame) -> dict[str, object]:
    """Return the highest rates of a GPU's cells, of one size, and the kernel of the first."""
    row: dict[str, object] = {"n": cells["n"].iloc[0]}
    for name, part in QUANTITIES.items():
        own = cells if name == "kernel" else cells[cells["host_memory"] == name]
        own = own[own[f"{part}_s"].notna()]
        if len(own):
            best = own.loc[own[f"{part}_s"].idxmin()]
            flop = 2.0 * float(best["n"]) ** 3
            low, high = (flop / best[each] for each in interval_columns(f"{part}_s"))
            row |= bounded(f"{name}_flop_per_s", flop / best[f"{part}_s"], high, low)
            row |= {f"{name}_variant": best["variant"], f"{name}_block_size": best["block_size"]}
    return row


def fleet_ranks_table(fleet: pd.DataFrame) -> pd.DataFrame:
    """Return how each property of a GPU ranks the GPU models as their performance does.

    GPUs of one name are one kind, of which the median is taken; simulated ones take part where
    nothing else does. rank_correlation is Spearman's, p_value the share of random orders that go
    together as much, in either direction. A verdict is given from `LEAST_KINDS` on, at 5 % over all
    properties. Of the balance it is that of the claim: `HOLDS` where it ranks the kinds as their
    performance does, and better than bandwidth, rate and multiprocessors do by themselves, in
    97.5 % of bootstrap draws over the kinds; the reverse does not hold; all else is undecided.
    """
    if fleet.empty:
        return stacked("fleet_ranks", [])
    own = fleet[fleet["simulated"].astype(bool) == fleet["simulated"].astype(bool).all()]
    rows = [row for quantity in QUANTITIES for row in _ranks(own, quantity)]
    return from_rows("fleet_ranks", rows)


def _ranks(own: pd.DataFrame, quantity: str) -> Iterator[dict[str, object]]:
    value = f"{quantity}_flop_per_s"
    columns = [value, *PROPERTIES.values()]
    kinds = own.groupby("gpu_name")[columns].median().astype(float)
    kinds = kinds[kinds[value].notna()].dropna(axis=1, how="all").dropna()
    for name, column in PROPERTIES.items():
        row = {"quantity": quantity, "property": name, "kinds": len(kinds), "verdict": TOO_FEW}
        if column in kinds and len(kinds) >= LEAST_KINDS:
            rng = seeded("fleet", quantity, name)
            speeds, of_kind = (kinds[each].to_numpy() for each in (value, column))
            found = _spearman(speeds, of_kind)
            orders = rng.permuted(np.tile(of_kind, (_DRAWS, 1)), axis=1)
            by_chance = np.abs(_spearman(speeds, orders)) >= abs(found) - 1e-12
            p_value = float((1 + by_chance.sum()) / (1 + _DRAWS))
            alike = found > 0 and p_value <= _LEVEL
            row |= {"rank_correlation": float(found), "p_value": p_value}
            row["verdict"] = RANKS_ALIKE if alike else NOT_SHOWN
            if name == "balance":
                drawn = rng.integers(len(kinds), size=(_DRAWS, len(kinds)))
                others = [PROPERTIES[other] for other in _ALONE if PROPERTIES[other] in kinds]
                claim = _claim(kinds, value, column, others, drawn)
                row["verdict"] = UNDECIDED if claim == HOLDS and not alike else claim
        yield row


def _claim(
    kinds: pd.DataFrame, value: str, balance: str, others: list[str], drawn: IntArray
) -> str:
    """Return whether the balance ranks the kinds better than each of the others by itself."""
    speeds, both = (kinds[each].to_numpy()[drawn] for each in (value, balance))
    alone = [_spearman(speeds, kinds[each].to_numpy()[drawn]) for each in others]
    ahead = _spearman(speeds, both) - np.max(alone, axis=0)
    better = float(np.mean(ahead > 1e-12) + np.mean(np.abs(ahead) <= 1e-12) / 2)
    return HOLDS if better >= 0.975 else DOES_NOT_HOLD if better <= 0.025 else UNDECIDED


def _spearman(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the rank correlation along the last axis; 0 where all of one side are equal."""
    ranks = [rankdata(each, axis=-1) for each in (a, b)]
    first, second = (each - each.mean(axis=-1, keepdims=True) for each in ranks)
    scale = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    together = (first * second).sum(axis=-1)
    return np.divide(together, scale, out=np.zeros_like(scale), where=scale > 0)
