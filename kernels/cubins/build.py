"""Which cubins there are: one for each build of a kernel, named by what was compiled into it."""

import re
from dataclasses import dataclass

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS, variant
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape


@dataclass(frozen=True)
class Build:
    """One cubin: a kernel, its block size and type of elements, and whether bounds are checked.

    The guarded build checks bounds; it is used where the kernel's tile does not divide the
    matrices, and only there. `INSTRUMENTS` are builds too, with sources of their own.
    """

    variant: str
    block_size: int | None
    dtype: str
    guarded: bool

    @property
    def kind(self) -> str:
        """Name of the build as it stands in recordings."""
        return "guarded" if self.guarded else "exact"

    @property
    def stem(self) -> str:
        """File name without suffix, for example ``block-b32-float32-exact``."""
        block = "" if self.block_size is None else f"-b{self.block_size}"
        return f"{self.variant}{block}-{self.dtype}-{self.kind}"

    @property
    def source(self) -> str:
        """Path of the source file, relative to the project's root unless the kernel was user-supplied."""
        entry = VARIANTS.get(self.variant)
        return (entry and entry.source) or f"kernels/{self.variant}.cu"

    @property
    def defines(self) -> dict[str, int | str]:
        """What the source is compiled with."""
        block = {} if self.block_size is None else {"BLOCK": self.block_size}
        return {
            "GUARDED": int(self.guarded),
            "ELEMENT": ELEMENTS[self.dtype].c_type,
            **block,
        }


# BlockingKernel no variant: the kernels of the first measure what a GPU can do at most, that of the second
# what its tensor cores can, those of the third hold a stream while something is queued in it.
PROBES = Build("probes", None, "float32", False)
TENSOR_PROBE = Build("tensor_probe", None, "float32", False)
HOLD = Build("hold", None, "float32", False)
INSTRUMENTS = (PROBES, TENSOR_PROBE, HOLD)


def build_for(name: str, shape: Shape, block_size: int | None, dtype: str) -> Build | None:
    """Return the build that runs a variant on matrices of this shape; None: it needs none.

    A variant that runs another one's kernel shares its builds.
    """
    entry = variant(name)
    if entry.kernel is None:
        return None
    seen = entry.operands(shape, block_size)
    tile = entry.tile(block_size or 0)
    edges = (seen.m, seen.n, seen.k)
    guarded = any(edge % width for edge, width in zip(edges, tile, strict=True))
    return Build(entry.kernel, block_size, dtype, guarded)


def parse_build(stem: str) -> Build:
    """Return the build whose `stem` is given; raises StudyError for one that cannot exist."""
    match = re.fullmatch(r"(\w+?)(?:-b(\d+))?-(\w+)-(exact|guarded)", stem)
    if match:
        block_size = int(match[2]) if match[2] else None
        build = Build(match[1], block_size, match[3], match[4] == "guarded")
        if build.stem == stem and (build in INSTRUMENTS or _exists(build)):
            return build
    raise StudyError(
        f"build {stem!r} is none of the catalog; one is named like 'block-b32-float32-exact' or "
        "'buffered_row-float32-exact' (`python -m kernels list` shows variants, block sizes, types)"
    )


def _exists(build: Build) -> bool:
    """Tell whether some matrices need this build of a kernel."""
    entry = VARIANTS.get(build.variant)
    if entry is None or entry.kernel != build.variant:
        return False
    if not entry.takes_block(build.block_size) or build.dtype not in entry.dtypes:
        return False
    # Every edge is a multiple of 1.
    return not build.guarded or max(entry.tile(build.block_size or 0)) > 1
