"""What the catalog says of a kernel variant, and the types of elements that there are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from kernels.catalog.host_steps import HostStep
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.cost import Access


@dataclass(frozen=True)
class Launch:
    """Geometry of one launch: blocks in the grid, threads in a block, dynamic shared memory."""

    grid: tuple[int, int, int]
    threads: tuple[int, int]
    dynamic_shared_bytes: int = 0


# Rows of C, columns of C and steps along k that a block works on at a time.
Tile = tuple[int, int, int]

# How a run goes: copies and kernel one after the other, each by a call of its own; in pieces,
# whose copies and kernels overlap; or as a graph, got by the driver once, launched by one call.
IN_TURN, IN_PIECES, AS_GRAPH = "in turn", "in pieces", "as a graph"
# Of a run in pieces: enough that little is left at its ends, and few enough to fill a GPU.
PIECES = 8


@dataclass(frozen=True)
class Variant:
    """One way to multiply on a GPU; 0 stands for the block size where it has none.

    `idea` says in a few words what is new in it. `origin` is the source and its table or step;
    `family` names the term of model M0 that describes the kernel. `tile(block_size)` is what a
    block works on: where it does not divide the matrices, the guarded build runs. `after` is the
    variant whose next step this one is. `shapes` says what it multiplies: ``square`` matrices, any
    ``single`` product, or ``batched`` products.

    `has_tiles`: its block sizes name shapes of tiles, all of which a study has, whatever block
    sizes it asks of the others. `slices(block_size)` says how many groups of threads share the
    steps of k in each of its tiles, whose sums are added one after the other at the end.

    `tensor_products`: so many products of 16-bit parts on tensor cores make one of its own, which
    takes a compute capability of 8.0 at least, and sums in another order than one by one, in
    another precision (see `roundoffs`). 0: it does not multiply on them.

    `kernel` is the name of the function and of its source file. It is None for what a library
    computes, which has no source, no builds and no theory. `host_step` is what the host does with
    the matrices beyond copying them. `flow` is how its run goes: other than in turn it needs
    pinned memory, and its kernel is not timed alone. It is for shapes with an edge in `edges`.

    `file` is the source file of a kernel from outside of the catalog (`kernels.catalog.user_supplied`), of which
    there is no theory; `claims` are the accesses a thread, by operation, that it declares. Without
    a `kernel` it is a call from Python. Where sums are not `in_order`, one by one along k, products
    are evaluated by their bound alone.
    """

    name: str
    title: str
    idea: str
    origin: str
    description: str
    family: str
    kernel: str | None
    tile: Callable[[int], Tile]
    geometry: Callable[[Shape, int], Launch]
    theory: Callable[[Shape, int, int], list[Access]] | None
    block_sizes: tuple[int, ...] | None = None
    dtypes: tuple[str, ...] = ("float32",)
    shapes: str = "square"
    after: str | None = None
    host_step: HostStep | None = None
    has_tiles: bool = False
    slices: Callable[[int], int] = lambda _: 1
    tensor_products: int = 0
    flow: str = IN_TURN
    edges: tuple[int, float] = (1, math.inf)
    file: str | None = None
    in_order: bool = True
    claims: Mapping[str, Callable[[Shape, int], Fraction]] = field(default_factory=dict)

    @property
    def tensor_cores(self) -> bool:
        """Tell whether it multiplies on tensor cores."""
        return self.tensor_products > 0

    @property
    def is_call(self) -> bool:
        """Tell whether it is what a user's Python calls."""
        return self.kernel is None and self.file is not None

    @property
    def source(self) -> str | None:
        """Path of the source file, relative to the project's root, or absolute if it has one."""
        return self.file or (self.kernel and f"kernels/{self.kernel}.cu")

    def operands(self, shape: Shape, block_size: int | None) -> Shape:
        """Return the shape of what the kernel multiplies: that of the product, unless padded."""
        return self.host_step.operands(shape, block_size or 0) if self.host_step else shape

    def launch(self, shape: Shape, block_size: int | None) -> Launch:
        """Return the geometry of the launch for a product of this shape."""
        return self.geometry(self.operands(shape, block_size), block_size or 0)

    def arguments(self, shape: Shape, block_size: int | None) -> tuple[int, ...]:
        """Return the kernel's arguments after the matrices: n, or m, n and k."""
        seen = self.operands(shape, block_size)
        return (seen.n,) if self.shapes == "square" else (seen.m, seen.n, seen.k)

    def pieces(self, shape: Shape, block_size: int | None) -> list[tuple[int, int]]:
        """Return the pieces of a product: first row of A and C, and rows, all of whole tiles."""
        rows = self.tile(block_size or 0)[0]
        most = -(-shape.m // rows // PIECES) * rows
        return [(first, min(most, shape.m - first)) for first in range(0, shape.m, most)]

    def accesses(self, shape: Shape, block_size: int | None, dtype: str) -> list[Access]:
        """Return the theory of the kernel's memory accesses."""
        assert self.theory is not None, f"{self.name} is no kernel of this project"
        seen = self.operands(shape, block_size)
        return self.theory(seen, block_size or 0, ELEMENTS[dtype].bytes)

    def sums_a_thread(self, block_size: int | None) -> int:
        """Return how many elements of C a thread computes (0: no kernel of this project)."""
        if self.kernel is None:
            return 0
        rows, columns, _ = self.tile(block_size or 0)
        threads = self.geometry(Shape.square(1), block_size or 0).threads
        return rows * columns // (threads[0] * threads[1])

    def roundoffs(self, k: int) -> int:
        """Return how many units of roundoff a sum of k float32 products may be off by.

        The unit is 2⁻²⁴ of the sum of their magnitudes. On tensor cores it is that of parts of 22
        bits, of sums of 64 that are cut short, and of the sum of those (docs: methods.md).
        """
        return 160 + -(-k // 64) if self.tensor_cores else k

    def takes(self, shape: Shape) -> bool:
        """Tell whether the variant multiplies matrices of this shape."""
        least, largest = self.edges
        if not least <= shape.largest <= largest:
            return False
        return {"square": shape.is_square, "single": shape.batch == 1}.get(self.shapes, True)

    def takes_memory(self, host_memory: str) -> bool:
        """Tell whether its copies can be what its run needs: only pinned memory's overlap."""
        return self.flow == IN_TURN or host_memory == "pinned"

    def takes_block(self, block_size: int | None) -> bool:
        """Tell whether the variant has this block size; None: it has none."""
        return block_size in self.block_sizes if self.block_sizes else block_size is None
