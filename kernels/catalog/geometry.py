"""Tiles and launch geometries of the catalog's kernels, as functions of the block size."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernels.catalog.variant import DeviceStep, Launch, Tile
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.tensor_accesses import TENSOR_STEPS, TENSOR_TILE
from kernels.theory.tiles import TileShape

_ROW_BYTES = ELEMENTS["float32"].bytes  # per element of a buffered row or column


def naive_tile(b: int) -> Tile:
    """B×B elements of C, one k at a time."""
    return b, b, 1


def square_tile(b: int) -> Tile:
    """B×B tiles of A, B and C."""
    return b, b, b


def line_tile(_: None) -> Tile:
    """One element of C at a time."""
    return 1, 1, 1


def outer_tile(_: None) -> Tile:
    """16×64 elements of C, K = 16 per iteration."""
    return 16, 64, 16


def register_tile(_: None) -> Tile:
    """128×128 elements of C, K = 8 per iteration."""
    return 128, 128, 8


def async_tile(_: None) -> Tile:
    """128×128 elements of C, K = 16 per iteration."""
    return 128, 128, 16


def tensor_tile(_: None) -> Tile:
    """The tile of `sgemm_tensor`."""
    return TENSOR_TILE, TENSOR_TILE, TENSOR_STEPS


def shaped_tile(tile: TileShape) -> Tile:
    """The tile of `sgemm_top`."""
    return tile.rows, tile.columns, tile.step


def _blocks(
    tile: Callable[[Any], Tile], threads: Callable[[Any], tuple[int, int]]
) -> Callable[[Shape, Any], Launch]:
    """Return the geometry with one block per tile of C, columns along x."""

    def geometry(shape: Shape, b: Any) -> Launch:
        rows, columns, _ = tile(b)
        grid = (-(-shape.n // columns), -(-shape.m // rows), shape.batch)
        return Launch(grid, threads(b))

    return geometry


one_element = _blocks(naive_tile, lambda b: (b, b))
four_elements = _blocks(square_tile, lambda b: (b, b // 4))
eight_elements = _blocks(square_tile, lambda b: (b, b // 8))
column_of_16 = _blocks(outer_tile, lambda _: (16, 4))
patch_of_64 = _blocks(register_tile, lambda _: (256, 1))


def rows_along_x(shape: Shape, b: int) -> Launch:
    """One element of C per thread, rows of C along x."""
    return Launch((-(-shape.m // b), -(-shape.n // b), 1), (b, b))


def block_per_line(shape: Shape, _: None) -> Launch:
    """N blocks of N threads, with a row or column of N elements in dynamic shared memory."""
    return Launch((shape.n, 1, 1), (shape.n, 1), shape.n * _ROW_BYTES)


def shaped_tiles(shape: Shape, tile: TileShape) -> Launch:
    """One row of threads per tile, with all its stages in dynamic shared memory."""
    launch = _blocks(shaped_tile, lambda _: (tile.threads, 1))(shape, tile)
    return replace(launch, dynamic_shared_bytes=tile.shared_bytes)


def split_tiles(shape: Shape, _: None) -> Launch:
    """Blocks of 256 threads; two tiles in two parts, scales, ratios and maxima in shared memory."""
    rows, _columns, steps = tensor_tile(None)
    lines = 2 * rows  # of the tiles of A and B
    words = 2 * 2 * lines * steps // 2 + 2 * lines + 8 * (lines + 4)
    launch = _blocks(tensor_tile, lambda _: (256, 1))(shape, None)
    return replace(launch, dynamic_shared_bytes=4 * words)


_PARTS_LINES, _PARTS_STEPS = 128, 64  # of an image of `split_parts`
_PARTS_BYTES = 2 * 2 * _PARTS_LINES * _PARTS_STEPS + 4 * _PARTS_LINES  # two parts, and scales
# Multiprocessors of an H100 SXM and of an H200.
_MULTIPROCESSORS = 132


def _parts_steps(k: int) -> int:
    return -(-k // _PARTS_STEPS)


# A block splits 32 lines and four steps.
PARTS = DeviceStep(
    "split_parts",
    256,
    lambda lines, k: -(-lines // _PARTS_LINES) * 4 * -(-_parts_steps(k) // 4),
    lambda lines, k: -(-lines // _PARTS_LINES) * _parts_steps(k) * _PARTS_BYTES,
)


def _padded(edge: int) -> int:
    return -(-edge // 4) * 4


# A block stores 4096 words. The bulk tensor copy engine needs rows at multiples of 16 bytes.
PADDED_ROWS = DeviceStep(
    "pad_rows",
    256,
    lambda lines, k: -(-_padded(lines) * _padded(k) // 4096),
    lambda lines, k: 4 * _padded(lines) * _padded(k),
    lambda shape: shape.n % 4 != 0 or shape.k % 4 != 0,
)


def mapped_rows(shape: Shape, _: None) -> Launch:
    """Eight blocks of 256 threads with some rows of A and C each, and all of B."""
    rows = -(-shape.n // 32) * 4
    words = -(-shape.n * shape.n // 4) * 4 + 2 * rows * shape.n
    return Launch((8, 1, 1), (256, 1), 4 * words)


def persistent_tiles(shape: Shape, _: None) -> Launch:
    """Blocks of 384 threads, at most one per multiprocessor, which compute tile after tile.

    Shared memory holds three stages of two images, parts of C of eight warps, and barriers.
    """
    rows, columns, _steps = tensor_tile(None)
    tiles = -(-shape.m // rows) * -(-shape.n // columns)
    image = 1024 * -(-_PARTS_BYTES // 1024)
    shared = 3 * 2 * image + 8 * 4 * 16 * 33 + 3 * 2 * 8
    return Launch((min(tiles, _MULTIPROCESSORS), 1, 1), (384, 1), shared)


def stream_tiles(shape: Shape, tile: TileShape) -> Launch:
    """At most one block per multiprocessor: one of the last 128 threads copies.

    Shared memory holds all stages, the sums of all slices, two tensor maps, and two barriers per
    stage.
    """
    tiles = -(-shape.m // tile.rows) * -(-shape.n // tile.columns)
    words = tile.stages * tile.step * (tile.rows + tile.columns)
    words += tile.slices * tile.rows * tile.columns if tile.slices > 1 else 0
    shared = 4 * words + 2 * 128 + 2 * 8 * tile.stages
    return Launch((min(tiles, _MULTIPROCESSORS), 1, 1), (tile.threads + 128, 1), shared)
