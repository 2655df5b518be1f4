"""What the kernels of `kernels/probes.cu` are given to do: how much, how often, on which buffers.

Constants marked with *source* stand there too.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_KIB = 2**10
_MIB = 2**20
_GIB = 2**30
# A share of the free memory of the GPU that every buffer stays below; three of them are large.
_MEMORY_SHARE = 6
_LARGEST_COPY_BYTES = 256 * _MIB

# Types of the kernels' parameters (source).
KERNELS = {
    "fp32_fma": "ffifP",
    "lay_ring": "PPii",
    "chase_through_l1": "PiiP",
    "chase_past_l1": "PiiP",
    "chase_shared": "iiP",
    "read_through_l1": "PIiIP",
    "read_past_l1": "PIiIP",
    "read_shared": "iIP",
}
# The same of the kernel of `kernels/tensor_probe.cu`, what it is given, and a warp's flop a step.
TENSOR_KERNEL, TENSOR_TYPES = "fp16_products", "ifP"
TENSOR_STEPS = 2**12
TENSOR_ARGUMENTS = (TENSOR_STEPS, float("inf"))  # no sum gets near
_TENSOR_STEP_FLOP = 2 * 64 * 128 * 64 // 4
TENSOR_CAPABILITY = (8, 0)  # from which on it multiplies
# Threads of a block of the kernels that fill the GPU: those two, and those that read (source).
THREADS = 256

CHAINS = 8  # (source)
FMA_STEPS = 2**17
# The numbers converge to 2, and their sum to 16: never −1.
FMA_ARGUMENTS = (0.5, 1.0, FMA_STEPS, -1.0)

READ_LOADS = 2  # (source)
TILE_BYTES = THREADS * READ_LOADS * 16  # (source)
# All that is read is zero, and so is its sum.
NEVER_READ = 1

# Two cache lines: a line that is fetched together with its neighbour holds no other slot.
SLOT_BYTES = 256
SHARED_POINTERS = 256  # (source)
SHARED_STEPS = 2**16


@dataclass(frozen=True)
class Chase:
    """A pointer chase over a ring in global memory: how many loads warm up, how many are timed."""

    level: str
    kernel: str
    ring_bytes: int
    warm_up: int
    steps: int


@dataclass(frozen=True)
class Sweep:
    """Reads of one level of memory by as many threads as the GPU holds.

    Every block reads `steps` tiles of TILE_BYTES, over and over those of one buffer of
    `buffer_bytes`; in shared memory the buffer is one tile, and each block has its own.
    """

    level: str
    kernel: str
    buffer_bytes: int
    steps: int


def reaches_memory(l2_bytes: int, free_bytes: int) -> bool:
    """Tell whether a buffer can be made that is well over an L2 cache of `l2_bytes`."""
    return 4 * l2_bytes <= free_bytes // _MEMORY_SHARE


def plan_chases(l2_bytes: int, free_bytes: int) -> list[Chase]:
    """Return the chases for a GPU with an L2 cache of `l2_bytes` and so much free memory.

    One lap makes the rings of L1 and L2 resident in their caches. The ring of DRAM is four times
    the L2, at most 1 GiB, and no slot of it is visited twice; it is left out where it does not fit.
    """
    l2_ring = min(l2_bytes // 8, 2 * _MIB)
    l1_ring = 16 * _KIB
    chases = [
        Chase("l1", "chase_through_l1", l1_ring, l1_ring // SLOT_BYTES, 2**16),
        Chase("l2", "chase_past_l1", l2_ring, l2_ring // SLOT_BYTES, 2**13),
    ]
    if reaches_memory(l2_bytes, free_bytes):
        chases.append(Chase("dram", "chase_past_l1", min(4 * l2_bytes, _GIB), 0, 2**12))
    return chases


def plan_sweeps(l2_bytes: int) -> list[Sweep]:
    """Return the sweeps for a GPU with an L2 cache of `l2_bytes`.

    The L1 of every SM holds a tile. Of the L2 a quarter is read: it stays there even where each
    half of the L2 keeps a copy for its own SMs. Those loads pass by the L1, whatever its size.
    """
    l2_tiles = max(l2_bytes // 4 // TILE_BYTES, 1)
    return [
        Sweep("shared", "read_shared", TILE_BYTES, 2**14),
        Sweep("l1", "read_through_l1", TILE_BYTES, 2**14),
        Sweep("l2", "read_past_l1", l2_tiles * TILE_BYTES, 2**11),
    ]


def random_ring(slots: int, seed: int = 0) -> npt.NDArray[np.uint32]:
    """Return the successor of each of `slots` slots, all in one cycle: shape (slots,).

    Every such cycle is equally likely, as from Sattolo's algorithm; so no prefetcher can guess it.
    """
    order = np.random.default_rng(seed).permutation(np.arange(slots, dtype=np.uint32))
    successors = np.empty_like(order)
    successors[order] = np.roll(order, -1)
    return successors


def copy_sizes(free_bytes: int) -> list[int]:
    """Return sizes of copies in bytes, 4 KiB to 256 MiB by factors of four, as memory allows."""
    largest = min(_LARGEST_COPY_BYTES, free_bytes // _MEMORY_SHARE)
    sizes = [4 * _KIB]
    while 4 * sizes[-1] <= largest:
        sizes.append(4 * sizes[-1])
    return sizes


def device_copy_bytes(free_bytes: int) -> int:
    """Return the size of a copy within device memory: 1 GiB, or what memory allows."""
    return min(_GIB, free_bytes // _MEMORY_SHARE // _MIB * _MIB)


def filling_blocks(multiprocessors: int, threads_per_multiprocessor: int) -> int:
    """Return how many blocks of `THREADS` fill the GPU exactly once."""
    return multiprocessors * (threads_per_multiprocessor // THREADS)


def fma_flop(blocks: int) -> int:
    """Return the floating-point operations of one launch of fp32_fma (two a FMA)."""
    return 2 * CHAINS * FMA_STEPS * THREADS * blocks


def tensor_flop(blocks: int) -> int:
    """Return the floating-point operations of one launch of fp16_products."""
    return _TENSOR_STEP_FLOP * TENSOR_STEPS * (THREADS // 32) * blocks


def sweep_bytes(sweep: Sweep, blocks: int) -> int:
    """Return the bytes that all blocks of one launch read: 16 a thread and load."""
    return TILE_BYTES * sweep.steps * blocks
