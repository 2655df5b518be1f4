"""What the counts of memory accesses say, in sentences and a table; every number is counts.csv's.

A kernel is here a variant with its block size and elements, on one shape.
"""

from collections.abc import Iterator

import pandas as pd

from analysis.findings import Findings, Sentence
from analysis.kernels.counts import ARBITRATION, NOT_EXPLAINED, WIDE
from analysis.results import COUNT, PERCENT, PLAIN, Results, Unit, rows_of, subjects
from analysis.views import Table, plain_table
from analysis.wording import NOT_MEASURED, STATED, UNDECIDED, Code, Part, cell, order
from kernels.plan import BASELINE_BLOCK
from measurement.recording import KERNEL

_NBSP = "\u00a0"
_TABLE = "counts"
_KERNEL = [name for name in KERNEL if name != "device"]
# What the page lists a request of; the CSV has every quantity.
_LISTED = ("global_load_sectors", "shared_load_wavefronts", "shared_store_wavefronts")


def counts_findings(results: Results) -> list[Sentence]:
    """Return what was counted on the host, and what a request of each variant's loads fetches."""
    frame = results.frame(_TABLE)
    found = [_on_host(results, frame), *_sectors(results, frame)]
    if not frame.empty and frame["counter"].isna().all():
        text = "No recording holds hardware counters; what a card counts is not known."
        found.append(Sentence("counters", NOT_MEASURED, (text,)))
    return found


def counter_findings(results: Results) -> list[Findings]:
    """Return how the hardware counters of every GPU that has some compare with theory."""
    frame = results.frame(_TABLE)
    found = []
    for subject in subjects(results):
        own = frame[(frame["gpu"] == subject.label) & frame["counter"].notna()]
        # What neither theory nor the card has any of is no test of theory.
        own = own[(own["theory"] > 0) | (own["counter"] > 0)]
        if subject.is_gpu and not own.empty:
            found.append(Findings(subject, tuple(_counters(results, own))))
    return found


def _on_host(results: Results, frame: pd.DataFrame) -> Sentence:
    """Say how many kernels were run on the host, and in how many each count is theory's."""
    run = frame[frame["host"].notna()]
    if run.empty:
        text = "Memory accesses were not counted on the host."
        return Sentence("counted", NOT_MEASURED, (text,))
    agreeing = (run["host"] == run["theory"]).groupby([run[k] for k in _KERNEL], dropna=False)
    same = agreeing.transform("all")
    kernels = ~run.duplicated(_KERNEL)  # one row for each
    rows = rows_of(run[kernels])
    parts: list[Part] = [results.derived(_TABLE, rows, "variant.nunique()", COUNT)]
    blocks = results.derived(_TABLE, rows, "block_size.nunique()", COUNT)
    types = results.derived(_TABLE, rows, "dtype.nunique()", COUNT)
    parts += [" variants (block sizes: ", blocks, "; types of elements: ", types, ") were run on "]
    parts += ["the host on small matrices, which counts every access: in "]
    parts += [_number(results, run[kernels & same]), " of these "]
    parts += [_number(results, run[kernels]), " runs all counts equal theory exactly."]
    return Sentence("counted", STATED if same.all() else UNDECIDED, tuple(parts))


def _number(results: Results, frame: pd.DataFrame) -> Part:
    return results.derived(_TABLE, rows_of(frame), "variant.count()", COUNT)


def _sectors(results: Results, frame: pd.DataFrame) -> Iterator[Sentence]:
    """Give the sectors a request of each variant's global loads, at one order.

    That is the largest of those at which the most variants were run.
    """
    loads = _square(frame[(frame["quantity"] == "global_load_sectors") & frame["host"].notna()])
    loads = loads[loads["block_size"].isna() | (loads["block_size"] == BASELINE_BLOCK)]
    loads = loads.drop_duplicates(_KERNEL)
    if loads.empty:
        return
    run = loads.groupby("n")["variant"].nunique()
    shown = loads[loads["n"] == run.index[run == run.max()].max()]
    rows = rows_of(shown.sort_values("host_per_request", ascending=False, kind="stable"))
    parts: list[Part] = [f"At N{_NBSP}={_NBSP}", order(results, _TABLE, rows[0])]
    blocks = rows_of(shown[shown["block_size"].notna()])
    if blocks:
        size = order(results, _TABLE, blocks[0], "block_size")
        parts += [f", in blocks of B{_NBSP}={_NBSP}", size]
    parts += [", a warp's load from global memory fetches, in sectors: "]
    for position, row in enumerate(rows):
        parts += [", " if position else "", Code(results.text(_TABLE, row, "variant")), " "]
        parts += [cell(results, _TABLE, row, "host_per_request", PLAIN)]
    yield Sentence("sectors", STATED, (*parts, "."))


def _counters(results: Results, own: pd.DataFrame) -> Iterator[Sentence]:
    """Say how many counters equal theory, and give what explains the others."""
    equal = own["counter"] == own["theory"]
    on_global = own["quantity"].str.startswith("global_")
    parts: list[Part] = []
    for position, (kind, word) in enumerate(((on_global, "global"), (~on_global, "shared"))):
        if kind.any():
            parts += ["; " if position and parts else ""]
            parts += [_number(results, own[kind & equal]), " of ", _number(results, own[kind])]
            parts += [f" counters of {word} memory equal theory exactly"]
    parts += [". Where neither theory nor the card has any, nothing is compared."]
    yield Sentence("counters", STATED, tuple(parts))
    texts = own["explanation"].fillna("")
    wide = own[texts.str.contains(WIDE, regex=False)]
    if not wide.empty:
        yield Sentence("wide", STATED, tuple(_wide(results, wide)))
    arbitrated = own[texts.str.contains(ARBITRATION, regex=False)]
    if not arbitrated.empty:
        yield Sentence("arbitration", STATED, tuple(_arbitrated(results, arbitrated)))
    left = own[texts == NOT_EXPLAINED]
    if not left.empty:
        parts = [_number(results, left), " counters differ from theory for no reason known here: "]
        yield Sentence("unexplained", UNDECIDED, (*parts, *_named(results, left), "."))


def _wide(results: Results, rows: pd.DataFrame) -> Iterator[Part]:
    lowest = int(rows["counter_over_theory"].idxmin())
    yield _number(results, rows)
    yield " counters of loads from shared memory are below theory, the lowest at "
    yield cell(results, _TABLE, lowest, "counter_over_theory", PERCENT)
    yield " of it: where a thread reads neighbouring words, the compiler has one instruction ("
    yield Code("LDS.64")
    yield ", "
    yield Code("LDS.128")
    yield ") read up to four of them, and one request serves up to four loads of the source. "
    yield "Requests are those of theory with such loads, to the last one."


def _arbitrated(results: Results, rows: pd.DataFrame) -> Iterator[Part]:
    yield _number(results, rows)
    yield " counters of wavefronts and bank conflicts have more than the program's own: cycles in "
    yield "which the data stage was taken by other requests are counted too, the same number as "
    yield "wavefronts and as conflicts; no order of the program determines them"
    rows = rows[rows["quantity"].str.endswith("_wavefronts") & (rows["counter"] > rows["theory"])]
    if not rows.empty:
        highest = int(rows["counter_over_theory"].idxmax())
        yield ". They add "
        yield results.derived(_TABLE, [highest], "counter_over_theory - 1", PERCENT)
        yield " at most to the wavefronts of theory"
    yield "."


def _named(results: Results, rows: pd.DataFrame) -> Iterator[Part]:
    """Yield quantity by quantity how many of its counters are among the rows."""
    for position, (quantity, own) in enumerate(rows.groupby("quantity", sort=False)):
        yield from (", " if position else "", _number(results, own), " of ", Code(str(quantity)))


def accesses_table(results: Results, anchor: str) -> Table:
    """Return sectors and wavefronts a request of every variant and block size, at one order.

    Of square matrices of float32 elements. The order is that of the hardware counters, or else the
    largest at which it was run on the host, of the build without bounds checks where that was run.
    """
    frame = _square(results.frame(_TABLE))
    listed = frame[frame["quantity"].isin(_LISTED) & (frame["theory"] > 0)]
    counted = listed[listed["counter"].notna()]
    kernel = ["variant", "block_size"]
    on_host = listed[listed["host"].notna() & ~_within(listed, counted, kernel)]
    orders = on_host.assign(exact=on_host["n"].where(on_host["build"] == "exact"))
    largest = orders.groupby(kernel, dropna=False)[["exact", "n"]].transform("max")
    on_host = on_host[on_host["n"] == largest["exact"].fillna(largest["n"])]
    shown = pd.concat([counted, on_host]).sort_index()
    columns: dict[str, tuple[str, str | Unit]] = {
        "variant": ("variant", "code"),
        "block_size": ("B", "count"),
        "n": ("N", "count"),
        "quantity": ("a request's", "code"),
        "theory_per_request": ("theory", "number"),
        "merged_per_request": ("theory, merged loads", "number"),
        "host_per_request": ("host", "number"),
        "gpu": ("card", "code"),
        "counter_per_request": ("hardware", "number"),
        "explanation": ("why the counters differ from theory", "text"),
    }
    caption = (
        "Sectors of 32 bytes a request to global memory and wavefronts a request to shared "
        "memory: by theory, by theory where the compiler merges neighbouring loads of shared "
        "memory, counted on the host, and by each card's hardware counters, of which the requests "
        "are its own too.",
    )
    name = "Memory accesses a request"
    return plain_table(results, _TABLE, rows_of(shown), columns, anchor, name, caption)


def _square(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of products of two square matrices of float32 elements."""
    square = (frame["m"] == frame["n"]) & (frame["k"] == frame["n"]) & (frame["batch"] == 1)
    return frame[square & (frame["dtype"] == "float32")]


def _within(rows: pd.DataFrame, others: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return which rows share their keys with one of the others."""
    known = pd.MultiIndex.from_frame(others[keys])
    return pd.Series(pd.MultiIndex.from_frame(rows[keys]).isin(known), rows.index)
