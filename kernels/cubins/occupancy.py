"""Theoretical occupancy: how many warps of a kernel an SM holds at once, and what limits them.

Pure arithmetic on what a cubin uses and what a compute capability allows, as in the occupancy
calculator that comes with CUDA (cuda_occupancy.h). Source H's table of limits is `LIMITS`.
"""

from dataclasses import dataclass

from base.errors import StudyError

WARP_SIZE = 32
_KIB = 1024
# What may limit occupancy. Of several that allow as few blocks, the first here is named.
LIMITERS = ("warps", "blocks", "registers", "shared memory")


@dataclass(frozen=True)
class CapabilityLimits:
    """What a compute capability allows (CUDA C++ Programming Guide, Compute Capabilities).

    Registers have 32 bits and are given to a warp at a time, in units of
    `register_allocation_unit`, from the part of the SM that runs the warp: an SM has
    `warp_allocation_granularity` such parts. Shared memory is given to a block in units of
    `shared_allocation_unit_bytes`, `reserved_shared_bytes_per_block` for the driver included. A
    block has more than `max_static_shared_bytes_per_block` only as dynamic shared memory, asked for
    with the function's attribute (opt-in), up to `max_shared_bytes_per_block`.
    """

    max_warps_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    max_shared_bytes_per_block: int
    reserved_shared_bytes_per_block: int = 1 * _KIB
    shared_allocation_unit_bytes: int = 128
    max_static_shared_bytes_per_block: int = 48 * _KIB
    max_threads_per_block: int = 1024
    max_registers_per_thread: int = 255
    registers_per_multiprocessor: int = 65536
    max_registers_per_block: int = 65536
    register_allocation_unit: int = 256
    warp_allocation_granularity: int = 4


# Warps and blocks of an SM, shared memory of an SM and (opt-in) of a block; then what differs.
LIMITS = {
    "7.5": CapabilityLimits(32, 16, 64 * _KIB, 64 * _KIB, 0, 256),
    "8.0": CapabilityLimits(64, 32, 164 * _KIB, 163 * _KIB),
    "8.6": CapabilityLimits(48, 16, 100 * _KIB, 99 * _KIB),
    "8.7": CapabilityLimits(48, 16, 164 * _KIB, 163 * _KIB),
    "8.9": CapabilityLimits(48, 24, 100 * _KIB, 99 * _KIB),
    "9.0": CapabilityLimits(64, 32, 228 * _KIB, 227 * _KIB),
    "10.0": CapabilityLimits(64, 32, 228 * _KIB, 227 * _KIB),
    "10.3": CapabilityLimits(64, 32, 228 * _KIB, 227 * _KIB),
    "12.0": CapabilityLimits(48, 24, 100 * _KIB, 99 * _KIB),
    "12.1": CapabilityLimits(48, 24, 100 * _KIB, 99 * _KIB),
}


@dataclass(frozen=True)
class Occupancy:
    """How many blocks and warps of a kernel are active on an SM, and what allows no more of them.

    `share` is active warps over `max_warps` (0 to 1), `limiter` one of `LIMITERS`. A kernel that
    does not fit has no active block; then `limiter` says what it has too much of.
    """

    blocks_per_multiprocessor: int
    active_warps: int
    max_warps: int
    share: float
    limiter: str

    @property
    def fits(self) -> bool:
        """Whether the kernel can be launched at all."""
        return self.blocks_per_multiprocessor > 0


def limits_of(compute_capability: str) -> CapabilityLimits:
    """Return what a compute capability such as ``9.0`` allows; StudyError if it is not known."""
    if compute_capability not in LIMITS:
        raise StudyError(
            f"compute capability {compute_capability!r}: its limits are not known; known are "
            f"{', '.join(LIMITS)} (kernels/cubins/occupancy.py)"
        )
    return LIMITS[compute_capability]


def occupancy(
    compute_capability: str,
    threads_per_block: int,
    registers_per_thread: int,
    static_shared_bytes: int,
    dynamic_shared_bytes: int = 0,
) -> Occupancy:
    """Return the theoretical occupancy of a kernel launched with blocks of so many threads (≥ 1).

    Registers and static shared memory are those of its cubin (`kernels.cubins.compile.BuildResult`). Raises
    StudyError for an unknown compute capability.
    """
    limits = limits_of(compute_capability)
    warps = -(-threads_per_block // WARP_SIZE)
    blocks = {
        "warps": _blocks_by_warps(limits, threads_per_block, warps),
        "blocks": limits.max_blocks_per_multiprocessor,
        "registers": _blocks_by_registers(limits, registers_per_thread, warps),
        "shared memory": _blocks_by_shared(limits, static_shared_bytes, dynamic_shared_bytes),
    }
    limiter = min(LIMITERS, key=lambda name: blocks[name])
    active = blocks[limiter] * warps
    most = limits.max_warps_per_multiprocessor
    return Occupancy(blocks[limiter], active, most, active / most, limiter)


def _blocks_by_warps(limits: CapabilityLimits, threads: int, warps: int) -> int:
    if threads > limits.max_threads_per_block:
        return 0
    return limits.max_warps_per_multiprocessor // warps


def _blocks_by_registers(limits: CapabilityLimits, registers: int, warps: int) -> int:
    if registers > limits.max_registers_per_thread:
        return 0
    # A kernel without registers gets a unit here, which limits nothing either.
    of_a_warp = _in_units(max(registers, 1) * WARP_SIZE, limits.register_allocation_unit)
    # What a block may have is what the SM has, so that it needs no look of its own.
    parts = limits.warp_allocation_granularity
    warps_of_a_part = limits.registers_per_multiprocessor // parts // of_a_warp
    return warps_of_a_part * parts // warps


def _blocks_by_shared(limits: CapabilityLimits, static: int, dynamic: int) -> int:
    if static > limits.max_static_shared_bytes_per_block:
        return 0
    if static + dynamic > limits.max_shared_bytes_per_block:
        return 0
    asked = static + dynamic + limits.reserved_shared_bytes_per_block
    # A block without any gets a unit here: more blocks than an SM runs at all.
    unit = limits.shared_allocation_unit_bytes
    return limits.shared_bytes_per_multiprocessor // _in_units(max(asked, 1), unit)


def _in_units(amount: int, unit: int) -> int:
    """Return `amount` rounded up to whole units."""
    return -(-amount // unit) * unit
