"""The builds of each kernel: resources, occupancy, instructions and arithmetic intensity.

Instructions are read from the machine code, as in source G. Occupancy follows from a build's
resources. Arithmetic intensity (sources T and L) follows from the theoretical memory accesses.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from analysis.data.cells import whole
from analysis.data.frames import from_rows
from analysis.kernels.counts import Launch, launches
from analysis.stats.estimates import grouped
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.cubins import machine_code as mix
from kernels.cubins.compile import compute_capability
from kernels.cubins.machine_code import KERNEL, LOOP, InstructionCount, fma_share, fmas
from kernels.cubins.occupancy import LIMITS, occupancy
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.addresses import VECTOR
from kernels.theory.cost import SECTOR_BYTES
from kernels.theory.tiles import number_of

SIZE = 1024  # assumed size N, where the launch of a block depends on it
EXACT = "exact"
_BUILD = ["recording", "architecture", "variant", "dtype", "block_size", "build"]
_ACCESSES = {"global_loads": "LDG", "shared_loads": "LDS"}
_INSTRUCTION = ("scope", "opcode", "bits", "count")
_RESOURCES = ["registers_per_thread", "static_shared_bytes", "spill_store_bytes"]


def machine_code_table(
    builds: pd.DataFrame,
    instructions: pd.DataFrame,
    counts: pd.DataFrame,
    catalog: Catalog = VARIANTS,
) -> pd.DataFrame:
    """Return one row per build of a kernel, without the probes.

    `builds` and `instructions` are the tables of these names, `counts` is
    `analysis.kernels.counts.counts_table`. Occupancy is theoretical. Columns with the prefix loop_
    count instructions in the main loop. Bank conflicts and arithmetic intensity are theoretical, at
    the largest counted shape (batch, m, n, k) of the build. flop_per_byte_accessed: FLOP per byte
    that threads load from global memory (1/4 for a naive float32 kernel). flop_per_byte_of_sectors:
    FLOP per byte of the sectors loaded and stored. Unknown values are empty.
    """
    listings = dict(grouped(instructions, _BUILD))
    accesses = _largest(counts)
    rows = []
    for build in builds[builds["variant"].isin(catalog)].to_dict("records"):
        named = {name: None if pd.isna(build[name]) else build[name] for name in _BUILD}
        entry = catalog[str(build["variant"])]
        row = named | {name: build[name] for name in _RESOURCES}
        block_size = entry.block_size(whole(build["block_size"]))
        shape = Shape.square(int(min(SIZE, entry.edges[1])))
        product = Product(entry.name, str(build["dtype"]), shape, block_size, catalog)
        row |= _launch(product, build)
        listing = listings.get(tuple(named.values()))
        if listing is not None:
            columns = zip(*(listing[name] for name in _INSTRUCTION), strict=True)
            counted = [InstructionCount(*values) for values in columns]
            row |= _instructions(counted, product.sums_per_thread)
        row |= accesses.get(tuple(list(named.values())[2:]), {})
        rows.append(row)
    return from_rows("machine_code", rows)


def _launch(product: Product, build: dict[str, object]) -> dict[str, object]:
    threads, shared_bytes = product.launch.threads_per_block, product.launch.dynamic_shared_bytes
    row: dict[str, object] = {"dynamic_shared_bytes": shared_bytes}
    capability = compute_capability(str(build["architecture"]))
    if capability in LIMITS:
        registers, static = (int(str(build[name])) for name in _RESOURCES[:2])
        resident = occupancy(capability, threads, registers, static, shared_bytes)
        row |= {"blocks_per_multiprocessor": resident.blocks_per_multiprocessor}
        row |= {"occupancy": resident.share, "limiter": resident.limiter}
    return row


def _instructions(counts: list[InstructionCount], sums: int) -> dict[str, object]:
    """Return the instruction mix of a kernel whose threads each compute `sums` elements of C."""
    row: dict[str, object] = {
        "instructions": sum(count.count for count in counts if count.scope == KERNEL),
        "loop_instructions": sum(count.count for count in counts if count.scope == LOOP),
        "loop_fmas": fmas(counts, LOOP),
        "loop_fma_share": fma_share(counts, LOOP),
        "loop_barriers": mix.barriers(counts, LOOP),
        "unrolling": mix.unrolling(counts, sums),
    }
    for name, opcode in _ACCESSES.items():
        row[f"widest_{name}_bits"] = max(mix.loads_by_width(counts, KERNEL, opcode), default=0)
    return row


def _largest(counts: pd.DataFrame) -> dict[tuple[object, ...], dict[str, object]]:
    """Return the theoretical values of each kernel and build at its largest shape."""
    flop: dict[tuple[object, ...], int] = {}
    largest: dict[tuple[object, ...], dict[str, object]] = {}
    for product, launch in launches(counts).items():
        key = (product.variant, product.dtype, number_of(product.block_size), launch.build)
        if product.shape.flop > flop.get(key, 0):
            flop[key] = product.shape.flop
            largest[key] = vars(product.shape) | intensities(product, launch)
    return largest


def intensities(product: Product, launch: Launch) -> dict[str, float | None]:
    """Return bank conflicts per request and FLOP per byte of one launch, from its counts."""
    theory, shape = launch.theory, product.shape
    # A load is of one element, or of a float4 in the exact builds of source G's kernels.
    of_vectors = product.entry.origin == "G" and launch.build == EXACT
    load_bytes = ELEMENTS[product.dtype].bytes * (VECTOR if of_vectors else 1)
    loaded = theory["global_load_accesses"] * load_bytes
    sectors = theory["global_load_sectors"] + theory["global_store_sectors"]
    row: dict[str, float | None] = {
        "flop_per_byte_accessed": shape.flop / loaded,
        "flop_per_byte_of_sectors": shape.flop / (sectors * SECTOR_BYTES),
    }
    for operation in ("shared_load", "shared_store"):
        requests = theory[f"{operation}_requests"]
        conflicts = theory[f"{operation}_bank_conflicts"]
        row[f"{operation}_conflicts_per_request"] = conflicts / requests if requests else None
    return row


def issued(product: Product, code: Mapping[str, float]) -> float:
    """Return how many instructions a warp issues in one launch; NaN without a main loop.

    `code` is a row of the table machine_code. The instructions of the main loop count as often as
    the sums need the loop. All others count once, even those of a loop around the main loop.
    """
    adds = product.shape.k * product.sums_per_thread
    if not code["loop_fmas"] > 0:
        return float("nan")
    rounds = adds / code["loop_fmas"]
    return code["instructions"] + (rounds - 1) * code["loop_instructions"]


def rows_of(machine_code: pd.DataFrame, keys: Iterable[tuple[object, ...]]) -> pd.Series:
    """Return the row number of each build in the table, NA if there is none.

    A key consists of recording, architecture, variant, dtype, block size or None, build.
    """
    rows = {
        tuple(None if pd.isna(part) else part for part in key): row
        for row, key in enumerate(machine_code[_BUILD].itertuples(index=False, name=None))
    }
    return pd.Series([rows.get(key) for key in keys], dtype="Int64")
