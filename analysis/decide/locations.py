"""End-to-end times by location of the matrices, and times of products over several streams.

`kernels.catalog.locations` declares the locations.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.data.best import fastest
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, labelled, with_gpu
from analysis.decide.break_even import CpuBaselines, break_even_rows, by_library
from analysis.domain import CPU, SHAPE
from analysis.schema import with_bounds
from analysis.stats.estimates import FloatArray, Groups
from kernels.catalog.baselines import BEST
from kernels.catalog.locations import LOCATIONS
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from measurement.recording.schema import CELL, KERNEL

_MATRICES = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}
_BATCH = ["streams", "products", "same_a"]


def locations_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per product and location: its end-to-end time, if it has several locations.

    floor_s: the time of the copies between host and GPU alone, from pinned memory and one after the
    other. family: the family of the shape (`Shape.family`). cpu_s: the time of the fastest CPU
    implementation at this shape; speedup: cpu_s over total_s.
    """
    frames = []
    for source in with_gpu(sources):
        if source.placed.rows.empty:
            continue
        rows, copies = _as_elsewhere(source.placed.summary(), source.cells), _copies(source)
        rows["family"] = _families(rows)
        rows["floor_s"] = [sum(_copied_s(row, copies)) for row in rows.to_dict("records")]
        on_cpu = source.cells[source.cells["device"] == CPU]
        cpu = fastest(on_cpu, "total_s", SHAPE).rename(columns={"total_s": "cpu_s"})
        rows = rows.merge(cpu[[*SHAPE, "cpu_s"]], how="left", on=list(SHAPE))
        rows["speedup"] = rows["cpu_s"] / rows["total_s"]
        rows["over_floor"] = rows["total_s"] / rows["floor_s"].where(rows["floor_s"] > 0)
        frames.append(labelled(source, rows))
    return stacked("locations", frames)


def location_break_even_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return the break-even size over the best CPU, per location and family of shapes.

    The columns are those of the table break_even; the size is the longest edge of the matrices.
    """
    rows: list[dict[str, object]] = []
    for source in with_gpu(sources):
        if source.placed.rows.empty:
            continue
        cells, draws = _sized(source.placed.summary()), source.placed.draws("total")
        on_cpu = _sized(source.cells[source.cells["device"] == CPU])
        for family, of_family in cells.groupby("family", sort=True):
            best = {BEST: on_cpu[on_cpu["family"] == family]}
            cpu = CpuBaselines.of(best, source.draws["total"])
            for location, placed in of_family.groupby("host_memory", sort=True):
                for kernels, chosen in by_library(placed):
                    names = {"family": family, "host_memory": location, "kernels": kernels}
                    rows += break_even_rows(source, names, chosen, draws, cpu)
    return from_rows("location_break_even", rows)


def throughput_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per batch of products over several streams: medians over the rounds.

    Times are per product. copies_s: the copies of the same batch without its products, the floor of
    run_s. over_floor: the median of run_s over copies_s of the same round.
    """
    frames = []
    for source in with_gpu(sources):
        measured = source.own(source.recording.throughput)
        batches = Groups.of(measured, [*KERNEL, *_BATCH])
        rows = batches.keys.astype({"same_a": bool}).assign(rounds=batches.counts)
        for name in ("copies_s", "run_s"):
            per_product = measured[name] / measured["products"].astype(float)
            rows[with_bounds(name)] = batches.medians(per_product).T
        over_floor = batches.medians(measured["run_s"] / measured["copies_s"])
        frames.append(labelled(source, rows.assign(over_floor=over_floor[0])))
    return stacked("throughput", frames)


def _as_elsewhere(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose times and intervals are those that other tables have for the same cells."""
    times = with_bounds("total_s")
    same = rows[CELL].merge(cells[[*CELL, *times]], how="left", on=CELL).set_axis(rows.index)
    return rows.assign(**{name: same[name].fillna(rows[name]) for name in times})


def _families(cells: pd.DataFrame) -> list[str]:
    return [Shape(*map(int, shape)).family for shape in cells[list(SHAPE)].to_numpy()]


def _sized(cells: pd.DataFrame) -> pd.DataFrame:
    """Return float32 cells whose shape has a family, with its name and the longest edge, n."""
    cells = cells[(cells["dtype"] == "float32") & (cells["batch"] == 1)]
    sized = cells.assign(family=_families(cells), n=cells[["m", "n", "k"]].max(axis=1))
    return sized[sized["family"] != "other"]


def _copies(source: MeasuredSource) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the measured single copies of pinned memory by direction: bytes, and times in s."""
    ceilings = source.own(source.recording.ceilings)
    return {way: _copy_times(ceilings, f"{way}_bytes_per_s") for way in ("h2d", "d2h")}


def _copy_times(ceilings: pd.DataFrame, quantity: str) -> tuple[FloatArray, FloatArray]:
    rows = ceilings[(ceilings["quantity"] == quantity) & (ceilings["host_memory"] == "pinned")]
    rates = rows.groupby("size_bytes")["value"].median()
    sizes = rates.index.to_numpy(float)
    return sizes, sizes / rates.to_numpy(float)


def _copied_s(
    row: dict[str, object], copies: dict[str, tuple[FloatArray, FloatArray]]
) -> Iterator[float]:
    """Yield the estimated time of each copy in a run; NaN if no copies were measured."""
    location = LOCATIONS[str(row["host_memory"])]
    ways = dict.fromkeys(location.copied_in, "h2d") | ({"c": "d2h"} if location.copies_out else {})
    for matrix, way in ways.items():
        sizes, times_s = copies[way]
        edges = [int(str(row[edge])) for edge in ("batch", *_MATRICES[matrix])]
        wanted = float(np.prod(edges)) * ELEMENTS[str(row["dtype"])].bytes
        if len(sizes):  # linear in the logarithms; proportional to the bytes beyond the sizes
            near = np.exp(np.interp(np.log(wanted), np.log(sizes), np.log(times_s)))
            yield float(near) * max(wanted / sizes[-1], 1.0)
        else:
            yield float("nan")
