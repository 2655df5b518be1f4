"""Kernels of the project timed by NVIDIA's nvbench, in a process of its own.

nvbench runs everything that is registered in one go and on a context of its own, so that
`benchmarks.held_against_nvbench` starts this module anew for each of its rounds. The results go to
nvbench's JSON file: for every kernel the isolated ("cold") time of one launch and of a train of
many. nvbench holds the stream until all of them are queued, which it does not for its batches:
those of cuBLAS, whose product is two kernels at N = 256, would tell how fast the host launches.
"""

import argparse
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.catalog import variant
from kernels.cubins import build_for
from kernels.shape import Shape
from measurement.cublas import Sgemm
from measurement.errors import StudyError, exit_status
from measurement.matrices import Inputs, Matrix

Kernel = tuple[str, int | None, int]  # variant, block size, order
# From 8 µs to 8 ms on an H200; every order is a multiple of what a block computes.
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
# As in a session, every matrix gets room for the largest: in a small piece of memory, which shares
# its page with others, a kernel of 8 µs takes 0.2 µs longer.
_ROOM_BYTES = 4 * max(n for _, _, n in KERNELS) ** 2
TRAIN = "Launches"  # nvbench's axis: how many launches are timed together
# As many as do what this many do at N = 512; five at least.
_TRAIN, _TRAIN_N = 100, 512
REMEDY = "cuda-bench: not installed; run `pip install 'cuda-bench[cu13]==0.3.0'`"


def label(name: str, block_size: int | None, n: int) -> str:
    """Return what a kernel is called in nvbench's results."""
    return f"{name}-b{block_size or 0}-n{n}"


def train(n: int) -> int:
    """Return how many launches of order `n` make a train."""
    return max(5, min(_TRAIN, _TRAIN * _TRAIN_N**3 // n**3))


def _checked(cuda: Any, answer: tuple[Any, ...]) -> Any:
    """Return the result of a call of the CUDA driver; raises StudyError with the driver's error."""
    if int(answer[0]):
        raise StudyError(f"CUDA: {answer[0].name}; check `nvidia-smi`")
    return answer[1] if len(answer) > 1 else None


def _upload(cuda: Any, matrix: Matrix) -> int:
    """Return the device address of a copy of a matrix, in memory as `GpuSession` takes it."""
    address = _checked(cuda, cuda.cuMemAlloc(_ROOM_BYTES))
    _checked(cuda, cuda.cuMemcpyHtoD(address, matrix.ctypes.data, matrix.nbytes))
    return int(address)


def _benchmark(cuda: Any, kernel: Kernel, cubins: Path, inputs: Inputs) -> Callable[[Any], None]:
    """Return what nvbench calls for a kernel."""
    name, block_size, n = kernel
    shape = Shape.square(n)

    def run(state: Any) -> None:
        device = _checked(cuda, cuda.cuDeviceGet(state.get_device()))
        _checked(cuda, cuda.cuCtxSetCurrent(_checked(cuda, cuda.cuDevicePrimaryCtxRetain(device))))
        a, b = inputs.pair(DTYPE, shape)
        addresses = [_upload(cuda, matrix) for matrix in (a, b, a)]  # the third becomes C
        build = build_for(name, shape, block_size, DTYPE)

        def time_train(launch: Callable[[Any], None]) -> None:
            launches = range(state.get_int64(TRAIN))

            def launch_all(into: Any) -> None:
                for _ in launches:
                    launch(into)

            state.exec(launch_all, batched=False)

        if build is None:
            sgemm = Sgemm(state.get_stream().addressof())
            time_train(lambda _: sgemm.multiply(*addresses, n, n, n))
            sgemm.close()
        else:
            cubin = (cubins / f"{build.stem}.cubin").read_bytes()
            module = _checked(cuda, cuda.cuModuleLoadData(cubin))
            function = _checked(cuda, cuda.cuModuleGetFunction(module, build.variant.encode()))
            geometry = variant(name).launch(shape, block_size)
            edges = variant(name).arguments(shape, block_size)
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
                _checked(cuda, answer)

            time_train(launch)
            _checked(cuda, cuda.cuModuleUnload(module))
        for address in addresses:
            _checked(cuda, cuda.cuMemFree(address))

    return run


def main() -> None:
    """Run nvbench over `KERNELS`; raises StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nvbench_kernels")
    parser.add_argument("--cubins", required=True, type=Path, help="folder of the cubins")
    parser.add_argument("--json", required=True, type=Path, help="file for nvbench's results")
    parser.add_argument("--seed", required=True, type=int, help="of the matrices")
    arguments = parser.parse_args()
    try:
        import cuda.bench as bench
        from cuda.bindings import driver as cuda
    except ImportError:
        raise StudyError(REMEDY) from None
    inputs = Inputs([(DTYPE, Shape.square(n)) for _, _, n in KERNELS], arguments.seed)
    for kernel in KERNELS:
        registered = bench.register(_benchmark(cuda, kernel, arguments.cubins, inputs))
        registered.set_name(label(*kernel))
        registered.add_int64_axis(TRAIN, [1, train(kernel[2])])
    options = ["--devices", "0", "--json", str(arguments.json), "--min-time", "0.1"]
    options += ["--timeout", "3"]
    bench.run_all_benchmarks(["nvbench", *options])


if __name__ == "__main__":
    sys.exit(exit_status(main))
