"""The source's claims about CPUs: its cache-optimised program, and GPUs compared with CPUs.

The claims are tested on this study's versions of the source's programs, at the source's size if it
was measured, otherwise at the largest size.
"""

from collections.abc import Iterator

import pandas as pd

from analysis.cpu.cells import NAIVE, ONE, SOURCE_OPTIMISED, fastest, with_threads
from analysis.cpu.split import CLAIMED_CACHE_SPEEDUP, WHOLE
from analysis.data import best
from analysis.data.recordings import MeasuredSource, once_per_recording, with_gpu
from analysis.domain import SOURCE_SIZE, UNDECIDED
from analysis.published import claims
from analysis.published.claims import ABOUT, ABOVE, ON_CPU, ON_GPU_AND_CPU, Claim, ClaimRow
from analysis.schema import with_bounds
from analysis.stats.estimates import quotients

_SWEPT = "blocked"
BLOCK_SIZES = 7  # number of block sizes in the full study (8 to 512), all needed for a claim
CACHE_SPEEDUP = Claim(
    "cache optimisation makes the CPU's loop 35 times faster", "V", ABOUT, CLAIMED_CACHE_SPEEDUP
)
CACHE_RATE = Claim("a cache-optimised CPU does 5 to 6 GFLOP/s", "V", ABOUT, 5.5)
BLOCKING = Claim("the speed of cache blocking depends strongly on the block size", "V", ABOVE, 2.0)
OVER_NAIVE = Claim("a GPU is over 2000× faster than the naive CPU loop", "V", ABOVE, 2000.0)
OVER_CACHE = Claim("a GPU is about 60× faster than a cache-optimised CPU", "V", ABOUT, 60.0)
# Claims by the CPU stage (`STARTS`) over which `analysis.cpu.split` has a speedup.
_WHOLES = {"naive": OVER_NAIVE, "source": OVER_CACHE}


def on_cpus(sources: list[MeasuredSource], split: pd.DataFrame) -> Iterator[ClaimRow]:
    """Yield the claims about CPUs per recording, and those about GPUs over CPUs per GPU."""
    for source, cells in once_per_recording((source, source.square_cells) for source in sources):
        one = cells[with_threads(cells, ONE)]
        if not one.empty:
            yield from _on_cpu(source, one)
    for source in with_gpu(sources):
        yield from (_on_whole(source, split, start) for start in _WHOLES)


def _on_cpu(source: MeasuredSource, one: pd.DataFrame) -> Iterator[ClaimRow]:
    naive = fastest(one[one["variant"] == NAIVE])
    tuned = fastest(one[one["variant"].isin(SOURCE_OPTIMISED)])
    swept = one[one["variant"] == _SWEPT]
    slowest = best.fastest(swept, "total_s", ["n"], most=True)
    cases = swept.groupby("n")["block_size"].nunique().max() if len(swept) else 0
    head = {"recording": source.recording_id, "quantity": "total"}
    for claim, sides in ((CACHE_SPEEDUP, (naive, tuned)), (BLOCKING, (slowest, fastest(swept)))):
        row = claim.row(ON_CPU, **head) | _ratio(claim, *sides)
        if claim is BLOCKING and row["verdict"] == claims.DOES_NOT_HOLD and cases < BLOCK_SIZES:
            row["verdict"] = UNDECIDED  # more block sizes can only increase the ratio
        yield row | ({"cases": cases} if claim is BLOCKING else {})
    yield CACHE_RATE.row(ON_CPU, "GFLOP/s", **head) | _rate(tuned)


def _ratio(claim: Claim, above: pd.DataFrame, below: pd.DataFrame) -> ClaimRow:
    """Return the columns of a ratio of cells' times, at one size; {} if no size is common."""
    n = _size(set(above["n"]) & set(below["n"]))
    if n is None:
        return {}
    sides = [side[side["n"] == n] for side in (above, below)]
    first, second = (side.iloc[0] for side in sides)
    times = [side[[*with_bounds("total_s")]].to_numpy(dtype=float) for side in (first, second)]
    value, low, high = map(float, quotients(*times))
    return claim.result(
        *(value, low, high, 1),
        measured=f"total time of {_named(first)} over that of {_named(second)}, on one thread",
        block_size=second["block_size"],
        n=n,
    )


def _rate(optimised: pd.DataFrame) -> ClaimRow:
    """Return the columns of the throughput of the fastest cache-optimised cell in GFLOP/s."""
    n = _size(set(optimised["n"]))
    if n is None:
        return {}
    cell = optimised[optimised["n"] == n].iloc[0]
    value, high, low = (2e-9 * n**3 / cell[name] for name in with_bounds("total_s"))
    return CACHE_RATE.result(
        *(value, low, high, 1),
        measured=f"GFLOP/s of {_named(cell)}, on one thread",
        block_size=cell["block_size"],
        n=n,
    )


def _on_whole(source: MeasuredSource, split: pd.DataFrame, start: str) -> ClaimRow:
    claim, memory = _WHOLES[start], source.memory("total")
    head = {"recording": source.recording_id, "gpu": source.label, "quantity": "total"}
    parts = split[(split["gpu"] == source.label) & (split["host_memory"] == memory)]
    parts = parts[(parts["start"] == start) & (parts["part"] == WHOLE)]
    if parts.empty:
        return claim.row(ON_GPU_AND_CPU, **head)
    whole = parts.iloc[0]
    value, low, high = (float(whole[name]) for name in with_bounds("factor"))
    before = f"the CPU's {whole['after_variant']}{_block(whole['after_block_size'])}"
    return claim.row(ON_GPU_AND_CPU, **head) | claim.result(
        *(value, low, high, 1),
        measured=f"total time of {before} over that of {_named(whole)}",
        block_size=whole["block_size"],
        host_memory=memory,
        n=int(whole["n"]),
    )


def _size(sizes: set[int]) -> int | None:
    if not sizes:
        return None
    return SOURCE_SIZE if SOURCE_SIZE in sizes else int(max(sizes))


def _named(cell: pd.Series) -> str:
    return f"{cell['variant']}{_block(cell['block_size'])}"


def _block(size: object) -> str:
    return "" if pd.isna(size) else f" (B = {size})"
