"""Functions from the block size to the tile, and from shape and block size to the launch."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from kernels.catalog.variant import DeviceStep, Launch, Tile
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.tensor_accesses import TENSOR_STEPS, TENSOR_TILE
from kernels.theory.tiles import TileShape

_ROW_BYTES = ELEMENTS["float32"].bytes  # bytes per element of a buffered row or column


def tile_of(edges: Sequence[int | str]) -> Callable[[Any], Tile]:
    """Return a function from the block size to a tile with these three edges (see `number`)."""
    return lambda b: (number(edges[0], b), number(edges[1], b), number(edges[2], b))


def shaped_tile(tile: TileShape) -> Tile:
    """Return the rows, the columns and the K per iteration of a tile shape."""
    return tile.rows, tile.columns, tile.step


def number(text: int | str, b: int) -> int:
    """Return the value of an edge in the catalog, such as 8, "B" or "B/4", at block size `b`."""
    if isinstance(text, int):
        return text
    return b // int(text.partition("/")[2] or 1)


def blocks(
    tile: Callable[[Any], Tile], threads: Sequence[int | str]
) -> Callable[[Shape, Any], Launch]:
    """Return the geometry with one block of `threads` per tile of C; x runs along its columns."""

    def geometry(shape: Shape, b: Any) -> Launch:
        return Launch(_grid(shape, tile(b)), (number(threads[0], b), number(threads[1], b)))

    return geometry


def _grid(shape: Shape, tile: Tile) -> tuple[int, int, int]:
    """Return a grid with one block per tile of C."""
    rows, columns, _ = tile
    return -(-shape.n // columns), -(-shape.m // rows), shape.batch


def rows_along_x(shape: Shape, b: int) -> Launch:
    """Launch one thread per element of C; x runs along the rows of C."""
    return Launch((-(-shape.m // b), -(-shape.n // b), 1), (b, b))


def block_per_line(shape: Shape, _: None) -> Launch:
    """Launch N blocks of N threads; each keeps a row or column in dynamic shared memory."""
    return Launch((shape.n, 1, 1), (shape.n, 1), shape.n * _ROW_BYTES)


def shaped_tiles(shape: Shape, tile: TileShape) -> Launch:
    """Launch one block per tile of C, with all of its stages in dynamic shared memory."""
    return Launch(_grid(shape, shaped_tile(tile)), (tile.threads, 1), tile.shared_bytes)


def split_tiles(shape: Shape, _: None) -> Launch:
    """Launch blocks of 256 threads; shared memory has two tiles in two parts, scales and maxima."""
    lines = 2 * TENSOR_TILE  # rows and columns of the tiles of A and B
    words = 2 * 2 * lines * TENSOR_STEPS // 2 + 2 * lines + 8 * (lines + 4)
    grid = _grid(shape, (TENSOR_TILE, TENSOR_TILE, TENSOR_STEPS))
    return Launch(grid, (256, 1), 4 * words)


_PARTS_LINES, _PARTS_STEPS = 128, 64  # rows or columns, and K, of an image that `split_parts` makes
_PARTS_BYTES = 2 * 2 * _PARTS_LINES * _PARTS_STEPS + 4 * _PARTS_LINES  # two parts and scales
# The number of multiprocessors of an H100 SXM, and of an H200.
_MULTIPROCESSORS = 132


def _parts_steps(k: int) -> int:
    return -(-k // _PARTS_STEPS)


# A block splits 32 rows or columns, and four steps of K.
PARTS = DeviceStep(
    "split_parts",
    256,
    lambda lines, k: -(-lines // _PARTS_LINES) * 4 * -(-_parts_steps(k) // 4),
    lambda lines, k: -(-lines // _PARTS_LINES) * _parts_steps(k) * _PARTS_BYTES,
)


def _padded(edge: int) -> int:
    return -(-edge // 4) * 4


def _padded_before(shape: Shape) -> bool:
    """Return whether rows are too long to copy in words or pairs, so that `pad_rows` pads them."""
    words = math.gcd(shape.n, shape.k, 4)
    return words < 4 and max(shape.n, shape.k) > 900 * words


# A block pads 64 x 64 words, because bulk tensor copies need rows at multiples of 16 bytes.
PADDED_ROWS = DeviceStep(
    "pad_rows",
    256,
    lambda lines, k: -(-_padded(lines) // 64) * -(-_padded(k) // 64),
    lambda lines, k: 4 * _padded(lines) * _padded(k),
    _padded_before,
)


def mapped_rows(shape: Shape, _: None) -> Launch:
    """Launch eight blocks of 256 threads; each reads some rows of A and all of B."""
    rows = -(-shape.n // 32) * 4
    words = -(-shape.n * shape.n // 4) * 4 + 2 * rows * shape.n
    return Launch((8, 1, 1), (256, 1), 4 * words)


def persistent_tiles(shape: Shape, _: None) -> Launch:
    """Launch at most one block of 384 threads per multiprocessor; each computes several tiles.

    Shared memory holds three stages of two images, parts of C of eight warps, and barriers.
    """
    tiles = -(-shape.m // TENSOR_TILE) * -(-shape.n // TENSOR_TILE)
    image = 1024 * -(-_PARTS_BYTES // 1024)
    shared = 3 * 2 * image + 8 * 4 * 16 * 33 + 3 * 2 * 8
    return Launch((min(tiles, _MULTIPROCESSORS), 1, 1), (384, 1), shared)


def stream_tiles(shape: Shape, tile: TileShape) -> Launch:
    """Launch at most one block per multiprocessor, in which one of the last 128 threads copies.

    Shared memory holds all stages, then the sums of all slices or a vector per thread, two tensor
    maps, and two barriers per stage.
    """
    tiles = -(-shape.m // tile.rows) * -(-shape.n // tile.columns)
    words = tile.stages * tile.step * (tile.rows + tile.columns)
    words += tile.slices * tile.rows * tile.columns if tile.slices > 1 else 4 * tile.threads
    shared = 4 * words + 2 * 128 + 2 * 8 * tile.stages
    return Launch((min(tiles, _MULTIPROCESSORS), 1, 1), (tile.threads + 128, 1), shared)
