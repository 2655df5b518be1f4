"""What was found of the CPU of each host, in sentences whose numbers are computed.

The wording follows what there is: a process that may use one core has no step to all of them, and
a recording without a BLAS says so.
"""

from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.cpu.cells import NAIVE
from analysis.cpu.claims import BLOCK_SIZE, CACHE_GAIN
from analysis.cpu.hosts import LEVELS
from analysis.cpu_views import BOUNDS, cache_size
from analysis.data.recordings import CPU
from analysis.findings import Findings, Sentence
from analysis.kernels.claims import DOES_NOT_HOLD, HOLDS
from analysis.kernels.ladder import DOES_NOT_PAY, PAYS
from analysis.results import (
    COUNT,
    GFLOPS,
    GIGAHERTZ,
    PERCENT,
    TIMES,
    Results,
    Subject,
    order_cells,
    rows_of,
)
from analysis.wording import (
    NOT_MEASURED,
    STATED,
    Code,
    Part,
    cell,
    measured,
    order,
    threads,
    variant,
)
from cpu_reference.catalog import BLAS

_PACKED = "packed"


def host_findings(results: Results, hosts: Sequence[Subject]) -> list[Findings]:
    """Return these findings on the CPU of every recording; `hosts` has one subject of each.

    There are none on recordings in which no CPU was measured.
    """
    cells = order_cells(results)
    of_cpus = set(cells.loc[cells["device"] == CPU, "recording"])
    return [
        Findings(host, tuple(_of_host(results, host)))
        for host in hosts
        if host.recording in of_cpus
    ]


def _of_host(results: Results, host: Subject) -> Iterator[Sentence]:
    yield from _machine(results, host)
    yield from _clock(results, host)
    yield from _rates(results, host)
    yield from _library(results, host)
    yield from _cores(results, host)
    yield from _cache_gain(results, host)
    yield from _block_size(results, host)
    yield from _ceiling(results, host)


def _own(results: Results, table: str, host: Subject) -> pd.DataFrame:
    frame = results.frame(table)
    return frame[frame["recording"] == host.recording]


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["n"] == frame["n"].max()]


def _machine(results: Results, host: Subject) -> Iterator[Sentence]:
    """Name threads, caches and BLAS."""
    for row in rows_of(_own(results, "cpu_hosts", host)):
        parts: list[Part] = ["Threads that the process may run at once: "]
        parts += [cell(results, "cpu_hosts", row, "usable_threads", COUNT), ", on a host of "]
        parts += [cell(results, "cpu_hosts", row, "logical_cpus", COUNT), " CPUs. "]
        sizes = ((BOUNDS[f"l{level}"], cache_size(results, row, level)) for level in LEVELS)
        told = [(name, size) for name, size in sizes if size]
        parts += ["The sizes of its caches were not told. "] if not told else []
        for position, (name, size) in enumerate(told):
            parts += [", the " if position else "For data the ", f"{name} holds ", size]
        parts += [". "] if told else []
        blas = [results.text("cpu_hosts", row, name) for name in ("blas", "blas_version")]
        if not blas[0]:
            yield Sentence("machine", STATED, (*parts, "Which BLAS it has was not told."))
            return
        parts += ["Its BLAS is ", Code(" ".join(filter(None, blas)))]
        kind = results.text("cpu_hosts", row, "blas_architecture")
        parts += [" with code for ", Code(kind)] if kind else []
        yield Sentence("machine", STATED, (*parts, "."))


def _clock(results: Results, host: Subject) -> Iterator[Sentence]:
    """Give the clock before and after passes on one thread, and how often it moved."""
    own = _own(results, "cpu_clock", host)
    own = own[own["threads"] == 1]
    if own.empty:
        text = "The clock of the CPU during its passes was not measured."
        yield Sentence("cpu_clock", NOT_MEASURED, (text,))
    for row in rows_of(own):
        before, after = (
            cell(results, "cpu_clock", row, f"clock_{when}_hz", GIGAHERTZ)
            for when in ("before", "after")
        )
        parts: list[Part] = ["On one thread the clock was ", before, " in the median before a "]
        parts += ["pass and ", after, " after it; it moved by more than "]
        parts += [cell(results, "cpu_clock", row, "tolerance", PERCENT), " in "]
        parts += [cell(results, "cpu_clock", row, "samples_moved", COUNT), " of "]
        parts += [cell(results, "cpu_clock", row, "samples", COUNT), " passes. Other threads of "]
        parts += ["the process had a CPU for "]
        parts += [cell(results, "cpu_clock", row, "others_at_work", PERCENT), " of the time, in "]
        parts += ["the passes of one cell for "]
        parts += [cell(results, "cpu_clock", row, "others_at_work_max", PERCENT), " at most."]
        yield Sentence("cpu_clock", STATED, tuple(parts))


def _rates(results: Results, host: Subject) -> Iterator[Sentence]:
    """Give the rates on one thread at the largest order of the naive loop, fastest block each."""
    cells = order_cells(results)
    cells = cells[(cells["recording"] == host.recording) & (cells["device"] == CPU)]
    cells = cells[(cells["threads"] == 1) & cells["total_s"].notna()]
    naive = cells[cells["variant"] == NAIVE]
    cells = cells[cells["n"] == (cells if naive.empty else naive)["n"].max()]
    if cells.empty:
        yield Sentence("cpu_rates", NOT_MEASURED, ("No CPU cell on one thread was timed.",))
        return
    best = cells.loc[cells.groupby("variant")["total_s"].idxmin()].sort_values("total_s")
    first = rows_of(best)[0]
    parts: list[Part] = ["On one thread at N\u00a0=\u00a0", order(results, "summary", first), ": "]
    for position, row in enumerate(reversed(rows_of(best))):
        parts += [", " if position else "", *variant(results, "summary", row), " "]
        parts += [cell(results, "summary", row, "flop_per_s", GFLOPS)]
    yield Sentence("cpu_rates", STATED, (*parts, "."))


def _library(results: Results, host: Subject) -> Iterator[Sentence]:
    """Hold this study's packed product against the BLAS, on one thread and on all."""
    own = _own(results, "cpu_ladder", host)
    own = own[(own["variant"] == BLAS) & (own["after_variant"] == _PACKED)]
    if own.empty:
        text = "No BLAS was measured beside this study's packed product."
        yield Sentence("cpu_library", NOT_MEASURED, (text,))
        return
    parts: list[Part] = []
    for _, rows in own.groupby("threads"):
        row = rows_of(_largest(rows))[0]
        said = _FASTER.get(results.text("cpu_ladder", row, "verdict"), "cannot be told apart from")
        on = threads(results, "cpu_ladder", row)
        parts += ["; on " if parts else "On ", *on, " at N\u00a0=\u00a0"]
        parts += [order(results, "cpu_ladder", row), f" the BLAS {said} ", Code(_PACKED)]
        parts += [": a gain of "]
        parts += measured(results, "cpu_ladder", row, "gain", TIMES)
    yield Sentence("cpu_library", STATED, (*parts, "."))


_FASTER = {PAYS: "is faster than", DOES_NOT_PAY: "is slower than"}


def _cores(results: Results, host: Subject) -> Iterator[Sentence]:
    """Give what all cores gain over one, and their efficiency, at the largest order."""
    own = _own(results, "cpu_ladder", host)
    own = own[own["efficiency"].notna()]
    if own.empty:
        usable = _own(results, "cpu_hosts", host)["usable_threads"]
        text = "Nothing was measured on more than one core."
        if usable.eq(1).any():
            text = "The process may use one core, so that one thread is all there is."
        yield Sentence("cores", NOT_MEASURED, (text,))
        return
    parts: list[Part] = []
    for _, rows in own.groupby("variant", sort=False):
        row = rows_of(_largest(rows))[0]
        parts += ["; " if parts else "", *variant(results, "cpu_ladder", row), " at N\u00a0=\u00a0"]
        parts += [order(results, "cpu_ladder", row), " gains "]
        parts += measured(results, "cpu_ladder", row, "gain", TIMES)
        parts += [" on ", *threads(results, "cpu_ladder", row), ", an efficiency of "]
        parts += [cell(results, "cpu_ladder", row, "efficiency", PERCENT)]
    yield Sentence("cores", STATED, (*parts, "."))


_DECIDED = {HOLDS: "holds", DOES_NOT_HOLD: "does not hold"}


def _claim(results: Results, host: Subject, claim: str) -> int | None:
    """Return the row of a claim on this host's CPU, if it was measured."""
    own = _own(results, "claims", host)
    rows = rows_of(own[(own["claim"] == claim) & own["value"].notna()])
    return rows[0] if rows else None


def _cache_gain(results: Results, host: Subject) -> Iterator[Sentence]:
    """Say whether cache optimisation gains what the source says of its own."""
    row = _claim(results, host, CACHE_GAIN)
    if row is None:
        text = "What cache optimisation gains over the naive loop was not measured."
        yield Sentence("cache_gain", NOT_MEASURED, (text,))
        return
    word = results.text("claims", row, "verdict")
    parts: list[Part] = ["Cache optimisation as the source did it (", *_below(results, row)]
    parts += [") gains ", *measured(results, "claims", row, "value", TIMES)]
    parts += [" over the naive loop at N\u00a0=\u00a0", order(results, "claims", row)]
    parts += [", where the source has ", cell(results, "claims", row, "expected", TIMES)]
    bounded = results.interval("claims", row, "value", TIMES) is not None
    undecided = "that is undecided" if bounded else "without an interval nothing is decided"
    decided = f"its claim {_DECIDED[word]}" if word in _DECIDED else undecided
    yield Sentence("cache_gain", word, (*parts, f": {decided}."))


def _below(results: Results, row: int) -> list[Part]:
    size = results.cell("claims", row, "block_size", COUNT)
    name: list[Part] = [Code(results.text("claims", row, "below"))]
    return [*name, " (B\u00a0=\u00a0", size, ")"] if size else name


def _block_size(results: Results, host: Subject) -> Iterator[Sentence]:
    """Say how much the block size matters, and at which size three blocks fill each cache."""
    row = _claim(results, host, BLOCK_SIZE)
    if row is None:
        return
    parts: list[Part] = ["The slowest block size takes "]
    parts += measured(results, "claims", row, "value", TIMES)
    parts += [" the time of the fastest at N\u00a0=\u00a0", order(results, "claims", row)]
    parts += [", which is B\u00a0=\u00a0", order(results, "claims", row, "block_size"), "."]
    hosts = _own(results, "cpu_hosts", host)
    for place in rows_of(hosts):
        told = [level for level in LEVELS if not pd.isna(hosts.at[place, f"l{level}_bytes"])]
        for position, level in enumerate(told):
            edge = results.derived("cpu_hosts", [place], f"(l{level}_bytes / 12) ** 0.5", COUNT)
            parts += [", the " if position else " Three blocks fill the "]
            parts += [f"{BOUNDS[f'l{level}']} at B\u00a0=\u00a0", edge]
        parts += ["."] if told else []
    yield Sentence("block_size", STATED, tuple(parts))


def _ceiling(results: Results, host: Subject) -> Iterator[Sentence]:
    """Say how near the fastest comes to the measured multiply-adds, on one thread and on all."""
    own = _own(results, "cpu_roofline", host)
    own = own[own["compute_bound_s"].notna()]
    if own.empty:
        text = "What the cores could do at most was not measured."
        yield Sentence("cpu_ceiling", NOT_MEASURED, (text,))
        return
    parts: list[Part] = []
    for _, rows in own.groupby("threads"):
        row = int(rows["flop_per_s"].idxmax())
        share = results.derived("cpu_roofline", [row], "compute_bound_s / total_s", PERCENT)
        on = threads(results, "cpu_roofline", row)
        parts += ["; on " if parts else "On ", *on, " ", *variant(results, "cpu_roofline", row)]
        parts += [" reaches ", share, " of the measured rate of multiply-adds"]
    yield Sentence("cpu_ceiling", STATED, (*parts, "."))
