"""Builds: one cubin per kernel, block size, element type and kind (exact or guarded)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import Kernel, UserKernel
from kernels.products.elements import ELEMENTS
from kernels.theory.tiles import BlockSize, number_of


@dataclass(frozen=True)
class Build:
    """One cubin: a kernel with a block size and an element type, with or without bounds checks.

    The guarded build runs only where the kernel's tile does not divide the matrices.
    """

    variant: str
    block_size: BlockSize
    dtype: str
    guarded: bool
    file: str = field(default="", compare=False)  # path of the source of a user-supplied kernel

    @property
    def kind(self) -> str:
        """The kind of the build as recordings name it, such as ``exact`` or ``guarded``."""
        return "guarded" if self.guarded else "exact"

    @property
    def stem(self) -> str:
        """File name without suffix, for example ``block-b32-float32-exact``."""
        return f"{stem(self.variant, self.block_size, self.dtype)}-{self.kind}"

    @property
    def source(self) -> str:
        """Path of the source file: relative to the root, or absolute if user-supplied."""
        return self.file or f"kernels/{self.variant}.cu"

    @property
    def defines(self) -> dict[str, int | str]:
        """The macros of the compilation; none for a user-supplied kernel."""
        if self.file:
            return {}
        number = number_of(self.block_size)
        block = {} if number is None else {"BLOCK": number}
        return {"GUARDED": int(self.guarded), "ELEMENT": ELEMENTS[self.dtype].c_type, **block}


# Builds without a variant: kernels that measure the ceilings of a GPU, those of its tensor cores,
# and the kernel that blocks a stream while launches are enqueued.
PROBES = Build("probes", None, "float32", False)
TENSOR_PROBE = Build("tensor_probe", None, "float32", False)
HOLD = Build("hold", None, "float32", False)
INSTRUMENTS = (PROBES, TENSOR_PROBE, HOLD)
# Kernels that prepare the operands of other kernels.
STEPS = {e.device_step.kernel for e in VARIANTS.values() if isinstance(e, Kernel) and e.device_step}


def stem(variant: str, block_size: BlockSize, dtype: str) -> str:
    """Return the part of a file name that names a kernel, for example ``block-b32-float32``."""
    number = number_of(block_size)
    return f"{variant}{'' if number is None else f'-b{number}'}-{dtype}"


def build_for(product: Product) -> Build | None:
    """Return the build that runs a product; None for libraries and calls.

    A variant that runs another variant's kernel shares its builds.
    """
    kernel = product.kernel
    if kernel is None:
        return None
    if isinstance(kernel, UserKernel):  # a user-supplied kernel has one build for all sizes
        return Build(kernel.kernel, None, product.dtype, False, kernel.file)
    return Build(kernel.kernel, product.block_size, product.dtype, product.is_guarded)


def step_build(product: Product) -> Build | None:
    """Return the build of the kernel that prepares a product's operands; None if none is needed."""
    step = product.device_step
    return Build(step.kernel, None, product.dtype, product.is_guarded) if step else None


def builds_for(products: Iterable[Product]) -> list[Build]:
    """Return the builds that these products need, without repeats."""
    needed = (build for one in products for build in (step_build(one), build_for(one)))
    return list(dict.fromkeys(build for build in needed if build))


def recorded(name: str, number: int | None, dtype: str, kind: str) -> Build:
    """Return the build that a row of a recording's builds.csv describes."""
    block_size = VARIANTS[name].block_size(number) if name in VARIANTS else number
    return Build(name, block_size, dtype, kind == "guarded")


def parse_build(text: str) -> Build:
    """Return the build whose `stem` is this text; raise StudyError if there is none."""
    match = re.fullmatch(r"(\w+?)(?:-b(\d+))?-(\w+)-(exact|guarded)", text)
    if match:
        build = recorded(match[1], int(match[2]) if match[2] else None, match[3], match[4])
        if build.stem == text and (build in INSTRUMENTS or _exists(build)):
            return build
    raise StudyError(
        f"build {text!r}: not in the catalog; use a name such as 'block-b32-float32-exact' or "
        "'buffered_row-float32-exact' (`gemm-study list` shows variants, block sizes, types)"
    )


def _exists(build: Build) -> bool:
    """Return whether there are matrices for which the kernel needs this build."""
    if build.variant in STEPS:
        return (build.block_size, build.dtype) == (None, "float32")
    entry = VARIANTS.get(build.variant)
    if not isinstance(entry, Kernel) or entry.kernel != build.variant:
        return False
    if not entry.takes_block(build.block_size) or build.dtype not in entry.dtypes:
        return False
    # With a tile edge of 1, the tile always divides the matrices.
    return not build.guarded or max(entry.tile(build.block_size)) > 1
