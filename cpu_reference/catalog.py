"""The catalog of CPU variants, from the naive loop to BLAS libraries.

A compiled variant is one C file and one entry. Each file defines ``int NAME(const float *a, const
float *b, float *c, int n, int block, int threads)`` for row-major square matrices. `threads` is the
largest number that it may use, because fewer are faster for a small product. The function returns 0
on success, 1 if memory ran out, 2 if a thread could not be started. Variants without blocks or
threads ignore these arguments.
"""

from dataclasses import dataclass

from base.errors import StudyError

BLAS, MKL, BLIS = "blas", "mkl", "blis"


@dataclass(frozen=True)
class Variant:
    """One CPU variant.

    `blocked`: the variant takes a block size. `parallel`: it can run on several threads.
    `compiled`: its source is a C file of this project.
    """

    name: str
    title: str
    origin: str
    description: str
    blocked: bool = False
    parallel: bool = False
    compiled: bool = True

    @property
    def is_tuned(self) -> bool:
        """Whether it can be the fastest variant: it is a library or runs on several threads."""
        return self.parallel or not self.compiled

    @property
    def source(self) -> str | None:
        """Path of the C file relative to the project's root; None for libraries."""
        return f"cpu_reference/{self.name}.c" if self.compiled else None


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in [
        Variant("naive", "CPU naive", "V, Tables 1 and 2", "triple loop, B read with stride N"),
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
            "each column of B first copied to a contiguous buffer",
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
        Variant(BLAS, "CPU BLAS", "reference", "NumPy's BLAS", parallel=True, compiled=False),
        Variant(
            MKL, "CPU MKL", "reference", "Intel MKL, if installed", parallel=True, compiled=False
        ),
        Variant(BLIS, "CPU BLIS", "reference", "BLIS from PyPI, if installed", compiled=False),
    ]
}


def variant(name: str) -> Variant:
    """Return the variant called `name`; raise StudyError with all names if there is none."""
    if name not in VARIANTS:
        raise StudyError(f"CPU variant {name!r}: unknown; use one of {', '.join(VARIANTS)}")
    return VARIANTS[name]
