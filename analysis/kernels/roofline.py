"""How near each kernel comes to what its card can do at most, and which ceiling is the nearest.

Every ceiling bounds the time of a launch from below: the card's rate of multiply-adds the flop,
the bandwidth of the first-level cache the sectors that are asked of it, that of shared memory the
wavefronts, that of device memory the bytes of A, B and C once. Sectors and wavefronts are those of
theory; of wavefronts as few as there are if the compiler merges neighbouring loads.
"""

from dataclasses import dataclass

import pandas as pd

from analysis.data.cells import without_swept_naive
from analysis.data.frames import concatenated
from analysis.data.recordings import Source, labelled
from analysis.domain import CPU
from analysis.kernels.machine_code import intensities
from analysis.stats.estimates import grouped
from kernels.shape import Shape
from kernels.theory import SECTOR_BYTES
from kernels.variant import ELEMENTS

WAVEFRONT_BYTES = 128
# The bounds: name, and the ceiling that it follows from.
BOUNDS = {
    "compute": "fp32_flop_per_s",
    "l1": "l1_bytes_per_s",
    "shared": "shared_bytes_per_s",
    "dram": "device_copy_bytes_per_s",
}
_KERNEL = ["variant", "dtype", "batch", "m", "n", "k", "block_size"]
COLUMNS = [
    *("recording", "gpu", *_KERNEL, "host_memory", "kernel_s", "kernel_low_s", "kernel_high_s"),
    *("kernel_flop_per_s", "flop_per_byte_of_sectors", "balance_flop_per_byte"),
    *(f"{name}_bound_s" for name in BOUNDS),
    *("bound", "bound_s", "share_of_bound"),
]
_MEMORY = ["pinned", "pageable"]


def roofline_table(
    found: list[Source], ceilings: pd.DataFrame, counts: pd.DataFrame
) -> pd.DataFrame:
    """Return one row a GPU and variant, with its fastest block size at its largest order.

    `ceilings` is `analysis.data.ceilings.ceilings_table`, `counts`
    `analysis.kernels.counts.counts_table`. balance_flop_per_byte is the card's rate of
    multiply-adds over the bandwidth of its memory: by source L, a kernel below it is bound by
    memory. The bound is the largest of the lower bounds of the time, share_of_bound that over the
    kernel's time. A bound that is not known is empty: there are no counts of what a library does,
    and older recordings have no ceiling of caches.
    """
    counted = _counts(counts)
    frames = [pd.DataFrame(columns=COLUMNS)]
    for source in (source for source in found if source.device):
        known = ceilings[(ceilings["gpu"] == source.label) & ceilings["host_memory"].isna()]
        rates = known.set_index("quantity")["value"].astype(float).to_dict()
        cells = _fastest(source)
        rows = [_row(cell, rates, counted.get(_key(cell))) for cell in cells.to_dict("records")]
        types = source.cells[_KERNEL].dtypes.to_dict()
        table = pd.DataFrame(rows, columns=["device", *COLUMNS[2:]]).astype(types)
        frames.append(labelled(source, table)[COLUMNS])
    return concatenated(frames)


def _fastest(source: Source) -> pd.DataFrame:
    """Return of each variant the cell with the fastest kernel at its largest order.

    From the host memory that disturbs the GPU least; naive in blocks of 32×32 alone.
    """
    cells = source.orders[source.orders["device"] != CPU]
    cells = without_swept_naive(cells[cells["kernel_s"].notna()])
    memory = next((kind for kind in _MEMORY if (cells["host_memory"] == kind).any()), None)
    cells = cells[(cells["host_memory"] == memory).fillna(False)]
    largest = cells.groupby("variant")["n"].transform("max")
    cells = cells[cells["n"] == largest]
    return cells.loc[sorted(cells.groupby("variant")["kernel_s"].idxmin())]


@dataclass(frozen=True)
class _Counts:
    """What theory counts of one launch, by quantity; `merged` with neighbouring loads merged.

    `build` is the one that runs it.
    """

    build: str
    theory: dict[str, float]
    merged: dict[str, float]


def _counts(counts: pd.DataFrame) -> dict[tuple[object, ...], _Counts]:
    """Return the counts of theory by kernel and shape."""
    totals = counts.drop_duplicates([*_KERNEL, "quantity"])
    found = {}
    for key, rows in grouped(totals, _KERNEL):
        values = rows.set_index("quantity")[["theory", "merged"]].astype(float)
        ways = (values[way].to_dict() for way in values)
        found[key] = _Counts(str(rows["build"].iloc[0]), *ways)
    return found


def _key(cell: dict[str, object]) -> tuple[object, ...]:
    return tuple(None if pd.isna(cell[name]) else cell[name] for name in _KERNEL)


def _row(
    cell: dict[str, object], rates: dict[str, float], counts: _Counts | None
) -> dict[str, object]:
    shape = Shape(*(int(str(cell[edge])) for edge in ("batch", "m", "n", "k")))
    dtype, time_s = str(cell["dtype"]), float(str(cell["kernel_s"]))
    work = {"compute": float(shape.flop), "dram": float(_compulsory_bytes(shape, dtype))}
    row = cell | {"kernel_flop_per_s": shape.flop / time_s}
    if counts:
        sectors, wavefronts = (
            sum(way[f"{memory}_{operation}"] for memory in places)
            for way, places, operation in (
                (counts.theory, ("global_load", "global_store"), "sectors"),
                (counts.merged, ("shared_load", "shared_store"), "wavefronts"),
            )
        )
        work |= {"l1": sectors * SECTOR_BYTES, "shared": wavefronts * WAVEFRONT_BYTES}
        row |= intensities(str(cell["variant"]), dtype, counts.build, shape, counts.theory)
    bounds = {n: work[n] / rates[c] for n, c in BOUNDS.items() if n in work and c in rates}
    row |= {f"{name}_bound_s": bound_s for name, bound_s in bounds.items()}
    if {"fp32_flop_per_s", "device_copy_bytes_per_s"} <= set(rates):
        row["balance_flop_per_byte"] = rates["fp32_flop_per_s"] / rates["device_copy_bytes_per_s"]
    return row | nearest_bound(bounds, time_s)


def nearest_bound(bounds: dict[str, float], time_s: float) -> dict[str, object]:
    """Return which bound of a time is the largest, that bound, and its share of the time.

    Nothing if no bound is known.
    """
    if not bounds:
        return {}
    nearest = max(bounds, key=lambda name: bounds[name])
    found_s = bounds[nearest]
    return {"bound": nearest, "bound_s": found_s, "share_of_bound": found_s / time_s}


def _compulsory_bytes(shape: Shape, dtype: str) -> int:
    """Return the bytes of A, B and C: what device memory has to carry at least."""
    elements = shape.a_elements + shape.b_elements + shape.c_elements
    return elements * ELEMENTS[dtype].bytes
