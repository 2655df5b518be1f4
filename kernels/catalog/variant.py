"""The classes of variants: catalog kernels, libraries, user-supplied kernels and calls."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.catalog.host_steps import HostStep
from kernels.catalog.locations import HOST_MEMORY
from kernels.products.elements import FLOAT
from kernels.products.shape import Shape
from kernels.theory.addresses import KernelAccesses
from kernels.theory.cost import Access
from kernels.theory.tiles import BlockSize, block_size_of

MAX_THREADS = 1024  # limit per block on every GPU


@dataclass(frozen=True)
class Launch:
    """The geometry of one launch: grid, threads per block, and bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    threads: tuple[int, int]
    dynamic_shared_bytes: int = 0

    @property
    def threads_per_block(self) -> int:
        """Threads per block."""
        return math.prod(self.threads)

    @property
    def blocks(self) -> int:
        """The number of blocks in the grid."""
        return math.prod(self.grid)


# A tile: rows of C, columns of C, and K per iteration of a block.
Tile = tuple[int, int, int]

# Flow of an end-to-end run: copies and kernel one after the other, each enqueued by its own call;
# the same with a kernel that prepares the operands on the GPU; pieces whose copies and kernels
# overlap; such pieces from pageable memory, which host threads copy through pinned memory; such
# pieces on two GPUs; a CUDA graph, launched by one call; or one launch that reads and writes host
# memory.
IN_TURN, PREPARED, IN_PIECES, AS_GRAPH = "in turn", "prepared", "in pieces", "as a graph"
STAGED, ON_TWO_GPUS, MAPPED = "staged", "on two GPUs", "mapped"
# Flows whose copies and kernels overlap in pieces of rows.
PIECEWISE = (IN_PIECES, STAGED, ON_TWO_GPUS)
# Flows in one stream: their parts and their kernels are timed separately.
SEQUENTIAL = (IN_TURN, PREPARED)
# Pieces per run: enough for short ends, and few enough that each fills a GPU.
PIECES = 8


@dataclass(frozen=True)
class DeviceStep:
    """A kernel that prepares A and B on the GPU for another kernel, in one allocation.

    `blocks(lines, k)` and `bytes(lines, k)` are for `lines` rows of A or columns of B. In memory,
    the prepared B precedes the prepared A; in the grid, the blocks for A precede those for B. Only
    some shapes may need this step.
    """

    kernel: str
    threads: int
    blocks: Callable[[int, int], int]
    bytes: Callable[[int, int], int]
    needed: Callable[[Shape], bool] = lambda _: True


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One implementation of the product on a GPU.

    `idea` says in a few words how the variant differs from the variant `after`. `origin` is the
    source with its table or step. `family` is the term of model M0 that describes the kernel.
    `shapes` is ``square`` (square matrices), ``single`` (one product) or ``batched``. The longest
    edge of a matrix must be within `edges`. `block_sizes` is None for a variant without block size.
    With `fixed_blocks`, a study measures all block sizes of the variant, even those that it does
    not list. The `flow` says how a run orders copies and kernels: `STAGED` needs pageable memory,
    all others except `SEQUENTIAL` pinned memory. `piece_tiles` lists sizes of a piece in rows of
    tiles, of which the recorder uses the fastest; the first is the default (empty: all rows are
    divided into `PIECES`).
    """

    name: str
    title: str
    idea: str
    origin: str
    description: str
    family: str
    block_sizes: tuple[BlockSize, ...] | None = None
    fixed_blocks: bool = False
    dtypes: tuple[str, ...] = ("float32",)
    shapes: str = "square"
    after: str | None = None
    edges: tuple[int, float] = (1, math.inf)
    host_step: HostStep | None = None
    flow: str = IN_TURN
    piece_tiles: tuple[int, ...] = ()
    # 16-bit products on tensor cores per float32 product (0: no tensor cores). They need compute
    # capability 8.0.
    tensor_products: int = 0
    # Significant binary digits of the operands: an operand is rounded to nearest with at least
    # these.
    digits: int = FLOAT.digits
    # How many products the tensor cores sum at a time (K).
    tensor_steps: int = 64
    # The only compute capability that has the kernel's instructions; None: no such limit.
    only_capability: tuple[int, int] | None = None

    @property
    def source(self) -> str | None:
        """The path of the source file, absolute or relative to the root; None without a source."""
        return None

    @property
    def kernel_name(self) -> str | None:
        """Name of the CUDA kernel; None for libraries and calls."""
        return None

    @property
    def gpus(self) -> int:
        """The number of GPUs that one run uses."""
        return 2 if self.flow == ON_TWO_GPUS else 1

    @property
    def tensor_cores(self) -> bool:
        """Whether the variant needs tensor cores."""
        return self.tensor_products > 0

    def roundoffs(self, k: int) -> int:
        """Return the error bound of a sum of k float32 products, in units of roundoff.

        The unit is 2⁻²⁴ times the sum of the terms' magnitudes. On tensor cores the bound covers
        operands that are split into parts with 22 bits, truncated sums of `tensor_steps` products,
        and the sum of these sums (docs/explanation/methods.md).
        """
        if not self.tensor_cores:
            return k
        return 16 + 36 * self.tensor_steps // 16 + -(-k // self.tensor_steps)

    def takes(self, shape: Shape) -> bool:
        """Return whether the variant multiplies matrices of this shape."""
        least, largest = self.edges
        if not least <= shape.largest <= largest:
            return False
        return {"square": shape.is_square, "single": shape.batch == 1}.get(self.shapes, True)

    def takes_memory(self, location: str) -> bool:
        """Return whether a run can use this location of the matrices.

        Overlapping copies need pinned memory. Host steps write to host memory from which a run
        copies.
        """
        if self.flow in SEQUENTIAL:
            return self.host_step is None or location in HOST_MEMORY
        return location == ("pageable" if self.flow == STAGED else "pinned")

    def takes_block(self, block_size: BlockSize) -> bool:
        """Return whether the variant can have this block size (None: no block size)."""
        return block_size in (self.block_sizes or (None,))

    def block_size(self, number: int | None) -> BlockSize:
        """Return the block size for the number by which recordings denote it."""
        if not self.fixed_blocks:  # only fixed block sizes can be tile shapes
            return number
        return block_size_of(number, self.block_sizes or ())


@dataclass(frozen=True, kw_only=True)
class Library(Variant):
    """A variant whose product a library computes: no source, no build and no theory.

    `mode` is the mode of its arithmetic (`measurement.devices.cublas.MODES`).
    """

    mode: str = ""

    def roundoffs(self, k: int) -> int:
        """Return the error bound of a sum of k products, in the unit of `Variant.roundoffs`.

        It covers the rounding of both factors, and sums that tensor cores truncate.
        """
        if self.digits == FLOAT.digits:
            return k
        factor = 2.0 ** (FLOAT.digits - self.digits)
        return math.ceil(2 * factor + factor**2 / 2**FLOAT.digits) + 2 * k


@dataclass(frozen=True, kw_only=True)
class Kernel(Variant):
    """A variant that is a CUDA kernel; `kernel` is the name of its function.

    `tile` and `geometry` get block sizes of the type in `block_sizes`. The guarded build runs where
    the tile does not divide the matrices. If `in_order` is false, sums do not run in the order of
    k, so products are compared within their error bound instead of bit for bit. With a
    `device_step`, the kernel reads the operands that this step prepared, instead of A and B.
    """

    kernel: str
    tile: Callable[[Any], Tile]
    geometry: Callable[[Shape, Any], Launch]
    in_order: bool = True
    device_step: DeviceStep | None = None

    @property
    def kernel_name(self) -> str:
        """Name of the CUDA kernel."""
        return self.kernel


@dataclass(frozen=True, kw_only=True)
class CatalogKernel(Kernel):
    """A kernel of the catalog, with the theory of its memory accesses (None: no theory)."""

    theory: Callable[[KernelAccesses, Any], list[Access]] | None

    @property
    def source(self) -> str:
        """Path of the source file, relative to the root."""
        return f"kernels/{self.kernel}.cu"


@dataclass(frozen=True, kw_only=True)
class UserSupplied(Variant):
    """A variant from a `file` outside the catalog (`kernels.catalog.user_supplied`)."""

    file: str

    @property
    def source(self) -> str:
        """Path of the file."""
        return self.file


@dataclass(frozen=True, kw_only=True)
class UserCall(UserSupplied, Library):
    """A user-supplied Python function that computes the product; `call` says how it is called."""

    call: Any = None  # python_calls.CallFacts; None: multiply(a, b, c, stream)

    def roundoffs(self, k: int) -> int:
        """Return the error bound of a sum of k products; C is also rounded to `digits`."""
        shorter = FLOAT.digits - self.digits
        return super().roundoffs(k) + (1 << shorter if shorter else 0)


@dataclass(frozen=True, kw_only=True)
class UserKernel(UserSupplied, Kernel):
    """A user-supplied kernel, whose launch is in its file (`kernels.launches.program`)."""

    facts: Any  # user_supplied.LaunchFacts

    def takes(self, shape: Shape) -> bool:
        """Return whether the kernel multiplies matrices of this shape."""
        edges = (shape.m, shape.n, shape.k)
        if self.facts.fixed:
            return shape.batch == 1 and edges == self.facts.fixed
        return super().takes(shape) and not any(edge % self.facts.multiple for edge in edges)
