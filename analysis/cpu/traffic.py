"""Formulas for the bytes that each CPU variant fetches into a cache.

The cache model is fully associative with LRU replacement and 64-byte lines. The matrices are square
float32 matrices of size n, aligned to lines. A store fetches its line; write-backs are not counted.
Each formula distinguishes cases by the data that stay in the cache between uses. Between two cases
the traffic falls from one to the other; the formulas give the higher value. Limited associativity
of a real cache adds traffic, mostly for n a power of two, where a column of B maps to few sets.

For n a multiple of 16 and of the block size, the formulas are exact except for lower-order terms.
The tests replay the accesses of small matrices through this cache model.
"""

from collections.abc import Callable

LINE_BYTES = 64
ELEMENT_BYTES = 4
LINE = LINE_BYTES // ELEMENT_BYTES

Formula = Callable[[int, int, int], float]


def fetched_bytes(variant: str, n: int, block_size: int | None, cache_bytes: int) -> float:
    """Return the bytes that a product fetches into a cache of this size.

    For variants without a formula (`is_bound`) it is the minimum of any product: A, B and C once.
    """
    if is_bound(variant) or 3 * matrix_bytes(n) <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    return _FORMULAS[variant](n, min(block_size or n, n), cache_bytes)


def is_bound(variant: str) -> bool:
    """Return whether the bytes of a variant are the minimum of any product, not its own.

    Packed products choose their blocks by the host's caches, and a BLAS by its own rules.
    """
    return variant not in _FORMULAS


def matrix_bytes(n: int) -> int:
    """Return the size of one matrix."""
    return ELEMENT_BYTES * n * n


def _naive(n: int, _block: int, cache_bytes: int) -> float:
    """Inner products of a row of A and a column of B; each element of the column has its own line.

    If a row and the lines of a column do not fit, each FMA fetches a line of B. Each inner product
    then fetches the row of A and a line of C. If they fit, the lines of a column serve 16 columns,
    and B is fetched once per row of A.
    """
    row, column = ELEMENT_BYTES * n, LINE_BYTES * n
    if matrix_bytes(n) + 2 * row <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    if row + column + LINE_BYTES <= cache_bytes:
        return n * matrix_bytes(n) + 2.0 * matrix_bytes(n)
    return (ELEMENT_BYTES + LINE_BYTES) * n**3 + LINE_BYTES * n**2


def _loop_order(n: int, _block: int, cache_bytes: int) -> float:
    """Rows of B are added to a row of C, which stays in the cache.

    B is streamed per row: 4 bytes per FMA. A row of C that does not fit is fetched per row of B.
    """
    row = ELEMENT_BYTES * n
    if matrix_bytes(n) + 2 * row <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    if 2 * row + 2 * LINE_BYTES <= cache_bytes:
        return n * matrix_bytes(n) + 2.0 * matrix_bytes(n)
    return 2.0 * n * matrix_bytes(n) + (ELEMENT_BYTES + LINE_BYTES) * n**2


def _column_buffered(n: int, _block: int, cache_bytes: int) -> float:
    """A is streamed for each column of B, whose copy stays in the cache: 4 bytes per FMA.

    Each line of the columns of B and C is fetched for one element. A copy that does not fit is
    fetched again for each row of A.
    """
    row, columns = ELEMENT_BYTES * n, 2 * LINE_BYTES * n
    if matrix_bytes(n) + row + columns <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    fetches = 1 if 2 * row + 2 * LINE_BYTES <= cache_bytes else 2
    return fetches * n * matrix_bytes(n) + n * columns


def _blocked(n: int, block: int, cache_bytes: int) -> float:
    """Block products of three blocks, 4·block² bytes each; C is zeroed first.

    If three blocks fit, A's block stays (8·block² bytes per block product). If a row of blocks of C
    and of B fits, it stays too (4·block²). If B and three rows of blocks fit, B stays. If only one
    block fits, a block product fetches all three (12·block²). If none fits, B's block is streamed
    for each row of C, as in `loop_order`.
    """
    matrix = matrix_bytes(n)
    tile, row_of_blocks = matrix_bytes(block), ELEMENT_BYTES * n * block
    products = (n / block) ** 3
    if matrix + 3 * row_of_blocks <= cache_bytes:
        return 4.0 * matrix
    if 2 * row_of_blocks + tile <= cache_bytes:
        return products * tile + 3.0 * matrix
    if 3 * tile <= cache_bytes:
        return products * 2 * tile + 2.0 * matrix
    if tile + 2 * ELEMENT_BYTES * block + LINE_BYTES <= cache_bytes:
        return products * 3 * tile + matrix
    return products * (block + 2) * tile + matrix


_FORMULAS: dict[str, Formula] = {
    "naive": _naive,
    "loop_order": _loop_order,
    "column_buffered": _column_buffered,
    "blocked": _blocked,
}

# Bytes that the innermost loop of the source loads and stores per FMA: two elements for an inner
# product, three (one of them stored) for adding to a row.
_REQUESTED_BYTES = {"naive": 8, "column_buffered": 8, "loop_order": 12, "blocked": 12}


def requested_bytes(variant: str, n: int) -> float:
    """Return the bytes that the loops of the source request from L1.

    The compiler may keep elements in registers and request fewer. For variants that keep C in
    registers (`is_bound`) it is the minimum: A, B and C once.
    """
    per_fma = _REQUESTED_BYTES.get(variant)
    return 3.0 * matrix_bytes(n) if per_fma is None else float(per_fma * n**3)
