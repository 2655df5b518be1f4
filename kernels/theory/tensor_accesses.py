"""Memory accesses of the kernel on tensor cores (see `kernels.theory.accesses`)."""

from itertools import product

from kernels.theory.addresses import VECTOR, KernelAccesses, in_rows, shifted
from kernels.theory.cost import Access, Lanes, OfThread, alike, along_x

TENSOR_TILE, TENSOR_STEPS = 128, 64  # edge of C per block, and K per iteration


def sgemm_tensor(kernel: KernelAccesses, _: None) -> list[Access]:
    """N/4 global float4 loads, N/4 16-byte shared stores, 5N/64 shared loads, 16 stores.

    Finding and undoing the scales of rows and columns adds a constant. If 4 does not divide N,
    global accesses are to single elements. Reads of shared memory by tensor cores are not counted.
    Each scale is found only once, because no row or column of the seeded matrices exceeds 8 times
    the maximum of its first tile.
    """
    edge, steps, pitch = TENSOR_TILE, TENSOR_STEPS, 2 * TENSOR_TILE + 4
    tiles = kernel.tiles(steps)
    # Offsets of the separate accesses to four elements.
    singles = range(VECTOR) if kernel.shape.n % VECTOR else (0,)

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

    halves = (0, steps // 2)  # first and second half of the tile's steps of k
    parts = 2 * 4 * tiles  # accesses to high and low parts, of four rows or columns
    return [
        *(
            kernel.load_a(
                (edge, shifted(4 * i, a_row)),
                (steps, shifted(half + j, first_of(eighth))),
                (edge, alike),
            )
            for i, half, j in product(range(4), halves, singles)
        ),
        *(
            kernel.load_b(
                (edge, alike),
                (steps, shifted(half + i, first_of(b_chunk))),
                (edge, shifted(j, b_column)),
            )
            for i, half, j in product(range(4), halves, singles)
        ),
        kernel.store_shared(along_x, 3),  # stores of scales (twice) and ratios
        kernel.store_shared(in_rows(pitch, eighth, a_row), 4),  # stores of maxima
        kernel.store_shared(in_rows(pitch, b_chunk, b_column), 1, VECTOR),
        kernel.load_shared(along_x, 8 + 1),  # loads of maxima, and of a scale
        kernel.load_shared(a_row, 4 * tiles),  # scales
        kernel.load_shared(b_column, tiles, VECTOR),
        kernel.store_shared(in_part(a_row, eighth), parts, VECTOR),
        kernel.store_shared(in_part(b_line, b_chunk), parts, VECTOR),
        kernel.load_shared(c_row, 8),  # loads of scales, one per eight elements of C
        kernel.load_shared(c_column, 64, run=8),
        *(
            kernel.store_c(
                (edge, shifted(8 * i, c_row)), (edge, shifted(group + half + j, c_column))
            )
            for i, group, half, j in product(range(4), (0, 32), (0, VECTOR), singles)
        ),
    ]
