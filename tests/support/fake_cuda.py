"""PyCUDA, NVML, cuBLAS and the driver's graph functions without a GPU."""

import ctypes
import re
from functools import partial
from types import SimpleNamespace

import numpy as np

from kernels.catalog.entries import VARIANTS
from kernels.catalog.geometry import PARTS
from kernels.products.elements import STORED
from kernels.products.shape import Shape
from measurement.devices import cublas

ATTRIBUTES = {"MAX_THREADS_PER_BLOCK": 1024, "MAX_REGISTERS_PER_BLOCK": 65536, "WARP_SIZE": 32}
ATTRIBUTES |= {"MAX_SHARED_MEMORY_PER_BLOCK": 49152, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 166912}
ATTRIBUTES |= {"MAX_GRID_DIM_X": 2**31 - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65534}
ATTRIBUTES |= {"L2_CACHE_SIZE": 4096, "MULTIPROCESSOR_COUNT": 132}
ATTRIBUTES |= {"MAX_THREADS_PER_MULTIPROCESSOR": 2048, "MAX_BLOCKS_PER_MULTIPROCESSOR": 32}
ATTRIBUTES["MAX_REGISTERS_PER_MULTIPROCESSOR"] = 65536
ATTRIBUTES["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"] = 233472
STREAM = 77
HANDLE = 4711  # of cuBLAS
_BUFFER_STEP = 2**40  # between the addresses of two buffers
_MOST_MAPPED = 128 * 128 * 4  # bytes of a matrix in mapped memory


class CudaError(Exception):
    pass


class DeviceBuffer:
    """GPU memory; int() returns its address."""

    def __init__(self, cuda, size):
        self.cuda, self.data = cuda, np.zeros(size, np.uint8)
        self.address = _BUFFER_STEP * (cuda.allocations + 1)
        cuda.allocations += 1
        cuda.buffers[self.address] = self

    def __int__(self):
        return self.address

    def free(self):
        del self.cuda.buffers[self.address]


class PinnedArray(np.ndarray):
    """Pinned host memory, which the GPU can also read."""

    @property
    def base(self):
        return SimpleNamespace(get_device_pointer=lambda: 1234, free=self.free)


class Event:
    def __init__(self, cuda):
        self.cuda, self.synchronize = cuda, partial(cuda.called, "synchronize")
        self.query = lambda: True

    def record(self, stream):
        self.cuda.called("record")
        self.at_ms = self.cuda.now_ms

    def time_till(self, later):
        return later.at_ms - self.at_ms


class Devices:
    """`pycuda.driver.Device`."""

    def __init__(self, cuda):
        self.cuda, self.count = cuda, lambda: len(cuda.gpus)

    def __call__(self, index):
        name, capability = self.cuda.gpus[index]
        return SimpleNamespace(
            name=lambda: name,
            pci_bus_id=lambda: f"0000:0{index + 1}:00.0",
            total_memory=lambda: 2**40,
            compute_capability=lambda: capability,
            get_attribute=self.cuda.attributes.__getitem__,
            can_access_peer=lambda _: self.cuda.can_reach,
            make_context=self.cuda.make_context,
            retain_primary_context=self.cuda.retain_primary_context,
        )


class FakeCuda:
    """`pycuda.driver`; kernels of the catalog multiply by NumPy.

    `log` contains the calls in order, `launches` the launches of probes. The GPU's clock advances
    by `launch_ms` per kernel, `to_device_ms` and `from_device_ms` per copy. The call named
    `failing` raises CudaError. `moves_data=False`: copies only take time.
    """

    Error = CudaError
    host_alloc_flags = SimpleNamespace(DEVICEMAP=2)
    mem_attach_flags = SimpleNamespace(GLOBAL="global")
    static_bytes = 0  # shared memory of each kernel

    def __init__(
        self,
        gpus=(("Stand-in", (8, 0)),),
        free_bytes=2**30,
        durations_ms=(2.0, 0.5, 4.0),
        moves_data=True,
        **attributes,
    ):
        self.gpus, self.free_bytes, self.moves_data = gpus, free_bytes, moves_data
        self.launch_ms, self.to_device_ms, self.from_device_ms = durations_ms
        self.attributes = ATTRIBUTES | attributes
        self.device_attribute = SimpleNamespace(**{name: name for name in ATTRIBUTES})
        self.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic shared")
        self.Device = Devices(self)
        self.log, self.launches, self.zeroed = [], [], []
        self.buffers, self.allocations, self.pinned = {}, 0, 0
        self.prepared = {}  # matrices by the address of their split parts
        self.failing = self.words = None
        self.pending = []  # work in other streams
        self.can_reach = True  # the memory of the other GPU
        self.opened = {0}  # GPUs with a primary context
        self.now_ms = 0.0
        self.init = partial(self.called, "init")
        self.mem_get_info = lambda: (self.free_bytes, 2**40)
        self.Event = partial(Event, self)

    def called(self, name):
        self.log.append(name)
        if name == self.failing:
            raise CudaError(f"{name} failed: no luck")

    @property
    def Context(self):  # noqa: N802
        reach, device = lambda _: self.called("reach"), lambda: self.Device(0)
        return SimpleNamespace(enable_peer_access=reach, synchronize=self.finish, get_device=device)

    def finish(self):
        """Wait for all streams of the context: only then is the work in `pending` done."""
        self.called("synchronize")
        while self.pending:
            self.pending.pop()()

    def make_context(self):
        self.called("make_context")
        names = ("push", "pop", "detach")
        return SimpleNamespace(**{name: partial(self.called, name) for name in names})

    def retain_primary_context(self):
        self.called("retain_primary_context")
        return self.make_context()

    def mem_alloc(self, size):
        self.called("mem_alloc")
        return DeviceBuffer(self, size)

    def pagelocked_empty(self, size, dtype, mem_flags=0):
        array = np.zeros(size, dtype).view(PinnedArray)
        self.pinned += 1
        array.free = lambda: setattr(self, "pinned", self.pinned - 1)
        self.words = array if mem_flags else self.words
        return array

    def managed_empty(self, size, dtype, mem_flags):
        assert mem_flags == "global"
        return np.zeros(size, dtype)

    def aligned_empty(self, size, dtype, alignment):
        return np.zeros(size, dtype)

    def Stream(self):  # noqa: N802
        facts = {"handle": STREAM, "synchronize": partial(self.called, "synchronize")}
        return SimpleNamespace(**facts, wait_for_event=lambda _: self.called("wait"))

    def memset_d32_async(self, buffer, word, count, stream):
        self.called("memset")
        self.memset_d32(buffer, word, count)

    def memset_d32(self, buffer, word, count):
        buffer.data[: 4 * count].view(np.uint32).fill(word)
        self.zeroed += [] if word else [(buffer, count)]

    def bytes_at(self, buffer):
        """Return memory from an address, which may be inside a buffer, to the buffer's end.

        An address outside all buffers is of mapped host memory.
        """
        start = int(buffer) // _BUFFER_STEP * _BUFFER_STEP
        if start not in self.buffers:
            memory = (ctypes.c_uint8 * _MOST_MAPPED).from_address(int(buffer))
            return np.frombuffer(memory, np.uint8)
        return self.buffers[start].data[int(buffer) - start :]

    def matrices(self, address, dtype, batch, rows, columns):
        size = batch * rows * columns * np.dtype(dtype).itemsize
        return self.bytes_at(address)[:size].view(dtype).reshape(batch, rows, columns)

    def multiply(self, addresses, dtype, shape, transposed=False):
        self.now_ms += self.launch_ms
        a, b, c = addresses
        left, right = self.prepared.get(a), self.prepared.get(b)
        if left is None or right is None:
            left = self.matrices(a, dtype, shape.batch, shape.m, shape.k)
            right = self.matrices(b, dtype, shape.batch, shape.k, shape.n)
        right = right.transpose(0, 2, 1) if transposed else right
        with np.errstate(over="ignore"):
            np.matmul(left, right, out=self.matrices(c, dtype, shape.batch, shape.m, shape.n))

    def memcpy_htod_async(self, buffer, array, stream):
        self.called("to device")
        self.now_ms += self.to_device_ms
        if self.moves_data:
            assert array.ndim == 1
            self.bytes_at(buffer)[: array.nbytes] = array.view(np.uint8)

    def memcpy_htod(self, buffer, array):
        self.memcpy_htod_async(buffer, array, None)

    def memcpy_dtoh_async(self, array, buffer, stream):
        self.called("from device")
        self.now_ms += self.from_device_ms
        if self.moves_data:
            array.view(np.uint8)[:] = self.bytes_at(buffer)[: array.nbytes]

    def memcpy_peer_async(self, target, source, size, target_context, source_context, stream):
        self.called("to the other")
        self.bytes_at(target)[:size] = self.bytes_at(source)[:size]

    def memcpy_dtod_async(self, target, source, size, stream):
        self.now_ms += self.launch_ms

    def memcpy_dtoh(self, array, buffer):
        array.fill(0)

    def module_from_file(self, path):
        self.called("module_from_file")
        kinds = {"hold": BlockingKernel, "split_parts": FakeSplit}
        kinds |= dict.fromkeys(("probes", "tensor_probe"), Probe)
        kind = kinds.get(path.rpartition("/")[2].partition("-")[0], FakeKernel)
        return SimpleNamespace(get_function=lambda name: kind(self, name, path))


class Kernel:
    def __init__(self, cuda, name, path):
        self.cuda, self.name, self.path = cuda, name, path

    def prepare(self, types):
        self.types = types
        return self


class BlockingKernel(Kernel):
    def prepared_async_call(self, grid, threads, stream, word, limit_ns, expired):
        self.cuda.called("block")
        assert (self.types, grid, threads) == ("PQP", (1, 1), (1, 1, 1))
        assert (word, expired, limit_ns) == (1234, 1238, 2 * 10**9)
        assert list(self.cuda.words) == [0, 0]


class Probe(Kernel):
    def prepared_async_call(self, grid, threads, stream, *arguments):
        self.cuda.launches.append((self.name, grid, threads, arguments))
        self.cuda.now_ms += self.cuda.launch_ms


class FakeSplit(Kernel):
    """Remembers A and B by the addresses of their images, as `split_parts` with these blocks."""

    def prepared_async_call(self, grid, threads, stream, a, b, parts, m, n, k, shared_size):
        self.cuda.called("split")
        of_a, of_b = PARTS.blocks(m, k), PARTS.blocks(n, k)
        assert grid in {(of_a, 1, 1), (of_a + of_b, 1, 1)}
        assert (self.types, threads, shared_size) == ("PPPiii", (256, 1, 1), 0)
        if m:
            rows = self.cuda.matrices(a, "float32", 1, m, k)
            self.cuda.prepared[parts + PARTS.bytes(n, k)] = rows.copy()
        if grid[0] > of_a:
            self.cuda.prepared[parts] = self.cuda.matrices(b, "float32", 1, k, n).copy()


class FakeKernel(Kernel):
    """Multiplies in GPU memory, as the kernel does with these arguments."""

    def __init__(self, cuda, name, path):
        super().__init__(cuda, name, path)
        assert name in VARIANTS
        assert path.rpartition("/")[2].startswith(f"{name}-")
        self.dtype = re.search(r"float32|float64|int32", path)[0]
        self.most_shared = cuda.attributes["MAX_SHARED_MEMORY_PER_BLOCK"] - cuda.static_bytes

    def set_attribute(self, attribute, value):
        assert attribute == "dynamic shared"
        self.most_shared = value

    def prepared_async_call(self, grid, threads, stream, a, b, c, *edges, shared_size):
        self.cuda.called("launch")
        assert self.types == "PPP" + "i" * len(edges)
        assert shared_size <= self.most_shared, "needs the attribute"
        shape = Shape(grid[2], *(edges if len(edges) == 3 else edges * 3))
        self.cuda.launched = (self.name, shape, grid, threads, shared_size)
        transposed = self.name in ("tile_transposed_b", "tile_conflict_free")
        self.cuda.multiply((a, b, c), self.dtype, shape, transposed)


class FakeCublas:
    """The library: column-major products by NumPy, in the memory of `cuda`.

    `calls` contains the calls without their handle; `statuses` the results that are not 0.
    """

    def __init__(self, cuda=None):
        self.cuda, self.statuses, self.calls = cuda or FakeCuda(), {}, []
        self.math = None
        for name in cublas._PROTOTYPES:
            setattr(self, name, self.function(name))

    def function(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments[1:]))
            if name == "cublasGetProperty":
                part, value = arguments
                value.value = (13, 2, 1)[part]
            elif name == "cublasCreate_v2":
                arguments[0].value = HANDLE
            else:
                assert arguments[0].value == HANDLE
            if name == "cublasSetMathMode":
                self.math = arguments[1]
            if name == "cublasSgemm_v2":
                self.sgemm(*arguments[1:])
            if name == "cublasGemmEx":
                self.gemm_ex(*arguments[1:])
            return self.statuses.get(name, 0)

        return call

    def sgemm(self, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        """C = alpha·A·B + beta·C with column-major A (m, k), B (k, n), C (m, n).

        In the mode of TF32, elements of A and B are truncated to 11 digits.
        """
        assert (op_a, op_b) == (0, 0)
        left, right, product = (
            self.cuda.matrices(address, "float32", 1, columns, stride)[0, :, :rows].T
            for address, columns, stride, rows in ((a, k, lda, m), (b, n, ldb, k), (c, n, ldc, m))
        )
        assert (alpha.value, beta.value) == (1.0, 0.0)
        if self.math == cublas.MODES["TF32"].math:
            left, right = (
                (each.copy().view(np.uint32) & 0xFFFFE000).view(np.float32)
                for each in (left, right)
            )
        product[:] = left @ right
        self.cuda.now_ms += self.cuda.launch_ms

    def gemm_ex(self, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, *more):
        """The same with 16-bit operands and float32 C."""
        assert (a_type, more[0], *more[2:]) == (b_type, 0, 68, -1)
        form = {2: STORED["h"], 14: STORED["b"]}[a_type]
        copies = []
        for address, columns, stride in ((a, k, lda), (b, n, ldb)):
            stored = self.cuda.matrices(address, form.dtype, 1, columns, stride)
            copies.append(self.cuda.mem_alloc(4 * stored.size))
            matrix = self.cuda.matrices(int(copies[-1]), "float32", 1, columns, stride)
            matrix[:] = form.decoded(stored)
        left, right = map(int, copies)
        self.sgemm(op_a, op_b, m, n, k, alpha, left, lda, right, ldb, beta, c, more[1])


class FakeGraphs:
    """The driver's functions for graphs: they only log; `failing` returns 700.

    The launch of a destroyed graph returns 1.
    """

    def __init__(self, cuda):
        self.cuda, self.failing = cuda, None
        self.made, self.alive = 0, set()

    def __getattr__(self, name):
        def call(graph=None, *rest):
            self.cuda.log.append(name)
            if name == "cuDevicePrimaryCtxGetState":
                rest[1]._obj.value = graph in self.cuda.opened
            if name == "cuGraphInstantiateWithFlags":
                self.made += 1
                graph._obj.value = self.made
                self.alive.add(self.made)
            elif name == "cuGraphExecDestroy":
                self.alive.discard(graph.value)
            elif name == "cuGraphLaunch" and graph.value not in self.alive:
                return 1
            return 700 if name == self.failing else 0

        return call


class FakeNvml:
    """NVML of a host with `count` GPUs (None: no driver).

    `values` maps the names after ``nvmlDeviceGet`` to results; a missing name raises NVMLError.
    `open` counts nvmlInit calls without nvmlShutdown.
    """

    NVMLError = type("NVMLError", (Exception,), {})
    NVML_SUCCESS, NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 0, 1, 2

    def __init__(self, count=1):
        self.count, self.open = count, 0
        self.nvmlDeviceGetCount = lambda: self.count
        self.throttled_ns = {}  # by field
        self.values = {
            "ClockInfo": {1: 1980, 2: 2619}.__getitem__,
            "MaxClockInfo": {1: 1980, 2: 2619}.__getitem__,
            "Temperature": lambda _: 41,
            "PowerUsage": lambda: 345_678,
            "EnforcedPowerLimit": lambda: 350_000,
            "MaxPcieLinkGeneration": lambda: 5,
            "MaxPcieLinkWidth": lambda: 16,
            "PersistenceMode": lambda: 1,
            "FieldValues": self.counters,
        }

    def counters(self, fields):
        value = self.throttled_ns.get(fields[0])
        result = 3 if value is None else 0
        return [SimpleNamespace(nvmlReturn=result, value=SimpleNamespace(ullVal=value))]

    def nvmlInit(self):  # noqa: N802
        if self.count is None:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByPciBusId(self, bus):  # noqa: N802
        return {f"0000:0{index + 1}:00.0".encode(): index for index in range(self.count)}[bus]

    nvmlDeviceGetUUID = staticmethod(lambda handle: f"GPU-5ca1ab1e-{handle}")  # noqa: N815
    nvmlSystemGetDriverVersion = staticmethod(lambda: "600.1")  # noqa: N815
    nvmlSystemGetCudaDriverVersion_v2 = staticmethod(lambda: 13020)  # noqa: N815

    def __getattr__(self, name):
        def get(handle, *arguments):
            value = self.values.get(name.removeprefix("nvmlDeviceGet"))
            if value is None:
                raise self.NVMLError
            return value(*arguments)

        return get
