"""What a GPU allows one launch, and whether a variant stays within it."""

from dataclasses import dataclass

from kernels.catalog.entries import variant
from kernels.products.elements import ELEMENTS
from kernels.products.shape import MOST_ELEMENTS, Shape

# From which on tensor cores multiply what `Variant.tensor_cores` gives them.
_TENSOR_CORES = (8, 0)


@dataclass(frozen=True)
class DeviceLimits:
    """What one launch may use on a GPU, as the CUDA driver reports it (device attributes).

    A block has more than `max_shared_bytes_per_block` only if the function's attribute asks for it,
    up to `max_shared_bytes_per_block_optin`.
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
    name: str,
    shape: Shape,
    block_size: int | None,
    dtype: str,
    limits: DeviceLimits,
    registers_per_thread: int = 0,
    static_shared_bytes: int = 0,
) -> str | None:
    """Say which limit of the GPU keeps the variant from this product; None if it runs.

    `registers_per_thread` and `static_shared_bytes` come from the build (0: not known).
    """
    entry = variant(name)
    if entry.tensor_cores and limits.compute_capability < _TENSOR_CORES:
        needed, has = (".".join(map(str, c)) for c in (_TENSOR_CORES, limits.compute_capability))
        return f"needs compute capability {needed} for its tensor cores, the GPU has {has}"
    launch = entry.launch(shape, block_size)
    seen = entry.operands(shape, block_size)
    threads = launch.threads[0] * launch.threads[1]
    shared = launch.dynamic_shared_bytes + static_shared_bytes
    registers = _registers_per_block(registers_per_thread, threads, limits.warp_size)
    elements = (seen.a_elements, seen.b_elements, seen.c_elements)
    matrix = max(elements) // seen.batch
    memory = sum(elements) * ELEMENTS[dtype].bytes
    demands = [
        (matrix, MOST_ELEMENTS, "elements in a matrix, {} allowed by 32-bit indices"),
        (threads, limits.max_threads_per_block, "threads a block, {} allowed"),
        (
            shared,
            limits.max_shared_bytes_per_block_optin,
            "bytes of shared memory a block, {} allowed",
        ),
        (launch.grid[0], limits.max_grid_x, "blocks along x, {} allowed"),
        (launch.grid[1], limits.max_grid_y, "blocks along y, {} allowed"),
        (launch.grid[2], limits.max_grid_z, "blocks along z, {} allowed"),
        (registers, limits.max_registers_per_block, "registers a block, {} allowed"),
        (memory, limits.memory_bytes, "bytes for the matrices, the GPU has {}"),
    ]
    for demand, limit, text in demands:
        if demand > limit:
            return f"needs {demand} {text.format(limit)}"
    return None


def _registers_per_block(registers_per_thread: int, threads: int, warp_size: int) -> int:
    """Registers go to whole warps, in steps of eight a thread (compute capability ≥ 3)."""
    warps = -(-threads // warp_size)
    return warps * warp_size * (-(-registers_per_thread // 8) * 8)
