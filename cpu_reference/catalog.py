"""The CPU variants, from the plainest to the BLAS libraries: one C file each, with one entry here.

Each file defines ``int NAME(const float *a, const float *b, float *c, int n, int block,
int threads)`` for row-major square matrices; it returns 0, or 1 where memory ran out, or 2 where
fewer threads than asked for were to be had. Files without blocks or threads ignore the argument.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from measurement.errors import StudyError

if TYPE_CHECKING:  # it is checked by what is here
    from measurement.config import CpuStudy

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
            "anchor",
            "numpy's BLAS",
            parallel=True,
            compiled=False,
        ),
        Variant(
            MKL,
            "CPU MKL",
            "anchor",
            "Intel's library, where it is installed",
            parallel=True,
            compiled=False,
        ),
        Variant(
            BLIS,
            "CPU BLIS",
            "anchor",
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


def cells(study: "CpuStudy", all_threads: int) -> list[tuple[str, int, int | None, int]]:
    """Return (variant, n, block size, threads) of every CPU cell of a study.

    `all_threads` is what its "all" means on the host that measures. Variants that are not parallel
    run on one thread.
    """
    largest = {limit.variant: limit.largest_size for limit in study.size_limits}
    counts = sorted({all_threads if count == "all" else count for count in study.threads})
    return [
        (name, n, block, threads)
        for name in study.variants
        for n in study.sizes
        if n <= largest.get(name, n)
        for block in (study.block_sizes if variant(name).blocked else [None])
        for threads in (counts if variant(name).parallel else [1])
    ]
