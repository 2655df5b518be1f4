"""The three answers on each GPU: the fastest way, its speedup over the CPU, from which size it pays.

All kinds of host memory take part, and the library too. A host without a GPU has its CPU's fastest
way alone.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from analysis.data.cells import is_library, of_sizes
from analysis.data.frames import from_rows
from analysis.decide.break_even import ABOVE, BELOW
from analysis.decide.curves import BEST
from analysis.domain import CPU, FASTER, SLOWER, verdict
from analysis.schema import renaming, with_bounds
from analysis.stats.estimates import FloatArray, percentile_interval

Row = dict[str, object]
Drawn = Callable[[str, pd.DataFrame], FloatArray]


def answers_table(frames: Mapping[str, pd.DataFrame], drawn: Drawn) -> pd.DataFrame:
    """Return one row a device of recordings.csv, from the other tables.

    `drawn` returns draws of the total times of rows of summary.csv of one device, by its label.

    - total_s is the least time of the largest size, copies included; next_ is the fastest other
      variant, own_ the fastest kernel of this study where a library is the fastest or the next.
    - speedup is over the fastest that the host's CPU did, at speedup_n, the largest size that both took.
    - break_even_n is the least break-even size of any host memory, over the same; break_even_location says where
      it lies: see `analysis.decide.break_even`. Outside of the measured sizes there is no break_even_n.

    Verdicts are `analysis.domain.verdict`, of the way that on its speedup over the next; of the
    break-even it is a loss where there is none.
    """
    rows = [_answers(frames, device, drawn) for device in frames["recordings"].to_dict("records")]
    return from_rows("answers", rows)


def _answers(frames: Mapping[str, pd.DataFrame], device: Mapping[str, object], drawn: Drawn) -> Row:
    cells, label = of_sizes(frames["summary"]), device["gpu"]
    found: Row = {"recording": device["recording"], "gpu": label}
    on_cpu = cells["device"] == CPU
    if pd.isna(label):
        cpu = cells[on_cpu & (cells["recording"] == device["recording"])]
        return found | _way(cpu, partial(drawn, str(device["recording"])))
    speedups, sizes = frames["speedups"], frames["break_even"]
    speedups = speedups[(speedups["source"] == label) & speedups["cpu_best_speedup"].notna()]
    own = (sizes["gpu"] == label) & (sizes["cpu_baseline"] == BEST)
    way = _way(cells[~on_cpu & (cells["gpu"] == label)], partial(drawn, str(label)))
    return found | way | _speedup(speedups) | _break_even(sizes[own])


def _way(cells: pd.DataFrame, drawn: Callable[[pd.DataFrame], FloatArray]) -> Row:
    """Return the fastest way at the largest size, and what comes next to it."""
    if cells.empty:
        return {}
    largest = cells[cells["n"] == cells["n"].max()]
    library = is_library(largest)
    best = largest["total_s"].idxmin()
    names = ("sessions", "variant", "block_size", "host_memory", "threads", "n")
    row = _cell(largest, best, "", *names)
    row["is_library"] = bool(library[best])
    others = largest[largest["variant"] != largest.at[best, "variant"]]
    if not others.empty:
        second = others["total_s"].idxmin()
        row |= _cell(largest, second, "next_", "variant", "block_size")
        row["implementation_verdict"] = _ahead(largest.loc[[best, second]], drawn)
    if library.any() and not library.all():
        own = largest.loc[~library, "total_s"].idxmin()
        row |= _cell(largest, own, "own_", "variant", "block_size")
    elsewhere = largest[largest["host_memory"] != largest.at[best, "host_memory"]]
    if not elsewhere.empty:
        row |= _cell(largest, elsewhere["total_s"].idxmin(), "other_", "host_memory")
    return row


def _cell(cells: pd.DataFrame, index: object, prefix: str, *columns: str) -> Row:
    """Return columns of a cell and its total time with its interval, under a prefix."""
    chosen = cells.loc[index]
    names = {f"{prefix}{name}": name for name in (*columns, *with_bounds("total_s"))}
    return {name: chosen[column] for name, column in names.items()}


def _ahead(both: pd.DataFrame, drawn: Callable[[pd.DataFrame], FloatArray]) -> str:
    """Say whether the first of two cells is faster, by the draws of both."""
    best, second = drawn(both)
    times = both["total_s"].to_numpy()
    return verdict(times[1] / times[0], *percentile_interval(second / best))


def _speedup(speedups: pd.DataFrame) -> Row:
    """Return the speedup of the fastest way over the CPU at the largest size that both took."""
    if speedups.empty:
        return {}
    largest = speedups[speedups["n"] == speedups["n"].max()]
    best = largest.loc[largest["cpu_best_speedup"].idxmax()]
    bounds = {
        name: best[column] for column, name in renaming("cpu_best_speedup", "speedup").items()
    }
    return {
        "speedup_n": best["n"],
        "speedup_variant": best["variant"],
        "speedup_block_size": best["block_size"],
        "speedup_host_memory": best["host_memory"],
        "cpu_best_variant": best["cpu_best_variant"],
        "cpu_best_threads": best["cpu_best_threads"],
        **bounds,
        "speedup_verdict": verdict(*bounds.values()),
    }


def _break_even(sizes: pd.DataFrame) -> Row:
    """Return the least break-even size of all kinds of host memory."""
    if sizes.empty:
        return {}
    rank = sizes["n"].mask(sizes["location"] == BELOW, 0).mask(sizes["location"] == ABOVE, math.inf)
    best = sizes.loc[rank.idxmin()]
    return {
        "break_even_location": best["location"],
        "break_even_host_memory": best["host_memory"],
        "break_even_verdict": SLOWER if best["location"] == ABOVE else FASTER,
        **{
            f"break_even_{name}": best[name] for name in (*with_bounds("n"), "least_n", "largest_n")
        },
    }
