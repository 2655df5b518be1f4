"""Parameters of the probe kernels in `kernels/probes.cu`: work, repetitions and buffers.

Constants marked (source) are also defined in that file, which is called the source here.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_KIB = 2**10
_MIB = 2**20
_GIB = 2**30
# Each buffer uses at most free memory / 6; three buffers are large.
_MEMORY_SHARE = 6
_LARGEST_COPY_BYTES = 256 * _MIB

# Parameter types of the kernels (source).
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
# The kernel of `kernels/tensor_probe.cu`: parameter types, arguments.
TENSOR_KERNEL, TENSOR_TYPES = "fp16_products", "ifP"
TENSOR_STEPS = 2**12
TENSOR_ARGUMENTS = (TENSOR_STEPS, float("inf"))  # a threshold that no sum reaches
TENSOR_CAPABILITY = (8, 0)  # minimum compute capability
# Threads per block of the kernels that fill the GPU: both FMA kernels and the reads (source).
THREADS = 256
TENSOR_FLOP = 2 * 64 * 128 * 64 // 4 * TENSOR_STEPS * (THREADS // 32)  # per block

CHAINS = 8  # also defined in the source
FMA_STEPS = 2**17
# The values converge to 2 and their sum to 16, so the sum never equals −1.
FMA_ARGUMENTS = (0.5, 1.0, FMA_STEPS, -1.0)
FMA_FLOP = 2 * CHAINS * FMA_STEPS * THREADS  # per block

READ_LOADS = 2  # also defined in the source
TILE_BYTES = THREADS * READ_LOADS * 16  # also defined in the source
# Buffers contain zeros, so no sum has this value.
NEVER_READ = 1

# Two cache lines per slot: fetching a line with its neighbour does not prefetch another slot.
SLOT_BYTES = 256
SHARED_POINTERS = 256  # also defined in the source
SHARED_STEPS = 2**16


@dataclass(frozen=True)
class Chase:
    """A pointer chase in a ring in global memory: `warm_up` loads, then `steps` timed loads."""

    level: str
    kernel: str
    ring_bytes: int
    warm_up: int
    steps: int


@dataclass(frozen=True)
class Sweep:
    """A read of one memory level by as many threads as the GPU can keep resident.

    Each block reads `steps` tiles of TILE_BYTES, cyclically from one buffer of `buffer_bytes`. In
    shared memory the buffer is one tile per block.
    """

    level: str
    kernel: str
    buffer_bytes: int
    steps: int


def reaches_memory(l2_bytes: int, free_bytes: int) -> bool:
    """Return whether a buffer much larger than an L2 of `l2_bytes` fits into the free memory."""
    return 4 * l2_bytes <= free_bytes // _MEMORY_SHARE


def plan_chases(l2_bytes: int, free_bytes: int) -> list[Chase]:
    """Return the chases for a GPU with an L2 of `l2_bytes` and that much free memory.

    The rings for L1 and L2 are in their cache after one lap. The ring for DRAM is four times the
    L2, at most 1 GiB, and no slot of it is visited twice; it is omitted if it does not fit.
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
    """Return the sweeps for a GPU with an L2 of `l2_bytes`.

    The L1 sweep reads one tile per SM. The L2 sweep reads a quarter of the L2, which stays resident
    even if each half of the L2 keeps its own copy; its loads bypass the L1.
    """
    l2_tiles = max(l2_bytes // 4 // TILE_BYTES, 1)
    return [
        Sweep("shared", "read_shared", TILE_BYTES, 2**14),
        Sweep("l1", "read_through_l1", TILE_BYTES, 2**14),
        Sweep("l2", "read_past_l1", l2_tiles * TILE_BYTES, 2**11),
    ]


def random_ring(slots: int, seed: int = 0) -> npt.NDArray[np.uint32]:
    """Return a random cycle over all slots, as the successor of each slot: shape (slots,).

    All cycles are equally likely, as in Sattolo's algorithm, so no prefetcher can predict them.
    """
    order = np.random.default_rng(seed).permutation(np.arange(slots, dtype=np.uint32))
    successors = np.empty_like(order)
    successors[order] = np.roll(order, -1)
    return successors


def copy_sizes(free_bytes: int) -> list[int]:
    """Return the sizes of copies to measure: 4 KiB to 256 MiB by factors of four, in bytes.

    Sizes that do not fit into the free memory are omitted.
    """
    largest = min(_LARGEST_COPY_BYTES, free_bytes // _MEMORY_SHARE)
    sizes = [4 * _KIB]
    while 4 * sizes[-1] <= largest:
        sizes.append(4 * sizes[-1])
    return sizes


def device_copy_bytes(free_bytes: int) -> int:
    """Return the size of a copy within device memory: 1 GiB, or less if memory is short."""
    return min(_GIB, free_bytes // _MEMORY_SHARE // _MIB * _MIB)
