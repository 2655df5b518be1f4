"""The units of work in a launch, for the models from M4 on.

No unit is a time. Accesses follow from the kernel's source (`kernels.theory.cost`) or from the
GPU's counters, instructions and registers from the machine code, the rest from the launch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from analysis.data.cells import whole
from analysis.kernels.machine_code import EXACT, issued
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.cubins.build import build_for
from kernels.cubins.occupancy import LIMITS, WARP_SIZE, occupancy
from kernels.host_execution.check import predict
from kernels.host_execution.counts import ncu_metric
from kernels.products.shape import Shape
from kernels.theory.tiles import number_of
from measurement.recording.recording import KERNEL

# sectors and lines (global memory), wavefronts (shared memory): transactions of a launch.
# instructions: issued by all warps. imbalance: blocks on the busiest multiprocessor over the mean.
# waits: steps between barriers that a multiprocessor waits for one after the other.
COLUMNS = ["sectors", "lines", "wavefronts", "instructions", "imbalance", "waits"]
_DTYPE = "float32"
_KEY = [name for name in KERNEL if name != "device"]
_OPERATIONS = ("load", "store")
_predict = cache(predict)
_Codes = dict[tuple[object, ...], dict[str, float]]  # by `_by_build`


@dataclass(frozen=True)
class GpuFacts:
    """Facts about a GPU, and about the kernels compiled for it.

    `code` has the GPU's rows of the table machine_code, `counters` those of
    `analysis.kernels.counts.counters`.
    """

    multiprocessors: int
    compute_capability: str
    code: pd.DataFrame
    counters: pd.DataFrame


def with_work(cells: pd.DataFrame, gpu: GpuFacts | None) -> pd.DataFrame:
    """Return `cells` (variant, n, block_size: square float32 matrices) with `COLUMNS`.

    Counters of the GPU have precedence over theory; theory assumes that loads of shared memory are
    merged as by the compiler. Values are NaN without a GPU, or if its limits, the machine code or
    the kernel's source are unknown.
    """
    codes = {} if gpu is None else _by_build(gpu.code)
    counters: dict[tuple[object, ...], float] = {}
    if gpu is not None:
        keys = _keys(gpu.counters[[*_KEY, "ncu_metric"]])
        counters = dict(zip(keys, gpu.counters["counter"].astype(float), strict=True))
    rows = []
    for name, n, block in cells[["variant", "n", "block_size"]].itertuples(index=False, name=None):
        block_size = variant(name).block_size(whole(block))
        product = Product(name, _DTYPE, Shape.square(int(n)), block_size)
        row: dict[str, float] = {}
        if product.has_theory:
            row = _accesses(product, counters)
            if gpu is not None:
                row |= _on_gpu(product, gpu, codes)
        rows.append(row)
    work = pd.DataFrame(rows, columns=COLUMNS, index=cells.index, dtype=float)
    return cells.assign(**work)


def _accesses(product: Product, counters: dict[tuple[object, ...], float]) -> dict[str, float]:
    theory = _predict(product, merged=True)
    units = {"lines": float(sum(theory[f"global_{kind}"].lines for kind in _OPERATIONS))}
    for name, memory in (("sectors", "global"), ("wavefronts", "shared")):
        units[name] = 0.0
        for kind in _OPERATIONS:
            counted = counters.get((*product.row().values(), ncu_metric(f"{memory}_{kind}_{name}")))
            total = theory[f"{memory}_{kind}"].transactions
            units[name] += total if counted is None else counted
    return units


def _on_gpu(product: Product, gpu: GpuFacts, codes: _Codes) -> dict[str, float]:
    launch = product.launch
    threads, blocks = launch.threads_per_block, launch.blocks
    busiest = np.ceil(blocks / gpu.multiprocessors)
    units = {"imbalance": busiest * gpu.multiprocessors / blocks}
    code = _code(product, codes)
    if code is None:
        return units
    warps = blocks * -(-threads // WARP_SIZE)
    units["instructions"] = warps * issued(product, code)
    if gpu.compute_capability in LIMITS:
        at_once = occupancy(
            gpu.compute_capability,
            threads,
            int(code["registers_per_thread"]),
            int(code["static_shared_bytes"]),
            launch.dynamic_shared_bytes,
        ).blocks_per_multiprocessor
        if at_once:
            waves = np.ceil(blocks / (gpu.multiprocessors * at_once))
            units["waits"] = waves * _steps(product)
    return units


def _code(product: Product, codes: _Codes) -> dict[str, float] | None:
    """Return the machine code of the build that a product runs, or else of the exact build."""
    build = build_for(product)
    assert build is not None
    keys = ((build.variant, number_of(build.block_size), kind) for kind in (build.kind, EXACT))
    return next((codes[key] for key in keys if key in codes), None)


def _steps(product: Product) -> int:
    family = product.entry.family
    if family == "naive":
        return 0
    depth = product.tile[2]
    return 1 if family == "buffered" else -(-product.shape.k // depth)


def _by_build(code: pd.DataFrame) -> _Codes:
    names = ["instructions", "loop_instructions", "loop_fmas"]
    names += ["registers_per_thread", "static_shared_bytes"]
    builds = code[code["dtype"] == _DTYPE]
    values = builds[names].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    keys = _keys(builds[["variant", "block_size", "build"]])
    return {key: dict(zip(names, row, strict=True)) for key, row in zip(keys, values, strict=True)}


def _keys(frame: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    for row in frame.itertuples(index=False, name=None):
        yield tuple(None if pd.isna(part) else part for part in row)
