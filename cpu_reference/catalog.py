"""The CPU variants: one C file each, with one entry here.

Each file defines ``int NAME(const float *a, const float *b, float *c, int n, int block)`` for
row-major square matrices; it returns 0, or 1 where memory ran out.
"""

from dataclasses import dataclass
from typing import Any

from measurement.errors import StudyError


@dataclass(frozen=True)
class Variant:
    """One CPU variant; `blocked` tells whether it takes a block size."""

    name: str
    title: str
    origin: str
    description: str
    blocked: bool

    @property
    def source(self) -> str:
        """Path of the source file, relative to the project's root."""
        return f"cpu_reference/{self.name}.c"


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in [
        Variant(
            "naive",
            "CPU naive",
            "V, Tables 1 and 2",
            "triple loop, B read with stride N",
            blocked=False,
        ),
        Variant(
            "column_buffered",
            "CPU column-buffered",
            "V, reference [2]",
            "each column of B copied to a contiguous buffer first",
            blocked=False,
        ),
        Variant(
            "blocked",
            "CPU cache-blocked",
            "V, reference [2]",
            "products of blocks that stay in cache",
            blocked=True,
        ),
    ]
}


def variant(name: str) -> Variant:
    """Return the variant called `name`; raises StudyError naming the known ones."""
    if name not in VARIANTS:
        raise StudyError(f"CPU variant {name!r} is not known; there are {', '.join(VARIANTS)}")
    return VARIANTS[name]


def cells(study_cpu: dict[str, Any]) -> list[tuple[str, int, int | None]]:
    """Return (variant, n, block size) of every CPU cell of a study's `cpu` section."""
    return [
        (name, n, block)
        for name in study_cpu["variants"]
        for n in study_cpu["sizes"]
        for block in (study_cpu["block_sizes"] if variant(name).blocked else [None])
    ]
