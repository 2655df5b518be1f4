"""The limits of a GPU for one launch, and whether a product exceeds one of them."""

from dataclasses import dataclass

from kernels.catalog.product import Product
from kernels.products.shape import MOST_ELEMENTS

# The lowest compute capability whose tensor cores can run `sgemm_tensor`.
_TENSOR_CORES = (8, 0)


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of one launch on a GPU, from the CUDA driver (device attributes).

    A block gets more than `max_shared_bytes_per_block`, up to `max_shared_bytes_per_block_optin`,
    only if the function's attribute requests it.
    """

    max_threads_per_block: int
    max_shared_bytes_per_block: int
    max_registers_per_block: int
    max_grid_x: int
    max_grid_y: int
    max_grid_z: int
    warp_size: int
    memory_bytes: int
    max_shared_bytes_per_block_optin: int
    compute_capability: tuple[int, int]


def not_launchable(
    product: Product,
    limits: DeviceLimits,
    registers_per_thread: int = 0,
    static_shared_bytes: int = 0,
) -> str | None:
    """Return which limit of the GPU the product exceeds, as text; None if it can be launched.

    `registers_per_thread` and `static_shared_bytes` come from the build (0: unknown).
    """
    if product.entry.tensor_cores and limits.compute_capability < _TENSOR_CORES:
        needed, has = (".".join(map(str, c)) for c in (_TENSOR_CORES, limits.compute_capability))
        return f"needs compute capability {needed} for its tensor cores, the GPU has {has}"
    only = product.entry.only_capability
    if only and limits.compute_capability != only:
        needed, has = (".".join(map(str, c)) for c in (only, limits.compute_capability))
        return f"needs compute capability {needed}, the GPU has {has}"
    launch, seen = product.launch, product.operands
    threads = launch.threads_per_block
    registers = _registers_per_block(registers_per_thread, threads, limits.warp_size)
    elements = (seen.a_elements, seen.b_elements, seen.c_elements)
    demands = [
        (
            max(elements) // seen.batch,
            MOST_ELEMENTS,
            "elements per matrix, {} allowed by 32-bit indices",
        ),
        (threads, limits.max_threads_per_block, "threads per block, {} allowed"),
        (
            launch.dynamic_shared_bytes + static_shared_bytes,
            limits.max_shared_bytes_per_block_optin,
            "bytes of shared memory per block, {} allowed",
        ),
        (launch.grid[0], limits.max_grid_x, "blocks along x, {} allowed"),
        (launch.grid[1], limits.max_grid_y, "blocks along y, {} allowed"),
        (launch.grid[2], limits.max_grid_z, "blocks along z, {} allowed"),
        (registers, limits.max_registers_per_block, "registers per block, {} allowed"),
        (
            sum(product.matrix_bytes) + product.prepared_bytes,
            limits.memory_bytes,
            "bytes for the matrices, the GPU has {}",
        ),
    ]
    for demand, limit, text in demands:
        if demand > limit:
            return f"needs {demand} {text.format(limit)}"
    return None


def _registers_per_block(registers_per_thread: int, threads: int, warp_size: int) -> int:
    """Return the registers of a block; a GPU allocates them per warp, in eights per thread."""
    warps = -(-threads // warp_size)
    return warps * warp_size * (-(-registers_per_thread // 8) * 8)
