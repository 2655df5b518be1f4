"""Occupancy: known cases, the calculator that comes with CUDA, and the driver of a real GPU."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from kernels.cubins.occupancy import LIMITERS, LIMITS, WARP_SIZE, Occupancy, occupancy
from measurement.devices.discovery import driver

KIB = 1024


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # 32x32 threads with 32 registers fill an SM of the H100.
        (("9.0", 1024, 32, 8192), (2, 64, 64, 1.0, "warps")),
        # One more register takes one more unit of eight per thread.
        (("9.0", 1024, 33, 8192), (1, 32, 64, 0.5, "registers")),
        (("9.0", 32, 16, 0), (32, 32, 64, 0.5, "blocks")),  # One warp a block
        # A partly filled last warp counts as a warp.
        (("8.6", 1, 16, 0), (16, 16, 48, 1 / 3, "blocks")),
        (("7.5", 33, 16, 0), (16, 32, 32, 1.0, "warps")),
        # 1024 threads leave a third of an SM of 1536 empty.
        (("8.6", 1024, 32, 0), (1, 32, 48, 2 / 3, "warps")),
        # 99 KiB and the driver's KiB are the SM's 100.
        (("8.6", 256, 32, 0, 99 * KIB), (1, 8, 48, 1 / 6, "shared memory")),
        (("9.0", 128, 32, 48 * KIB), (4, 16, 64, 0.25, "shared memory")),
        # Two warps a block with 200 registers: two warps in each of four parts, not 9.75 in all.
        (("8.9", 64, 200, 0), (4, 8, 48, 1 / 6, "registers")),
        (("9.0", 64, 16, 0), (32, 64, 64, 1.0, "warps")),  # Of equal limits the first is named
    ],
)
def test_occupancy_and_its_limiter_equal_known_cases(asked, expected):
    found = occupancy(*asked)
    assert found == Occupancy(*expected)
    assert found.fits
    assert LIMITERS == ("warps", "blocks", "registers", "shared memory")


def test_the_occupancy_of_a_launch_that_does_not_fit_names_the_exceeded_resource():
    for asked, limiter in (
        (("9.0", 1025, 16, 0), "warps"),
        *((("9.0", *each, 0), "registers") for each in ((1024, 65), (32, 256))),
        # 25 warps of 2560 registers would fit; 28, seven in each part of the SM, do not.
        (("9.0", 800, 80, 0), "registers"),
        (("9.0", 32, 16, 48 * KIB + 1), "shared memory"),
        (("7.5", 32, 16, 0, 64 * KIB + 1), "shared memory"),
        (("9.0", 32, 16, 1, 227 * KIB), "shared memory"),
        (("9.0", 1025, 256, 49 * KIB), "warps"),
    ):
        found = occupancy(*asked)
        assert not found.fits
        assert (found.blocks_per_multiprocessor, found.active_warps, found.share) == (0, 0, 0.0)
        assert found.limiter == limiter, asked


@pytest.fixture(scope="module")
def calculator(nvcc, tmp_path_factory):
    source = Path(__file__).with_name("occupancy_calculator.c")
    library = tmp_path_factory.mktemp("calculator") / "calculator.so"
    flags = ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-o", library]
    done = subprocess.run([nvcc, *flags, source], capture_output=True, text=True)
    if "cuda_occupancy.h: No such file" in done.stderr:
        pytest.skip("this CUDA toolkit comes without cuda_occupancy.h")
    assert done.returncode == 0, done.stderr
    active_blocks = ctypes.CDLL(str(library)).active_blocks

    def ask(capability, *demands):
        limits = LIMITS[capability]
        return active_blocks(
            *map(int, capability.split(".")),
            limits.max_warps_per_multiprocessor * WARP_SIZE,
            limits.shared_bytes_per_multiprocessor,
            limits.max_shared_bytes_per_block,
            limits.reserved_shared_bytes_per_block,
            *demands,
        )

    return ask


@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", LIMITS)
def test_occupancy_equals_that_of_cudas_occupancy_calculator(calculator, capability):
    """Of every warp and register, and every step of shared memory."""
    most = LIMITS[capability].max_shared_bytes_per_block
    sizes = [*range(WARP_SIZE, 1025, WARP_SIZE), 1, 33, 1000, 1100]
    demands = [(threads, registers, 0, 0) for threads in sizes for registers in range(256)]
    steps = range(0, 48 * KIB, 64)
    demands += [(32, 16, static + more, 0) for static in steps for more in (0, 1, 64)]
    demands += [(64, 40, 100, dynamic) for dynamic in range(0, most + 256, 64)]
    for asked in demands:
        found = occupancy(capability, *asked).blocks_per_multiprocessor
        assert found == calculator(capability, *asked), asked


# Number of a device attribute in cuda.h, and its value from the limits.
ATTRIBUTES = {
    1: lambda limits: limits.max_threads_per_block,
    8: lambda limits: limits.max_static_shared_bytes_per_block,
    10: lambda _: WARP_SIZE,
    12: lambda limits: limits.max_registers_per_block,
    39: lambda limits: limits.max_warps_per_multiprocessor * WARP_SIZE,
    81: lambda limits: limits.shared_bytes_per_multiprocessor,
    82: lambda limits: limits.registers_per_multiprocessor,
    97: lambda limits: limits.max_shared_bytes_per_block,
    106: lambda limits: limits.max_blocks_per_multiprocessor,
    111: lambda limits: limits.reserved_shared_bytes_per_block,
}


@pytest.mark.gpu
def test_documented_limits_equal_those_that_the_driver_reports(card):
    driver()  # numbers the GPUs as `card` was found
    library = ctypes.CDLL("libcuda.so.1")
    device, value, limits = ctypes.c_int(), ctypes.c_int(), LIMITS[card.compute_capability]
    assert library.cuDeviceGet(ctypes.byref(device), card.index) == 0
    for number, expected in ATTRIBUTES.items():
        assert library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0
        assert value.value == expected(limits), f"device attribute {number}"
