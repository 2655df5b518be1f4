"""The roofline of a GPU: each kernel compared with the ceilings of its units and memories.

Each ceiling gives a lower bound of the time of a launch:

- compute: FMA throughput (tensor cores: throughput of partial products) for the FLOPs.
- l1, shared, pipe: a multiprocessor serves one L1 line of 128 bytes, or one wavefront of shared
  memory, per cycle. Both share one pipe, so their sum is a bound too. The pipe's measured bandwidth
  is the larger of the bandwidths of L1 and of shared memory.
- l2: bandwidth of L2 for the rows of A and columns of B that the blocks on one multiprocessor need
  at least, and for C. L1 keeps no data for later blocks.
- issue: four instructions per cycle and multiprocessor. The clock is the clock of the latencies.
- dram: bandwidth of device memory for A, B and C once.

Lines and wavefronts are theoretical; the wavefronts assume merged adjacent loads.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.data import best
from analysis.data.cells import is_source_naive, product_of, rates_of
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.kernels.counts import Launch, launches
from analysis.kernels.machine_code import EXACT, intensities, issued
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.elements import ELEMENTS
from kernels.theory.cost import LINE_BYTES, WARP
from kernels.theory.tiles import number_of

_BUILD = ["variant", "dtype", "block_size", "build"]
FP32, TENSOR = "FP32", "tensor cores"
_UNITS, _TENSOR_UNITS = "fp32_flop_per_s", "fp16_tensor_flop_per_s"
# Bounds and their ceilings: quantities of ceilings.csv, or of `_rates`.
_PIPE, _ISSUE = "pipe_bytes_per_s", "issue_per_s"
BOUNDS = {
    "compute": _UNITS,
    "l1": _PIPE,
    "shared": _PIPE,
    "pipe": _PIPE,
    "l2": "l2_bytes_per_s",
    "issue": _ISSUE,
    "dram": "device_copy_bytes_per_s",
}
SCHEDULERS = 4  # per multiprocessor, each issues one instruction per cycle
LIMITED = 0.8  # a ceiling limits a kernel that reaches at least this share of it
Codes = Mapping[tuple[object, ...], Mapping[str, float]]


def roofline_table(
    sources: list[MeasuredSource], ceilings: pd.DataFrame, counts: pd.DataFrame, code: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per GPU and variant, with its fastest block size at its largest size.

    The naive kernel also has a row in blocks of 32×32, the launch of source V. `ceilings` is
    `analysis.data.ceilings.ceilings_table`, `counts` `analysis.kernels.counts.counts_table`, `code`
    the table machine_code. share_of_units: throughput of the kernel divided by the ceiling of its
    units. bound: the largest lower bound of its time; share_of_bound: this bound divided by its
    time; limited_by: the bound if this share is at least `LIMITED`. Unknown bounds are empty, as
    those of libraries, which have no counts.
    """
    counted = launches(counts)
    frames = []
    for source in with_gpu(sources):
        rates = rates_of(ceilings, source.label)
        clock = rates.get("l2_latency_cycles", math.nan) / rates.get("l2_latency_s", math.nan)
        rates[_ISSUE] = SCHEDULERS * int(source.gpu["multiprocessors"]) * clock
        of_recording = code[code["recording"] == source.recording_id]
        codes = {
            tuple(None if pd.isna(row[name]) else row[name] for name in _BUILD): row
            for row in of_recording.astype(object).to_dict("records")
        }
        cells = fastest(source).to_dict("records")
        rows = pd.DataFrame([placed(cell, rates, counted, codes, source.catalog) for cell in cells])
        frames.append(rows.assign(recording=source.recording_id, gpu=source.label))
    return stacked("roofline", frames)


def fastest(source: MeasuredSource) -> pd.DataFrame:
    """Return the cell with the fastest kernel of each variant, at the variant's largest size.

    For the naive kernel, the cell in blocks of 32×32 is added, the launch of source V.
    """
    cells = source.gpu_square_cells
    cells = cells[cells["kernel_s"].notna()]
    cells = cells[(cells["host_memory"] == source.memory("kernel")).fillna(False)]
    cells = cells[cells["n"] == cells.groupby("variant")["n"].transform("max")]
    chosen = best.fastest(cells, "kernel_s", ["variant"]).index
    return cells[cells.index.isin(chosen) | is_source_naive(cells)]


def placed(
    cell: dict[str, Any],
    rates: Mapping[str, float],
    counted: dict[Product, Launch],
    codes: Codes,
    catalog: Catalog = VARIANTS,
) -> dict[str, object]:
    """Return a cell with the bounds that a GPU's ceilings (`rates`) give, and its shares of them.

    `counted` has the memory accesses of known launches, `codes` rows of the table machine_code by
    `_BUILD`. kernel_s may be NaN.
    """
    pipe = [rates[name] for name in ("l1_bytes_per_s", "shared_bytes_per_s") if name in rates]
    rates = {**rates, **({_PIPE: max(pipe)} if pipe else {})}
    product, time_s = product_of(cell, catalog), float(cell["kernel_s"])
    shape, launch = product.shape, counted.get(product)
    parts = product.entry.tensor_products
    # A, B and C once, the minimum traffic of device memory.
    elements = shape.a_elements + shape.b_elements + shape.c_elements
    compulsory = float(elements * ELEMENTS[product.dtype].bytes)
    work = {"compute": float(shape.flop) * (parts or 1), "dram": compulsory}
    row = cell | {"kernel_flop_per_s": shape.flop / time_s}
    if launch:
        lines = launch.theory["global_load_lines"] + launch.theory["global_store_lines"]
        wavefronts = launch.merged["shared_load_wavefronts"]
        wavefronts += launch.merged["shared_store_wavefronts"]
        work |= {"l1": lines * LINE_BYTES, "shared": wavefronts * LINE_BYTES}
        work["pipe"] = work["l1"] + work["shared"]
        build = (product.entry.kernel_name, product.dtype, number_of(product.block_size))
        code = codes.get((*build, launch.build)) or codes.get((*build, EXACT)) or {}
        if not pd.isna(code.get("blocks_per_multiprocessor")):
            work["l2"] = _l2_bytes(product, int(code["blocks_per_multiprocessor"]))
        if not (parts or pd.isna(code.get("loop_fmas"))):
            warps = product.launch.blocks * -(-product.launch.threads_per_block // WARP)
            work["issue"] = warps * issued(product, code)
        row |= intensities(product, launch)
    ceilings = BOUNDS | {"compute": _TENSOR_UNITS} if parts else BOUNDS
    bounds = {n: work[n] / rates[c] for n, c in ceilings.items() if n in work and c in rates}
    bounds = {name: bound_s for name, bound_s in bounds.items() if bound_s > 0}
    row |= {f"{name}_bound_s": bound_s for name, bound_s in bounds.items()}
    row["units"] = TENSOR if parts else FP32
    if "compute" in bounds:
        row["share_of_units"] = bounds["compute"] / time_s
    # User-supplied kernels have no counts here, so the nearest bound may be unknown.
    counts_known = launch or not product.is_user_supplied
    return row | nearest_bound(bounds if counts_known else {}, time_s)


def nearest_bound(bounds: dict[str, float], time_s: float) -> dict[str, object]:
    """Return a time's largest lower bound, the bound's name and its share of the time.

    limited_by names the bound if its share is at least `LIMITED`. Without bounds, the result is {}.
    """
    if not bounds:
        return {}
    nearest = max(bounds, key=lambda name: bounds[name])
    found_s = bounds[nearest]
    share = found_s / time_s
    row = {"bound": nearest, "bound_s": found_s, "share_of_bound": share}
    return row | ({"limited_by": nearest} if share >= LIMITED else {})


def _l2_bytes(product: Product, at_once: int) -> float:
    """Return the least bytes that L2 delivers or takes, with `at_once` blocks per multiprocessor.

    These blocks form the best rectangle, in which they share rows of A and columns of B.
    """
    shape, blocks = product.operands, product.launch.blocks
    rows = product.tile[0]
    columns = shape.c_elements / (blocks * rows)
    together = min(max(at_once, 1), blocks)
    edges = (down * rows + together / down * columns for down in range(1, together + 1))
    elements = blocks / together * min(edges) * shape.k + shape.c_elements
    return elements * ELEMENTS[product.dtype].bytes
