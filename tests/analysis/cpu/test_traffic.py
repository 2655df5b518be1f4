"""Traffic formulas of the CPU variants, compared with accesses replayed through a cache model."""

from collections import OrderedDict
from collections.abc import Iterator

import pytest

from analysis.cpu import traffic
from analysis.cpu.traffic import LINE, LINE_BYTES, fetched_bytes, matrix_bytes, requested_bytes
from cpu_reference.catalog import VARIANTS

N = 96
MATRIX = matrix_bytes(N)


def replayed_bytes(lines: Iterator[int], cache_bytes: int) -> int:
    """Return the bytes fetched by a fully associative LRU cache."""
    cache: OrderedDict[int, None] = OrderedDict()
    missed = 0
    for line in lines:
        if line in cache:
            cache.move_to_end(line)
            continue
        missed += 1
        cache[line] = None
        if len(cache) * LINE_BYTES > cache_bytes:
            cache.popitem(last=False)
    return missed * LINE_BYTES


A, B, C, BUFFER = range(4)


def at(matrix, row, column):
    return ((matrix * N + row) * N + column) // LINE


# The loops of the C files. Loops along a row access each line once instead of each element.


def naive(_block):
    for i in range(N):
        for j in range(N):
            for k in range(N):
                yield at(A, i, k)
                yield at(B, k, j)
            yield at(C, i, j)


def loop_order(_block):
    for i in range(N):
        yield from (at(C, i, j) for j in range(0, N, LINE))
        for k in range(N):
            yield at(A, i, k)
            for j in range(0, N, LINE):
                yield at(B, k, j)
                yield at(C, i, j)


def column_buffered(_block):
    for j in range(N):
        for k in range(N):
            yield at(B, k, j)
            yield at(BUFFER, 0, k)
        for i in range(N):
            for k in range(0, N, LINE):
                yield at(A, i, k)
                yield at(BUFFER, 0, k)
            yield at(C, i, j)


def blocked(block):
    yield from (at(C, i, j) for i in range(N) for j in range(0, N, LINE))
    for i0 in range(0, N, block):
        for k0 in range(0, N, block):
            for j0 in range(0, N, block):
                for i in range(i0, i0 + block):
                    for k in range(k0, k0 + block):
                        yield at(A, i, k)
                        for j in range(j0, j0 + block, LINE):
                            yield at(B, k, j)
                            yield at(C, i, j)


@pytest.mark.parametrize(
    ("loops", "block", "cache_bytes"),
    [
        # The lines of a column do not fit, fit; B fits.
        *((naive, None, size) for size in (4096, 12288, MATRIX + 2048)),
        # A row of C does not fit, fits; B fits.
        *((loop_order, None, size) for size in (512, 2048, MATRIX + 2048)),
        # A column does not fit, fits; A and the lines of two columns fit.
        *((column_buffered, None, size) for size in (512, 8192, MATRIX + 16384)),
        # No block fits, one, three blocks, two rows of blocks; B and three rows of blocks.
        *((blocked, 32, size) for size in (1024, 6144, 24576, 36864)),
        *((blocked, 16, size) for size in (6144, 16384, MATRIX + 24576)),
        (blocked, 48, 12288),
        *((loops, 32, 3 * MATRIX + 1024) for loops in (naive, loop_order, blocked)),
    ],
)
def test_formulas_agree_with_the_replayed_accesses(loops, block, cache_bytes):
    replayed = replayed_bytes(loops(block), cache_bytes)
    formula = fetched_bytes(loops.__name__, N, block, cache_bytes)
    assert formula == pytest.approx(replayed, rel=0.1 if cache_bytes > MATRIX else 0.02)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("n", [256, 2048])
def test_traffic_falls_with_cache_size_down_to_the_matrices(name, n):
    sizes = [2**power for power in range(10, 31)]
    for block in (8, 64, 512) if VARIANTS[name].blocked else (None,):
        found = [fetched_bytes(name, n, block, size) for size in sizes]
        assert found == sorted(found, reverse=True), (block, found)
        assert found[-1] == 3 * matrix_bytes(n) <= requested_bytes(name, n)


def test_a_variant_without_formula_has_the_traffic_of_the_matrices():
    assert set(filter(traffic.is_bound, VARIANTS)) == {"packed", "blas", "mkl", "blis"}
    assert fetched_bytes("packed", 1536, None, 48 << 10) == 3 * matrix_bytes(1536)
    assert requested_bytes("blas", 64) == 3 * matrix_bytes(64)
    assert fetched_bytes("blocked", 256, 512, 4096) == fetched_bytes("blocked", 256, 256, 4096)
    assert requested_bytes("naive", 256) == 8 * 256**3
    assert requested_bytes("blocked", 256) == 12 * 256**3
