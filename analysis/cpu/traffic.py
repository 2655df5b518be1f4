"""How many bytes each CPU variant brings into a cache, by formula.

The cache is one that keeps the lines used last (fully associative, least recently used), of 64-byte
lines, for square float32 matrices of order n that begin at a line; a store fetches its line first,
and what is written back is not counted. Each formula tells cases apart by what the cache holds from
one use to the next. Between two cases traffic falls from the one to the other; the formulas have
the higher. What a real cache lacks in associativity adds to the traffic, most of all where n is a
power of two: naive's column of B then falls into few of its sets.

n is a multiple of 16 and of the block size where a formula is exact but for terms of lower order;
the tests replay the accesses of small matrices through such a cache.
"""

from collections.abc import Callable

LINE_BYTES = 64
ELEMENT_BYTES = 4
LINE = LINE_BYTES // ELEMENT_BYTES

Formula = Callable[[int, int, int], float]


def flop_per_byte(variant: str, n: int, block_size: int | None, cache_bytes: int) -> float:
    """Return the operational intensity of a variant with regard to a cache of this size."""
    return 2 * n**3 / fetched_bytes(variant, n, block_size, cache_bytes)


def fetched_bytes(variant: str, n: int, block_size: int | None, cache_bytes: int) -> float:
    """Return the bytes that a product brings into a cache of this size.

    Of variants without a formula (`is_bound`) it is what any product must bring at least: A, B and
    C once.
    """
    if is_bound(variant) or 3 * matrix_bytes(n) <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    return _FORMULAS[variant](n, min(block_size or n, n), cache_bytes)


def is_bound(variant: str) -> bool:
    """Tell whether the bytes of a variant are the least that any product needs, not its own.

    Packed products choose their blocks by the caches of the host, a BLAS by its own rules.
    """
    return variant not in _FORMULAS


def matrix_bytes(n: int) -> int:
    """Return the size of one matrix."""
    return ELEMENT_BYTES * n * n


def _naive(n: int, _block: int, cache_bytes: int) -> float:
    """Inner products of a row of A and a column of B, which is a line of 64 bytes an element.

    If a row and the lines of a column do not fit, every FMA waits for a line of B, and the
    row of A and the line of C come anew with each product too. If they fit, the column's lines
    serve the 16 columns that share them, and B comes once for each row of A.
    """
    row, column = ELEMENT_BYTES * n, LINE_BYTES * n
    if matrix_bytes(n) + 2 * row <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    if row + column + LINE_BYTES <= cache_bytes:
        return n * matrix_bytes(n) + 2.0 * matrix_bytes(n)
    return (ELEMENT_BYTES + LINE_BYTES) * n**3 + LINE_BYTES * n**2


def _loop_order(n: int, _block: int, cache_bytes: int) -> float:
    """Rows of B are added to a row of C, which stays.

    B streams by for each row, 4 bytes a FMA. A row of C that does not fit comes anew with
    each row of B.
    """
    row = ELEMENT_BYTES * n
    if matrix_bytes(n) + 2 * row <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    if 2 * row + 2 * LINE_BYTES <= cache_bytes:
        return n * matrix_bytes(n) + 2.0 * matrix_bytes(n)
    return 2.0 * n * matrix_bytes(n) + (ELEMENT_BYTES + LINE_BYTES) * n**2


def _column_buffered(n: int, _block: int, cache_bytes: int) -> float:
    """A streams by for each column of B, of which the copy stays: 4 bytes a FMA.

    The column's own lines are fetched for one element each, as are those of C's column. A copy that
    does not fit comes anew with each row of A.
    """
    row, columns = ELEMENT_BYTES * n, 2 * LINE_BYTES * n
    if matrix_bytes(n) + row + columns <= cache_bytes:
        return 3.0 * matrix_bytes(n)
    passes = 1 if 2 * row + 2 * LINE_BYTES <= cache_bytes else 2
    return passes * n * matrix_bytes(n) + n * columns


def _blocked(n: int, block: int, cache_bytes: int) -> float:
    """Products of three blocks, 4·block² bytes each; C is filled with zeros first.

    In the order of the loops: A's block stays while B's and C's pass (8·block² bytes a product) if
    three blocks fit; C's row of blocks stays too if it fits beside B's (4·block²); all of B stays
    if it fits beside three rows of blocks. If one block fits but not three, each comes once a
    product (12·block²). If none does, B's block streams by for each row of C, as in `loop_order`.
    """
    matrix = matrix_bytes(n)
    own, row_of_blocks = matrix_bytes(block), ELEMENT_BYTES * n * block
    products = (n / block) ** 3
    if matrix + 3 * row_of_blocks <= cache_bytes:
        return 4.0 * matrix
    if 2 * row_of_blocks + own <= cache_bytes:
        return products * own + 3.0 * matrix
    if 3 * own <= cache_bytes:
        return products * 2 * own + 2.0 * matrix
    if own + 2 * ELEMENT_BYTES * block + LINE_BYTES <= cache_bytes:
        return products * 3 * own + matrix
    return products * (block + 2) * own + matrix


_FORMULAS: dict[str, Formula] = {
    "naive": _naive,
    "loop_order": _loop_order,
    "column_buffered": _column_buffered,
    "blocked": _blocked,
}

# Bytes that the innermost loop loads and stores for each FMA, as it is written: two
# elements for an inner product, three (one of them stored) for a row that is added to.
_ASKED_BYTES = {"naive": 8, "column_buffered": 8, "loop_order": 12, "blocked": 12}


def asked_bytes(variant: str, n: int) -> float:
    """Return the bytes that the loops ask of the first-level cache, as they are written.

    Elements that the compiler keeps in registers are asked for less often. Of variants that hold
    C in registers by themselves (`is_bound`) it is the least: A, B and C once.
    """
    per_fma = _ASKED_BYTES.get(variant)
    return 3.0 * matrix_bytes(n) if per_fma is None else float(per_fma * n**3)
