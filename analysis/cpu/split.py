"""A GPU's speedup over the naive CPU loop, split into CPU tuning and the GPU's part.

The source's "2000 times" is its fastest kernel's speedup over its naive CPU loop; its "60 times" is
the speedup over its cache-optimised CPU program. Each such speedup is a product of factors, one per
step. Lee et al. warn of comparing plain C on one core with a whole GPU ("Debunking the 100X GPU vs.
CPU myth", ISCA 2010).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import pandas as pd

from analysis.cpu.cells import stages
from analysis.data.best import fastest
from analysis.data.cells import comparison_size, is_library
from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import CPU, PUBLISHED, SOURCE_SIZE
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import quotients

GPU, WHOLE = "gpu", "whole"
STARTS = ("naive", "source")  # the CPU stages over which a GPU's speedup is split
CLAIMED_CACHE_SPEEDUP = 35.0  # the source's claim for its cache-optimised program
_SIDE = ("variant", "block_size", "threads")
PartRow = dict[str, object]


def cpu_split_table(published: pd.DataFrame, sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per part of each speedup: the published one, then those of each GPU.

    A GPU has one speedup per kind of host memory. part: the step to the CPU stage of that name
    (`analysis.cpu.cells.stages`); `GPU`: the step to the fastest kernel of this study, copies
    included; `WHOLE`: all steps. factor: time before the step divided by time after it, with the
    interval of independent times (`analysis.stats.estimates.quotients`). A stage that was not
    measured or is not faster is skipped. The size is the source's if measured, otherwise the
    largest.
    """
    rows = list(_published(published))
    for source in with_gpu(sources):
        rows += _measured(source)
    return from_rows("cpu_split", rows)


def _measured(source: MeasuredSource) -> Iterator[PartRow]:
    cells = source.square_cells
    on_cpu = stages(cells)
    gpu = cells[(cells["device"] != CPU) & ~is_library(cells) & cells["total_s"].notna()]
    for memory, kernels in gpu.groupby("host_memory", sort=True):
        named = {"recording": source.recording_id, "gpu": source.label}
        for start in STARTS:
            common = kernels[kernels["n"].isin(on_cpu[start]["n"])]
            if common.empty:
                continue
            n = comparison_size(common)
            later = list(on_cpu)[list(on_cpu).index(start) :]
            rows = {name: on_cpu[name].index[on_cpu[name]["n"] == n] for name in later}
            rows[GPU] = fastest(kernels[kernels["n"] == n], "total_s").index
            chain: dict[str, int] = {}  # stages that were not measured or repeat a cell are omitted
            for name, found_at in rows.items():
                if len(found_at) and found_at[0] not in chain.values():
                    chain[name] = int(found_at[0])
            head = named | {"host_memory": memory, "n": n, "start": start}
            for row in _parts(chain, cells):
                yield head | row


def _parts(chain: Mapping[str, int], cells: pd.DataFrame) -> Iterator[PartRow]:
    """Yield the parts of a speedup, then the whole; `chain` has each stage's row in `cells`."""
    names = list(chain)
    steps = [(name, before, name) for before, name in pairwise(names)]
    times = cells[[*with_bounds("total_s")]].astype(float)
    for part, before, after in [*steps, (WHOLE, names[0], names[-1])]:
        above, below = chain[before], chain[after]
        factor, *interval = quotients(times.loc[above].to_numpy(), times.loc[below].to_numpy())
        row: PartRow = {"part": part, **_side(cells, below), **_side(cells, above, "after_")}
        yield row | bounded("factor", factor, *interval)


def _side(cells: pd.DataFrame, row: int, prefix: str = "") -> PartRow:
    return {f"{prefix}{name}": cells.at[row, name] for name in _SIDE}


def _published(published: pd.DataFrame) -> Iterator[PartRow]:
    """Yield the parts of the largest published speedup.

    The factor of cache optimisation is the source's claim, the factor of the GPU is the remainder.
    """
    wholes = []
    for _, times in published[published["n"] == SOURCE_SIZE].groupby("machine"):
        cpu = times[times["implementation"] == "cpu_naive"]
        gpu = times[times["implementation"].str.startswith("gpu_")]
        if len(cpu) and len(gpu):
            slow, fast = (fastest(side, "time_s").iloc[0] for side in (cpu, gpu))
            wholes.append((slow["time_s"] / fast["time_s"], fast))
    if not wholes:
        return
    whole, fast = max(wholes, key=lambda one: one[0])
    head = {"recording": PUBLISHED, "n": SOURCE_SIZE}
    variant = fast["implementation"].removeprefix("gpu_")
    kernel = {"variant": variant, "block_size": fast["block_size"]}
    loop = {"after_variant": "naive", "after_threads": 1}
    rest = whole / CLAIMED_CACHE_SPEEDUP
    for start, part, factor in (
        ("naive", "source", CLAIMED_CACHE_SPEEDUP),
        ("naive", GPU, rest),
        ("naive", WHOLE, whole),
        ("source", GPU, rest),
        ("source", WHOLE, rest),
    ):
        row = head | {"start": start, "part": part, "factor": factor}
        row |= kernel if part != "source" else {}
        yield row | (loop if start == "naive" and part != GPU else {})
