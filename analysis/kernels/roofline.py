"""How near each kernel comes to what its GPU can do at most, and which ceiling is the nearest.

Every ceiling bounds the time of a launch from below: the GPU's rate of FMAs the flop (on
tensor cores: their rate that of the products of parts), the bandwidth of the first-level cache the
sectors that are asked of it, that of shared memory the wavefronts, that of device memory the bytes
of A, B and C once. Sectors and wavefronts are those of theory; of wavefronts as few as there are if
the compiler merges neighbouring loads.
"""

from typing import Any

import pandas as pd

from analysis.data.ceilings import rates_of
from analysis.data.cells import product_of, without_swept_naive
from analysis.data.frames import stacked
from analysis.data.recordings import Source, with_gpu
from analysis.kernels.counts import Launch, launches
from analysis.kernels.machine_code import intensities
from kernels.catalog.product import Product
from kernels.catalog.variant import UserSupplied
from kernels.products.elements import ELEMENTS
from kernels.theory.cost import SECTOR_BYTES

WAVEFRONT_BYTES = 128
FP32, TENSOR = "FP32", "tensor cores"
_UNITS, _TENSOR_UNITS = "fp32_flop_per_s", "fp16_tensor_flop_per_s"
# The bounds: name, and the ceiling that it follows from.
BOUNDS = {
    "compute": _UNITS,
    "l1": "l1_bytes_per_s",
    "shared": "shared_bytes_per_s",
    "dram": "device_copy_bytes_per_s",
}
_MEMORY = ["pinned", "pageable"]


def roofline_table(
    found: list[Source], ceilings: pd.DataFrame, counts: pd.DataFrame
) -> pd.DataFrame:
    """Return one row a GPU and variant, with its fastest block size at its largest order.

    `ceilings` is `analysis.data.ceilings.ceilings_table`, `counts`
    `analysis.kernels.counts.counts_table`. balance_flop_per_byte is the GPU's rate of
    FMAs over the bandwidth of its memory: by source L, a kernel below it is bound by
    memory. traffic_bytes are those of the sectors that are asked of the first-level cache,
    share_of_units is the rate of the kernel over that of the units that it multiplies on. The bound
    is the largest of the lower bounds of the time, share_of_bound that over the kernel's time. A
    bound that is not known is empty: there are no counts of what a library does, and older
    recordings have no ceiling of caches.
    """
    counted = launches(counts)
    frames = []
    for source in with_gpu(found):
        rates = rates_of(ceilings, source.label)
        cells = fastest(source).to_dict("records")
        rows = pd.DataFrame([placed(cell, rates, counted) for cell in cells])
        frames.append(rows.assign(recording=source.recording_id, gpu=source.label))
    return stacked("roofline", frames)


def fastest(source: Source) -> pd.DataFrame:
    """Return of each variant the cell with the fastest kernel at its largest order.

    From the host memory that disturbs the GPU least; naive in blocks of 32×32 alone.
    """
    cells = source.gpu_square_cells
    cells = without_swept_naive(cells[cells["kernel_s"].notna()])
    memory = next((kind for kind in _MEMORY if (cells["host_memory"] == kind).any()), None)
    cells = cells[(cells["host_memory"] == memory).fillna(False)]
    largest = cells.groupby("variant")["n"].transform("max")
    cells = cells[cells["n"] == largest]
    return cells.loc[sorted(cells.groupby("variant")["kernel_s"].idxmin())]


def placed(
    cell: dict[str, Any], rates: dict[str, float], counted: dict[Product, Launch]
) -> dict[str, object]:
    """Return a cell with its bounds by a GPU's ceilings (`rates`), and where it stands below them.

    `counted` has the accesses of its launch, where they are known. kernel_s may be NaN.
    """
    product, time_s = product_of(cell), float(cell["kernel_s"])
    shape, launch = product.shape, counted.get(product)
    parts = product.entry.tensor_products
    work = {"compute": float(shape.flop) * (parts or 1), "dram": float(_compulsory_bytes(product))}
    row = cell | {"kernel_flop_per_s": shape.flop / time_s}
    if launch:
        sectors, wavefronts = (
            sum(way[f"{memory}_{operation}"] for memory in places)
            for way, places, operation in (
                (launch.theory, ("global_load", "global_store"), "sectors"),
                (launch.merged, ("shared_load", "shared_store"), "wavefronts"),
            )
        )
        work |= {"l1": sectors * SECTOR_BYTES, "shared": wavefronts * WAVEFRONT_BYTES}
        row |= intensities(product, launch) | {"traffic_bytes": work["l1"]}
    ceilings = BOUNDS | {"compute": _TENSOR_UNITS} if parts else BOUNDS
    bounds = {n: work[n] / rates[c] for n, c in ceilings.items() if n in work and c in rates}
    row |= {f"{name}_bound_s": bound_s for name, bound_s in bounds.items()}
    if {"fp32_flop_per_s", "device_copy_bytes_per_s"} <= set(rates):
        row["balance_flop_per_byte"] = rates["fp32_flop_per_s"] / rates["device_copy_bytes_per_s"]
    row["units"] = TENSOR if parts else FP32
    if "compute" in bounds:
        row["share_of_units"] = bounds["compute"] / time_s
    # Of what was user-supplied nothing is counted here, so that a nearer bound may be unknown.
    counts_known = launch or not isinstance(product.entry, UserSupplied)
    return row | nearest_bound(bounds if counts_known else {}, time_s)


def nearest_bound(bounds: dict[str, float], time_s: float) -> dict[str, object]:
    """Return which bound of a time is the largest, that bound, and its share of the time.

    Nothing if no bound is known.
    """
    if not bounds:
        return {}
    nearest = max(bounds, key=lambda name: bounds[name])
    found_s = bounds[nearest]
    return {"bound": nearest, "bound_s": found_s, "share_of_bound": found_s / time_s}


def _compulsory_bytes(product: Product) -> int:
    """Return the bytes of A, B and C: what device memory has to carry at least."""
    shape = product.shape
    elements = shape.a_elements + shape.b_elements + shape.c_elements
    return elements * ELEMENTS[product.dtype].bytes
