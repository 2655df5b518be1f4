"""Kernels of the project timed by NVIDIA's nvbench and by `GpuSession`, in one process.

Addresses of code and matrices change the time of an 8 µs kernel by up to 4 % from process to
process. Here both tools therefore alternate in one primary context, on the same matrices.

nvbench runs all registered benchmarks at once, so `benchmarks.compare_with_nvbench` starts this
module once per round. This module writes two files. nvbench's file contains, for each kernel, the
isolated ("cold") time of one launch and of a train of consecutive launches. nvbench blocks the
stream until a train is enqueued. It does not block its batches, so for cuBLAS (two kernels at N =
256) a batch would measure how fast the host launches. The second file contains this project's
times, measured after each of nvbench's two.
"""

import argparse
import ctypes
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from base.errors import StudyError, exit_status
from base.files import write_atomic
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.cubins.build import HOLD, INSTRUMENTS, Build, build_for, builds_for
from kernels.cubins.compile import architecture, read_result
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices.cublas import PEDANTIC, Gemm
from measurement.devices.discovery import select
from measurement.devices.gpu import GpuSession
from study.cells import Cell

Kernel = tuple[str, int | None, int]  # variant, block size, N
# From 8 µs to 8 ms on an H200; each N is a multiple of the tile.
KERNELS: list[Kernel] = [
    ("cublas_sgemm", None, 256),
    ("block_unroll4", 32, 256),
    ("naive_coalesced", 32, 256),
    ("block", 32, 512),
    ("cublas_sgemm", None, 1024),
    ("register_tile_conflict_free", None, 1024),
    ("block_unroll4", 32, 1024),
    ("block", 32, 2048),
    ("cublas_sgemm", None, 4096),
    ("block_unroll4", 32, 4096),
]
DTYPE = "float32"
THEIRS, OURS = "nvbench.json", "ours.json"  # the two files that a round writes
TRAIN = "Launches"  # nvbench's axis: launches timed together
# A train has the work of 100 launches at N = 512, and at least 5 launches.
_TRAIN, _TRAIN_N = 100, 512
WINDOWS = 11  # samples per method, after each of nvbench's two
_SEED = 1
REMEDY = "cuda-bench: not installed; run `pip install 'cuda-bench[cu13]==0.3.0'`"

MethodTimes = tuple[float, float, float]  # seconds per launch: warm, flushed, GPU's clock


def product(kernel: Kernel) -> Product:
    """Return the product that a kernel computes."""
    name, number, n = kernel
    return Product(name, DTYPE, Shape.square(n), variant(name).block_size(number))


def label(name: str, block_size: int | None, n: int) -> str:
    """Return the name that both files use for a kernel."""
    return f"{name}-b{block_size}-n{n}"


def train(n: int) -> int:
    """Return how many launches a train has at size `n`."""
    return max(5, min(_TRAIN, _TRAIN * _TRAIN_N**3 // n**3))


def wanted() -> list[Build]:
    """Return the builds of the kernels and of the session's instruments."""
    return [*builds_for(map(product, KERNELS)), *INSTRUMENTS]


def stamps(session: GpuSession) -> Callable[[Cell], float]:
    """Return a function that times a launch by the GPU's clock (%globaltimer), in seconds."""
    cuda, stream = session._cuda, session._stream
    stamp = session._launches.module(HOLD).get_function("stamp").prepare("P")
    clock = cuda.mem_alloc(16)

    def between(queue: Callable[[], None]) -> float:
        def stamped() -> None:
            stamp.prepared_async_call((1, 1), (1, 1, 1), stream, int(clock))
            queue()
            stamp.prepared_async_call((1, 1), (1, 1, 1), stream, int(clock) + 8)

        session._blocking_kernel.elapsed_s(stamped)
        readings = np.empty(2, np.int64)
        cuda.memcpy_dtoh(readings, clock)
        return float(readings[1] - readings[0]) / 1e9

    empty_s = median(between(lambda: None) for _ in range(WINDOWS))
    return lambda asked: between(session._ready(asked)) - empty_s


def windows(session: GpuSession, kernel: Kernel) -> list[MethodTimes]:
    """Return samples of a kernel, one per window; a window uses all methods of this project."""
    asked = Cell("gpu0", product(kernel), "pinned")
    taken = (
        [method(asked) for _ in range(WINDOWS)]
        for method in (
            lambda asked: session.kernel_time(asked, flushed=False).kernel_s,
            lambda asked: session.kernel_time(asked, flushed=True).kernel_s,
            stamps(session),
        )
    )
    return list(zip(*taken, strict=True))


def benchmark(
    cuda: Any, kernel: Kernel, cubins: Path, addresses: list[int], after: Callable[[], None]
) -> Callable[[Any], None]:
    """Return the function that nvbench calls to measure a kernel.

    `cuda` is `cuda.bindings.driver`, `addresses` are the device addresses of A, B and C; `after` is
    called after nvbench's measurement.
    """
    n, build = kernel[2], build_for(product(kernel))

    def run(state: Any) -> None:
        def time_train(launch: Callable[[Any], None]) -> None:
            launches = range(state.get_int64(TRAIN))

            def launch_all(into: Any) -> None:
                for _ in launches:
                    launch(into)

            state.exec(launch_all, batched=False)

        if build is None:
            gemm = Gemm(state.get_stream().addressof())
            a, b, c = addresses
            time_train(lambda _: gemm.multiply(PEDANTIC, a, b, c, n, n, n))
            gemm.close()
        else:
            cubin = (cubins / f"{build.stem}.cubin").read_bytes()
            module = _checked(cuda.cuModuleLoadData(cubin))
            function = _checked(cuda.cuModuleGetFunction(module, build.variant.encode()))
            geometry, edges = product(kernel).launch, product(kernel).arguments
            arguments = [*map(ctypes.c_uint64, addresses), *map(ctypes.c_int, edges)]
            pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))

            def launch(into: Any) -> None:
                answer = cuda.cuLaunchKernel(
                    function,
                    *geometry.grid,
                    *geometry.threads,
                    1,
                    geometry.dynamic_shared_bytes,
                    into.get_stream().addressof(),
                    ctypes.addressof(pointers),
                    0,
                )
                _checked(answer)

            time_train(launch)
            _checked(cuda.cuModuleUnload(module))
        after()

    return run


def _checked(answer: tuple[Any, ...]) -> Any:
    """Return the result of a driver call; raise StudyError with the driver's error."""
    if int(answer[0]):
        raise StudyError(f"CUDA: {answer[0].name}; check `nvidia-smi`")
    return answer[1] if len(answer) > 1 else None


def main() -> None:
    """Run both tools for `KERNELS` on GPU 0; raise StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nvbench_kernels", description="One round of the comparison."
    )
    parser.add_argument("--cubins", required=True, type=Path, help="folder of sm_XX/STEM.cubin")
    parser.add_argument("--out", required=True, type=Path, help="folder for the two files")
    arguments = parser.parse_args()
    try:
        import cuda.bench as bench
        from cuda.bindings import driver as cuda
    except ImportError:
        raise StudyError(REMEDY) from None
    device = select(0)[0]
    cubins = arguments.cubins / architecture(device.compute_capability)
    builds = [read_result(cubins / f"{build.stem}.cubin") for build in wanted()]
    inputs = Inputs([(DTYPE, Shape.square(n)) for n in sorted({n for _, _, n in KERNELS})], _SEED)
    found: dict[str, list[MethodTimes]] = {label(*kernel): [] for kernel in KERNELS}
    with GpuSession(device, inputs, builds, arguments.cubins, primary=True) as session:
        addresses = [int(address) for address in session._on_device]

        def note(kernel: Kernel) -> None:
            found[label(*kernel)] += windows(session, kernel)

        for kernel in KERNELS:
            registered = bench.register(
                benchmark(cuda, kernel, cubins, addresses, partial(note, kernel))
            )
            registered.set_name(label(*kernel))
            registered.add_int64_axis(TRAIN, [1, train(kernel[2])])
        options = ["--devices", "0", "--json", str(arguments.out / THEIRS), "--min-time", "0.1"]
        bench.run_all_benchmarks(["nvbench", *options, "--timeout", "3"])
        write_atomic(arguments.out / OURS, json.dumps(found) + "\n")


if __name__ == "__main__":
    sys.exit(exit_status(main))
