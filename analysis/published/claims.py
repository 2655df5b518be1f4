"""What the sources claim, compared with what was counted, built and measured: one line a claim.

Each claim has a rule that says by which numbers it holds. Times are compared at the largest order
that both variants have, by the interval of their ratio; `quantity` says whether kernel or total.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.data.frames import from_rows
from analysis.data.recordings import Source, with_gpu
from analysis.domain import CPU, NOT_MEASURED, UNDECIDED
from analysis.kernels.counts import launches
from analysis.kernels.machine_code import EXACT, intensities
from analysis.schema import bounded
from analysis.stats.estimates import ratios
from kernels.catalog.entries import VARIANTS, has_own_source
from kernels.catalog.product import Product

HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
NEAR = 1.25  # a factor that "about" leaves on either side
_SHAPE = ["batch", "m", "n", "k"]
Row = dict[str, object]
# In which order the claims stand.
ON_ACCESSES, ON_REGISTERS, ON_TIMES, ON_CPU, ON_GPU_AND_CPU = 0, 1, 3, 4, 5


def exactly(value: float, expected: float) -> str:
    """Return whether a claim of an exact number holds."""
    return HOLDS if value == expected else DOES_NOT_HOLD


def about(low: float, high: float, expected: float) -> str:
    """Return whether an interval meets the expected value within a factor of `NEAR`."""
    if np.isnan(low) or np.isnan(high):
        return UNDECIDED
    meets = low <= expected * NEAR and high >= expected / NEAR
    return HOLDS if meets else DOES_NOT_HOLD


def above(low: float, high: float, expected: float) -> str:
    """Return whether an interval lies above the expected value."""
    if np.isnan(low) or np.isnan(high) or low <= expected < high:
        return UNDECIDED
    return HOLDS if low > expected else DOES_NOT_HOLD


def not_above(low: float, high: float, expected: float) -> str:
    """Return whether an interval does not reach above the expected value."""
    opposite = {HOLDS: DOES_NOT_HOLD, DOES_NOT_HOLD: HOLDS}
    found = above(low, high, expected)
    return opposite.get(found, found)


@dataclass(frozen=True)
class Rule:
    """When a claim on a ratio holds: by its bounds and the expected value, and in words."""

    decide: Callable[[float, float, float], str]
    text: str


_EXACTLY = "holds if every case is the expected value exactly"
_NO_MORE = "holds if the value is the expected one at most"
ABOUT = Rule(about, f"holds if the interval meets the expected value within a factor of {NEAR}")
ABOVE = Rule(above, "holds if the interval lies above the expected value, undecided if across it")
_NOT_ABOVE = Rule(
    not_above, "holds if the interval lies at the expected value or below, undecided if across it"
)


@dataclass(frozen=True)
class _Compared:
    """A claim on a ratio of times, that of the variant `above` over that of the variant `below`.

    `blocks` are their block sizes (None: it has none). With `largest` it is the largest ratio of
    all orders that counts, else that at the largest order. With `shapes` it is measured outside of
    the study's orders.
    """

    claim: str
    source: str
    above: str
    below: str
    blocks: tuple[int | None, int | None]
    rule: Rule
    expected: float = 1.0
    quantities: tuple[str, ...] = ("kernel",)
    largest: bool = False
    shapes: bool = False


_BOTH = ("kernel", "total")
_TIMES = (
    _Compared(
        "tiles loaded in the slow order take about twice as long",
        *("V", "block_strided", "block"),
        blocks=(32, 32),
        rule=ABOUT,
        expected=2.0,
    ),
    _Compared(
        "more than four elements a thread speedup nothing",
        *("V", "block_unroll4", "block_unroll8"),
        blocks=(32, 32),
        rule=_NOT_ABOVE,
    ),
    _Compared(
        "a row of A in shared memory gains up to 1.75 times",
        *("V", "naive", "buffered_row"),
        blocks=(32, None),
        rule=ABOUT,
        expected=1.75,
        quantities=_BOTH,
        largest=True,
    ),
    _Compared(
        "a column of B in shared memory makes it slower",
        *("V", "buffered_column", "naive"),
        blocks=(None, 32),
        rule=ABOVE,
        quantities=_BOTH,
    ),
    _Compared(
        "bank conflicts cost time, in tiles of 16",
        *("T", "tile_transposed_b", "tile_conflict_free"),
        blocks=(16, 16),
        rule=ABOVE,
    ),
    _Compared(
        "bank conflicts cost time, in tiles of 32",
        *("T", "tile_transposed_b", "tile_conflict_free"),
        blocks=(32, 32),
        rule=ABOVE,
    ),
    _Compared(
        "bank conflicts cost time, in register tiles",
        *("G", "register_tile_double_buffered", "register_tile_conflict_free"),
        blocks=(None, None),
        rule=ABOVE,
    ),
    _Compared(
        "where tiles do not divide, zeros around the matrices beat checked bounds",
        *("H", "block", "block_padded"),
        blocks=(32, 32),
        rule=ABOVE,
        quantities=_BOTH,
        shapes=True,
    ),
)


def claims_table(rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows of claims as a table, by their `place`, else in the order in which they come.

    A row is of a claim and, where it is of times, a GPU; where of builds or of a CPU, a recording.
    value is what was measured, with its interval where it is a ratio of times; `cases` is of how
    many kernels, orders or builds it is the one farthest from the claim. What was not measured says
    so.
    """
    return from_rows("claims", sorted(rows, key=lambda row: int(str(row["place"]))))


def on_accesses(counts: pd.DataFrame) -> Iterator[Row]:
    """Yield the claims on arithmetic intensity and on global accesses, from theory's counts."""
    # Of padded matrices the loads are more than those of the product.
    own_kernels = set(filter(has_own_source, VARIANTS))
    known = counts[counts["variant"].isin(own_kernels) & (counts["dtype"] == "float32")]
    loads: dict[Product, float] = {}
    naive, tiled = [], []
    for product, launch in launches(known[known["build"] == EXACT]).items():
        family, block = product.entry.family, product.block_size
        intensity = float(intensities(product, launch)["flop_per_byte_accessed"] or 0)
        loads[product] = launch.theory["global_load_accesses"]
        if family == "naive":
            naive.append(intensity)
        elif family == "block" and isinstance(block, int):
            tiled.append(4 * intensity / block)
    fewer = [
        count / loads[tiles]
        for product, count in loads.items()
        if (product.variant, product.block_size) == ("naive_coalesced", 32)
        and (tiles := replace(product, variant="block")) in loads
    ]
    text = "a naive kernel does 1/4 flop a byte that it loads"
    yield _exact(text, "T, L", "flop a byte, by the count of loads", naive, 0.25)
    text = "a kernel with tiles of edge B does B/4 flop a byte that it loads"
    yield _exact(text, "T, L", "flop a byte over B/4, by the count of loads", tiled, 1.0)
    text = "tiles of 32 cut the loads from global memory to 1/32"
    yield _exact(text, "H", "loads of naive_coalesced over those of block, B = 32", fewer, 32.0)


def _exact(claim: str, source: str, measured: str, values: list[float], expected: float) -> Row:
    """Return the row of a claim of an exact number, with the value farthest from it."""
    row: Row = {"place": ON_ACCESSES, "claim": claim, "source": source, "measured": measured}
    row |= {"expected": expected, "cases": len(values), "rule": _EXACTLY, "verdict": NOT_MEASURED}
    if values:
        value = max(values, key=lambda one: abs(one - expected))
        row |= {"value": value, "verdict": exactly(value, expected)}
    return row


def on_registers(found: list[Source], machine_code: pd.DataFrame) -> Iterator[Row]:
    """Yield the claims that unrolling takes no more registers, for each recording."""
    for place, source, unrolled, plain, block in (
        (ON_REGISTERS, "V", "block_unroll4", "block", 32),
        (ON_REGISTERS + 1, "T", "outer_product_unrolled", "outer_product", None),
    ):
        for recording in dict.fromkeys(one.recording_id for one in found if one.device):
            builds = machine_code[machine_code["recording"] == recording]
            builds = builds[(builds["build"] == EXACT) & (builds["dtype"] == "float32")]
            size = builds["block_size"]
            builds = builds[size.isna() if block is None else (size == block).fillna(False)]
            registers = builds.set_index("variant")["registers_per_thread"]
            row: Row = {
                "place": place,
                "recording": recording,
                "claim": f"unrolling takes no more registers ({unrolled})",
                "source": source,
                "measured": f"registers a thread, expected those of {plain}",
                "above": unrolled,
                "below": plain,
                "block_size": block,
                "rule": _NO_MORE,
                "verdict": NOT_MEASURED,
            }
            if {unrolled, plain} <= set(registers.index):
                value, expected = (int(registers.loc[[name]].max()) for name in (unrolled, plain))
                row |= {"value": value, "expected": expected, "cases": 1}
                row["verdict"] = HOLDS if value <= expected else DOES_NOT_HOLD
            yield row


def on_times(found: list[Source]) -> Iterator[Row]:
    """Yield the claims on ratios of two variants' times, for each GPU."""
    for source in with_gpu(found):
        timed = {quantity: _timed(source, quantity) for quantity in _BOTH}
        for claim in _TIMES:
            for quantity in claim.quantities:
                yield _on_times(source, timed[quantity], claim, quantity)


def _timed(source: Source, quantity: str) -> pd.DataFrame:
    """Return the cells of a GPU whose times are compared; `row` is that in `source.cells`.

    Of kernels with pinned host memory, of totals with pageable, as far as there is a choice.
    """
    cells = source.cells[source.cells["device"] != CPU]
    cells = cells[(cells["dtype"] == "float32") & cells[f"{quantity}_s"].notna()]
    cells = cells[(cells["host_memory"] == source.memory(quantity)).fillna(False)]
    cells = cells.assign(row=cells.index, in_orders=cells.index.isin(source.square_cells.index))
    return cells.astype({"block_size": float, "variant": object})


def _on_times(source: Source, timed: pd.DataFrame, claim: _Compared, quantity: str) -> Row:
    """Return the row of a claim on the ratio of two variants' times."""
    row: Row = {
        "place": ON_TIMES,
        "recording": source.recording_id,
        "gpu": source.label,
        "claim": claim.claim,
        "source": claim.source,
        "measured": f"{quantity} time of {claim.above} over that of {claim.below}",
        "above": claim.above,
        "below": claim.below,
        "block_size": claim.blocks[1] or claim.blocks[0],
        "quantity": quantity,
        "expected": claim.expected,
        "rule": claim.rule.text,
        "verdict": NOT_MEASURED,
    }
    pairs = _pairs(source, timed, claim, quantity)
    if pairs.empty:
        return row
    place = pairs["ratio"].idxmax() if claim.largest else pairs["n"].idxmax()
    chosen = pairs.loc[place]
    low, high = float(chosen["low"]), float(chosen["high"])
    row |= {name: chosen[name] for name in (*_SHAPE, "host_memory")}
    row |= bounded("value", chosen["ratio"], low, high)
    row |= {"cases": len(pairs) if claim.largest else 1}
    return row | {"verdict": claim.rule.decide(low, high, claim.expected)}


def _pairs(source: Source, timed: pd.DataFrame, claim: _Compared, quantity: str) -> pd.DataFrame:
    """Return the ratio of the two variants at every shape that both have, with its interval."""
    sides = []
    for name, block in zip((claim.above, claim.below), claim.blocks, strict=True):
        size = timed["block_size"]
        fits = (timed["variant"] == name) & (timed["in_orders"] != claim.shapes)
        fits &= size.isna() if block is None else size == block
        sides.append(timed.loc[fits, [*_SHAPE, "host_memory", "row"]])
    pairs = sides[0].merge(sides[1], on=[*_SHAPE, "host_memory"], suffixes=("_above", "_below"))
    medians, draws = source.cells[f"{quantity}_s"], source.draws[quantity]
    ratio, low, high = ratios(medians, draws, pairs["row_above"], pairs["row_below"])
    return pairs.assign(ratio=ratio, low=low, high=high)
