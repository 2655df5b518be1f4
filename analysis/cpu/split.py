"""A GPU's speedup over the naive CPU loop, split into what tuned the CPU and what the GPU adds.

The source's "2000 times" is the time of its naive CPU loop over that of its fastest kernel, its "60
times" that of its cache-optimised CPU program over the same kernel. Each is a product of factors,
one a step between them, and so the sum of their logarithms: a step's share is that of its logarithm
in the whole's. The comparison of one core's plain C with a whole GPU is what Lee et al. warn of
("Debunking the 100X GPU vs. CPU myth", ISCA 2010).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from analysis.cpu.cells import stages
from analysis.data.cells import is_library
from analysis.data.frames import from_rows
from analysis.data.published import MACHINES
from analysis.data.recordings import Source, with_gpu
from analysis.domain import CPU, PUBLISHED, SOURCE_SIZE
from analysis.schema import bounded
from analysis.stats.estimates import FloatArray, percentile_interval

GPU, WHOLE = "gpu", "whole"
# Where a whole begins, and the steps that follow: those of the CPU's stages, and the GPU.
STARTS = ("naive", "source")
# What the source says of its own program: cache optimisation makes it so many times faster.
CLAIMED_CACHE_SPEEDUP = 35.0
_SIDE = ["variant", "block_size", "threads", "time_s"]
Row = dict[str, object]


def cpu_split_table(published: pd.DataFrame, found: list[Source]) -> pd.DataFrame:
    """Return one row a part of each whole: published, then by GPU and kind of host memory.

    A part is the step to the CPU's stage of that name (`analysis.cpu.cells.stages`) or, `GPU`, to
    the fastest kernel of this study with its copies; of a `WHOLE` it is all of them. factor is the
    time before over the time after, share its logarithm over the whole's, each with an interval
    from the draws of the medians. A stage that was not measured, or user-supplied nothing faster, is left
    out: the next part holds it. All is at the source's order if it was measured, else at the
    largest.
    """
    rows = list(_published(published))
    for source in with_gpu(found):
        rows += _measured(source)
    return from_rows("cpu_split", rows)


def _measured(source: Source) -> Iterator[Row]:
    cells = source.orders
    on_cpu = stages(cells)
    gpu = cells[(cells["device"] != CPU) & ~is_library(cells) & cells["total_s"].notna()]
    for memory, own in gpu.groupby("host_memory", sort=True):
        named = {"recording": source.recording_id, "gpu": source.label, "machine": source.machine}
        for start in STARTS:
            n = _order(on_cpu[start], own)
            if n is None:
                continue
            later = list(on_cpu)[list(on_cpu).index(start) :]
            chain = {name: _at(on_cpu[name], n) for name in later}
            chain[GPU] = int(own.loc[own["n"] == n, "total_s"].idxmin())
            head = named | {"host_memory": memory, "n": n, "start": start}
            for row in _parts(_steps_taken(chain), cells, source.draws["total"]):
                yield head | row


def _steps_taken(chain: Mapping[str, int | None]) -> dict[str, int]:
    """Return a chain without stages that were not measured or are the cell of the stage before."""
    taken: dict[str, int] = {}
    for name, row in chain.items():
        if row is not None and row not in taken.values():
            taken[name] = row
    return taken


def _order(start: pd.DataFrame, gpu: pd.DataFrame) -> int | None:
    """Return the order at which both were measured: the source's, or the largest; None: at none."""
    orders = set(start["n"]) & set(gpu["n"])
    if not orders:
        return None
    return SOURCE_SIZE if SOURCE_SIZE in orders else int(max(orders))


def _at(cells: pd.DataFrame, n: int) -> int | None:
    """Return the row of the one cell of order `n`, None if there is none."""
    rows = cells.index[cells["n"] == n]
    return int(rows[0]) if len(rows) else None


def _parts(chain: Mapping[str, int], cells: pd.DataFrame, draws: FloatArray) -> Iterator[Row]:
    """Yield the parts of a whole, and it; `chain` names the rows of its stages in `cells`."""
    names = list(chain)
    steps = [(name, before, name) for before, name in pairwise(names)]
    times = cells["total_s"]
    first, last = chain[names[0]], chain[names[-1]]
    whole, whole_draws = times[first] / times[last], draws[first] / draws[last]
    for part, before, after in [*steps, (WHOLE, names[0], names[-1])]:
        above, below = chain[before], chain[after]
        factor, factor_draws = times[above] / times[below], draws[above] / draws[below]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.log(factor) / np.log(whole)
            share_draws = np.log(factor_draws) / np.log(whole_draws)
        row: Row = {"part": part, **_side(cells, below), **_side(cells, above, "after_")}
        row |= bounded("factor", factor, *percentile_interval(factor_draws))
        yield row | bounded("share", share, *percentile_interval(share_draws))


def _side(cells: pd.DataFrame, row: int, prefix: str = "") -> Row:
    values = [*cells.loc[row, _SIDE[:-1]], cells.at[row, "total_s"]]
    return {f"{prefix}{name}": value for name, value in zip(_SIDE, values, strict=True)}


def _published(published: pd.DataFrame) -> Iterator[Row]:
    """Yield the whole of the published times where it is largest, split by the source's own word.

    Cache optimisation is what it says it is; the GPU's factor is what is left.
    """
    at_order = published[published["n"] == SOURCE_SIZE]
    wholes = []
    for machine, times in at_order.groupby("machine"):
        cpu = times[times["implementation"] == "cpu_naive"]
        gpu = times[times["implementation"].str.startswith("gpu_")]
        if len(cpu) and len(gpu):
            slow, fast = cpu.loc[cpu["time_s"].idxmin()], gpu.loc[gpu["time_s"].idxmin()]
            wholes.append((slow["time_s"] / fast["time_s"], str(machine), slow, fast))
    if not wholes:
        return
    whole, machine, slow, fast = max(wholes, key=lambda found: found[0])
    head = {"recording": PUBLISHED, "machine": MACHINES[machine], "n": SOURCE_SIZE}
    kernel = {"variant": fast["implementation"].removeprefix("gpu_"), "time_s": fast["time_s"]}
    kernel |= {"block_size": fast["block_size"]}
    loop = {"after_variant": "naive", "after_threads": 1, "after_time_s": slow["time_s"]}
    rest = whole / CLAIMED_CACHE_SPEEDUP
    for start, part, factor, of in (
        ("naive", "source", CLAIMED_CACHE_SPEEDUP, whole),
        ("naive", GPU, rest, whole),
        ("naive", WHOLE, whole, whole),
        ("source", GPU, rest, rest),
        ("source", WHOLE, rest, rest),
    ):
        row = head | {"start": start, "part": part, "factor": factor}
        row |= {"share": np.log(factor) / np.log(of)}
        row |= kernel if part != "source" else {}
        yield row | (loop if start == "naive" and part != GPU else {})
