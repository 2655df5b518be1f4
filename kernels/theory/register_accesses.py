"""Memory accesses of the kernels with register tiles (see `kernels.theory.accesses`)."""

import math
from itertools import product

import numpy as np

from kernels.products.shape import Shape
from kernels.theory.addresses import VECTOR, KernelAccesses, in_rows, shifted
from kernels.theory.cost import Access, Lanes, OfThread, alike
from kernels.theory.tiles import TileShape

REGISTER_TILE, REGISTER_STEPS = 128, 8  # edge of C per block, and K per iteration
REGISTER_PITCH = REGISTER_TILE + 4  # words per row of A's tile: columns are in different banks
ASYNC_STEPS = 16  # K per iteration of register_tile_async
LANE_ROWS, LANE_COLUMNS = 8, 4  # layout of the lanes of a warp over C in sgemm_top
ROW_PART = 8  # words of a row of A that neighbouring lanes copy


# ---- 8×8 elements of C per thread, 128×128 per block: 256 threads in one row


def register_tile(kernel: KernelAccesses, _: None) -> list[Access]:
    """2N/8 global float4 loads, 5N/8 shared stores, 4N shared float4 loads, 16 stores."""
    return _register_tile(
        kernel,
        REGISTER_TILE,
        first_row=lambda x, _y: x // 16 * 8,
        first_column=lambda x, _y: x % 16 * 8,
        second=VECTOR,
    )


def register_tile_conflict_free(kernel: KernelAccesses, _: None) -> list[Access]:
    """The same counts as `register_tile`, with a thread layout without bank conflicts."""
    return _register_tile(
        kernel,
        REGISTER_PITCH,
        first_row=_conflict_free_row,
        first_column=_conflict_free_column,
        second=REGISTER_TILE // 2,
    )


def register_tile_async(kernel: KernelAccesses, _: None) -> list[Access]:
    """N/2 words of A and N/8 float4 of B copied, otherwise as `register_tile_conflict_free`.

    An asynchronous copy counts as a load and a store.
    """
    edge, steps, tiles = REGISTER_TILE, ASYNC_STEPS, kernel.tiles(ASYNC_STEPS)
    singles = _singles(kernel.shape, steps)
    words = VECTOR // len(singles)
    across = edge // words
    b_steps = range(0, steps, 256 // across)
    b_step, b_column = _loaded_by(across, words)
    return [
        *_copies_of_a(kernel, (edge, edge, steps), REGISTER_PITCH, 256, tiles),
        *(
            kernel.load_b((edge, alike), (steps, shifted(step, b_step)), (edge, b_column))
            for step in b_steps
        ),
        kernel.store_shared(in_rows(edge, b_step, b_column), len(b_steps) * tiles, words),
        *_patches(
            kernel,
            _conflict_free_row,
            _conflict_free_column,
            REGISTER_TILE // 2,
            steps * tiles,
            singles,
        ),
    ]


def _conflict_free_row(x: Lanes, _y: Lanes) -> Lanes:
    return x // 128 * 32 + x % 16 // 2 * 4


def _conflict_free_column(x: Lanes, _y: Lanes) -> Lanes:
    return x // 32 % 4 * 16 + x % 32 // 16 * 8 + x % 2 * 4


def _register_tile(
    kernel: KernelAccesses, pitch: int, first_row: OfThread, first_column: OfThread, second: int
) -> list[Access]:
    """Return the accesses if a thread computes an 8×8 patch of C, as four 4×4 parts.

    Its rows are four from `first_row` and four that are `second` further, and so are its columns.
    A's tile is stored transposed, in rows of `pitch` elements.
    """
    tiles = kernel.tiles(REGISTER_STEPS)
    singles = _singles(kernel.shape, REGISTER_STEPS)
    a_row, a_step = _loaded_by(REGISTER_STEPS // VECTOR)
    b_step, b_column = _loaded_by(REGISTER_TILE // VECTOR)
    edge, steps = REGISTER_TILE, REGISTER_STEPS
    return [
        *(
            kernel.load_a((edge, a_row), (steps, shifted(i, a_step)), (edge, alike))
            for i in singles
        ),
        *(
            kernel.load_b((edge, alike), (steps, b_step), (edge, shifted(i, b_column)))
            for i in singles
        ),
        kernel.store_shared(in_rows(pitch, a_step, a_row), VECTOR * tiles),
        kernel.store_shared(in_rows(edge, b_step, b_column), tiles, VECTOR),
        *_patches(kernel, first_row, first_column, second, steps * tiles, singles),
    ]


def _singles(shape: Shape, steps: int) -> range:
    """Return offsets of the separate accesses that together access four elements.

    One vector access is enough, except in the guarded build, which uses one per element.
    """
    edge = REGISTER_TILE
    return range(VECTOR if shape.m % edge or shape.n % edge or shape.k % steps else 1)


def _patches(
    kernel: KernelAccesses,
    first_row: OfThread,
    first_column: OfThread,
    second: int,
    steps: int,
    singles: range,
) -> list[Access]:
    """Read the operands for `steps` steps of k, and store 8×8 elements of C per thread."""
    halves = (0, second)
    edge = REGISTER_TILE
    return [
        kernel.load_shared(first_row, len(halves) * steps, VECTOR),
        kernel.load_shared(first_column, len(halves) * steps, VECTOR),
        *(
            kernel.store_c(
                (edge, shifted(half + i, first_row)), (edge, shifted(other + j, first_column))
            )
            for half, i in product(halves, range(VECTOR))
            for other, j in product(halves, singles)
        ),
    ]


def _loaded_by(threads: int, words: int = VECTOR) -> tuple[OfThread, OfThread]:
    """Return a thread's row of a tile and its first of `words` columns; `threads` share a row."""
    return lambda x, _y: x // threads, lambda x, _y: x % threads * words


def _copies_of_a(
    kernel: KernelAccesses, tile: tuple[int, int, int], pitch: int, threads: int, stages: int
) -> list[Access]:
    """Load A's tiles word by word, and store them transposed in rows of `pitch` words.

    `tile` has rows, columns and K per iteration; there are `stages` tiles. Neighbouring threads
    copy eight words of a row.
    """
    rows, columns, steps = tile
    down = threads // ROW_PART

    def row(x: Lanes, _y: Lanes) -> Lanes:
        return x // ROW_PART % rows

    def step(x: Lanes, _y: Lanes) -> Lanes:
        return x % ROW_PART + x // ROW_PART // rows * ROW_PART

    places = [(at % rows, at // rows * ROW_PART) for at in range(0, rows * steps // ROW_PART, down)]
    return [
        *(
            kernel.load_a((rows, shifted(i, row)), (steps, shifted(k, step)), (columns, alike))
            for i, k in places
        ),
        kernel.store_shared(in_rows(pitch, step, row), len(places) * stages),
    ]


# ---- Several tile shapes, copied several stages ahead (`kernels.theory.tiles`)


def sgemm_top(kernel: KernelAccesses, tile: TileShape) -> list[Access]:
    """Copies for each stage, loads of operands for each step of k, and sums of all slices.

    Copies count as in `register_tile_async`. B is copied in vectors of four or two or by words,
    depending on which number divides the length of a row. C is stored in vectors of four or word by
    word. Stages beyond the last tile are filled with zeros; one of them is read for one step of k.
    """
    words = math.gcd(kernel.shape.n, VECTOR)
    tiles = kernel.tiles(tile.step)
    stages = tiles + tile.stages - 1
    slice_steps = tile.step // tile.slices
    across = tile.columns // words
    down = tile.threads // across
    b_step, b_column = _loaded_by(across, words)

    def a_at(x: Lanes, _y: Lanes) -> Lanes:
        in_slice = x % tile.slice_threads
        warps_across = tile.columns // (LANE_COLUMNS * tile.thread_columns)
        return (
            in_slice // 32 // warps_across * LANE_ROWS * tile.thread_rows
            + in_slice % 16 // 2 * VECTOR
        )

    def b_at(x: Lanes, _y: Lanes) -> Lanes:
        in_slice = x % tile.slice_threads
        warp_columns = LANE_COLUMNS * tile.thread_columns
        lane_column = in_slice % 32 // 16 * 2 + in_slice % 2
        return in_slice // 32 % (tile.columns // warp_columns) * warp_columns + lane_column * VECTOR

    def of_slice(place: OfThread, pitch: int) -> OfThread:
        return lambda x, y: x // tile.slice_threads * slice_steps * pitch + place(x, y)

    fragments = 1 + tiles * slice_steps
    return [
        *_copies_of_a(
            kernel, (tile.rows, tile.columns, tile.step), tile.pitch, tile.threads, stages
        ),
        *(
            kernel.load_b(
                (tile.rows, alike), (tile.step, shifted(k, b_step)), (tile.columns, b_column)
            )
            for k in range(0, tile.step, down)
        ),
        kernel.store_shared(
            in_rows(tile.columns, b_step, b_column), tile.step // down * stages, words
        ),
        kernel.load_shared(
            of_slice(a_at, tile.pitch), tile.thread_rows // VECTOR * fragments, VECTOR
        ),
        kernel.load_shared(
            of_slice(b_at, tile.columns), tile.thread_columns // VECTOR * fragments, VECTOR
        ),
        *_sums_of_slices(kernel, tile),
        *_stores_of_tile(kernel, tile, a_at, b_at, words if words == VECTOR else 1),
    ]


def _sums_of_slices(kernel: KernelAccesses, tile: TileShape) -> list[Access]:
    """Store the sums of each slice to shared memory, and read the sums of all slices.

    The threads of one slice read each vector of the tile, once per slice.
    """
    if tile.slices == 1:
        return []
    vectors = tile.thread_rows * tile.thread_columns // VECTOR
    vector: OfThread = lambda x, _y: x % tile.slice_threads * VECTOR  # noqa: E731
    return [
        kernel.store_shared(vector, vectors, VECTOR),
        kernel.load_shared(vector, vectors, VECTOR),
    ]


def _stores_of_tile(
    kernel: KernelAccesses, tile: TileShape, a_at: OfThread, b_at: OfThread, words: int
) -> list[Access]:
    """Store the tile of C, `words` at a time; the slices share a thread's vectors."""
    across = tile.thread_columns // VECTOR
    vectors = tile.thread_rows * across

    def row(first: int) -> OfThread:
        def of_thread(x: Lanes, y: Lanes) -> Lanes:
            vector = first + x // tile.slice_threads
            i = vector // across
            inside = a_at(x, y) + i % VECTOR + i // VECTOR * VECTOR * LANE_ROWS
            return np.where(vector < vectors, inside, kernel.shape.m)

        return of_thread

    def column(first: int, word: int) -> OfThread:
        def of_thread(x: Lanes, y: Lanes) -> Lanes:
            vector = first + x // tile.slice_threads
            return b_at(x, y) + vector % across * VECTOR * LANE_COLUMNS + word

        return of_thread

    return [
        kernel.store_c((tile.rows, row(first)), (tile.columns, column(first, word)))
        for first in range(0, vectors, tile.slices)
        for word in range(0, VECTOR, words)
    ]
