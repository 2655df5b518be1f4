"""The summary of the ladder: each kernel at its largest size, compared with baselines."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import is_source_naive, of_sizes
from analysis.data.frames import from_rows, stacked
from analysis.domain import CPU, preferred_memory, verdict
from analysis.kernels.ladder import measured_before
from analysis.schema import bounded, renaming, with_bounds
from analysis.stats.estimates import FloatArray, percentile_interval
from kernels.catalog.baselines import BASELINES, CUBLAS, FASTEST_CPU, NAIVE, SOURCE_NAIVE
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import LIBRARIES, VARIANTS

PREVIOUS = "previous"  # the baseline of a step: the step before it
_KERNEL = ["recording", "gpu", "variant", "n", "block_size"]
_COLUMNS = [*_KERNEL, *with_bounds("kernel_s"), "kernel_flop_per_s"]
_KERNEL_OF = ["gpu", "variant", "n", "block_size"]
_COMPARED = ("variant", "block_size", "threads")
_BOUNDS = ["units", "share_of_units", "bound", "share_of_bound", "limited_by"]
_BEST_BLOCK = "its fastest block size"
Drawn = Callable[[str, pd.DataFrame, str], FloatArray]


class _Timed(NamedTuple):
    """A timed cell: its row, and the values and draws of its time."""

    row: object
    values: dict[str, Any]
    draws: FloatArray


def ladder_tables(
    frames: Mapping[str, pd.DataFrame], drawn: Drawn, catalog: Catalog = VARIANTS
) -> dict[str, pd.DataFrame]:
    """Return the tables ladder_summary and ladder_speedups.

    ladder_summary has one row per GPU and kernel of square matrices, in the sequence of the
    catalog. Each kernel has its fastest block size at its largest size; the naive kernel also has a
    row in blocks of 32×32, the launch of source V. share_of_library: the kernel time of the library
    divided by that of the kernel. is_fastest: the kernel is the fastest of this study that uses the
    same units, at the largest size. For units and bounds see `analysis.kernels.roofline`.

    ladder_speedups compares each of these rows with others at the same size: `PREVIOUS`, the
    previous step with its fastest block size (if that is the naive kernel, its row in blocks of
    32×32), and `kernels.catalog.baselines.BASELINES` (end-to-end on the CPU). speedup is the ratio
    of both throughputs, blank for a baseline itself. `drawn` returns draws of the "kernel" or
    "total" times of a GPU's rows.
    """
    sizes = of_sizes(frames["summary"])
    cells = sizes[sizes["kernel_s"].notna() & (sizes["device"] != CPU)]
    # The variants of the ladder (float32 only), libraries and user-supplied kernels.
    names = [n for n, v in catalog.items() if n not in VARIANTS or v.dtypes == ("float32",)]
    cells = cells[cells["variant"].isin(names)]
    kernels: list[dict[str, object]] = []
    compared: list[dict[str, object]] = []
    for gpu, of_gpu in cells.groupby("gpu", sort=False):
        memory = preferred_memory("kernel", of_gpu["host_memory"])
        of_gpu = of_gpu[of_gpu["host_memory"] == memory]
        cpu = sizes[(sizes["device"] == CPU) & (sizes["recording"] == of_gpu["recording"].iloc[0])]
        for row, others in _compared(of_gpu, cpu, partial(drawn, str(gpu)), catalog):
            kernels.append(row)
            compared += [{name: row[name] for name in _KERNEL} | other for other in others]
    summary = from_rows("ladder_summary", kernels).drop(columns=_BOUNDS)
    bounds = frames["roofline"][[*_KERNEL_OF, *_BOUNDS]]
    summary = summary.merge(bounds, how="left", on=_KERNEL_OF)
    own_code = summary[~summary["is_library"].fillna(False).astype(bool)]
    largest = own_code[own_code["n"] == own_code.groupby("gpu")["n"].transform("max")]
    best = fastest(largest[largest["units"].notna()], "kernel_s", ["gpu", "units"])
    summary["is_fastest"] = summary.index.isin(best.index)
    return {
        "ladder_summary": stacked("ladder_summary", [summary]),
        "ladder_speedups": from_rows("ladder_speedups", compared),
    }


def _compared(
    cells: pd.DataFrame,
    cpu: pd.DataFrame,
    drawn: Callable[[pd.DataFrame, str], FloatArray],
    catalog: Catalog,
) -> Iterator[tuple[dict[str, object], list[dict[str, object]]]]:
    """Yield each row of a GPU's summary with its comparisons; `cells` have one host memory."""
    best = fastest(cells, "kernel_s", ["variant", "n"])
    largest = best[best["n"] == best.groupby("variant")["n"].transform("max")]
    n = largest.loc[largest["variant"] == NAIVE, "n"].max()
    launch = is_source_naive(cells) & (cells["n"] == n) & ~cells.index.isin(largest.index)
    source = _timed(cells[launch], drawn, "kernel")
    fastest_at = {
        (cell.values["variant"], cell.values["n"]): cell for cell in _timed(best, drawn, "kernel")
    }
    base = {
        (name, cell.values["n"]): cell
        for name in BASELINES
        for cell in _timed(
            _of_baseline(name, cells, cpu), drawn, "total" if name == FASTEST_CPU else "kernel"
        )
    }
    measured = set(cells["variant"])
    library = next((name for name in LIBRARIES if name in measured), None)
    listed = [*source, *(cell for cell in fastest_at.values() if cell.row in largest.index)]
    rank = {name: place for place, name in enumerate(catalog)}
    for cell in sorted(listed, key=lambda cell: rank[cell.values["variant"]]):
        variant, n, time_s = (cell.values[name] for name in ("variant", "n", "kernel_s"))
        others = {name: base.get((name, n)) for name in BASELINES}
        others[PREVIOUS] = fastest_at.get((measured_before(catalog, variant, measured), n))
        is_best_block = variant == NAIVE and source and cell is not source[0]
        if is_best_block:
            others[PREVIOUS] = source[0]
        row = {name: cell.values[name] for name in _COLUMNS}
        row |= {"samples": cell.values["kernel_samples"], "is_library": variant in LIBRARIES}
        row["idea"] = _BEST_BLOCK if is_best_block else catalog[variant].idea
        if (library, n) in fastest_at:
            row["share_of_library"] = fastest_at[library, n].values["kernel_s"] / time_s
        yield row, [_speedup(name, other, cell) for name, other in others.items() if other]


def _timed(
    cells: pd.DataFrame, drawn: Callable[[pd.DataFrame, str], FloatArray], quantity: str
) -> list[_Timed]:
    return list(map(_Timed, cells.index, cells.to_dict("records"), drawn(cells, quantity)))


def _of_baseline(baseline: str, cells: pd.DataFrame, cpu: pd.DataFrame) -> pd.DataFrame:
    """Return a baseline's fastest cell at each size, from a GPU's `cells` or the `cpu` ones."""
    if baseline == FASTEST_CPU:
        times = renaming("total_s", "kernel_s")
        candidates = cpu.drop(columns=list(times.values())).rename(columns=times)
    elif baseline == SOURCE_NAIVE:
        candidates = cells[is_source_naive(cells)]
    else:
        candidates = cells[cells["variant"].isin(LIBRARIES if baseline == CUBLAS else [NAIVE])]
    return fastest(candidates, "kernel_s", ["n"])


def _speedup(baseline: str, other: _Timed, cell: _Timed) -> dict[str, object]:
    row = {"baseline": baseline} | {f"baseline_{name}": other.values[name] for name in _COMPARED}
    row["baseline_flop_per_s"] = 2.0 * other.values["n"] ** 3 / other.values["kernel_s"]
    if other.row == cell.row:
        return row
    low, high = map(float, percentile_interval(other.draws / cell.draws))
    speedup = other.values["kernel_s"] / cell.values["kernel_s"]
    return row | bounded("speedup", speedup, low, high) | {"verdict": verdict(speedup, low, high)}
