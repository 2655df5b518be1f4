"""The shape of a product: batch and matrix sizes."""

import re
from dataclasses import dataclass

from base.errors import StudyError

# Elements of a matrix with 32-bit indices, and size of the largest square matrix.
MOST_ELEMENTS = 2**31 - 1
LARGEST_SIZE = 46340


@dataclass(frozen=True, order=True)
class Shape:
    """`batch` products C = A·B, with A m×k, B k×n and C m×n (names as in BLAS).

    The matrices of a batch are contiguous. As text, a shape is ``512`` (square matrices),
    ``17x33x65`` (m×k · k×n with m = 17, k = 33, n = 65) or ``3x17x33x65`` (a batch of 3).
    """

    batch: int
    m: int
    n: int
    k: int

    @classmethod
    def square(cls, n: int) -> "Shape":
        """Return the shape of one product of square matrices of size n."""
        return cls(1, n, n, n)

    @classmethod
    def parse(cls, text: str | int) -> "Shape":
        """Return the shape that a text or a size denotes; raise StudyError if it is not valid."""
        edge = "([0-9]{1,10})"
        match = re.fullmatch(f"(?:(?:{edge}x)?{edge}x{edge}x)?{edge}", str(text))
        if match:
            n = int(match[4])
            batch, m, k = (int(match[1] or 1), int(match[2] or n), int(match[3] or n))
            shape = cls(batch, m, n, k)
            largest = max(m * k, k * n, m * n)
            if largest > MOST_ELEMENTS:
                raise StudyError(
                    f"shape {text}: has a matrix of {largest} elements; use at most "
                    f"{MOST_ELEMENTS} (size {LARGEST_SIZE})"
                )
            if min(batch, m, n, k) > 0:
                return shape
        shown = repr(text) if len(str(text)) <= 40 else f"{str(text)[:37]!r}..."
        raise StudyError(
            f"shape {shown}: not valid; use N, MxKxN or BATCHxMxKxN with whole numbers from 1, "
            "for example 512, 17x33x65 or 3x17x33x65"
        )

    def __str__(self) -> str:
        if self.is_square:
            return str(self.n)
        product = f"{self.m}x{self.k}x{self.n}"
        return product if self.batch == 1 else f"{self.batch}x{product}"

    @property
    def is_square(self) -> bool:
        """Whether this is one product of square matrices."""
        return self.batch == 1 and self.m == self.n == self.k

    @property
    def family(self) -> str:
        """The family of the shape: square, tall, wide, matrix-vector, inner product or other."""
        if self.is_square:
            return "square"
        if self.n == 1:
            return "matrix-vector" if self.m == self.k else "other"
        if self.n == self.k < self.m:
            return "tall"
        if self.m == self.k < self.n:
            return "wide"
        return "inner product" if self.m == self.n < self.k else "other"

    @property
    def largest(self) -> int:
        """The longest edge of the matrices."""
        return max(self.m, self.n, self.k)

    @property
    def a_elements(self) -> int:
        """Elements of A in the whole batch."""
        return self.batch * self.m * self.k

    @property
    def b_elements(self) -> int:
        """Elements of B in the whole batch."""
        return self.batch * self.k * self.n

    @property
    def c_elements(self) -> int:
        """Elements of C in the whole batch."""
        return self.batch * self.m * self.n

    @property
    def flop(self) -> int:
        """Multiplications and additions: 2·m·n·k per product (for integers: operations)."""
        return 2 * self.batch * self.m * self.n * self.k
