"""Memory accesses of the naive, buffered, tiled and outer-product kernels.

This module, `register_accesses` and `tensor_accesses` have one function per kernel, or per group of
similar kernels; variants.toml names it and its options. Such a function takes the shape of the
operands (in `KernelAccesses`) and the block size B (None if there is none). It returns the loads
and stores of the source: their addresses as functions of the thread, and their number. Docstrings
give counts per thread for shapes that the tiles divide. For other shapes, threads outside the
matrices access less.
"""

from math import gcd

from kernels.theory.addresses import ONE_BY_ONE, KernelAccesses, Walk, in_rows, shifted
from kernels.theory.cost import Access, alike, along_x, along_y

OUTER_ROWS, OUTER_COLUMNS = 16, 64  # of C per block of outer_product and later steps


# ---- One element of C per thread, from global memory


def _inner_products(kernel: KernelAccesses, row: Walk, column: Walk) -> list[Access]:
    """2k global loads, 1 store, along `row` of A and `column` of B."""
    return [
        kernel.load_a(row, ONE_BY_ONE, column),
        kernel.load_b(row, ONE_BY_ONE, column),
        kernel.store_c(row, column),
    ]


def naive(kernel: KernelAccesses, b: int) -> list[Access]:
    """2N global loads, 1 store; x along the rows of C, y along its columns."""
    return _inner_products(kernel, row=(b, along_x), column=(b, along_y))


def naive_coalesced(kernel: KernelAccesses, b: int) -> list[Access]:
    """2k global loads, 1 store; x along the columns of C, y along its rows."""
    return _inner_products(kernel, row=(b, along_y), column=(b, along_x))


# ---- A row or a column in shared memory: N blocks of N threads


def buffered_column(kernel: KernelAccesses, _: None) -> list[Access]:
    """1 + N global loads, 1 shared store, N shared loads, 1 store; x along the rows of C."""
    m, k = kernel.shape.m, kernel.shape.k
    row = (m, along_x)
    return [
        kernel.load_b((m, alike), (k, along_x), ONE_BY_ONE),  # the block's column
        kernel.store_shared(along_x, 1),
        kernel.load_a(row, ONE_BY_ONE, ONE_BY_ONE),
        kernel.load_shared(alike, k, run=k),
        kernel.store_c(row, ONE_BY_ONE),
    ]


def buffered_row(kernel: KernelAccesses, _: None) -> list[Access]:
    """As `buffered_column`, with a row of A; x along the columns of C."""
    n, k = kernel.shape.n, kernel.shape.k
    column = (n, along_x)
    return [
        kernel.load_a(ONE_BY_ONE, (k, along_x), (n, alike)),  # the block's row
        kernel.store_shared(along_x, 1),
        kernel.load_b(ONE_BY_ONE, ONE_BY_ONE, column),
        kernel.load_shared(alike, k, run=k),
        kernel.store_c(ONE_BY_ONE, column),
    ]


# ---- B×B tiles of A and B in shared memory


def block(kernel: KernelAccesses, b: int, parts: int = 1) -> list[Access]:
    """2·parts·k/B global loads and shared stores, (parts + 1)·k shared loads, `parts` stores.

    A thread handles `parts` elements of each tile and of C, in rows B/parts apart; threadIdx.x
    selects the column of C.
    """
    tiles = kernel.tiles(b)
    across = (b, along_x)
    downs = [(b, shifted(b // parts * part, along_y)) for part in range(parts)]
    return [
        *(kernel.load_a(down, across, (b, alike)) for down in downs),
        *(kernel.load_b((b, alike), down, across) for down in downs),
        kernel.store_shared(in_rows(b, along_y, along_x), 2 * parts * tiles),
        kernel.load_shared(in_rows(b, along_y, alike), parts * b * tiles, run=b),  # A(row, k)
        kernel.load_shared(along_x, b * tiles),  # B(k, column)
        *(kernel.store_c(down, across) for down in downs),
    ]


def block_strided(kernel: KernelAccesses, b: int) -> list[Access]:
    """The same counts as `block`; tiles are loaded and stored with x along the rows."""
    tiles = kernel.tiles(b)
    return [
        kernel.load_a((b, along_x), (b, along_y), (b, alike)),
        kernel.load_b((b, alike), (b, along_x), (b, along_y)),
        kernel.store_shared(in_rows(b, along_x, along_y), 2 * tiles),
        kernel.load_shared(in_rows(b, along_y, alike), b * tiles, run=b),
        kernel.load_shared(along_x, b * tiles),
        kernel.store_c((b, along_y), (b, along_x)),
    ]


def tile_uncoalesced(kernel: KernelAccesses, b: int) -> list[Access]:
    """The same counts as `block`; the tile of B is loaded and stored with x along the rows."""
    tiles = kernel.tiles(b)
    return [
        kernel.load_a((b, along_y), (b, along_x), (b, alike)),
        kernel.load_b((b, alike), (b, along_x), (b, along_y)),
        kernel.store_shared(in_rows(b, along_y, along_x), tiles),
        kernel.store_shared(in_rows(b, along_x, along_y), tiles),
        kernel.load_shared(in_rows(b, along_y, alike), b * tiles, run=b),
        kernel.load_shared(along_x, b * tiles),
        kernel.store_c((b, along_y), (b, along_x)),
    ]


def tile_transposed_b(kernel: KernelAccesses, b: int, padding: int = 0) -> list[Access]:
    """The same counts as `block`; B is transposed in global and in shared memory.

    In shared memory, a row of B's tile (part of a column of B) is padded by `padding` words.
    """
    pitch = b + padding
    tiles = kernel.tiles(b)
    return [
        kernel.load_a((b, along_y), (b, along_x), (b, alike)),
        kernel.load_b_transposed((b, alike), (b, along_x), (b, along_y)),
        kernel.store_shared(in_rows(b, along_y, along_x), tiles),
        kernel.store_shared(in_rows(pitch, along_y, along_x), tiles),
        kernel.load_shared(in_rows(b, along_y, alike), b * tiles, run=b),  # A(row, k)
        kernel.load_shared(in_rows(pitch, along_x, alike), b * tiles, run=gcd(b, pitch)),  # B
        kernel.store_c((b, along_y), (b, along_x)),
    ]


# ---- A column of 16 elements of C per thread, A's tile in shared memory: 16×4 threads


def outer_product(kernel: KernelAccesses, _: None, run: int = 1) -> list[Access]:
    """N/4 + N global loads, N/4 shared stores, 16N shared loads in runs of `run`, 16 stores."""
    steps = OUTER_ROWS  # A's tile is square
    tiles = kernel.tiles(steps)
    loaded = range(0, OUTER_ROWS, OUTER_COLUMNS // steps)  # the first thread's rows of A's tile
    column = (OUTER_COLUMNS, in_rows(steps, along_y, along_x))
    return [
        *(
            kernel.load_a(
                (OUTER_ROWS, shifted(row, along_y)), (steps, along_x), (OUTER_COLUMNS, alike)
            )
            for row in loaded
        ),
        kernel.store_shared(in_rows(steps, along_y, along_x), len(loaded) * tiles),
        kernel.load_b((OUTER_ROWS, alike), ONE_BY_ONE, column),
        kernel.load_shared(alike, OUTER_ROWS * steps * tiles, run=run),
        *(kernel.store_c((OUTER_ROWS, shifted(i, alike)), column) for i in range(OUTER_ROWS)),
    ]
