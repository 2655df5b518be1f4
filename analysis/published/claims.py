"""The sources' claims, tested by counts, builds and times: one row per claim.

Each claim has a rule that decides on its verdict. Times are compared at the largest size measured
for both variants, by the interval of their ratio; `quantity` is "kernel" or "total".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.data.cells import whole
from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import CPU, NOT_MEASURED, SHAPE, UNDECIDED
from analysis.kernels.counts import launches
from analysis.kernels.machine_code import EXACT, intensities
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import ratios
from kernels.catalog.entries import VARIANTS, has_own_source
from kernels.catalog.product import Product

HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
BY_COPIES = "depends on the copies"
NEAR = 1.25  # tolerance of "about", as a factor
ClaimRow = dict[str, object]
# Positions of the claims in the table.
ON_ACCESSES, ON_REGISTERS, ON_TIMES, ON_CPU, ON_GPU_AND_CPU = 0, 1, 3, 4, 5


@dataclass(frozen=True)
class Rule:
    """The range of values for which a claim holds, as multiples of the expected value.

    A range from 1 to infinity does not contain the expected value itself.
    """

    text: str
    least: float = -np.inf
    most: float = np.inf

    def decide(self, low: float, high: float, expected: float) -> str:
        """Return whether an interval is inside the range, outside it, or neither."""
        least, most = self.least * expected, self.most * expected
        is_open = self.least == 1 and most == np.inf
        if high < least or low > most or (is_open and high <= least):
            return DOES_NOT_HOLD
        inside = (low > least if is_open else low >= least) and high <= most
        return HOLDS if inside else UNDECIDED  # a value without interval can hold as well

    def reason(self, low: float, high: float, expected: float) -> str | None:
        """Return which bound of the range is inside the interval, so that `decide` is undecided."""
        if self.decide(low, high, expected) != UNDECIDED:
            return None
        bounds = [factor * expected for factor in (self.least, self.most)]
        inside = [f"{bound:.4g}" for bound in bounds if low <= bound <= high]
        return f"interval contains {' and '.join(inside)}" if inside else "no interval"


EXACTLY = Rule("holds if every case is exactly the expected value", 1, 1)
_AT_MOST = Rule("holds if the value is at most the expected one", most=1)
ABOUT = Rule(
    f"holds if the interval is within a factor of {NEAR} of the expected value, does not hold if "
    "it is outside, else undecided",
    1 / NEAR,
    NEAR,
)
_UNDECIDED = "undecided if it contains this value"
ABOVE = Rule(f"holds if the interval is above the expected value, {_UNDECIDED}", least=1)
NOT_ABOVE = Rule(f"holds if the interval is not above the expected value, {_UNDECIDED}", most=1)


@dataclass(frozen=True)
class Claim:
    """A claim that a source makes about a number, with the rule that tests it."""

    text: str
    source: str
    rule: Rule
    expected: float = 1.0

    def row(self, position: int, measured: str = NOT_MEASURED, **more: object) -> ClaimRow:
        """Return the row of the claim before any measurement."""
        row = {"position": position, "claim": self.text, "source": self.source}
        row |= {"measured": measured, "expected": self.expected, "rule": self.rule.text}
        return row | {"verdict": NOT_MEASURED} | more

    def result(self, value: float, low: float, high: float, cases: int, **more: object) -> ClaimRow:
        """Return the columns that a measured value with its interval adds to the claim's row."""
        verdict = self.rule.decide(low, high, self.expected)
        row = {**bounded("value", value, low, high), "cases": cases, "verdict": verdict}
        return row | {"reason": self.rule.reason(low, high, self.expected), **more}


@dataclass(frozen=True)
class _RatioClaim(Claim):
    """A claim about the time of the variant `above` divided by that of the variant `below`.

    `blocks` are their block sizes (None: no block size). `cases` says which ratio counts: the one
    at the largest size, the largest of all sizes, or that at shapes which are not square.
    """

    above: str = ""
    below: str = ""
    blocks: tuple[int | None, int | None] = (None, None)
    quantities: tuple[str, ...] = ()
    cases: str = ""


LARGEST_RATIO, OTHER_SHAPES = "largest ratio", "other shapes"
_RULES = {"about": ABOUT, "above": ABOVE, "not above": NOT_ABOVE}


def _ratio_claims() -> Iterator[_RatioClaim]:
    path = Path(__file__).with_suffix(".csv")
    for row in pd.read_csv(path).to_dict("records"):
        blocks = whole(row.pop("above_block")), whole(row.pop("below_block"))
        row |= {"rule": _RULES[row["rule"]], "quantities": tuple(row["quantities"].split())}
        yield _RatioClaim(**row, blocks=blocks)


_TIMES = list(_ratio_claims())
_VERDICT = ("verdict", "reason", "other_blocks")
_BOTH = ("kernel", "total")
_NAIVE_INTENSITY = Claim("a naive kernel does 1/4 flop per byte loaded", "T, L", EXACTLY, 0.25)
_TILE_INTENSITY = Claim("a kernel with B×B tiles does B/4 flop per byte loaded", "T, L", EXACTLY)
_FEWER_LOADS = Claim("tiles of 32 reduce global loads to 1/32", "H", EXACTLY, 32.0)
_REGISTERS = "unrolling takes no more registers ({})"


def claims_table(rows: Iterable[ClaimRow]) -> pd.DataFrame:
    """Return rows of claims as a table, ordered by `position`.

    Claims about times have one row per GPU, claims about builds and CPUs one per recording. `value`
    is a ratio of times with its interval, or the value farthest from the claim among `cases`
    (kernels, sizes or builds). Claims without measurement have the verdict `NOT_MEASURED`.
    """
    return from_rows("claims", sorted(rows, key=lambda row: int(str(row["position"]))))


def claim_verdicts_table(claims: pd.DataFrame, sources: Iterable[MeasuredSource]) -> pd.DataFrame:
    """Return one row per claim and GPU model, with verdicts from kernel and end-to-end times.

    `claims` is `claims_table`. Of each model, only the first GPU is used. Columns with the prefix
    kernel_ are for kernel times, counts and builds, those with the prefix total_ for end-to-end
    times and CPUs. verdict: that of both, or `BY_COPIES` if they differ.
    """
    models: dict[str | None, MeasuredSource] = {}
    for source in with_gpu(list(sources)):
        models.setdefault(source.gpu_name, source)
    rows = []
    for name, source in models.items():
        gpu = claims["gpu"].isna() | (claims["gpu"] == source.label)
        recording = claims["recording"].isna() | (claims["recording"] == source.recording_id)
        for claim, cases in claims[gpu & recording].groupby("claim", sort=False):
            row = {"gpu": source.label, "gpu_name": name, "claim": claim}
            row |= {name: cases.iloc[0][name] for name in ("source", "expected", "block_size")}
            for case in cases.to_dict("records"):
                prefix = "total" if case["quantity"] == "total" else "kernel"
                columns = ("n", "host_memory", *with_bounds("value"), *_VERDICT)
                row |= {f"{prefix}_{column}": case[column] for column in columns}
            verdicts = dict.fromkeys(cases["verdict"])
            row["verdict"] = next(iter(verdicts)) if len(verdicts) == 1 else BY_COPIES
            rows.append(row)
    return from_rows("claim_verdicts", rows)


def on_accesses(counts: pd.DataFrame) -> Iterator[ClaimRow]:
    """Yield the claims about arithmetic intensity and global accesses, tested by theory."""
    # Kernels without their own source have padded matrices, so they load more than needed.
    own_kernels = set(filter(has_own_source, VARIANTS))
    of_kernels = counts[counts["variant"].isin(own_kernels) & (counts["dtype"] == "float32")]
    loads: dict[Product, float] = {}
    naive, tiled = [], []
    for product, launch in launches(of_kernels[of_kernels["build"] == EXACT]).items():
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
    for claim, values, measured in (
        (_NAIVE_INTENSITY, naive, "flop per byte, by the count of loads"),
        (_TILE_INTENSITY, tiled, "flop per byte over B/4, by the count of loads"),
        (_FEWER_LOADS, fewer, "loads of naive_coalesced over those of block, B = 32"),
    ):
        row = claim.row(ON_ACCESSES, measured, cases=0)
        yield row | (_farthest(claim, values) if values else {})


def _farthest(claim: Claim, values: list[float]) -> ClaimRow:
    """Return the columns of the value farthest from the expected one; it has no interval."""
    value = max(values, key=lambda one: abs(one - claim.expected))
    verdict = claim.rule.decide(value, value, claim.expected)
    return {"value": value, "cases": len(values), "verdict": verdict}


def on_registers(sources: list[MeasuredSource], machine_code: pd.DataFrame) -> Iterator[ClaimRow]:
    """Yield the claims that unrolling needs no more registers, tested in each recording."""
    for position, source, unrolled, plain, block in (
        (ON_REGISTERS, "V", "block_unroll4", "block", 32),
        (ON_REGISTERS + 1, "T", "outer_product_unrolled", "outer_product", None),
    ):
        for recording in dict.fromkeys(one.recording_id for one in sources if one.device):
            builds = machine_code[machine_code["recording"] == recording]
            builds = builds[(builds["build"] == EXACT) & (builds["dtype"] == "float32")]
            size = builds["block_size"]
            builds = builds[size.isna() if block is None else (size == block).fillna(False)]
            registers = builds.set_index("variant")["registers_per_thread"]
            is_known = {unrolled, plain} <= set(registers.index)
            names = (unrolled, plain)
            counts = (float(registers.loc[[name]].max()) if is_known else np.nan for name in names)
            value, expected = counts
            claim = Claim(_REGISTERS.format(unrolled), source, _AT_MOST, expected)
            measured = f"registers per thread, expected those of {plain}"
            row = claim.row(position, measured, recording=recording, block_size=block)
            yield row | (_farthest(claim, [value]) if is_known else {})


def on_times(sources: list[MeasuredSource]) -> Iterator[ClaimRow]:
    """Yield the claims about ratios of two variants' times, tested on each GPU."""
    for source in with_gpu(sources):
        timed = {quantity: _timed(source, quantity) for quantity in _BOTH}
        for claim in _TIMES:
            for quantity in claim.quantities:
                yield _on_times(source, timed[quantity], claim, quantity)


def _timed(source: MeasuredSource, quantity: str) -> pd.DataFrame:
    """Return a GPU's cells in the memory preferred for `quantity`; row: in `source.cells`."""
    cells = source.cells[source.cells["device"] != CPU]
    cells = cells[(cells["dtype"] == "float32") & cells[f"{quantity}_s"].notna()]
    cells = cells[(cells["host_memory"] == source.memory(quantity)).fillna(False)]
    cells = cells.assign(row=cells.index, square=cells.index.isin(source.square_cells.index))
    return cells.astype({"block_size": float, "variant": object})


def _on_times(
    source: MeasuredSource, timed: pd.DataFrame, claim: _RatioClaim, quantity: str
) -> ClaimRow:
    row = claim.row(
        ON_TIMES,
        f"{quantity} time of {claim.above} over that of {claim.below}",
        recording=source.recording_id,
        gpu=source.label,
        block_size=claim.blocks[1] or claim.blocks[0],
        quantity=quantity,
    )
    pairs = _pairs(source, timed, claim, quantity)
    if pairs.empty:
        return row
    row |= {"other_blocks": _other_blocks(source, timed, claim, quantity)}
    return row | _of_pairs(claim, pairs)


def _of_pairs(claim: _RatioClaim, pairs: pd.DataFrame) -> ClaimRow:
    of_all = claim.cases == LARGEST_RATIO
    chosen = pairs.loc[pairs["ratio" if of_all else "n"].idxmax()]
    bounds = float(chosen["low"]), float(chosen["high"])
    result = claim.result(chosen["ratio"], *bounds, len(pairs) if of_all else 1)
    return {name: chosen[name] for name in ("n", "host_memory")} | result


def _other_blocks(
    source: MeasuredSource, timed: pd.DataFrame, claim: _RatioClaim, quantity: str
) -> str | None:
    """Return the claim's verdicts at other block sizes of both variants, as text: "holds: 4, 8"."""
    sizes: dict[str, list[str]] = {}
    for size in sorted(timed["block_size"].dropna().unique()):
        above, below = (None if block is None else int(size) for block in claim.blocks)
        blocks = above, below
        pairs = _pairs(source, timed, replace(claim, blocks=blocks), quantity)
        if blocks != claim.blocks and len(pairs):
            verdict = str(_of_pairs(claim, pairs)["verdict"])
            sizes.setdefault(verdict, []).append(f"{size:.0f}")
    return "; ".join(f"{verdict}: {', '.join(of)}" for verdict, of in sizes.items()) or None


def _pairs(
    source: MeasuredSource, timed: pd.DataFrame, claim: _RatioClaim, quantity: str
) -> pd.DataFrame:
    """Return the ratio of the times of two variants at every common shape, with its interval."""
    sides = []
    for name, block in zip((claim.above, claim.below), claim.blocks, strict=True):
        size = timed["block_size"]
        fits = (timed["variant"] == name) & (timed["square"] == (claim.cases != OTHER_SHAPES))
        fits &= size.isna() if block is None else size == block
        sides.append(timed.loc[fits, [*SHAPE, "host_memory", "row"]])
    pairs = sides[0].merge(sides[1], on=[*SHAPE, "host_memory"], suffixes=("_above", "_below"))
    medians, draws = source.cells[f"{quantity}_s"], source.draws[quantity]
    ratio, low, high = ratios(medians, draws, pairs["row_above"], pairs["row_below"])
    return pairs.assign(ratio=ratio, low=low, high=high)
