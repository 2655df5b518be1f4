"""The roofline of a GPU: each kernel compared with the ceilings of its units and memories.

Each ceiling gives a lower bound of the time of a launch: FMA throughput (tensor cores: throughput
of partial products) for the FLOPs, bandwidth of L1 for the requested sectors, bandwidth of shared
memory for the wavefronts, bandwidth of device memory for A, B and C once. Sectors and wavefronts
are theoretical; the wavefronts assume merged adjacent loads.
"""

from typing import Any

import pandas as pd

from analysis.data import best
from analysis.data.ceilings import rates_of
from analysis.data.cells import is_source_naive, product_of
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.kernels.counts import Launch, launches
from analysis.kernels.machine_code import intensities
from kernels.catalog.product import Product
from kernels.catalog.variant import UserSupplied
from kernels.products.elements import ELEMENTS
from kernels.theory.cost import SECTOR_BYTES

WAVEFRONT_BYTES = 128
FP32, TENSOR = "FP32", "tensor cores"
_UNITS, _TENSOR_UNITS = "fp32_flop_per_s", "fp16_tensor_flop_per_s"
# Bounds and their ceilings.
BOUNDS = {
    "compute": _UNITS,
    "l1": "l1_bytes_per_s",
    "shared": "shared_bytes_per_s",
    "dram": "device_copy_bytes_per_s",
}


def roofline_table(
    found: list[MeasuredSource], ceilings: pd.DataFrame, counts: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per GPU and variant, with its fastest block size at its largest size.

    The naive kernel also has a row in blocks of 32×32, the launch of source V.
    `ceilings` is `analysis.data.ceilings.ceilings_table`, `counts`
    `analysis.kernels.counts.counts_table`. balance_flop_per_byte: FMA throughput over bandwidth of
    device memory; according to source L, a kernel below it is memory-bound. traffic_bytes: sectors
    requested from L1. share_of_units: throughput of the kernel over that of its units. bound: the
    largest lower bound of the time; share_of_bound: its share of the kernel's time. Unknown bounds
    are empty: libraries have no counts, and older recordings no ceilings of caches.
    """
    counted = launches(counts)
    frames = []
    for source in with_gpu(found):
        rates = rates_of(ceilings, source.label)
        cells = fastest(source).to_dict("records")
        rows = pd.DataFrame([placed(cell, rates, counted) for cell in cells])
        frames.append(rows.assign(recording=source.recording_id, gpu=source.label))
    return stacked("roofline", frames)


def fastest(source: MeasuredSource) -> pd.DataFrame:
    """Return the cell of each variant with the fastest kernel at its largest size.

    The naive kernel has also its cell in blocks of 32×32, the launch of source V.
    """
    cells = source.gpu_square_cells
    cells = cells[cells["kernel_s"].notna()]
    cells = cells[(cells["host_memory"] == source.memory("kernel")).fillna(False)]
    cells = cells[cells["n"] == cells.groupby("variant")["n"].transform("max")]
    chosen = best.fastest(cells, "kernel_s", ["variant"]).index
    return cells[cells.index.isin(chosen) | is_source_naive(cells)]


def placed(
    cell: dict[str, Any], rates: dict[str, float], counted: dict[Product, Launch]
) -> dict[str, object]:
    """Return a cell with its bounds by a GPU's ceilings (`rates`), and its shares of them.

    `counted` has the memory accesses of known launches. kernel_s may be NaN.
    """
    product, time_s = product_of(cell), float(cell["kernel_s"])
    shape, launch = product.shape, counted.get(product)
    parts = product.entry.tensor_products
    work = {"compute": float(shape.flop) * (parts or 1), "dram": float(_compulsory_bytes(product))}
    row = cell | {"kernel_flop_per_s": shape.flop / time_s}
    if launch:
        sectors = launch.theory["global_load_sectors"] + launch.theory["global_store_sectors"]
        wavefronts = launch.merged["shared_load_wavefronts"]
        wavefronts += launch.merged["shared_store_wavefronts"]
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
    # User-supplied kernels have no counts here, so the nearest bound may be unknown.
    counts_known = launch or not isinstance(product.entry, UserSupplied)
    return row | nearest_bound(bounds if counts_known else {}, time_s)


def nearest_bound(bounds: dict[str, float], time_s: float) -> dict[str, object]:
    """Return the largest bound of a time, its name and its share of the time; {} without bounds."""
    if not bounds:
        return {}
    nearest = max(bounds, key=lambda name: bounds[name])
    found_s = bounds[nearest]
    return {"bound": nearest, "bound_s": found_s, "share_of_bound": found_s / time_s}


def _compulsory_bytes(product: Product) -> int:
    """Return the bytes of A, B and C, the minimum traffic of device memory."""
    shape = product.shape
    elements = shape.a_elements + shape.b_elements + shape.c_elements
    return elements * ELEMENTS[product.dtype].bytes
