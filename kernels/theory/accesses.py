"""The memory accesses of each kernel, by the name of its variant, as formulas for `kernels.theory.cost`.

Each function takes the shape of the product, the block size B (0 where the kernel has none) and the
bytes of an element, and returns the loads and stores of the source: how their addresses depend on
the thread, and how often they happen. The counts that its docstring states are those of a thread,
for shapes that the tiles divide; elsewhere the threads that are outside the matrices do less.
"""

from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from kernels.products.shape import Shape
from kernels.theory.cost import (
    Access,
    Axis,
    GlobalAccess,
    Lanes,
    OfThread,
    SharedAccess,
    alike,
    along_x,
    along_y,
)
from kernels.theory.tiles import TileShape

# How rows, columns or steps of k are walked: the edge of a tile, and the thread's place in it.
_Walk = tuple[int, OfThread]

_ONE_BY_ONE: _Walk = (1, alike)

OUTER_ROWS, OUTER_COLUMNS = 16, 64  # of C, by a block of outer_product and its successors
REGISTER_TILE, REGISTER_STEPS = 128, 8  # edge of a block's part of C, and its tiles' steps of k
REGISTER_PITCH = REGISTER_TILE + 4  # of A's tile, where its columns shall lie in different banks
ASYNC_STEPS = 16  # of k a tile of register_tile_async
TENSOR_TILE, TENSOR_STEPS = 128, 64  # of a block of sgemm_tensor, as above
VECTOR = 4  # elements of a float4
LANE_ROWS, LANE_COLUMNS = 8, 4  # how the lanes of a warp are laid out over C in sgemm_top
ROW_PART = 8  # words of a row of A that lanes side by side copy


@dataclass(frozen=True)
class _Kernel:
    """Accesses of a kernel to A(row, k), B(k, column) and C(row, column), and to shared memory."""

    shape: Shape
    element_bytes: int

    def load_a(self, row: _Walk, k: _Walk, column: _Walk) -> Access:
        """Load elements of A, for each tile of columns anew."""
        return self._global("global_load", (self.shape.k, 1, 0), row, k, column)

    def load_b(self, row: _Walk, k: _Walk, column: _Walk) -> Access:
        """Load elements of B, for each tile of rows anew."""
        return self._global("global_load", (0, self.shape.n, 1), row, k, column)

    def load_b_transposed(self, row: _Walk, k: _Walk, column: _Walk) -> Access:
        """Load elements of B, for each tile of rows anew, where its columns are stored as rows."""
        return self._global("global_load", (0, 1, self.shape.k), row, k, column)

    def store_c(self, row: _Walk, column: _Walk) -> Access:
        """Store elements of C, once."""
        once = (self.shape.k, alike)
        return self._global("global_store", (self.shape.n, 0, 1), row, once, column)

    def load_shared(self, element: OfThread, times: int, vector: int = 1, run: int = 1) -> Access:
        """Load from shared memory, `times` in each block, along runs of neighbours."""
        return SharedAccess("shared_load", element, self.element_bytes, times, vector, run)

    def store_shared(self, element: OfThread, times: int, vector: int = 1) -> Access:
        """Store to shared memory, `times` in each block."""
        return SharedAccess("shared_store", element, self.element_bytes, times, vector)

    def tiles(self, steps: int) -> int:
        """Return how many tiles of so many steps of k there are."""
        return -(-self.shape.k // steps)

    def _global(
        self, operation: str, weights: tuple[int, int, int], row: _Walk, k: _Walk, column: _Walk
    ) -> Access:
        """Access a matrix by its weights of row, k and column; in a batch there are no gaps."""
        axes = [
            Axis(extent, *walk, weight)
            for extent, walk, weight in zip(
                (self.shape.m, self.shape.k, self.shape.n), (row, k, column), weights, strict=True
            )
        ]
        elements = prod(axis.extent for axis in axes if axis.weight)
        batch = Axis(self.shape.batch, *_ONE_BY_ONE, elements)
        return GlobalAccess(operation, (batch, *axes), self.element_bytes)


def _in_rows(pitch: int, row: OfThread, column: OfThread) -> OfThread:
    """Return where an element lies in an array with rows of `pitch` elements."""
    return lambda x, y: pitch * row(x, y) + column(x, y)


def _shifted(distance: int, place: OfThread) -> OfThread:
    return lambda x, y: distance + place(x, y)


# ---- One element of C a thread, from global memory


def _inner_products(shape: Shape, element_bytes: int, row: _Walk, column: _Walk) -> list[Access]:
    """2k global loads and a store."""
    kernel = _Kernel(shape, element_bytes)
    return [
        kernel.load_a(row, _ONE_BY_ONE, column),
        kernel.load_b(row, _ONE_BY_ONE, column),
        kernel.store_c(row, column),
    ]


def naive(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """2N global loads and a store; x along the rows of C, y along its columns."""
    return _inner_products(shape, element_bytes, row=(b, along_x), column=(b, along_y))


def naive_coalesced(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """2N global loads and a store; x along the columns of C, y along its rows."""
    return _inner_products(shape, element_bytes, row=(b, along_y), column=(b, along_x))


# ---- A row or a column in shared memory: N blocks of N threads


def buffered_column(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """1 + N global loads, a shared store, N shared loads and a store; x along the rows of C."""
    kernel = _Kernel(shape, element_bytes)
    row = (shape.m, along_x)
    return [
        kernel.load_b((shape.m, alike), (shape.k, along_x), _ONE_BY_ONE),  # each block's column
        kernel.store_shared(along_x, 1),
        kernel.load_a(row, _ONE_BY_ONE, _ONE_BY_ONE),
        kernel.load_shared(alike, shape.k, run=shape.k),
        kernel.store_c(row, _ONE_BY_ONE),
    ]


def buffered_row(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """As `buffered_column`, with a row in the place of a column; x along the columns of C."""
    kernel = _Kernel(shape, element_bytes)
    column = (shape.n, along_x)
    return [
        kernel.load_a(_ONE_BY_ONE, (shape.k, along_x), (shape.n, alike)),  # each block's row
        kernel.store_shared(along_x, 1),
        kernel.load_b(_ONE_BY_ONE, _ONE_BY_ONE, column),
        kernel.load_shared(alike, shape.k, run=shape.k),
        kernel.store_c(_ONE_BY_ONE, column),
    ]


# ---- B×B tiles of A and B in shared memory


def block(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """2k/B global loads and shared stores, 2k shared loads and a store; x along columns."""
    return _block(shape, b, element_bytes, parts=1)


def block_unroll4(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """8N/B global loads and shared stores, 5N shared loads and 4 stores."""
    return _block(shape, b, element_bytes, parts=4)


def block_unroll8(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """16N/B global loads and shared stores, 9N shared loads and 8 stores."""
    return _block(shape, b, element_bytes, parts=8)


def _block(shape: Shape, b: int, element_bytes: int, parts: int) -> list[Access]:
    """As `block`, with `parts` elements of each tile and of C a thread, in rows B/parts apart.

    2·parts·k/B global loads and shared stores, (parts + 1)·k shared loads and `parts` stores.
    """
    kernel = _Kernel(shape, element_bytes)
    tiles = kernel.tiles(b)
    across = (b, along_x)
    downs = [(b, _shifted(b // parts * part, along_y)) for part in range(parts)]
    return [
        *(kernel.load_a(down, across, (b, alike)) for down in downs),
        *(kernel.load_b((b, alike), down, across) for down in downs),
        kernel.store_shared(_in_rows(b, along_y, along_x), 2 * parts * tiles),
        kernel.load_shared(_in_rows(b, along_y, alike), parts * b * tiles, run=b),  # A(row, k)
        kernel.load_shared(along_x, b * tiles),  # B(k, column)
        *(kernel.store_c(down, across) for down in downs),
    ]


def block_strided(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """As many as `block`, but tiles are loaded and stored with x along the rows."""
    kernel = _Kernel(shape, element_bytes)
    tiles = kernel.tiles(b)
    return [
        kernel.load_a((b, along_x), (b, along_y), (b, alike)),
        kernel.load_b((b, alike), (b, along_x), (b, along_y)),
        kernel.store_shared(_in_rows(b, along_x, along_y), 2 * tiles),
        kernel.load_shared(_in_rows(b, along_y, alike), b * tiles, run=b),
        kernel.load_shared(along_x, b * tiles),
        kernel.store_c((b, along_y), (b, along_x)),
    ]


def tile_uncoalesced(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """As many as `block`, but B's tile is loaded and stored with x along the rows."""
    kernel = _Kernel(shape, element_bytes)
    tiles = kernel.tiles(b)
    return [
        kernel.load_a((b, along_y), (b, along_x), (b, alike)),
        kernel.load_b((b, alike), (b, along_x), (b, along_y)),
        kernel.store_shared(_in_rows(b, along_y, along_x), tiles),
        kernel.store_shared(_in_rows(b, along_x, along_y), tiles),
        kernel.load_shared(_in_rows(b, along_y, alike), b * tiles, run=b),
        kernel.load_shared(along_x, b * tiles),
        kernel.store_c((b, along_y), (b, along_x)),
    ]


def tile_transposed_b(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """As many as `block`; B is transposed in global and in shared memory."""
    return _transposed_tiles(shape, b, element_bytes, pitch=b)


def tile_conflict_free(shape: Shape, b: int, element_bytes: int) -> list[Access]:
    """As many as `block`; as `tile_transposed_b`, with a word behind each row of B's tile."""
    return _transposed_tiles(shape, b, element_bytes, pitch=b + 1)


def _transposed_tiles(shape: Shape, b: int, element_bytes: int, pitch: int) -> list[Access]:
    """As many as `block`; a row of B's tile, part of a column of B, has `pitch` elements."""
    kernel = _Kernel(shape, element_bytes)
    tiles = kernel.tiles(b)
    return [
        kernel.load_a((b, along_y), (b, along_x), (b, alike)),
        kernel.load_b_transposed((b, alike), (b, along_x), (b, along_y)),
        kernel.store_shared(_in_rows(b, along_y, along_x), tiles),
        kernel.store_shared(_in_rows(pitch, along_y, along_x), tiles),
        kernel.load_shared(_in_rows(b, along_y, alike), b * tiles, run=b),  # A(row, k)
        kernel.load_shared(_in_rows(pitch, along_x, alike), b * tiles, run=gcd(b, pitch)),  # B
        kernel.store_c((b, along_y), (b, along_x)),
    ]


# ---- A column of 16 elements of C a thread, A's tile in shared memory: 16×4 threads


def outer_product(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """N/4 + N global loads, N/4 shared stores, 16N shared loads and 16 stores."""
    return _outer_product(shape, element_bytes, run=1)  # one step of k at a time


def _outer_product(shape: Shape, element_bytes: int, run: int) -> list[Access]:
    """As `outer_product`; so many steps of k at a time."""
    kernel = _Kernel(shape, element_bytes)
    steps = OUTER_ROWS  # A's tile is square
    tiles = kernel.tiles(steps)
    loaded = range(0, OUTER_ROWS, OUTER_COLUMNS // steps)  # the first thread's rows of A's tile
    column = (OUTER_COLUMNS, _in_rows(steps, along_y, along_x))
    return [
        *(
            kernel.load_a(
                (OUTER_ROWS, _shifted(row, along_y)), (steps, along_x), (OUTER_COLUMNS, alike)
            )
            for row in loaded
        ),
        kernel.store_shared(_in_rows(steps, along_y, along_x), len(loaded) * tiles),
        kernel.load_b((OUTER_ROWS, alike), _ONE_BY_ONE, column),
        kernel.load_shared(alike, OUTER_ROWS * steps * tiles, run=run),
        *(kernel.store_c((OUTER_ROWS, _shifted(i, alike)), column) for i in range(OUTER_ROWS)),
    ]


def outer_product_unrolled(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """N/4 + N global loads, N/4 shared stores, 16N shared loads and 16 stores."""
    return _outer_product(shape, element_bytes, run=OUTER_ROWS)


def outer_product_prefetch(shape: Shape, b: None, element_bytes: int) -> list[Access]:
    """N/4 + N global loads, N/4 shared stores, 16N shared loads and 16 stores."""
    return outer_product_unrolled(shape, b, element_bytes)


# ---- 8×8 elements of C a thread, of 128×128 a block: 256 threads in one row


def register_tile(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """2N/8 global loads of float4, 5N/8 shared stores, 4N shared loads of float4, 16 stores."""
    return _register_tile(
        shape,
        element_bytes,
        REGISTER_TILE,
        first_row=lambda x, _y: x // 16 * 8,
        first_column=lambda x, _y: x % 16 * 8,
        second=VECTOR,
    )


def register_tile_double_buffered(shape: Shape, b: None, element_bytes: int) -> list[Access]:
    """2N/8 global loads of float4, 5N/8 shared stores, 4N shared loads of float4, 16 stores."""
    return register_tile(shape, b, element_bytes)


def register_tile_conflict_free(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """As many as `register_tile`, with threads laid out so that no shared access conflicts."""
    return _register_tile(
        shape,
        element_bytes,
        REGISTER_PITCH,
        first_row=_conflict_free_row,
        first_column=_conflict_free_column,
        second=REGISTER_TILE // 2,
    )


def register_tile_async(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """N/2 words of A and N/8 float4 of B copied, else as `register_tile_conflict_free`.

    A copy is a load and a store: the plain ones that take the place of an asynchronous copy.
    """
    kernel = _Kernel(shape, element_bytes)
    edge, steps, tiles = REGISTER_TILE, ASYNC_STEPS, kernel.tiles(ASYNC_STEPS)
    singles = _singles(shape, steps)
    words = VECTOR // len(singles)
    across = edge // words
    b_steps = range(0, steps, 256 // across)

    def b_step(x: Lanes, _y: Lanes) -> Lanes:
        return x // across

    def b_column(x: Lanes, _y: Lanes) -> Lanes:
        return x % across * words

    return [
        *_copies_of_a(kernel, (edge, edge, steps), REGISTER_PITCH, 256, tiles),
        *(
            kernel.load_b((edge, alike), (steps, _shifted(step, b_step)), (edge, b_column))
            for step in b_steps
        ),
        kernel.store_shared(_in_rows(edge, b_step, b_column), len(b_steps) * tiles, words),
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
    shape: Shape,
    element_bytes: int,
    pitch: int,
    first_row: OfThread,
    first_column: OfThread,
    second: int,
) -> list[Access]:
    """A thread has four rows from `first_row` on and four that are `second` further; so columns.

    A's tile is stored transposed, in rows of `pitch` elements.
    """
    kernel = _Kernel(shape, element_bytes)
    tiles = kernel.tiles(REGISTER_STEPS)
    singles = _singles(shape, REGISTER_STEPS)
    a_row, a_step = _loaded_by(REGISTER_STEPS // VECTOR)
    b_step, b_column = _loaded_by(REGISTER_TILE // VECTOR)
    edge, steps = REGISTER_TILE, REGISTER_STEPS
    return [
        *(
            kernel.load_a((edge, a_row), (steps, _shifted(i, a_step)), (edge, alike))
            for i in singles
        ),
        *(
            kernel.load_b((edge, alike), (steps, b_step), (edge, _shifted(i, b_column)))
            for i in singles
        ),
        kernel.store_shared(_in_rows(pitch, a_step, a_row), VECTOR * tiles),
        kernel.store_shared(_in_rows(edge, b_step, b_column), tiles, VECTOR),
        *_patches(kernel, first_row, first_column, second, steps * tiles, singles),
    ]


def _singles(shape: Shape, steps: int) -> range:
    """Return where accesses to four elements of global memory begin.

    The guarded build, for shapes that the tiles do not divide, accesses them one by one.
    """
    edge = REGISTER_TILE
    return range(VECTOR if shape.m % edge or shape.n % edge or shape.k % steps else 1)


def _patches(
    kernel: _Kernel,
    first_row: OfThread,
    first_column: OfThread,
    second: int,
    steps: int,
    singles: range,
) -> list[Access]:
    """Read the fragments of so many steps of k, and store 8×8 elements of C a thread."""
    halves = (0, second)
    edge = REGISTER_TILE
    return [
        kernel.load_shared(first_row, len(halves) * steps, VECTOR),
        kernel.load_shared(first_column, len(halves) * steps, VECTOR),
        *(
            kernel.store_c(
                (edge, _shifted(half + i, first_row)), (edge, _shifted(other + j, first_column))
            )
            for half, i in product(halves, range(VECTOR))
            for other, j in product(halves, singles)
        ),
    ]


def _loaded_by(threads: int) -> tuple[OfThread, OfThread]:
    """Return the row of a tile, and the first of four columns, of a thread: so many share a row."""
    return lambda x, _y: x // threads, lambda x, _y: x % threads * VECTOR


def _copies_of_a(
    kernel: _Kernel,
    tile: tuple[int, int, int],
    pitch: int,
    threads: int,
    stages: int,
) -> list[Access]:
    """Load A's tiles word by word, and store them transposed, in rows of `pitch`, `stages` times.

    `tile`: its rows, columns and steps of k. Threads copy eight words of a row side by side.
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
            kernel.load_a((rows, _shifted(i, row)), (steps, _shifted(k, step)), (columns, alike))
            for i, k in places
        ),
        kernel.store_shared(_in_rows(pitch, step, row), len(places) * stages),
    ]


# ---- Tiles of several shapes, copied several stages ahead; see `kernels.theory.tiles`


def sgemm_top(shape: Shape, tile: TileShape, element_bytes: int) -> list[Access]:
    """Copies of each stage, fragments of each step, and sums of all slices, by the tile's shape.

    Copies are the plain ones, as of `register_tile_async`. B is copied and C is stored by vectors
    of four where its rows begin at multiples of 16 bytes. Beyond the last tile, stages are filled
    with zeros, and the first step of one is read.
    """
    kernel = _Kernel(shape, element_bytes)
    words = VECTOR if shape.n % VECTOR == 0 else 1
    tiles = kernel.tiles(tile.step)
    stages = tiles + tile.stages - 1
    slice_steps = tile.step // tile.slices
    across = tile.columns // words
    down = tile.threads // across

    def b_step(x: Lanes, _y: Lanes) -> Lanes:
        return x // across

    def b_column(x: Lanes, _y: Lanes) -> Lanes:
        return x % across * words

    def a_at(x: Lanes, _y: Lanes) -> Lanes:
        own = x % tile.slice_threads
        warps_across = tile.columns // (LANE_COLUMNS * tile.thread_columns)
        return own // 32 // warps_across * LANE_ROWS * tile.thread_rows + own % 16 // 2 * VECTOR

    def b_at(x: Lanes, _y: Lanes) -> Lanes:
        own = x % tile.slice_threads
        warp_columns = LANE_COLUMNS * tile.thread_columns
        lane_column = own % 32 // 16 * 2 + own % 2
        return own // 32 % (tile.columns // warp_columns) * warp_columns + lane_column * VECTOR

    def of_slice(place: OfThread, pitch: int) -> OfThread:
        return lambda x, y: x // tile.slice_threads * slice_steps * pitch + place(x, y)

    fragments = 1 + tiles * slice_steps
    return [
        *_copies_of_a(
            kernel, (tile.rows, tile.columns, tile.step), tile.pitch, tile.threads, stages
        ),
        *(
            kernel.load_b(
                (tile.rows, alike), (tile.step, _shifted(k, b_step)), (tile.columns, b_column)
            )
            for k in range(0, tile.step, down)
        ),
        kernel.store_shared(
            _in_rows(tile.columns, b_step, b_column), tile.step // down * stages, words
        ),
        kernel.load_shared(
            of_slice(a_at, tile.pitch), tile.thread_rows // VECTOR * fragments, VECTOR
        ),
        kernel.load_shared(
            of_slice(b_at, tile.columns), tile.thread_columns // VECTOR * fragments, VECTOR
        ),
        *_sums_of_slices(kernel, tile),
        *_stores_of_tile(kernel, tile, a_at, b_at, words),
    ]


def _sums_of_slices(kernel: _Kernel, tile: TileShape) -> list[Access]:
    """Store the sums of each slice to shared memory, and read those of all slices.

    Each vector of the tile is read once for every slice, by the threads of one of them.
    """
    if tile.slices == 1:
        return []
    vectors = tile.thread_rows * tile.thread_columns // VECTOR
    own: OfThread = lambda x, _y: x % tile.slice_threads * VECTOR  # noqa: E731
    return [kernel.store_shared(own, vectors, VECTOR), kernel.load_shared(own, vectors, VECTOR)]


def _stores_of_tile(
    kernel: _Kernel, tile: TileShape, a_at: OfThread, b_at: OfThread, words: int
) -> list[Access]:
    """Store C, `words` at a time; of the vectors of a thread, each slice has its share."""
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


# ---- Tensor cores: 128×128 elements of C a block of 256 threads in one row


def sgemm_tensor(shape: Shape, _: None, element_bytes: int) -> list[Access]:
    """N/4 global loads of float4, N/4 shared stores of 16 bytes, 5N/64 shared loads, 16 stores.

    And what finding and undoing the scales of lines costs, once. Where 4 does not divide N, global
    accesses are to elements one by one. What tensor cores read of shared memory is not counted, and
    no scale is found twice: no line of the seeded matrices has an element 8 times the first tile's.
    """
    kernel = _Kernel(shape, element_bytes)
    edge, steps, pitch = TENSOR_TILE, TENSOR_STEPS, 2 * TENSOR_TILE + 4
    tiles = kernel.tiles(steps)
    singles = range(VECTOR) if shape.n % VECTOR else (0,)  # where accesses to four elements begin

    def eighth(x: Lanes, _y: Lanes) -> Lanes:
        return x % 8

    def a_row(x: Lanes, _y: Lanes) -> Lanes:
        return x // 32 * 16 + x % 32 // 8

    def b_line(x: Lanes, _y: Lanes) -> Lanes:
        return x // 32 % 4 * 32 + x % 8

    def b_column(x: Lanes, _y: Lanes) -> Lanes:
        return x // 32 % 4 * 32 + x % 8 * 4

    def b_chunk(x: Lanes, _y: Lanes) -> Lanes:
        return x // 128 * 4 + x % 32 // 8

    def c_row(x: Lanes, _y: Lanes) -> Lanes:
        return x // 64 * 32 + x % 32 // 4

    def c_column(x: Lanes, _y: Lanes) -> Lanes:
        return x // 32 % 2 * 64 + x % 4 * 8

    def first_of(chunk: OfThread) -> OfThread:
        return lambda x, y: 4 * chunk(x, y)

    def in_part(line: OfThread, chunk: OfThread) -> OfThread:
        return lambda x, y: line(x, y) * steps // 2 + (chunk(x, y) ^ line(x, y) % 8) * 4

    halves = (0, steps // 2)  # of the steps of a tile
    parts = 2 * 4 * tiles  # high and low, of four rows or columns
    return [
        *(
            kernel.load_a(
                (edge, _shifted(4 * i, a_row)),
                (steps, _shifted(half + j, first_of(eighth))),
                (edge, alike),
            )
            for i, half, j in product(range(4), halves, singles)
        ),
        *(
            kernel.load_b(
                (edge, alike),
                (steps, _shifted(half + i, first_of(b_chunk))),
                (edge, _shifted(j, b_column)),
            )
            for i, half, j in product(range(4), halves, singles)
        ),
        kernel.store_shared(along_x, 3),  # scales, twice, and ratios
        kernel.store_shared(_in_rows(pitch, eighth, a_row), 4),  # maxima
        kernel.store_shared(_in_rows(pitch, b_chunk, b_column), 1, VECTOR),
        kernel.load_shared(along_x, 8 + 1),  # maxima, and a scale
        kernel.load_shared(a_row, 4 * tiles),  # scales
        kernel.load_shared(b_column, tiles, VECTOR),
        kernel.store_shared(in_part(a_row, eighth), parts, VECTOR),
        kernel.store_shared(in_part(b_line, b_chunk), parts, VECTOR),
        kernel.load_shared(c_row, 8),  # scales, for each eight elements of C
        kernel.load_shared(c_column, 64, run=8),
        *(
            kernel.store_c(
                (edge, _shifted(8 * i, c_row)), (edge, _shifted(group + half + j, c_column))
            )
            for i, group, half, j in product(range(4), (0, 32), (0, VECTOR), singles)
        ),
    ]
