"""Theoretical occupancy: active warps of a kernel per SM, and their limiter.

It is computed from the resources of a cubin and the limits of a compute capability, as in CUDA's
occupancy calculator (cuda_occupancy.h). `LIMITS` is source H's table.
"""

from dataclasses import dataclass

WARP_SIZE = 32
_KIB = 1024
# Limiters of occupancy; of several equal ones, the first is reported.
LIMITERS = ("warps", "blocks", "registers", "shared memory")


@dataclass(frozen=True)
class CapabilityLimits:
    """Limits of a compute capability (CUDA C++ Programming Guide, Compute Capabilities).

    Registers have 32 bits. They are allocated per warp, in units of `register_allocation_unit`,
    from the SM partition of the warp; an SM has `warp_allocation_granularity` partitions. Shared
    memory is allocated per block in units of `shared_allocation_unit_bytes`, including
    `reserved_shared_bytes_per_block` for the driver. More than `max_static_shared_bytes_per_block`
    must be dynamic shared memory, requested with the function's attribute (opt-in), up to
    `max_shared_bytes_per_block`.
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


# Warps and blocks per SM, shared memory per SM and (opt-in) per block; then exceptions.
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
    """Active blocks and warps of a kernel per SM, and their limiter.

    `share` is the active warps divided by `max_warps` (0 to 1), `limiter` is one of `LIMITERS`. A
    kernel that does not fit has no active block; `limiter` is then the exceeded resource.
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


def occupancy(
    compute_capability: str,
    threads_per_block: int,
    registers_per_thread: int,
    static_shared_bytes: int,
    dynamic_shared_bytes: int = 0,
) -> Occupancy:
    """Return the theoretical occupancy of a kernel with `threads_per_block` (≥ 1).

    The registers and the static shared memory of a kernel come from its cubin
    (`kernels.cubins.compile.BuildResult`). The compute capability must be in `LIMITS`.
    """
    limits = LIMITS[compute_capability]
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
    # A kernel without registers counts as one unit, which limits nothing.
    of_a_warp = _in_units(max(registers, 1) * WARP_SIZE, limits.register_allocation_unit)
    # The limit per block equals the limit per SM, so it needs no extra check.
    parts = limits.warp_allocation_granularity
    warps_of_a_part = limits.registers_per_multiprocessor // parts // of_a_warp
    return warps_of_a_part * parts // warps


def _blocks_by_shared(limits: CapabilityLimits, static: int, dynamic: int) -> int:
    if static > limits.max_static_shared_bytes_per_block:
        return 0
    if static + dynamic > limits.max_shared_bytes_per_block:
        return 0
    asked = static + dynamic + limits.reserved_shared_bytes_per_block
    # A block without shared memory counts as one unit, which limits nothing.
    unit = limits.shared_allocation_unit_bytes
    return limits.shared_bytes_per_multiprocessor // _in_units(max(asked, 1), unit)


def _in_units(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
