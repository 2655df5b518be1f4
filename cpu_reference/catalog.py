"""The CPU variants, from the plainest to the BLAS libraries: one C file each, with one entry here.

Each file defines ``int NAME(const float *a, const float *b, float *c, int n, int block,
int threads)`` for row-major square matrices; it returns 0, or 1 where memory ran out, or 2 where
fewer threads than asked for were to be had. Files without blocks or threads ignore the argument.
"""

from dataclasses import dataclass

from base.errors import StudyError

BLAS, MKL, BLIS = "blas", "mkl", "blis"


@dataclass(frozen=True)
class Variant:
    """One CPU variant.

    `blocked` tells whether it takes a block size, `parallel` whether it runs on several threads
    where it is told to, `compiled` whether it is a C file of this project.
    """

    name: str
    title: str
    origin: str
    description: str
    blocked: bool = False
    parallel: bool = False
    compiled: bool = True

    @property
    def source(self) -> str | None:
        """Path of the source file, relative to the project's root; None if it has none here."""
        return f"cpu_reference/{self.name}.c" if self.compiled else None


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in [
        Variant(
            "naive",
            "CPU naive",
            "V, Tables 1 and 2",
            "triple loop, B read with stride N",
        ),
        Variant(
            "loop_order",
            "CPU loop order",
            "a step from naive to blocked",
            "inner loops exchanged: rows of B and C read in order",
        ),
        Variant(
            "column_buffered",
            "CPU column-buffered",
            "V, reference [2]",
            "each column of B copied to a contiguous buffer first",
        ),
        Variant(
            "blocked",
            "CPU cache-blocked",
            "V, reference [2]",
            "products of blocks that stay in cache",
            blocked=True,
        ),
        Variant(
            "packed",
            "CPU packed",
            "BLIS",
            "A and B packed for each level of cache, C in vector registers",
            parallel=True,
        ),
        Variant(
            BLAS,
            "CPU BLAS",
            "reference",
            "numpy's BLAS",
            parallel=True,
            compiled=False,
        ),
        Variant(
            MKL,
            "CPU MKL",
            "reference",
            "Intel's library, where it is installed",
            parallel=True,
            compiled=False,
        ),
        Variant(
            BLIS,
            "CPU BLIS",
            "reference",
            "BLIS as it is on PyPI, where it is installed",
            compiled=False,
        ),
    ]
}


def variant(name: str) -> Variant:
    """Return the variant called `name`; raises StudyError naming the known ones."""
    if name not in VARIANTS:
        raise StudyError(f"CPU variant {name!r} is not known; there are {', '.join(VARIANTS)}")
    return VARIANTS[name]
