"""Process cold start: how long CUDA start-up and the first run take in a new process.

The times exclude imports (NumPy, PyCUDA, libcuda) and the filling of the matrices.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cubins.build import build_for
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import Inputs, Matrix
from measurement.devices.errors import CellError
from study.cells import Cell

_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class ColdStart:
    """The times of a process cold start and its first run, in seconds.

    `init_s`: initialising the driver; `context_s`: creating the context; `module_s`: loading the
    cubin and finding the kernel; `allocation_s`: allocating three buffers each on host and device,
    a stream and events. The pages of a pageable C are allocated only by the first copy to it. CUDA
    events time `h2d_s`, `kernel_s` and `d2h_s`. `total_s` is the sum of all phases by the host's
    clock, from before `init_s` until C is on the host.
    """

    init_s: float
    context_s: float
    module_s: float
    allocation_s: float
    h2d_s: float
    kernel_s: float
    d2h_s: float
    total_s: float


def cold_start(device: int, cubin: Path, cell: Cell, seed: int, limit_s: float) -> ColdStart:
    """Run a cell of a compiled kernel once in a new process, on the GPU with this CUDA index.

    Raise CellError if it fails or takes over `limit_s`.
    """
    receiver, sender = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=_answer, args=(sender, device, cubin, cell, seed), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit_s):
            raise CellError(f"cold start: killed after {limit_s:g} s")
        answer = receiver.recv()
    except EOFError:
        process.join(limit_s)
        answer = _death(process.exitcode or 0)
    finally:
        process.kill()
        process.join()
    if not isinstance(answer, ColdStart):
        raise CellError(f"cold start: {answer}")
    return answer


def _death(status: int) -> str:
    """Return how a process ended that sent no answer."""
    if status < 0:
        return f"the process was killed by {signal.Signals(-status).name}"
    return f"the process exited with status {status}"


def _answer(sender: Connection, device: int, cubin: Path, cell: Cell, seed: int) -> None:
    """Measure a cold start in this process; send its times, or why it failed, as one line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the recorder handles interrupts
    try:
        # discovery.driver() sets this too, but would initialise CUDA before the clock starts.
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        import pycuda.driver as cuda

        inputs = Inputs([(cell.dtype, cell.shape)], seed)
        sender.send(_measure(cuda, device, cubin, cell, inputs))
    except CellError as error:
        sender.send(str(error))
    except Exception as error:  # an error of CUDA, or PyCUDA is missing
        sender.send(f"{type(error).__name__}: {' '.join(str(error).split())}")


@contextmanager
def _timed(times_s: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter_ns()
    yield
    times_s[name] = (time.perf_counter_ns() - begin) / 1e9


def _measure(cuda: Any, device: int, cubin: Path, cell: Cell, inputs: Inputs) -> ColdStart:
    """Initialise CUDA, execute one run and destroy the context."""
    times_s: dict[str, float] = {}
    with _timed(times_s, "init_s"):
        cuda.init()
    with _timed(times_s, "context_s"):
        context = cuda.Device(device).make_context()
    try:
        parts_s = _first_run(cuda, cubin, cell, inputs, times_s)
    finally:
        context.pop()
        context.detach()
    total_s = sum(times_s.values())
    del times_s["run_s"]
    return ColdStart(**times_s, **parts_s, total_s=total_s)


def _first_run(
    cuda: Any, cubin: Path, cell: Cell, inputs: Inputs, times_s: dict[str, float]
) -> dict[str, float]:
    """Load the kernel, allocate the buffers, execute the run; return the times of its parts."""
    launch, arguments, build = cell.product.launch, cell.product.arguments, build_for(cell.product)
    assert build
    with _timed(times_s, "module_s"):
        module = cuda.module_from_file(str(cubin))
        function = module.get_function(build.variant).prepare("PPP" + "i" * len(arguments))
    shape, dtype = cell.shape, ELEMENTS[cell.dtype].dtype
    counts = (shape.a_elements, shape.b_elements, shape.c_elements)
    with _timed(times_s, "allocation_s"):
        a, b, c = (_host_buffer(cuda, str(cell.host_memory), count, dtype) for count in counts)
        a_device, b_device, c_device = (cuda.mem_alloc(matrix.nbytes) for matrix in (a, b, c))
        stream = cuda.Stream()
        started, copied_in, computed, copied_out = (cuda.Event() for _ in range(4))
    a[:] = inputs.a[cell.dtype]
    b[:] = inputs.b[cell.dtype]
    with _timed(times_s, "run_s"):  # the same steps as in GpuSession.run
        started.record(stream)
        cuda.memcpy_htod_async(a_device, a, stream)
        cuda.memcpy_htod_async(b_device, b, stream)
        copied_in.record(stream)
        function.prepared_async_call(
            launch.grid,
            (*launch.threads, 1),
            stream,
            a_device,
            b_device,
            c_device,
            *arguments,
            shared_size=launch.dynamic_shared_bytes,
        )
        computed.record(stream)
        cuda.memcpy_dtoh_async(c, c_device, stream)
        copied_out.record(stream)
        stream.synchronize()
    _check(c)
    return {
        "h2d_s": started.time_till(copied_in) / 1e3,
        "kernel_s": copied_in.time_till(computed) / 1e3,
        "d2h_s": computed.time_till(copied_out) / 1e3,
    }


def _host_buffer(cuda: Any, host_memory: str, count: int, dtype: type[np.generic]) -> Matrix:
    if host_memory == "pageable":
        return np.empty(count, dtype)
    buffer: Matrix = cuda.pagelocked_empty(count, dtype)
    return buffer


def _check(c: Matrix) -> None:
    """Raise CellError if C cannot be a product of random matrices.

    The kernel has passed the gate before. C cannot be poisoned first, because that would touch its
    pages; instead, unwritten elements are recognised as zeros.
    """
    if not np.isfinite(c).all():
        raise CellError("C contains NaN or infinite elements")
    if not c.any():
        raise CellError("C contains only zeros")
