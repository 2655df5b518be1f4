"""Process cold start: the times of CUDA start-up and the first run in a new process.

`cold_start` starts ``python -m measurement.devices.cold_start`` and sends a request as JSON on its
standard input. The answer is one line of JSON. The times exclude imports (NumPy, PyCUDA, libcuda)
and the filling of the matrices.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from base.errors import StudyError, exit_status
from base.paths import ROOT
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import Inputs, Matrix
from kernels.products.shape import Shape
from measurement.devices.errors import CellError

_COMMAND = [sys.executable, "-m", "measurement.devices.cold_start"]


@dataclass(frozen=True)
class ColdStartRequest:
    """One run: GPU, kernel, launch configuration and matrices.

    `device` is the GPU's index in PCI bus order, `cubin` a path, `function` the kernel's name,
    `shape` a text, `arguments` the kernel's arguments after the matrices, `host_memory` ``pinned``
    or ``pageable``, `seed` the seed of the matrices.
    """

    device: int
    cubin: str
    function: str
    grid: tuple[int, int, int]
    threads: tuple[int, int]
    dynamic_shared_bytes: int
    dtype: str
    shape: str
    arguments: tuple[int, ...]
    host_memory: str
    seed: int


@dataclass(frozen=True)
class ColdStart:
    """Times of a start and first run, in seconds.

    `init_s`: the driver; `context_s`: the context; `module_s`: loading the cubin and finding the
    kernel; `allocation_s`: three buffers each on host and device, stream and events. The pages of a
    pageable C are allocated only by the first copy to it. CUDA events time `h2d_s`, `kernel_s` and
    `d2h_s`. `total_s` is the sum of all phases by the host's clock, from before `init_s` until C is
    on the host.
    """

    init_s: float
    context_s: float
    module_s: float
    allocation_s: float
    h2d_s: float
    kernel_s: float
    d2h_s: float
    total_s: float


def cold_start(request: ColdStartRequest, limit_s: float) -> ColdStart:
    """Run a request in a new process; raise CellError if it fails or takes over `limit_s`."""
    question = json.dumps(asdict(request) | {"cubin": str(Path(request.cubin).resolve())})
    try:
        done = subprocess.run(
            _COMMAND,
            input=question,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            cwd=ROOT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CellError(f"cold start: killed after {limit_s:g} s") from None
    except OSError as error:
        raise CellError(f"cold start: cannot start a process ({error.strerror})") from None
    answer = _parsed(done.stdout)
    if "error" in answer:
        raise CellError(f"cold start: {_one_line(str(answer['error']))}")
    if done.returncode != 0:
        raise CellError(f"cold start: {_death(done.returncode, done.stderr)}")
    try:
        return ColdStart(**{name: float(value) for name, value in answer.items()})
    except (TypeError, ValueError):
        raise CellError(f"cold start: no times in the answer {_one_line(done.stdout)!r}") from None


def _parsed(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`, or an empty one."""
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _death(status: int, complaints: str) -> str:
    """Return the reason for which a process failed."""
    if status < 0:
        return f"the process was killed by {signal.Signals(-status).name}"
    lines = complaints.strip().splitlines()
    return _one_line(lines[-1]) if lines else f"the process exited with status {status}"


def _one_line(text: str) -> str:
    """Return a text as one short line."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:197]}..."


class _PhaseClock:
    """Times phases; `times_s` maps their names to seconds."""

    def __init__(self) -> None:
        self.times_s: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time the block as one phase."""
        begin = time.perf_counter_ns()
        yield
        self.times_s[name] = (time.perf_counter_ns() - begin) / 1e9


def _measure(cuda: Any, request: ColdStartRequest, inputs: Inputs) -> ColdStart:
    """Start CUDA, execute one run and destroy the context."""
    clock = _PhaseClock()
    with clock.timed("init_s"):
        cuda.init()
    with clock.timed("context_s"):
        context = cuda.Device(request.device).make_context()
    try:
        parts_s = _first_run(cuda, request, inputs, clock)
    finally:
        context.pop()
        context.detach()
    total_s = sum(clock.times_s.values())
    del clock.times_s["run_s"]
    return ColdStart(**clock.times_s, **parts_s, total_s=total_s)


def _first_run(
    cuda: Any, request: ColdStartRequest, inputs: Inputs, clock: _PhaseClock
) -> dict[str, float]:
    """Load the kernel, allocate the buffers, execute the run; return the times of its parts."""
    with clock.timed("module_s"):
        module = cuda.module_from_file(request.cubin)
        types = "PPP" + "i" * len(request.arguments)
        function = module.get_function(request.function).prepare(types)
    shape, dtype = Shape.parse(request.shape), ELEMENTS[request.dtype].dtype
    counts = (shape.a_elements, shape.b_elements, shape.c_elements)
    with clock.timed("allocation_s"):
        a, b, c = (_host_buffer(cuda, request.host_memory, count, dtype) for count in counts)
        a_device, b_device, c_device = (cuda.mem_alloc(each.nbytes) for each in (a, b, c))
        stream = cuda.Stream()
        started, copied_in, computed, copied_out = (cuda.Event() for _ in range(4))
    a[:] = inputs.a[request.dtype]
    b[:] = inputs.b[request.dtype]
    with clock.timed("run_s"):  # as GpuSession.run
        started.record(stream)
        cuda.memcpy_htod_async(a_device, a, stream)
        cuda.memcpy_htod_async(b_device, b, stream)
        copied_in.record(stream)
        function.prepared_async_call(
            tuple(request.grid),
            (*request.threads, 1),
            stream,
            a_device,
            b_device,
            c_device,
            *request.arguments,
            shared_size=request.dynamic_shared_bytes,
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

    The gate has checked the kernel before. Here C cannot be poisoned first, because that would
    touch its pages; unwritten memory contains zeros.
    """
    if not np.isfinite(c).all():
        raise CellError("C contains NaN or infinite elements")
    if not c.any():
        raise CellError("C contains only zeros")


def _read_request() -> ColdStartRequest:
    try:
        return ColdStartRequest(**json.load(sys.stdin))
    except (ValueError, TypeError) as error:
        raise StudyError(
            f"standard input: not a cold-start request ({_one_line(str(error))}); call "
            "measurement.devices.cold_start.cold_start() instead"
        ) from None


def main() -> None:
    """Answer the request on standard input; raise StudyError if it is invalid."""
    request = _read_request()
    # As in discovery.driver(), which would also initialise CUDA before the clock starts.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    import pycuda.driver as cuda

    inputs = Inputs([(request.dtype, Shape.parse(request.shape))], request.seed)
    try:
        answer: dict[str, Any] = asdict(_measure(cuda, request, inputs))
    except (cuda.Error, CellError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(exit_status(main))
