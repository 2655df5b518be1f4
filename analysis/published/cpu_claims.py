"""What the source claims of CPUs: of its cache-optimised program, and of GPUs against it.

Each is compared with this study's versions of the source's programs, at the source's order if that
was measured, else at the largest that was.
"""

from collections.abc import Iterator

import pandas as pd

from analysis.cpu.cells import NAIVE, ONE, SOURCE_OPTIMISED, fastest, with_threads
from analysis.cpu.split import CLAIMED_CACHE_SPEEDUP, WHOLE
from analysis.data.recordings import Source, once_a_recording, with_gpu
from analysis.domain import NOT_MEASURED, SOURCE_SIZE
from analysis.published.claims import ABOUT, ABOVE, ON_CPU, ON_GPU_AND_CPU, Row, Rule
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import ratios

_SWEPT = "blocked"
CACHE_SPEEDUP = "cache optimisation makes the CPU's loop 35 times faster"
CACHE_RATE = "a cache-optimised CPU does 5 to 6 GFLOP/s"
BLOCK_SIZE = "the speed of cache blocking depends strongly on the size of the block"
OVER_NAIVE = "a GPU is more than 2000 times as fast as the naive loop of a CPU"
OVER_CACHE = "a GPU is about 60 times as fast as a cache-optimised CPU"
CLAIMED_RATE = 5.5
STRONGLY = 2.0
# Of a whole of `analysis.cpu.split`: where it begins, the claim, its rule, and the claimed gain.
_WHOLES: dict[str, tuple[str, Rule, float]] = {
    "naive": (OVER_NAIVE, ABOVE, 2000.0),
    "source": (OVER_CACHE, ABOUT, 60.0),
}


def on_cpus(found: list[Source], split: pd.DataFrame) -> Iterator[Row]:
    """Yield the claims on CPUs, one row a recording, and those on GPUs against them, one a GPU.

    `split` is `analysis.cpu.split.cpu_split_table`. The rows are those of
    `analysis.published.claims`; a claim on a CPU belongs to its recording and has no GPU.
    """
    for source, cells in once_a_recording((source, source.square_cells) for source in found):
        one = cells[with_threads(cells, ONE)]
        if not one.empty:
            yield from _on_cpu(source, one)
    for source in with_gpu(found):
        yield from (_on_whole(source, split, start) for start in _WHOLES)


def _on_cpu(source: Source, one: pd.DataFrame) -> Iterator[Row]:
    """Yield the claims on one thread of a CPU; `one` are its cells."""
    naive = fastest(one[one["variant"] == NAIVE])
    optimised = fastest(one[one["variant"].isin(SOURCE_OPTIMISED)])
    swept = one[one["variant"] == _SWEPT]
    slowest = swept.loc[swept.groupby("n")["total_s"].idxmax()]
    head: Row = {"place": ON_CPU, "recording": source.recording_id, "source": "V"}
    head["quantity"] = "total"
    for claim, sides, rule, expected in (
        (CACHE_SPEEDUP, (naive, optimised), ABOUT, CLAIMED_CACHE_SPEEDUP),
        (BLOCK_SIZE, (slowest, fastest(swept)), ABOVE, STRONGLY),
    ):
        row = head | {"claim": claim, "measured": "not measured"} | _evaluated_by(rule, expected)
        yield row | _ratio(source, *sides, rule, expected)
    row = head | {"claim": CACHE_RATE, "measured": "GFLOP/s"} | _evaluated_by(ABOUT, CLAIMED_RATE)
    yield row | _rate(optimised)


def _evaluated_by(rule: Rule, expected: float) -> Row:
    """Return what is expected, by which rule, and the verdict as long as nothing is measured."""
    return {"expected": expected, "rule": rule.text, "verdict": NOT_MEASURED}


def _ratio(
    source: Source, above: pd.DataFrame, below: pd.DataFrame, rule: Rule, expected: float
) -> Row:
    """Return the ratio of two cells' times, and the verdict; nothing if there is no common order.

    `above` and `below` have one cell an order.
    """
    n = _order(set(above["n"]) & set(below["n"]))
    if n is None:
        return {}
    sides = [side[side["n"] == n] for side in (above, below)]
    rows = [pd.Series(side.index, dtype="Int64") for side in sides]
    (value,), (low,), (high,) = ratios(source.cells["total_s"], source.draws["total"], *rows)
    names = [_named(side.iloc[0]) for side in sides]
    row: Row = {"above": sides[0]["variant"].iloc[0], "below": sides[1]["variant"].iloc[0]}
    row |= {"measured": f"total time of {names[0]} over that of {names[1]}, on one thread"}
    row |= {"block_size": sides[1]["block_size"].iloc[0], **_square(n), "cases": 1}
    row |= bounded("value", value, low, high)
    return row | {"verdict": rule.decide(low, high, expected)}


def _rate(optimised: pd.DataFrame) -> Row:
    """Return the rate of the fastest cache-optimised cell in GFLOP/s, and the verdict."""
    n = _order(set(optimised["n"]))
    if n is None:
        return {}
    cell = optimised[optimised["n"] == n].iloc[0]
    value, high, low = (2e-9 * n**3 / cell[name] for name in with_bounds("total_s"))
    row: Row = {"below": cell["variant"], "block_size": cell["block_size"], **_square(n)}
    row |= {"measured": f"GFLOP/s of {_named(cell)}, on one thread", "cases": 1}
    row |= bounded("value", value, low, high)
    return row | {"verdict": ABOUT.decide(low, high, CLAIMED_RATE)}


def _on_whole(source: Source, split: pd.DataFrame, start: str) -> Row:
    """Return a claim on a GPU's speedup over a stage of its host's CPU."""
    claim, rule, expected = _WHOLES[start]
    row: Row = {"place": ON_GPU_AND_CPU, "recording": source.recording_id, "gpu": source.label}
    row |= {"claim": claim, "source": "V", "quantity": "total", "measured": "not measured"}
    row |= _evaluated_by(rule, expected)
    memory = source.memory("total")
    own = split[(split["gpu"] == source.label) & (split["host_memory"] == memory)]
    own = own[(own["start"] == start) & (own["part"] == WHOLE)]
    if own.empty:
        return row
    whole = own.iloc[0]
    value, low, high = (float(whole[name]) for name in with_bounds("factor"))
    before = f"the CPU's {whole['after_variant']}{_block(whole['after_block_size'])}"
    row |= {
        "above": whole["after_variant"],
        "below": whole["variant"],
        "block_size": whole["block_size"],
    }
    row |= {"measured": f"total time of {before} over that of {_named(whole)}"}
    row |= {"host_memory": memory, **_square(int(whole["n"])), "cases": 1}
    row |= bounded("value", value, low, high)
    return row | {"verdict": rule.decide(low, high, expected)}


def _order(orders: set[int]) -> int | None:
    if not orders:
        return None
    return SOURCE_SIZE if SOURCE_SIZE in orders else int(max(orders))


def _named(cell: pd.Series) -> str:
    return f"{cell['variant']}{_block(cell['block_size'])}"


def _block(size: object) -> str:
    return "" if pd.isna(size) else f" (B = {size})"


def _square(n: int) -> Row:
    return {"batch": 1, "m": n, "n": n, "k": n}
