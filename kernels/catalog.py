"""The catalog: for every kernel variant its source, its launch geometry, its limits, its origin.

This is the only place that knows these things. A new variant is one `.cu` file and one entry here.
A kernel has the C signature ``void NAME(const float *a, const float *b, float *c, int n)`` with
row-major square matrices of order n, and is compiled with ``-DBLOCK=b -DGUARDED=0|1``. The guarded
build checks bounds; it is used where n is no multiple of the block size, and only there.

One cubin more, `PROBES`, holds no variant: its kernels measure what a card can do at most.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.theory import Access
from measurement.errors import StudyError

# Kernels index with int: the last element of a square matrix of this order is below 2**31.
MAX_ORDER = 46340
FLOAT_BYTES = 4


@dataclass(frozen=True)
class DeviceLimits:
    """What one launch may use on a card, as the CUDA driver reports it (device attributes)."""

    max_threads_per_block: int
    max_shared_bytes_per_block: int
    max_registers_per_block: int
    max_grid_x: int
    max_grid_y: int
    warp_size: int
    memory_bytes: int


@dataclass(frozen=True)
class Launch:
    """Geometry of one launch: blocks in the grid, threads in a block, dynamic shared memory."""

    grid: tuple[int, int]
    threads: tuple[int, int]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class Variant:
    """One kernel variant; `launch(n, block_size)` gives its geometry, `accesses` its theory.

    `block_sizes` is None for kernels without that parameter. `family` names the term of model M0
    that describes the kernel. `origin` is the source and its table.
    """

    name: str
    title: str
    origin: str
    description: str
    family: str
    block_sizes: tuple[int, ...] | None
    launch: Callable[[int, int], Launch]
    accesses: Callable[[int, int], list[Access]]

    @property
    def source(self) -> str:
        """Path of the source file, relative to the project's root."""
        return f"kernels/{self.name}.cu"


@dataclass(frozen=True)
class Build:
    """One cubin: a variant, its compile-time block size, and whether bounds are checked.

    `PROBES` is one too, with a source of its own in the place of a variant's.
    """

    variant: str
    block_size: int | None
    guarded: bool

    @property
    def kind(self) -> str:
        """Name of the build as it stands in recordings."""
        return "guarded" if self.guarded else "exact"

    @property
    def stem(self) -> str:
        """File name without suffix, for example ``block-b32-exact``."""
        block = "" if self.block_size is None else f"-b{self.block_size}"
        return f"{self.variant}{block}-{self.kind}"

    @property
    def source(self) -> str:
        """Path of the source file, relative to the project's root."""
        return "kernels/probes.cu" if self == PROBES else variant(self.variant).source


PROBES = Build("probes", None, False)


def _square_blocks(n: int, block_size: int) -> Launch:
    """A thread an element of C: blocks of B×B threads."""
    blocks = -(-n // block_size)
    return Launch((blocks, blocks), (block_size, block_size))


def _quarter_blocks(n: int, block_size: int) -> Launch:
    """A thread four elements of C: blocks of B×B/4 threads for B×B elements."""
    blocks = -(-n // block_size)
    return Launch((blocks, blocks), (block_size, block_size // 4))


def _block_per_line(n: int, _block_size: int) -> Launch:
    """N blocks of N threads, with one row or column of N elements in dynamic shared memory."""
    return Launch((n, 1), (n, 1), n * FLOAT_BYTES)


def _naive_accesses(n: int, _b: int) -> list[Access]:
    """2N global loads and a store a thread; x along the rows of C, y along its columns."""
    return [
        Access("global_load", along_x=n, along_y=0, step=1, steps=n),  # A(row, k)
        Access("global_load", along_x=0, along_y=1, step=n, steps=n),  # B(k, column)
        Access("global_store", along_x=n, along_y=1),
    ]


def _naive_coalesced_accesses(n: int, _b: int) -> list[Access]:
    """2N global loads and a store a thread; x along the columns of C, y along its rows."""
    return [
        Access("global_load", along_x=0, along_y=n, step=1, steps=n),
        Access("global_load", along_x=1, along_y=0, step=n, steps=n),
        Access("global_store", along_x=1, along_y=n),
    ]


def _buffered_column_accesses(n: int, _b: int) -> list[Access]:
    """1 + N global loads, a shared store, N shared loads and a store a thread."""
    return [
        Access("global_load", along_x=n, along_y=0, step=1, steps=n),  # each block's column
        Access("shared_store", along_x=1, along_y=0),
        Access("global_load", along_x=n, along_y=0, step=1, steps=n, repeats=n),  # A(row, k)
        Access("shared_load", along_x=0, along_y=0, steps=n),
        Access("global_store", along_x=n, along_y=0, step=1, steps=n),
    ]


def _buffered_row_accesses(n: int, _b: int) -> list[Access]:
    """As `_buffered_column_accesses`, with a row in the place of a column."""
    return [
        Access("global_load", along_x=1, along_y=0, step=n, steps=n),
        Access("shared_store", along_x=1, along_y=0),
        Access("global_load", along_x=1, along_y=0, step=n, steps=n, repeats=n),  # B(k, column)
        Access("shared_load", along_x=0, along_y=0, steps=n),
        Access("global_store", along_x=1, along_y=0, step=n, steps=n),
    ]


def _block_accesses(n: int, b: int) -> list[Access]:
    """2N/B global loads and shared stores, 2N shared loads and a store a thread, if B divides N."""
    tiles = -(-n // b)
    return [
        Access("global_load", along_x=1, along_y=n, repeats=2 * tiles),  # of A and of B
        Access("shared_store", along_x=1, along_y=b, repeats=2 * tiles),
        Access("shared_load", along_x=0, along_y=b, steps=b, repeats=tiles),  # A(row, k)
        Access("shared_load", along_x=1, along_y=0, steps=b, repeats=tiles),  # B(k, column)
        Access("global_store", along_x=1, along_y=n),
    ]


def _block_strided_accesses(n: int, b: int) -> list[Access]:
    """As `_block_accesses`, but tiles are loaded and stored with x along the rows."""
    tiles = -(-n // b)
    return [
        Access("global_load", along_x=n, along_y=1, repeats=2 * tiles),
        Access("shared_store", along_x=b, along_y=1, repeats=2 * tiles),
        *_block_accesses(n, b)[2:],
    ]


def _block_unroll4_accesses(n: int, b: int) -> list[Access]:
    """8N/B global loads and shared stores, 5N shared loads, 4 stores a thread, if B divides N."""
    tiles = -(-n // b)
    quarters = [b // 4 * i for i in range(4)]
    return [
        *(Access("global_load", 1, n, repeats=2 * tiles, first_y=first) for first in quarters),
        Access("shared_store", along_x=1, along_y=b, repeats=2 * 4 * tiles),
        Access("shared_load", along_x=1, along_y=0, steps=b, repeats=tiles),  # B(k, column)
        Access("shared_load", along_x=0, along_y=b, steps=b, repeats=4 * tiles),  # A(row, k)
        *(Access("global_store", 1, n, first_y=first) for first in quarters),
    ]


_ALL_BLOCKS = tuple(range(1, 33))

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in [
        Variant(
            "naive",
            "naive",
            "V, Tables 1–6",
            "one element of C a thread from global memory, neighbouring threads along a column "
            "of C (uncoalesced)",
            "naive",
            _ALL_BLOCKS,
            _square_blocks,
            _naive_accesses,
        ),
        Variant(
            "naive_coalesced",
            "naive, coalesced",
            "T, step 2",
            "the same with neighbouring threads along a row of C (coalesced)",
            "naive",
            _ALL_BLOCKS,
            _square_blocks,
            _naive_coalesced_accesses,
        ),
        Variant(
            "buffered_column",
            "buffered column of B",
            "V, Tables 3 and 4",
            "a block keeps a column of B in shared memory; all global accesses uncoalesced",
            "buffered",
            None,
            _block_per_line,
            _buffered_column_accesses,
        ),
        Variant(
            "buffered_row",
            "buffered row of A",
            "V, Table 4",
            "a block keeps a row of A in shared memory; all global accesses coalesced",
            "buffered",
            None,
            _block_per_line,
            _buffered_row_accesses,
        ),
        Variant(
            "block",
            "block",
            "V, Table 5",
            "B×B tiles of A and B in shared memory, coalesced loads",
            "block",
            _ALL_BLOCKS,
            _square_blocks,
            _block_accesses,
        ),
        Variant(
            "block_strided",
            "block, strided loads",
            "V, text",
            "the block kernel with the slow order of loads (uncoalesced)",
            "block",
            _ALL_BLOCKS,
            _square_blocks,
            _block_strided_accesses,
        ),
        Variant(
            "block_unroll4",
            "block, unrolled by 4",
            "V, Table 6",
            "B×B tiles with B×B/4 threads, four elements of C a thread",
            "block",
            tuple(range(4, 33, 4)),
            _quarter_blocks,
            _block_unroll4_accesses,
        ),
    ]
}


def variant(name: str) -> Variant:
    """Return the variant called `name`; raises StudyError naming the known ones."""
    if name not in VARIANTS:
        raise StudyError(f"variant {name!r} is not in the catalog; it has {', '.join(VARIANTS)}")
    return VARIANTS[name]


def block_sizes(name: str, wanted: list[int]) -> list[int | None]:
    """Return those `wanted` block sizes that the variant takes; [None] if it has none at all."""
    allowed = variant(name).block_sizes
    return [None] if allowed is None else [b for b in wanted if b in allowed]


def within_limits(study: dict[str, Any], n: int, block_size: int | None) -> bool:
    """Tell whether a study plans cells of this order and block size (`block_size_limits`)."""
    return all(
        n <= limit["largest_size"]
        for limit in study.get("block_size_limits", [])
        if limit["block_size"] == block_size
    )


def build_for(name: str, n: int, block_size: int | None) -> Build:
    """Return the build that runs order `n`: exact where the block size divides it, else guarded."""
    return Build(name, block_size, block_size is not None and n % block_size != 0)


def parse_build(stem: str) -> Build:
    """Return the build whose `stem` is given; raises StudyError for one that cannot exist."""
    match = re.fullmatch(r"(\w+?)(?:-b(\d+))?-(exact|guarded)", stem)
    if match:
        build = Build(match[1], int(match[2]) if match[2] else None, match[3] == "guarded")
        if build.stem == stem and (build == PROBES or _exists(build)):
            return build
    raise StudyError(
        f"build {stem!r} is none of the catalog; one is named like 'block-b32-exact' or "
        "'buffered_row-exact' (`python -m kernels list` shows variants and block sizes)"
    )


def _exists(build: Build) -> bool:
    """Tell whether some order of matrices needs this build of a variant."""
    if build.variant not in VARIANTS:
        return False
    sizes = VARIANTS[build.variant].block_sizes
    if sizes is None:
        return build.block_size is None and not build.guarded
    # Every order is a multiple of 1.
    return build.block_size in sizes and not (build.guarded and build.block_size == 1)


def builds(study: dict[str, Any]) -> list[Build]:
    """Return every build that a study (section `study` of the config) needs, without repeats.

    The last is `PROBES`: a card's ceilings are measured whatever the study is.
    """
    orders = [*study["sizes"], *study["holdout_sizes"]]
    found = {
        build_for(name, n, b): None
        for name in study["variants"]
        for b in block_sizes(name, study["block_sizes"])
        for n in orders
        if within_limits(study, n, b)
    }
    return [*found, PROBES]


def not_launchable(
    name: str,
    n: int,
    block_size: int | None,
    limits: DeviceLimits,
    registers_per_thread: int = 0,
    static_shared_bytes: int = 0,
) -> str | None:
    """Say which limit of the card keeps the variant from running at order `n`; None if it runs.

    `registers_per_thread` and `static_shared_bytes` come from the build (0: not known).
    """
    launch = variant(name).launch(n, block_size or 0)
    threads = launch.threads[0] * launch.threads[1]
    shared = launch.dynamic_shared_bytes + static_shared_bytes
    demands = [
        (n, MAX_ORDER, "matrix order, {} allowed by 32-bit indices"),
        (threads, limits.max_threads_per_block, "threads a block, {} allowed"),
        (shared, limits.max_shared_bytes_per_block, "bytes of shared memory a block, {} allowed"),
        (launch.grid[0], limits.max_grid_x, "blocks along x, {} allowed"),
        (launch.grid[1], limits.max_grid_y, "blocks along y, {} allowed"),
        (
            _registers_per_block(registers_per_thread, threads, limits.warp_size),
            limits.max_registers_per_block,
            "registers a block, {} allowed",
        ),
        (3 * FLOAT_BYTES * n * n, limits.memory_bytes, "bytes for three matrices, the card has {}"),
    ]
    for demand, limit, text in demands:
        if demand > limit:
            return f"needs {demand} {text.format(limit)}"
    return None


def _registers_per_block(registers_per_thread: int, threads: int, warp_size: int) -> int:
    """Registers go to whole warps, in steps of eight a thread (compute capability ≥ 3)."""
    warps = -(-threads // warp_size)
    return warps * warp_size * (-(-registers_per_thread // 8) * 8)
