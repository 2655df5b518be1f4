"""The report's tables on CPUs: hosts, steps, ceilings, and what GPUs gain over them."""

from collections.abc import Sequence

import pandas as pd

from analysis.cpu.hosts import LEVELS
from analysis.data.published import SOURCE as PUBLISHED
from analysis.data.recordings import CPU
from analysis.results import (
    COUNT,
    GFLOPS,
    GIGAHERTZ,
    MILLISECONDS,
    PERCENT,
    PLAIN,
    TIMES,
    Number,
    Results,
    Subject,
    Unit,
    comparison_order,
    order_cells,
    size_unit,
    without_swept_naive,
)
from analysis.views import Cell, Column, Row, Table, number, plain_table, words
from analysis.wording import Code, Part, cell, opponent, threads, variant

GIBIBYTES = Unit(1 / 1024**3, "GiB", 3)
# How the parts of a whole are called.
PARTS = {
    "source": "cache optimisation as the source did it",
    "one_thread": "vectors, registers, packing",
    "all_threads": "all cores",
    "gpu": "the GPU with its copies",
    "whole": "all together",
}
BOUNDS = {
    "compute": "multiply-adds",
    "l1": "first-level cache",
    "l2": "second-level cache",
    "l3": "third-level cache",
    "memory": "memory",
}
_YARDSTICKS = {
    "naive": "over the naive loop, one thread",
    "own": "over this study's best C, one thread",
    "blas": "over BLAS, one thread",
    "blas_all": "over BLAS, all threads",
}


def hosts_table(results: Results, hosts: Sequence[Subject], anchor: str) -> Table:
    """Return what every CPU is and at which clock it ran, one column a host."""
    frame = results.frame("cpu_hosts")
    places = {str(name): int(row) for row, name in frame["recording"].items()}
    shown = [host for host in hosts if host.recording in places]
    columns = [_host_facts(results, places[host.recording], host.recording) for host in shown]
    headings = list(columns[0]) if columns else []
    rows = [
        Row((words(heading), *(Cell(tuple(facts[heading])) for facts in columns)))
        for heading in headings
        if any(facts[heading] != ["–"] for facts in columns)
    ]
    heads = (
        Column("fact", is_number=False),
        *(
            Column(f"{'SIMULATED ' if host.simulated else ''}{host.recording}", is_number=False)
            for host in shown
        ),
    )
    caption = (
        "The CPUs: how many threads a process may really run at once, what its caches hold, and "
        "the clock of the core, measured by operations that wait for one another right before and "
        "right after each pass. Where another program takes the core away meanwhile, the clock "
        "appears too low.",
    )
    return Table(anchor, "Hosts", caption, heads, tuple(rows), ("cpu_hosts", "cpu_clock"))


def _host_facts(results: Results, row: int, recording: str) -> dict[str, list[Part]]:
    """Return the facts of one host by heading; – for what is not known."""

    def told(column: str, unit: Unit = COUNT) -> list[Part]:
        value = results.cell("cpu_hosts", row, column, unit)
        return [value] if value else ["–"]

    facts: dict[str, list[Part]] = {
        "CPU": [results.text("cpu_hosts", row, "cpu_model")],
        "CPUs of the host": told("logical_cpus"),
        "CPUs of the process": told("usable_cpus"),
        "threads at once": told("usable_threads"),
        "memory": told("memory_bytes", GIBIBYTES),
    }
    for level in LEVELS:
        size = cache_size(results, row, level)
        sharers = results.cell("cpu_hosts", row, f"l{level}_shared_by", COUNT)
        shared: list[Part] = [", CPUs: ", sharers] if sharers else []
        facts[f"L{level} for data"] = [size, *shared] if size else ["–"]
    blas, version = (results.text("cpu_hosts", row, f"blas{part}") for part in ("", "_version"))
    facts["BLAS"] = [blas, " ", version] if blas else ["–"]
    facts["code of the BLAS for"] = [results.text("cpu_hosts", row, "blas_architecture") or "–"]
    return facts | _clock_facts(results, recording)


def cache_size(results: Results, row: int, level: int) -> Number | None:
    """Return the size of a host's cache of this level; None if it was not told."""
    size_bytes = results.frame("cpu_hosts").at[row, f"l{level}_bytes"]
    return results.cell("cpu_hosts", row, f"l{level}_bytes", size_unit(size_bytes))


def _clock_facts(results: Results, recording: str) -> dict[str, list[Part]]:
    """Return clock before and after, and what moved, on one thread and on all."""
    frame = results.frame("cpu_clock")
    own = frame[frame["recording"] == recording]
    facts: dict[str, list[Part]] = {}
    for heading, rows in (
        ("one thread", own[own["threads"] == 1]),
        ("all threads", own[own["threads"] > 1]),
    ):
        row = int(rows.index[0]) if len(rows) else None
        for when in ("before", "after"):
            facts[f"clock {when} a pass, {heading}"] = _clock(results, row, when)
        facts[f"passes whose clock moved, {heading}"] = _moved(results, row)
        facts[f"CPUs that other threads had, {heading}"] = _others(results, row)
    return facts


def _clock(results: Results, row: int | None, when: str) -> list[Part]:
    """Return "3.40 GHz (3.20 to 3.50)": median and range of the clock before or after a pass."""
    if row is None:
        return ["–"]
    clock = cell(results, "cpu_clock", row, f"clock_{when}_hz", GIGAHERTZ)
    ends = (f"clock_{when}_{end}_hz" for end in ("min", "max"))
    low, high = (results.cell("cpu_clock", row, end, GIGAHERTZ) for end in ends)
    return [clock, " (", low.bare(), " to ", high.bare(), ")"] if low and high else [clock]


def _others(results: Results, row: int | None) -> list[Part]:
    """Return how many CPUs other threads had, in all passes and in those of a cell at most."""
    if row is None:
        return ["–"]
    names = ("others_at_work", "others_at_work_max")
    whole, most = (cell(results, "cpu_clock", row, name, PLAIN) for name in names)
    return [whole, ", in a cell at most ", most]


def _moved(results: Results, row: int | None) -> list[Part]:
    if row is None:
        return ["–"]
    moved, of = (cell(results, "cpu_clock", row, c, COUNT) for c in ("samples_moved", "samples"))
    limit = cell(results, "cpu_clock", row, "tolerance", PERCENT)
    return [moved, " of ", of, ", by more than ", limit]


def speedup_tables(results: Results, subject: Subject, anchor: str) -> list[tuple[int, Table]]:
    """Return what every variant gains over the yardsticks of the CPU, at one or two orders.

    The source's order, and the largest that the CPU multiplied too; gains.csv has them all.
    """
    gains = results.frame("gains")
    known = gains[(gains["source"] == subject.label) & gains["cpu_best_gain"].notna()]
    orders = {comparison_order(known), int(known["n"].max())} if len(known) else set()
    return [
        (n, _speedups(results, subject, known[known["n"] == n], n, f"{anchor}-{n}"))
        for n in sorted(orders)
    ]


def _speedups(
    results: Results, subject: Subject, gains: pd.DataFrame, n: int, anchor: str
) -> Table:
    """Return every variant at order `n` with its best block, for each kind of host memory."""
    keys = ["variant", "block_size", "host_memory"]
    summary = order_cells(results)
    cells = summary[(summary["gpu"] == subject.label) & (summary["device"] != CPU)]
    cells = without_swept_naive(cells[(cells["n"] == n) & cells["total_s"].notna()])
    best = cells.loc[cells.groupby(["variant", "host_memory"])["total_s"].idxmin()]
    best = best.reset_index(names="cell")[["cell", "total_s", *keys]]
    shown = gains.reset_index(names="row")[["row", *keys]].merge(best, on=keys)
    rows = []
    for gain, place in shown.sort_values(["host_memory", "total_s"])[["row", "cell"]].to_numpy():
        row = int(gain)
        rows.append(
            Row(
                (
                    Cell((Code(results.text("gains", row, "variant")),)),
                    number(results, "gains", row, "block_size", COUNT),
                    Cell((results.text("gains", row, "host_memory"),)),
                    number(results, "summary", int(place), "total_s", MILLISECONDS),
                    *(
                        number(results, "gains", row, f"cpu_{name}_gain", TIMES)
                        for name in _YARDSTICKS
                    ),
                )
            )
        )
    columns = (
        *(Column("variant", is_number=False), Column("B"), Column("memory", is_number=False)),
        Column("total", "ms"),
        *(Column(text, "×") for text in _YARDSTICKS.values()),
    )
    caption: list[Part] = [f"Gain of every variant at N\u00a0=\u00a0{n} on {subject.marked_title}"]
    caption += [", with its best block and its copies, over its host's CPU"]
    if len(shown):
        caption += _yardsticks(results, int(shown["row"].iloc[0]))
    caption += [". Below 1 it is a loss. In small print the interval, by bootstrap of the medians."]
    name = f"Gains over the CPU at N = {n}, {subject.label}"
    return Table(anchor, name, tuple(caption), columns, tuple(rows), ("gains", "summary"))


def _yardsticks(results: Results, row: int) -> list[Part]:
    """Say what this study's best C is at an order, and on how many threads the BLAS ran."""
    parts: list[Part] = []
    if results.text("gains", row, "cpu_own_variant"):
        parts += ["; this study's best C there is ", *variant(results, "gains", row, "cpu_own_")]
    count = threads(results, "gains", row, "cpu_blas_all_threads")
    return [*parts, *(["; all threads: ", *count] if count else [])]


def ladder_table(results: Results, host: Subject, anchor: str) -> Table:
    """Return every step of the CPU's ladder at every order."""
    frame = results.frame("cpu_ladder")
    own = frame[frame["recording"] == host.recording]
    columns: dict[str, tuple[str, str | Unit]] = {
        "n": ("N", "count"),
        "variant": ("step", "code"),
        "block_size": ("B", "count"),
        "threads": ("threads", "count"),
        "time_s": ("time", MILLISECONDS),
        "after_variant": ("after", "code"),
        "after_block_size": ("B", "count"),
        "after_threads": ("threads", "count"),
        "after_time_s": ("time before", MILLISECONDS),
        "gain": ("gain", TIMES),
        "verdict": ("verdict", "text"),
        "efficiency": ("efficiency of the threads", PERCENT),
    }
    caption = (
        f"Steps of the CPU's ladder on {host.marked_cpu}, each with its fastest block at that N: "
        "the time of the step before over its own. A step pays where the interval of its gain lies "
        "above 1. Of a step from one thread to all, the efficiency is the gain over the number of "
        "threads.",
    )
    name = f"CPU ladder, {host.label}"
    rows = list(own.sort_values("n", kind="stable").index)
    return plain_table(results, "cpu_ladder", rows, columns, anchor, name, caption)


def roofline_table(results: Results, host: Subject, anchor: str) -> Table:
    """Return every CPU variant against the ceilings of its host."""
    frame = results.frame("cpu_roofline")
    own = frame[frame["recording"] == host.recording]
    columns: dict[str, tuple[str, str | Unit]] = {
        "variant": ("variant", "code"),
        "block_size": ("B", "count"),
        "threads": ("threads", "count"),
        "n": ("N", "count"),
        "flop_per_s": ("rate", GFLOPS),
        "intensity": ("flop a byte", "text"),
        "flop_per_byte_asked": ("asked of L1", "number"),
        **{f"flop_per_byte_past_l{level}": (f"past L{level}", "number") for level in LEVELS},
        "total_s": ("time", MILLISECONDS),
        **{f"{name}_bound_s": (f"bound: {text}", MILLISECONDS) for name, text in BOUNDS.items()},
        "bound": ("largest bound", "text"),
        "share_of_bound": ("reached", PERCENT),
    }
    caption = (
        f"CPU variants on {host.marked_cpu} against its measured ceilings. How many bytes a "
        "variant moves is by formula, for a cache that keeps what was used last; of variants that "
        "choose their blocks themselves it is the least that any product moves. A real cache keeps "
        "less, so that a variant may be farther from its largest bound than it could be; a share "
        "above 100 % says that loops ask for less than they are written to, or that a level "
        "carries more than STREAM's triad makes it.",
    )
    name = f"CPU ceilings, {host.label}"
    return plain_table(results, "cpu_roofline", list(own.index), columns, anchor, name, caption)


def split_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return the parts of a card's gain over the naive loop and over the source's better program.

    Those of the published gain stand first.
    """
    frame = results.frame("cpu_split")
    own = frame[(frame["recording"] == PUBLISHED) | (frame["gpu"] == subject.label)]
    rows = []
    for index in own.index:
        row = int(index)
        source = results.text("cpu_split", row, "recording")
        printed = source == PUBLISHED
        part = results.text("cpu_split", row, "part")
        rows.append(
            Row(
                (
                    Cell((source if printed else Code(subject.label),)),
                    Cell((results.text("cpu_split", row, "host_memory") or "–",)),
                    number(results, "cpu_split", row, "n", COUNT),
                    Cell((Code(results.text("cpu_split", row, "start")),)),
                    Cell((part.shown_as(PARTS[part]),)),
                    Cell(tuple(_side(results, row, "after_"))),
                    Cell(tuple(_side(results, row, ""))),
                    number(results, "cpu_split", row, "factor", TIMES, mark_interval=not printed),
                    number(results, "cpu_split", row, "share", PERCENT, mark_interval=not printed),
                )
            )
        )
    texts = ("gain", "memory", "from", "part", "before", "after")
    columns = [Column(text, is_number=False) for text in texts]
    columns[2:2] = [Column("N")]
    columns += [Column("factor", "×"), Column("share of the logarithm", "%")]
    caption = (
        f"What tunes the CPU and what {subject.marked_title} adds, with its copies, as factors "
        "whose product is the whole; the "
        "share is that of a factor's logarithm in the whole's. From naive: over the naive loop; "
        "from source: over a CPU program optimised for its cache as the source's was. The "
        "published gain is split by what the source's text says of its own program.",
    )
    name = f"Parts of the gain over the CPU, {subject.label}"
    return Table(anchor, name, caption, tuple(columns), tuple(rows), ("cpu_split",))


def _side(results: Results, row: int, prefix: str) -> list[Part]:
    """Return one side of a part: "blocked (B = 256), on one thread"; – where it is not told."""
    known = results.text("cpu_split", row, f"{prefix}variant")
    return opponent(results, "cpu_split", row, prefix) if known else ["–"]
