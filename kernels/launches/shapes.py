"""The shapes at which a kernel is checked: whole and partial tiles, many blocks, deep sums."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, product
from math import ceil, isqrt, lcm

from kernels.launches.reading import Reading
from kernels.products.shape import Shape

LARGEST_TILE = 128
# A fault may first show in a later iteration over K: pipelines have several stages.
DEEP, DEEPEST, WIDE = 192, 1152, 128
_DEEP_BATCH = 320


def for_guesses(edges: Sequence[int], reading: Reading) -> Shape:
    """Return a shape for guesses: likely tiles divide it, in different numbers along M and N."""
    edge = lcm(32, *(min(LARGEST_TILE, max(each, 1)) for each in edges))
    edge = edge if edge <= 2 * LARGEST_TILE else LARGEST_TILE
    return Shape.square(2 * edge) if reading.is_square else Shape(1, 2 * edge, 3 * edge, 64)


def whole_tiles(tile: tuple[int, int], reading: Reading) -> Shape:
    """Return a shape of whole tiles, with several blocks in each direction if it stays small."""
    rows, columns = (lcm(32, edge) if lcm(32, edge) <= LARGEST_TILE else edge for edge in tile)
    products = 2 if reading.is_batched else 1
    if reading.is_square:
        edge = lcm(rows, columns)
        square = Shape.square(edge * max(2, -(-WIDE // edge)))
        return replace(square, batch=products)
    shape = Shape(products, 2 * rows if rows <= columns else rows, 2 * columns, DEEP)
    # In a batch, A, B and C have different numbers of elements.
    return replace(shape, n=3 * columns, k=_DEEP_BATCH) if reading.is_batched else shape


def some_whole(reading: Reading) -> list[tuple[bool, ...]]:
    """Return for each product to check which of M, N and K are multiples of the tile."""
    if reading.is_square:
        return [(False,)]
    return sorted(product((False, True), repeat=3))[:-1]


def partly_whole(which: tuple[bool, ...], tile: tuple[int, int], reading: Reading) -> Shape:
    """Return a shape with several blocks; the edges in `which` are multiples of the tile."""
    rows, columns = (min(each, LARGEST_TILE) for each in tile)
    if reading.is_square:
        return Shape.square(2 * max(rows, columns) + 1)
    depth = 65 if rows != 32 else 97  # one more than usual tiles, unlike the other edges
    whole, odd = (2 * rows, 3 * columns, 64), (2 * rows + 1, columns + 1, depth)
    edges = [w if is_whole else o for is_whole, w, o in zip(which, whole, odd, strict=True)]
    return Shape(1, *edges)


def twice_odd(tile: tuple[int, int], reading: Reading) -> Shape:
    """Return a shape whose edges are twice an odd number, so vectors of two fit but not of four."""
    rows, columns = (4 * (min(edge, LARGEST_TILE) // 4) + 6 for edge in tile)
    return Shape.square(max(rows, columns)) if reading.is_square else Shape(1, rows, columns, 42)


def odd_multiples(multiple: int, tile: tuple[int, int], reading: Reading) -> Sequence[Shape]:
    """Return shapes whose edges are odd multiples of a number, with several blocks.

    One shape is small and has rows longer than its sums, one has many rows, and one has deep sums.
    """
    rows, columns = (odd_above(min(each, LARGEST_TILE) / multiple) * multiple for each in tile)
    least = Shape.square(multiple)
    if reading.is_square:
        edge = max(rows, columns)
        squares = [least, Shape.square(edge), Shape.square(edge + 2 * multiple)]
        is_long = edge > max(multiple, LARGEST_TILE)  # then a square of five tiles takes too long
        return squares[:2] if is_long else squares
    depth = odd_above(32 / multiple) * multiple
    deepest = multiple * (-(-DEEPEST // multiple) | 1)
    deep = Shape(1, lcm(multiple, tile[0]), lcm(multiple, tile[1]), deepest)
    tall = Shape(1, rows + 2 * multiple, columns, depth)
    if max(rows, columns) > LARGEST_TILE:  # a wide one is checked with large sizes
        return [least, tall, deep]
    small = Shape(1, rows, columns + 2 * multiple, multiple)
    wide = Shape(1, 3 * columns, rows, depth)
    return [least, small, replace(tall, k=2 * depth), wide, deep]


def odd_above(number: float) -> int:
    """Return the least odd number above a number."""
    whole = int(number) + 1
    return whole + (whole + 1) % 2


def prime_from(least: float) -> int:
    """Return the least odd prime that is not below a number."""
    return next(p for p in count(max(3, ceil(least))) if all(p % d for d in range(2, isqrt(p) + 1)))
