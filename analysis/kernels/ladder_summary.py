"""Summary of the ladder: each kernel at its largest size, with its baselines and the ceilings."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import is_source_naive, of_sizes
from analysis.data.frames import from_rows, stacked
from analysis.domain import CPU, KERNEL_MEMORY_ORDER, verdict
from analysis.kernels.ladder import measured_before
from analysis.schema import bounded, renaming, with_bounds
from analysis.stats.estimates import FloatArray, percentile_interval
from kernels.catalog.baselines import BASELINES, CUBLAS, FASTEST_CPU, NAIVE, SOURCE_NAIVE
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.variant import UserSupplied

_CELL = ("recording", "gpu", "variant", "n", "block_size", *with_bounds("kernel_s"))
_COMPARED = ("variant", "block_size", "threads")
_KERNEL_OF = ["gpu", "variant", "n", "block_size"]
_BOUNDS = ["units", "traffic_bytes", "share_of_units", "bound", "share_of_bound", "limited_by"]
_BEST_BLOCK = "its fastest block size"
Drawn = Callable[[str, pd.DataFrame, str], FloatArray]


def ladder_summary_table(frames: Mapping[str, pd.DataFrame], drawn: Drawn) -> pd.DataFrame:
    """Return one row per GPU and kernel of square matrices, in the sequence of the catalog.

    Each kernel has its fastest block size at its largest size; the naive kernel also has a row in
    blocks of 32×32, the launch of source V. At the same size it is compared with three others.
    Prefix after_: the previous step in its fastest block size (of the naive kernel, its row in
    blocks of 32×32). Prefix NAME: each of `kernels.catalog.baselines.BASELINES` (end-to-end on the
    CPU). share_of_library: the kernel time of the library over the kernel's. Each speedup is the
    ratio of both throughputs. is_fastest: of the kernels of this study with the same units, at the
    largest size. Units, traffic and bounds: see `analysis.kernels.roofline`. `drawn` returns draws
    of the "kernel" or "total" times of a GPU's rows.
    """
    sizes = of_sizes(frames["summary"])
    cells = sizes[sizes["kernel_s"].notna() & (sizes["device"] != CPU)]
    # The variants of the ladder (float32 only), libraries and user-supplied kernels.
    entries = VARIANTS.items()
    names = [n for n, v in entries if isinstance(v, UserSupplied) or v.dtypes == ("float32",)]
    cells = cells[cells["variant"].isin(names)]
    found: list[dict[str, object]] = []
    for gpu, own in cells.groupby("gpu", sort=False):
        memory = next(kind for kind in KERNEL_MEMORY_ORDER if (own["host_memory"] == kind).any())
        own = own[own["host_memory"] == memory]
        host = (sizes["device"] == CPU) & (sizes["recording"] == own["recording"].iloc[0])
        base = {}
        for name in BASELINES:
            compared = _of_baseline(name, own, sizes[host])
            draws = drawn(str(gpu), compared, "total" if name == FASTEST_CPU else "kernel")
            for (index, row), of_row in zip(compared.iterrows(), draws, strict=True):
                base[name.replace("-", "_"), row["n"]] = index, row, of_row
        found += _rows(own, base, partial(drawn, str(gpu)))
    bounds = frames["roofline"][[*_KERNEL_OF, *_BOUNDS]]
    summary = from_rows("ladder_summary", found).drop(columns=_BOUNDS)
    summary = summary.merge(bounds, how="left", on=_KERNEL_OF)
    own = summary[~summary["is_library"].fillna(False).astype(bool)]
    largest = own[own["n"] == own.groupby("gpu")["n"].transform("max")]
    best = fastest(largest[largest["units"].notna()], "kernel_s", ["gpu", "units"])
    summary["is_fastest"] = summary.index.isin(best.index)
    return stacked("ladder_summary", [summary])


def _of_baseline(baseline: str, cells: pd.DataFrame, cpu: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest cell of a baseline at each size, of a GPU's `cells` or of its CPU's."""
    if baseline == FASTEST_CPU:
        times = renaming("total_s", "kernel_s")
        own = cpu.drop(columns=list(times.values())).rename(columns=times)
    elif baseline == SOURCE_NAIVE:
        own = cells[is_source_naive(cells)]
    else:
        own = cells[cells["variant"].isin(LIBRARIES if baseline == CUBLAS else [NAIVE])]
    return fastest(own, "kernel_s", ["n"])


def _rows(
    cells: pd.DataFrame,
    base: Mapping[tuple[str, int], tuple[int, pd.Series, FloatArray]],
    drawn: Callable[[pd.DataFrame, str], FloatArray],
) -> Iterator[dict[str, object]]:
    """Yield the rows of one GPU; `cells` have one kind of host memory.

    `base` has, by baseline and size, the index of its cell, the cell, and draws of its time.
    """
    best = fastest(cells, "kernel_s", ["variant", "n"])
    listed = best[best["n"] == best.groupby("variant")["n"].transform("max")]
    naive = listed.loc[listed["variant"] == NAIVE, "n"].max()
    source = cells[is_source_naive(cells) & (cells["n"] == naive) & ~cells.index.isin(listed.index)]
    at = {(row["variant"], row["n"]): index for index, row in best.iterrows()}
    rows = pd.concat([source, listed])
    chosen = pd.concat([source, best])
    draws = dict(zip(chosen.index, drawn(chosen, "kernel"), strict=True))
    every = chosen.to_dict("index")
    measured = set(cells["variant"])
    library = next((name for name in LIBRARIES if name in measured), None)
    rank = {name: place for place, name in enumerate(VARIANTS)}
    for index in sorted(rows.index, key=lambda row: rank[every[row]["variant"]]):
        cell = every[index]
        variant, n = cell["variant"], cell["n"]
        entry, is_source = VARIANTS[variant], index in source.index
        before = at.get((measured_before(variant, measured), n))
        if variant == NAIVE and not is_source and len(source):
            before = source.index[0]
        row = {name: cell[name] for name in (*_CELL, "kernel_flop_per_s")}
        row |= {"samples": cell["kernel_samples"], "is_library": variant in LIBRARIES}
        row["idea"] = _BEST_BLOCK if before in source.index else entry.idea
        if (library, n) in at:
            row["share_of_library"] = every[at[library, n]]["kernel_s"] / cell["kernel_s"]
        others = {f"{name}_": found for (name, size), found in base.items() if size == n}
        if before is not None:
            row["after"] = every[before]["variant"]
            others["after_"] = before, every[before], draws[before]
        for prefix, (other_index, other, other_draws) in others.items():
            row |= {f"{prefix}{name}": other[name] for name in _COMPARED}
            row[f"{prefix}flop_per_s"] = 2.0 * n**3 / other["kernel_s"]
            if other_index != index:
                bounds = percentile_interval(other_draws / draws[index])
                values = (other["kernel_s"] / cell["kernel_s"], *map(float, bounds))
                over = prefix.removeprefix("after_")  # of columns over the previous step: none
                row |= {f"{over}verdict": verdict(*values)} | bounded(f"{over}speedup", *values)
        yield row
