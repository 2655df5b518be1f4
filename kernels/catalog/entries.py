"""The catalog: for every kernel variant its source, its launch geometry, its limits, its origin.

This is the only place that knows these things. A new variant is one `.cu` file and one entry here,
with the theory of its memory accesses in `accesses`. Matrices are row-major. A kernel has one of
two C signatures,

    void NAME(const float *a, const float *b, float *c, int n)                    square matrices
    void NAME(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k)     any others

and is compiled with ``-DBLOCK=b -DGUARDED=0|1 -DELEMENT=type`` (see `cubins.Build`). The letters of
the sources are V (Vatutin, Martynov, Titov), T (TU Eindhoven, 5KK73), G ("GEMM optimisation (3)"),
L (Lei Mao) and H (Harvey Arce); "own" is what is none's.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from base.errors import StudyError
from kernels.catalog.host_steps import PADDED, TRANSPOSED_B
from kernels.catalog.variant import AS_GRAPH, IN_PIECES, PIECES, Launch, Tile, Variant
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory import accesses
from kernels.theory.tiles import TILES

_ROW_BYTES = ELEMENTS["float32"].bytes  # of a buffered row or column, for each of its elements
_ALL_BLOCKS = tuple(range(1, 33))


def _naive_tile(b: int) -> Tile:
    return b, b, 1


def _square_tile(b: int) -> Tile:
    return b, b, b


def _blocks(
    tile: Callable[[int], Tile], threads: Callable[[int], tuple[int, int]]
) -> Callable[[Shape, int], Launch]:
    """Return the geometry of blocks that each compute one tile of C, columns along x."""

    def geometry(shape: Shape, b: int) -> Launch:
        rows, columns, _ = tile(b)
        grid = (-(-shape.n // columns), -(-shape.m // rows), shape.batch)
        return Launch(grid, threads(b))

    return geometry


def _rows_along_x(shape: Shape, b: int) -> Launch:
    """A thread an element of C, rows of C along x."""
    return Launch((-(-shape.m // b), -(-shape.n // b), 1), (b, b))


def _block_per_line(shape: Shape, _b: int) -> Launch:
    """N blocks of N threads, with one row or column of N elements in dynamic shared memory."""
    return Launch((shape.n, 1, 1), (shape.n, 1), shape.n * _ROW_BYTES)


_one_element = _blocks(_naive_tile, lambda b: (b, b))
_four_elements = _blocks(_square_tile, lambda b: (b, b // 4))
_eight_elements = _blocks(_square_tile, lambda b: (b, b // 8))


def _line_tile(_b: int) -> Tile:
    return 1, 1, 1


def _outer_tile(_b: int) -> Tile:
    return 16, 64, 16


def _register_tile(_b: int) -> Tile:
    return 128, 128, 8


def _tensor_tile(_b: int) -> Tile:
    return accesses.TENSOR_TILE, accesses.TENSOR_TILE, accesses.TENSOR_STEPS


def _async_tile(_b: int) -> Tile:
    return 128, 128, 16


def _top_tile(number: int) -> Tile:
    tile = TILES[number]
    return tile.rows, tile.columns, tile.step


def _tiles_of_top(shape: Shape, number: int) -> Launch:
    """A row of threads for each tile, with all of its stages in dynamic shared memory."""
    tile = TILES[number]
    launch = _blocks(_top_tile, lambda _: (tile.threads, 1))(shape, number)
    return replace(launch, dynamic_shared_bytes=tile.shared_bytes)


_column_of_16 = _blocks(_outer_tile, lambda _: (16, 4))
_patch_of_64 = _blocks(_register_tile, lambda _: (256, 1))


def _split_tiles(shape: Shape, b: int) -> Launch:
    """Blocks of 256 threads; two tiles in two parts, scales, ratios and maxima in shared memory."""
    rows, _, steps = _tensor_tile(b)
    lines = 2 * rows  # of A's tile and of B's
    words = 2 * 2 * lines * steps // 2 + 2 * lines + 8 * (lines + 4)
    launch = _blocks(_tensor_tile, lambda _: (256, 1))(shape, b)
    return replace(launch, dynamic_shared_bytes=4 * words)


_TOP = Variant(
    "sgemm_top",
    "tiles of several shapes",
    "8×16 a thread, the tile by the size",
    "own",
    "asynchronous copies several stages ahead, up to 8×16 elements a thread, small tiles "
    "shared by several groups of warps; block sizes are shapes of tiles: 128256 is 128×256",
    "register",
    "sgemm_top",
    _top_tile,
    _tiles_of_top,
    accesses.sgemm_top,
    tuple(TILES),
    shapes="single",
    after="register_tile_async",
    has_tiles=True,
    slices=lambda number: TILES[number].slices,
)

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in [
        Variant(
            "naive",
            "naive",
            "one element a thread, uncoalesced",
            "V, Tables 1–6",
            "one element of C a thread from global memory, neighbouring threads along a column "
            "of C (uncoalesced)",
            "naive",
            "naive",
            _naive_tile,
            _rows_along_x,
            accesses.naive,
            _ALL_BLOCKS,
        ),
        Variant(
            "naive_coalesced",
            "naive, coalesced",
            "neighbouring threads along a row",
            "T, step 2",
            "the same with neighbouring threads along a row of C (coalesced)",
            "naive",
            "naive_coalesced",
            _naive_tile,
            _one_element,
            accesses.naive_coalesced,
            _ALL_BLOCKS,
            after="naive",
        ),
        Variant(
            "buffered_column",
            "buffered column of B",
            "a column of B shared",
            "V, Tables 3 and 4",
            "a block keeps a column of B in shared memory; all global accesses uncoalesced",
            "buffered",
            "buffered_column",
            _line_tile,
            _block_per_line,
            accesses.buffered_column,
            after="naive",
        ),
        Variant(
            "buffered_row",
            "buffered row of A",
            "a row of A shared",
            "V, Table 4",
            "a block keeps a row of A in shared memory; all global accesses coalesced",
            "buffered",
            "buffered_row",
            _line_tile,
            _block_per_line,
            accesses.buffered_row,
            after="naive",
        ),
        Variant(
            "block",
            "block",
            "tiles of A and B shared",
            "V, Table 5",
            "B×B tiles of A and B in shared memory, coalesced loads",
            "block",
            "block",
            _square_tile,
            _one_element,
            accesses.block,
            _ALL_BLOCKS,
            after="naive_coalesced",
        ),
        Variant(
            "block_strided",
            "block, strided loads",
            "tiles loaded in strided order",
            "V, text",
            "the block kernel with the slow order of loads (uncoalesced)",
            "block",
            "block_strided",
            _square_tile,
            _one_element,
            accesses.block_strided,
            _ALL_BLOCKS,
            after="block",
        ),
        Variant(
            "block_unroll4",
            "block, unrolled by 4",
            "four elements of C a thread",
            "V, Table 6",
            "B×B tiles with B×B/4 threads, four elements of C a thread",
            "block",
            "block_unroll4",
            _square_tile,
            _four_elements,
            accesses.block_unroll4,
            tuple(range(4, 33, 4)),
            after="block",
        ),
        Variant(
            "block_unroll8",
            "block, unrolled by 8",
            "eight elements of C a thread",
            "V, text",
            "B×B tiles with B×B/8 threads, eight elements of C a thread",
            "block",
            "block_unroll8",
            _square_tile,
            _eight_elements,
            accesses.block_unroll8,
            tuple(range(8, 33, 8)),
            after="block_unroll4",
        ),
        Variant(
            "block_padded",
            "block, matrices padded",
            "zeros instead of bounds checks",
            "H",
            "the block kernel without bounds checks, on matrices that the host padded with zeros",
            "block",
            "block",
            _square_tile,
            _one_element,
            accesses.block,
            _ALL_BLOCKS,
            after="block",
            host_step=PADDED,
        ),
        Variant(
            "tile_uncoalesced",
            "tile, B uncoalesced",
            "tile of B loaded transposed",
            "T, step 3",
            "tiles in shared memory; the tile of B is loaded transposed (uncoalesced)",
            "block",
            "tile_uncoalesced",
            _square_tile,
            _one_element,
            accesses.tile_uncoalesced,
            (16, 32),
            after="naive_coalesced",
        ),
        Variant(
            "tile_transposed_b",
            "tile, B transposed",
            "B transposed on the host",
            "T, step 4",
            "B transposed by the host: coalesced loads, but bank conflicts along k",
            "block",
            "tile_transposed_b",
            _square_tile,
            _one_element,
            accesses.tile_transposed_b,
            (16, 32),
            after="tile_uncoalesced",
            host_step=TRANSPOSED_B,
        ),
        Variant(
            "tile_conflict_free",
            "tile, conflict-free",
            "padded tile, no bank conflicts",
            "T, step 5",
            "the same with a padded tile of B: no bank conflicts along k",
            "block",
            "tile_conflict_free",
            _square_tile,
            _one_element,
            accesses.tile_conflict_free,
            (16, 32),
            after="tile_transposed_b",
            host_step=TRANSPOSED_B,
        ),
        Variant(
            "outer_product",
            "outer product",
            "16 elements a thread in registers",
            "T, step 6",
            "64 threads compute 16×64 elements, 16 a thread in registers: one shared operand a "
            "multiply-add",
            "register",
            "outer_product",
            _outer_tile,
            _column_of_16,
            accesses.outer_product,
            after="tile_conflict_free",
        ),
        Variant(
            "outer_product_unrolled",
            "outer product, unrolled",
            "inner loops unrolled",
            "T, step 7",
            "the same with the loop over k unrolled",
            "register",
            "outer_product_unrolled",
            _outer_tile,
            _column_of_16,
            accesses.outer_product_unrolled,
            after="outer_product",
        ),
        Variant(
            "outer_product_prefetch",
            "outer product, prefetch",
            "next tile loaded early",
            "T, step 8",
            "the same with two buffers of A: the next tile is loaded while this one is used",
            "register",
            "outer_product_prefetch",
            _outer_tile,
            _column_of_16,
            accesses.outer_product_prefetch,
            after="outer_product_unrolled",
        ),
        Variant(
            "register_tile",
            "register tile",
            "8×8 a thread, 128-bit loads",
            "G",
            "128×128 elements a block, 8×8 a thread in registers, loads of four words",
            "register",
            "register_tile",
            _register_tile,
            _patch_of_64,
            accesses.register_tile,
            after="outer_product_prefetch",
        ),
        Variant(
            "register_tile_double_buffered",
            "register tile, double-buffered",
            "two stages of shared memory",
            "G",
            "the same with two stages in shared memory and two fragments in registers",
            "register",
            "register_tile_double_buffered",
            _register_tile,
            _patch_of_64,
            accesses.register_tile_double_buffered,
            after="register_tile",
        ),
        Variant(
            "register_tile_conflict_free",
            "register tile, conflict-free",
            "warp layout without bank conflicts",
            "G",
            "the same with the threads of a warp laid out so that no bank conflict occurs",
            "register",
            "register_tile_conflict_free",
            _register_tile,
            _patch_of_64,
            accesses.register_tile_conflict_free,
            after="register_tile_double_buffered",
        ),
        Variant(
            "register_tile_async",
            "register tile, asynchronous copies",
            "copies past the registers",
            "own",
            "the same with asynchronous copies to shared memory, of tiles twice as deep",
            "register",
            "register_tile_async",
            _async_tile,
            _patch_of_64,
            accesses.register_tile_async,
            after="register_tile_conflict_free",
        ),
        _TOP,
        replace(
            _TOP,
            name="sgemm_top_pieces",
            title="tiles, copies overlapped",
            idea="copied and computed in pieces",
            description=f"the same kernel in a run of {PIECES} pieces, each some rows of A and C "
            "in a stream of its own: copies in both directions and kernels run at the same time",
            block_sizes=(64064, 64128, 128128),
            after="sgemm_top",
            flow=IN_PIECES,
            edges=(1024, math.inf),
        ),
        replace(
            _TOP,
            name="sgemm_top_graph",
            title="tiles, as a graph",
            idea="one call for a whole pass",
            description="the same kernel and copies as a CUDA graph: the driver gets the run "
            "once, and launches all of it in one call",
            block_sizes=(32016, 64032, 64128),
            after="sgemm_top",
            flow=AS_GRAPH,
            edges=(1, 1024),
        ),
        Variant(
            "sgemm_tensor",
            "tensor cores, split operands",
            "three 16-bit products a float32 one",
            "own",
            "operands scaled and split into two 16-bit parts on the way to shared memory, three "
            "products of parts on tensor cores (wgmma or mma.sync), summed in float32",
            "tensor",
            "sgemm_tensor",
            _tensor_tile,
            _split_tiles,
            accesses.sgemm_tensor,
            after="sgemm_top",
            tensor_products=3,
        ),
        Variant(
            "mm_naive",
            "mm, naive",
            "any shape, from global memory",
            "L",
            "one element of C a thread from global memory, for any shape and type of elements",
            "naive",
            "mm_naive",
            _naive_tile,
            _one_element,
            accesses.mm_naive,
            (8, 16, 32),
            tuple(ELEMENTS),
            "single",
        ),
        Variant(
            "mm_tile",
            "mm, tiled",
            "any shape, tiles shared",
            "L",
            "tiles in shared memory, for any shape and type of elements",
            "block",
            "mm_tile",
            _square_tile,
            _one_element,
            accesses.mm_tile,
            (8, 16, 32),
            tuple(ELEMENTS),
            "single",
            after="mm_naive",
        ),
        Variant(
            "bmm_naive",
            "bmm, naive",
            "a batch, from global memory",
            "L",
            "a batch of products, one element of C a thread from global memory",
            "naive",
            "bmm_naive",
            _naive_tile,
            _one_element,
            accesses.bmm_naive,
            (8, 16, 32),
            tuple(ELEMENTS),
            "batched",
        ),
        Variant(
            "bmm_tile",
            "bmm, tiled",
            "a batch, tiles shared",
            "L",
            "a batch of products, tiles in shared memory",
            "block",
            "bmm_tile",
            _square_tile,
            _one_element,
            accesses.bmm_tile,
            (8, 16, 32),
            tuple(ELEMENTS),
            "batched",
            after="bmm_naive",
        ),
        Variant(
            "cublas_sgemm",
            "cuBLAS SGEMM",
            "NVIDIA's own library",
            "reference",
            "NVIDIA's own library, where the host has it",
            "library",
            None,
            lambda _: (0, 0, 0),
            lambda shape, _: Launch((0, 0, 0), (0, 0)),
            None,
            shapes="single",
            after="sgemm_top",
        ),
    ]
}


LIBRARIES = {name for name, entry in VARIANTS.items() if entry.kernel is None}


def variant(name: str) -> Variant:
    """Return the variant called `name`; raises StudyError naming the known ones."""
    if name not in VARIANTS:
        raise StudyError(f"variant {name!r} is not in the catalog; it has {', '.join(VARIANTS)}")
    return VARIANTS[name]
