"""The figures of a host's CPU, and of what GPUs gain over it."""

from collections.abc import Iterator

import pandas as pd

from analysis import cpu_plots
from analysis.cpu.hosts import LEVELS
from analysis.cpu.split import WHOLE
from analysis.data.published import SOURCE as PUBLISHED
from analysis.drawings import INTERVALS, Drawing, Host, samples_text
from analysis.plots import TOTAL, with_rates
from analysis.results import HOST_MEMORY_ORDER, Results, Subject
from analysis.style import binary_size, plain_number

_SWEPT = "blocked"
Ceilings = dict[tuple[str, int], float]


def of_cpu(results: Results, host: Host, cells: pd.DataFrame) -> Iterator[Drawing]:
    """Draw a host's rates over N, its sweep of the block size, and its ceilings.

    `cells` are the rows of summary.csv of its CPU.
    """
    if cells.empty:
        return
    cpu, ceilings = host.subject.marked_cpu, _ceilings(results, host)
    peak = " The line at the top is the measured rate of multiply-adds." if ceilings else ""
    yield host.drawing(
        "cpu",
        "The CPU's rate",
        f"Rate over N of every CPU variant, each with its best block size at that N, on {cpu}, by "
        f"the number of threads.{peak} {INTERVALS} {samples_text(cells)}",
        cpu_plots.rates(cells, ceilings),
    )
    swept = cells[(cells["variant"] == _SWEPT) & cells["block_size"].notna()]
    if not swept.empty:
        caches = _caches(results, host)
        yield host.drawing(
            "cpu-blocks",
            "Cache blocking over the block size",
            f"Rate of {_SWEPT} over the block size B, one thread of {cpu}."
            f"{_caches_text(caches)} {INTERVALS} {samples_text(swept)}",
            cpu_plots.blocks(swept, caches),
        )
    yield from _roofline(results, host, ceilings)


def _roofline(results: Results, host: Host, ceilings: Ceilings) -> Iterator[Drawing]:
    frame = results.frame("cpu_roofline")
    own = frame[frame["recording"] == host.subject.recording]
    own = own[own["flop_per_byte_past_l1"].notna()]
    if own.empty or not ceilings:
        return
    rows = with_rates(own.assign(batch=1, m=own["n"], k=own["n"]), TOTAL)
    yield host.drawing(
        "cpu-roofline",
        "CPU variants below the ceilings of their host",
        "Rate of each CPU variant, with its fastest block at its largest N, on "
        f"{host.subject.marked_cpu}, by flop a byte. Bytes are by formula from the order, the "
        "block and the size of the cache, not counted: on the left what the loops ask of the "
        "first-level cache, on the right what is fetched past it. Of variants marked by an arrow "
        "it is known only that they move each matrix once at least, so that they do as many flop a "
        "byte at most. Lines are measured: multiply-adds, and STREAM's triad in memory and in each "
        f"cache. A rim marks several threads. {INTERVALS}",
        cpu_plots.roofline(rows, ceilings),
    )


def split_figure(results: Results, cards: list[Subject]) -> Iterator[Drawing]:
    """Draw what gains over the naive CPU loop are made up of, published and on every card."""
    frame = results.frame("cpu_split")
    frame = frame[frame["start"] == "naive"]
    wholes = []
    measured = set(frame["gpu"].dropna())
    shown = [(card.marked_title, card.label) for card in cards if card.label in measured]
    for name, source in [("published", PUBLISHED), *shown] if shown else []:
        published = source == PUBLISHED
        own = frame[frame["recording"] == source] if published else frame[frame["gpu"] == source]
        for memory in HOST_MEMORY_ORDER if not published else ("",):
            rows = own[own["host_memory"].fillna("") == memory]
            if not rows.empty:
                n = plain_number(int(rows["n"].iloc[0]))
                at = f"N = {n}, {memory}" if memory else f"N = {n}"
                wholes.append(((name, at), rows[rows["part"] != WHOLE]))
    if wholes:
        yield Drawing(
            "cpu-split",
            "cpu-split",
            "",
            "What a gain over the naive CPU loop is made up of",
            "Gain of the fastest kernel, copies included, over the naive CPU loop, split into what "
            "tuning the CPU gains and what the GPU adds: cache optimisation as the source did it, "
            "then the fastest on one thread, then the fastest on all, then the GPU. The axis is "
            "logarithmic, so that factors that multiply are lengths that add up. Of the published "
            "gain the first part is what the source says of its own program. Lines below the parts "
            "are the intervals of their factors; a part without one has none. A thinner bar leads "
            f"back: a loss. Shown: {'; '.join(f'{name}, {at}' for (name, at), _ in wholes)}.",
            cpu_plots.split(wholes),
        )


def _ceilings(results: Results, host: Host) -> Ceilings:
    """Return the medians of a CPU's ceilings by quantity and number of threads."""
    frame = results.frame("ceilings")
    own = frame[(frame["recording"] == host.subject.recording) & frame["gpu"].isna()]
    own = own[own["threads"].notna()]
    rows = own[["quantity", "threads", "value"]].itertuples(index=False)
    return {(str(name), int(threads)): float(value) for name, threads, value in rows}


def _caches(results: Results, host: Host) -> list[tuple[int, int]]:
    """Return level and bytes of every cache of a host of which the size is known."""
    frame = results.frame("cpu_hosts")
    own = frame[frame["recording"] == host.subject.recording]
    sizes = [(level, own[f"l{level}_bytes"].dropna()) for level in LEVELS]
    return [(level, int(found.iloc[0])) for level, found in sizes if len(found)]


def _caches_text(caches: list[tuple[int, int]]) -> str:
    """Say where each cache is full: at which block size, whether it is in the figure or not."""
    if not caches:
        return " The sizes of its caches were not told."
    places = [
        f"{binary_size(size)} of L{level} at B = {cpu_plots.edges(size)[0]:.0f}"
        for level, size in caches
    ]
    return (
        " Dashed lines: three blocks of B×B fill a cache, 12·B² bytes; there a band begins that "
        f"ends where one block does. They fill {', '.join(places)}."
    )
