"""The session of a GPU on a driver that stands in: what is copied, launched, timed and refused."""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.catalog.user_supplied import read
from kernels.catalog.variant import IN_TURN
from kernels.cubins.build import build_for
from kernels.cubins.compile import BuildResult
from kernels.products.elements import ELEMENTS
from kernels.products.gate import evaluate
from kernels.products.matrices import Inputs, reference
from kernels.products.shape import Shape
from measurement.devices import flows, gpu
from measurement.devices.discovery import CudaDevice
from measurement.devices.gpu import GpuSession
from measurement.devices.session import CellError, DeviceError, KernelTime, Timing
from study.cells import cell, problems

ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 166912,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "WARP_SIZE": 32,
    "L2_CACHE_SIZE": 4096,
}
MARGIN = 2**26  # that the session leaves free


class FakeError(Exception):
    pass


class Buffer:
    """Memory of the GPU; its address is told by int()."""

    def __init__(self, cuda, size):
        self.data = np.zeros(size, np.uint8)
        self.address = 2**40 * (len(cuda.buffers) + 1)
        cuda.buffers[self.address] = self

    def __int__(self):
        return self.address

    def matrices(self, dtype, batch, rows, columns):
        size = batch * rows * columns * np.dtype(dtype).itemsize
        return self.data[:size].view(dtype).reshape(batch, rows, columns)


class Inside(Buffer):
    """What lies at an address inside of a buffer."""

    def __init__(self, cuda, address):
        self.data = cuda.buffers[address // 2**40 * 2**40].data[address % 2**40 :]


class FakeCuda:
    """`pycuda.driver` as far as a session uses it; kernels are products by numpy.

    `log` has the calls in order. A run's parts take 1, 2 and 4 ms by its events, and what is timed
    alone 16 ms, or as told. A stream that is held stands until its word is written.
    """

    Error = FakeError
    host_alloc_flags = SimpleNamespace(DEVICEMAP=2)

    def __init__(self, free_bytes=2**30):
        self.device_attribute = SimpleNamespace(**{name: name for name in ATTRIBUTES})
        self.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic shared")
        self.free_bytes = free_bytes
        self.log = []
        self.buffers = {}
        self.failing = None
        self.words = None
        self.alone_ms = 16.0
        self.events = itertools.count()

    def called(self, name):
        self.log.append(name)
        if name == self.failing:
            raise FakeError(f"{name} failed: no luck")

    def Device(self, index):  # noqa: N802
        return SimpleNamespace(
            name=lambda: "Stand-in",
            pci_bus_id=lambda: "0000:01:00.0",
            total_memory=lambda: 2**40,
            compute_capability=lambda: (8, 0),
            get_attribute=ATTRIBUTES.__getitem__,
            make_context=self.make_context,
            retain_primary_context=self.retain_primary_context,
        )

    def make_context(self):
        self.called("make_context")
        return SimpleNamespace(pop=lambda: self.called("pop"), detach=lambda: self.called("detach"))

    def retain_primary_context(self):
        self.called("retain_primary_context")
        shared = self.make_context()
        shared.push = lambda: self.called("push")
        return shared

    def mem_get_info(self):
        return self.free_bytes, 2**40

    def mem_alloc(self, size):
        self.called("mem_alloc")
        return Buffer(self, size)

    def pagelocked_empty(self, size, dtype, mem_flags=0):
        if not mem_flags:
            return np.empty(size, dtype)
        self.words = np.zeros(size, dtype).view(Mapped)
        return self.words

    def Stream(self):  # noqa: N802
        return SimpleNamespace(
            handle=77,
            synchronize=lambda: self.called("synchronize"),
            wait_for_event=lambda _: self.called("wait"),
        )

    def Event(self):  # noqa: N802
        number = next(self.events)
        return SimpleNamespace(
            record=lambda stream: self.called("record"),
            synchronize=lambda: self.called("synchronize"),
            query=lambda: True,
            time_till=lambda _: 2.0**number if number < 4 else self.alone_ms,
        )

    def memset_d32_async(self, buffer, word, count, stream):
        self.called("memset")
        self.memset_d32(buffer, word, count)

    def memset_d32(self, buffer, word, count):
        buffer.data[: 4 * count].view(np.uint32).fill(word)

    def at(self, buffer):
        return Inside(self, buffer) if isinstance(buffer, int) else buffer

    def memcpy_htod_async(self, buffer, array, stream):
        self.called("to device")
        assert array.ndim == 1
        self.at(buffer).data[: array.nbytes] = array.view(np.uint8)

    def memcpy_dtoh_async(self, array, buffer, stream):
        self.called("from device")
        array.view(np.uint8)[:] = self.at(buffer).data[: array.nbytes]

    def module_from_file(self, path):
        self.called("module_from_file")
        if "hold-" in path:
            return SimpleNamespace(get_function=lambda name: FakeHold(self))
        return SimpleNamespace(get_function=lambda name: FakeKernel(self, name, path))


class Mapped(np.ndarray):
    """Memory of the host that the GPU reads, too."""

    @property
    def base(self):
        return SimpleNamespace(get_device_pointer=lambda: 1234)


class FakeHold:
    """The kernel that holds a stream, and sees it let go after it."""

    def __init__(self, cuda):
        self.cuda = cuda

    def prepare(self, types):
        assert types == "PQP"
        return self

    def prepared_async_call(self, grid, threads, stream, go, limit_ns, expired):
        self.cuda.called("hold")
        assert (grid, threads) == ((1, 1), (1, 1, 1))
        assert (go, expired, limit_ns) == (1234, 1238, 2 * 10**9)
        assert list(self.cuda.words) == [0, 0]


class FakeKernel:
    """Multiplies what is in the memory of the GPU, as the kernel with its arguments does."""

    def __init__(self, cuda, name, path):
        assert name in VARIANTS
        assert path.rpartition("/")[2].startswith(f"{name}-")
        self.cuda, self.name = cuda, name
        self.dtype = re.search(r"float32|float64|int32", path)[0]
        self.most_shared = ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK"]

    def set_attribute(self, attribute, value):
        assert attribute == "dynamic shared"
        self.most_shared = value

    def prepare(self, types):
        self.types = types
        return self

    def prepared_async_call(self, grid, threads, stream, a, b, c, *edges, shared_size):
        self.cuda.called("launch")
        assert self.types == "PPP" + "i" * len(edges)
        assert shared_size <= self.most_shared, "more has to be asked for"
        m, n, k = edges if len(edges) == 3 else edges * 3
        shape = Shape(grid[2], m, n, k)
        self.cuda.launched = (self.name, shape, grid, threads, shared_size)
        a, b, c = map(self.cuda.at, (a, b, c))
        left = a.matrices(self.dtype, shape.batch, m, k)
        right = b.matrices(self.dtype, shape.batch, k, n)
        if self.name in ("tile_transposed_b", "tile_conflict_free"):
            right = right.transpose(0, 2, 1)
        with np.errstate(over="ignore"):
            np.matmul(left, right, out=c.matrices(self.dtype, shape.batch, m, n))


class FakeSgemm:
    """cuBLAS on the memory of the GPU."""

    closed = 0

    def __init__(self, cuda, stream):
        assert stream == 77
        self.cuda = cuda

    def multiply(self, a, b, c, m, n, k):
        left, right, product = (self.cuda.buffers[address] for address in (a, b, c))
        matrices = left.matrices("float32", 1, m, k), right.matrices("float32", 1, k, n)
        np.matmul(*matrices, out=product.matrices("float32", 1, m, n))

    def close(self):
        FakeSgemm.closed += 1


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(gpu, "driver", lambda: fake)
    monkeypatch.setattr(gpu, "NvmlTelemetry", lambda _: None)
    monkeypatch.setattr(gpu.cublas, "find_library", lambda: "library")
    monkeypatch.setattr(gpu.cublas, "Sgemm", lambda stream: FakeSgemm(fake, stream))
    return fake


@pytest.fixture
def open_session(cuda, tmp_path):
    """Return a function that opens a session for cells, whose builds are as ptxas might say."""

    def opened(*cells, registers=32, shared=0):
        built = {build_for(c.variant, c.shape, c.block_size, c.dtype) for c in cells} - {None}
        results = [
            BuildResult(
                *("sm_80", b.variant, b.dtype, b.block_size, b.kind, registers, shared),
                *(0, 0, 0, "13.9.7", ""),
            )
            for b in built
        ]
        inputs = Inputs(problems(list(cells)), 1)
        return GpuSession(CudaDevice(0, "Stand-in", "8.0"), inputs, results, tmp_path)

    return opened


def asked(name, shape=40, memory="pinned", dtype="float32"):
    blocks = VARIANTS[name].block_sizes
    block = None if blocks is None else 16 if 16 in blocks else blocks[0]
    return cell("gpu0", name, dtype, Shape.parse(shape), block, memory)


CELLS = [
    *(asked(name) for name, entry in VARIANTS.items() if entry.flow == IN_TURN),
    *(asked("mm_tile", "17x33x65", dtype=dtype) for dtype in ELEMENTS),
    *(asked("bmm_naive", "3x17x33x65", dtype=dtype) for dtype in ELEMENTS),
    *(asked("cublas_sgemm", shape) for shape in ("17x33x65", "1x50x3")),
]


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_pass_of_every_variant_multiplies_and_hands_the_product_on(open_session, cuda, memory):
    cells = [asked(c.variant, c.shape, memory, c.dtype) for c in CELLS]
    with open_session(*cells) as session:
        for one in cells:
            expected, bound = reference(*session._inputs.pair(one.dtype, one.shape))
            session.poison(one)
            poisoned = evaluate(session.product(one), expected, bound)
            assert poisoned.reason.startswith(f"{expected.size} of {expected.size} elements wrong")
            size = session._host[memory].work(one).c.nbytes
            assert (session._on_device[2].data[:size].view(np.uint32) == 2**31 - 1).all()
            timing = session.run(one)
            assert evaluate(session.product(one), expected, bound).reason is None, one
            assert (timing.host_s is None) == (VARIANTS[one.variant].host_step is None), one
            assert (timing.h2d_s, timing.kernel_s, timing.d2h_s) == (1e-3, 2e-3, 4e-3)
            if VARIANTS[one.variant].kernel is None:
                continue
            name, seen, grid, threads, shared = cuda.launched
            launch = VARIANTS[one.variant].launch(one.shape, one.block_size)
            assert name == VARIANTS[one.variant].kernel
            assert seen == VARIANTS[one.variant].operands(one.shape, one.block_size)
            assert (grid, threads) == (launch.grid, (*launch.threads, 1))
            assert shared == launch.dynamic_shared_bytes


def test_a_pass_copies_in_launches_and_copies_out_between_its_events(open_session, cuda):
    one = asked("tile_transposed_b")
    with open_session(one) as session:
        session.run(one)
        cuda.log.clear()
        session.run(one)
    copies = ["record", "to device", "to device", "record", "launch", "record", "from device"]
    assert cuda.log[:9] == [*copies, "record", "synchronize"]
    assert cuda.log[9:] == ["pop", "detach"]


@pytest.mark.parametrize("shape", ["100x1024x33", "1024x50x20"])
def test_a_pass_in_pieces_copies_and_multiplies_all_rows_once(open_session, cuda, shape):
    one = asked("sgemm_top_pieces", shape)
    pieces = len(VARIANTS[one.variant].pieces(one.shape, one.block_size))
    with open_session(one) as session:
        expected, bound = reference(*session._inputs.pair(one.dtype, one.shape))
        for _ in range(2):
            session.poison(one)
            cuda.log.clear()
            timing = session.run(one)
            assert evaluate(session.product(one), expected, bound).reason is None
        assert timing.total_s > 0
        assert timing.busy_s == timing.total_s, "its parts run at the same time"
        piece = ["to device", "wait", "launch", "from device"]
        called = [name for name in cuda.log if name != "module_from_file"]
        assert called == ["to device", "record", *piece * pieces, *["synchronize"] * pieces]
        cuda.failing = "launch"
        with pytest.raises(DeviceError, match="launch failed"):
            session.run(one)


class Driver:
    """The functions of the driver for graphs: what is recorded runs when it is launched."""

    def __init__(self, cuda):
        self.cuda, self.failing = cuda, None

    def __getattr__(self, name):
        def call(*_):
            self.cuda.log.append(name)
            return 700 if name == self.failing else 0

        return call


def test_a_pass_as_a_graph_is_given_to_the_driver_once(open_session, cuda, monkeypatch):
    library = Driver(cuda)
    monkeypatch.setattr(flows, "_library", lambda: library)
    one = asked("sgemm_top_graph")
    with open_session(one) as session:
        session.run(one)
        recorded = ["to device", "to device", "launch", "from device"]
        made = ["cuStreamBeginCapture_v2", *recorded, "cuStreamEndCapture"]
        made += ["cuGraphInstantiateWithFlags", "cuGraphDestroy"]
        run = ["cuGraphLaunch", "synchronize"]
        assert cuda.log[-len(made + run) :] == made + run
        cuda.log.clear()
        assert session.run(one).busy_s > 0
        assert cuda.log == run
        library.failing = "cuGraphLaunch"
        with pytest.raises(DeviceError, match="cuGraphLaunch gives error 700"):
            session.run(one)
    assert "cuGraphExecDestroy" in cuda.log


def test_a_graph_that_the_driver_refuses_leaves_the_stream_as_it_was(
    open_session, cuda, monkeypatch
):
    library = Driver(cuda)
    monkeypatch.setattr(flows, "_library", lambda: library)
    one = asked("sgemm_top_graph")
    with open_session(one) as session:
        cuda.failing = "from device"
        with pytest.raises(DeviceError, match="from device failed"):
            session.run(one)
        assert cuda.log[-1] == "cuStreamEndCapture"
        cuda.failing = None
        library.failing = "cuGraphInstantiateWithFlags"
        with pytest.raises(CellError, match="cuGraphInstantiateWithFlags gives error 700"):
            session.run(one)
        assert cuda.log[-1] == "cuGraphDestroy"


def test_alone_a_kernel_is_queued_between_its_events_while_the_stream_is_held(open_session, cuda):
    one = asked("block")
    with open_session(one) as session:
        session.kernel_time(one, flushed=False)
        for flushed in (False, True):
            cuda.log.clear()
            assert session.kernel_time(one, flushed) == KernelTime(1, 16e-3)
            before = ["to device", "to device", "launch", *["mem_alloc", "memset"] * flushed]
            assert cuda.log == [*before, "hold", "record", "launch", "record", "synchronize"]
            assert list(cuda.words) == [1, 0], "let go"
        assert len(session._others.data) == 2 * 4096


@pytest.mark.parametrize(
    ("alone_ms", "launches"), [(0.3, 1), (0.2, 2), (0.1, 3), (0.01, 25), (0.001, 100)]
)
def test_a_short_kernel_is_timed_over_several_launches(open_session, cuda, alone_ms, launches):
    one = asked("block")
    with open_session(one) as session:
        cuda.alone_ms = alone_ms
        for _ in range(2):
            found = session.kernel_time(one, flushed=False)
            assert found == KernelTime(launches, pytest.approx(alone_ms / 1e3 / launches))
            queued = cuda.log[len(cuda.log) - cuda.log[::-1].index("hold") :]
            assert queued == ["record", *["launch"] * launches, "record", "synchronize"]
        assert session.kernel_time(one, flushed=True).launches == 1, (
            "the second would find its caches"
        )


def test_a_long_kernel_is_run_once_before_it_is_timed_alone_and_then_no_more(open_session, cuda):
    one = asked("block")
    with open_session(one) as session:
        cuda.alone_ms = 20.1
        counts = []
        for _ in range(3):
            cuda.log.clear()
            session.kernel_time(one, flushed=False)
            counts.append(cuda.log.count("launch"))
    assert counts == [2, 1, 1]


def test_what_is_queued_behind_a_held_stream_is_let_go_whatever_happens(open_session, cuda):
    one = asked("block")
    with open_session(one) as session:
        session.kernel_time(one, flushed=False)
        cuda.failing = "record"
        with pytest.raises(DeviceError, match=r"^record failed: no luck$"):
            session.kernel_time(one, flushed=False)
        assert cuda.words[0] == 1
        cuda.failing = None

        def expire():
            cuda.words[1] = 1

        with pytest.raises(CellError, match="the host waits for the GPU while it launches"):
            session._hold.elapsed_s(expire)


@pytest.mark.parametrize(
    ("name", "host_s"),
    [
        ("block", None),
        ("cublas_sgemm", None),
        ("tile_conflict_free", 13e-9),
        ("block_padded", 13e-9),
    ],
)
def test_the_hosts_own_work_is_in_the_total_and_apart(open_session, monkeypatch, name, host_s):
    """It lasts 10 ns before the copies and 3 ns after them, of 103 ns."""
    one = asked(name)
    with open_session(one) as session:
        session.run(one)
        clock = iter([0, 10, 100, 103])
        monkeypatch.setattr(gpu.time, "perf_counter_ns", lambda: next(clock))
        assert session.run(one) == Timing(103e-9, host_s, 1e-3, 2e-3, 4e-3)


def test_work_of_the_host_is_done_while_its_time_is_taken(open_session, monkeypatch):
    one = asked("block_padded")
    log = []
    with open_session(one) as session:
        host = session._host["pinned"]
        work = host.work(one)
        recorded = SimpleNamespace(
            **{name: getattr(work, name) for name in ("a", "b", "c", "before", "after")},
            prepare=lambda: log.append("prepare") or work.prepare(),
            finish=lambda: log.append("finish"),
        )
        monkeypatch.setattr(host, "work", lambda _: recorded)
        ticks = iter(range(100))
        monkeypatch.setattr(gpu.time, "perf_counter_ns", lambda: log.append("clock") or next(ticks))
        session.run(one)
    assert log == ["clock", "prepare", "clock", "clock", "finish", "clock"]


def test_builds_are_told_and_a_librarys_product_has_none(open_session):
    cells = [asked("block", 40), asked("block", 48), asked("block_padded"), asked("cublas_sgemm")]
    with open_session(*cells) as session:
        assert [session.build(one) for one in cells] == ["guarded", "exact", "exact", None]
        assert [session.not_launchable(one) for one in cells] == [None] * 4


def test_without_cublas_its_cells_alone_are_not_launchable(open_session, monkeypatch):
    monkeypatch.setattr(gpu.cublas, "find_library", lambda: None)
    cells = [asked("cublas_sgemm"), asked("block")]
    with open_session(*cells) as session:
        assert [session.not_launchable(one) for one in cells] == [gpu.cublas.MISSING, None]


def test_what_the_builds_use_counts_and_the_free_memory_is_the_limit(open_session, cuda):
    one = asked("block", 40)
    with open_session(one, registers=300) as session:
        assert session.not_launchable(one) == "needs 77824 registers a block, 65536 allowed"
    with open_session(one, shared=166913) as session:
        said = session.not_launchable(one)
        assert said == "needs 166913 bytes of shared memory a block, 166912 allowed"
    cuda.free_bytes = MARGIN + 3 * 4 * 40**2 - 1
    with open_session(one) as session:
        assert session.not_launchable(one) == (
            "needs 19200 bytes for the matrices, the GPU has 19199"
        )
        assert {buffer.data.size for buffer in session._on_device} == {6399}, "no more than fits"


def test_a_card_too_small_for_the_largest_matrices_runs_the_others(open_session, cuda):
    wide, tall, small = (asked("mm_tile", shape) for shape in ("200x200x1", "1x200x200", 100))
    cuda.free_bytes = MARGIN + 161600  # what either takes; each matrix has a third of it
    with open_session(wide, tall, small) as session:
        third = "needs 160000 bytes for a matrix, a third of the GPU's memory is 53866"
        assert [session.not_launchable(one) for one in (wide, tall, small)] == [third, third, None]
        session.poison(small)
        session.run(small)
        expected = reference(*session._inputs.pair("float32", small.shape))
        assert evaluate(session.product(small), *expected).passed
    cuda.free_bytes -= 1
    with open_session(wide, tall, small) as session:
        whole = "needs 161600 bytes for the matrices, the GPU has 161599"
        assert [session.not_launchable(one) for one in (wide, tall, small)] == [whole, whole, None]


def test_buffers_are_of_the_largest_matrices_of_any_type(open_session):
    cells = [asked("mm_tile", "4x100x2", dtype="float64"), asked("bmm_tile", "3x20x5x30")]
    with open_session(*cells) as session:
        sizes = [buffer.data.size for buffer in session._on_device]
    assert sizes == [8 * 400, 4 * 450, 4 * 1800]


def test_cublas_is_made_ready_once_and_closed_with_the_session(open_session):
    one = asked("cublas_sgemm")
    before = FakeSgemm.closed
    with open_session(one) as session:
        session.run(one)
        first = session._sgemm
        session.kernel_time(one, flushed=False)
        assert session._sgemm is first
        assert FakeSgemm.closed == before
    assert FakeSgemm.closed == before + 1
    with open_session(one):
        pass
    assert FakeSgemm.closed == before + 1, "never used, never made"


@pytest.fixture
def called(tmp_path, monkeypatch):
    """A cell of a call from Python, which is in the catalog for the test."""
    path = tmp_path / "called.py"
    path.write_text("def multiply(a, b, c, stream):\n    raise ValueError('two\\nlines')\n")
    monkeypatch.setitem(VARIANTS, "called", read(path))
    return asked("called", "17x33x65")


def test_a_call_multiplies_in_the_sessions_stream_and_a_shared_context(
    open_session, cuda, called, monkeypatch
):
    seen = []

    def multiply(a, b, c, stream):
        faces = [matrix.__cuda_array_interface__ for matrix in (a, b, c)]
        seen.append(
            ([face["shape"] for face in faces], {face["typestr"] for face in faces}, stream)
        )
        left, right, product = (cuda.buffers[face["data"][0]] for face in faces)
        matrices = left.matrices("float32", 1, 17, 33), right.matrices("float32", 1, 33, 65)
        np.matmul(*matrices, out=product.matrices("float32", 1, 17, 65))

    monkeypatch.setattr(gpu, "load_call", lambda _: multiply)
    with open_session(called) as session:
        assert (session.not_launchable(called), session.build(called)) == (None, None)
        session.poison(called)
        session.run(called)
        expected, bound = reference(*session._inputs.pair("float32", called.shape))
        assert evaluate(session.product(called), expected, bound).passed
        assert session.kernel_time(called, flushed=False).kernel_s > 0
    assert seen[0] == ([(17, 33), (33, 65), (17, 65)], {"<f4"}, 77)
    assert cuda.log.index("retain_primary_context") < cuda.log.index("push")


def test_what_a_call_raises_fails_its_cell(open_session, called, tmp_path):
    with (
        open_session(called) as session,
        pytest.raises(CellError, match=r"^called\.py: ValueError: two$"),
    ):
        session.run(called)
    (tmp_path / "called.py").write_text("import no_such_library\n")
    with (
        open_session(called) as session,
        pytest.raises(CellError, match=r"^called\.py: ModuleNotFoundError: No module named"),
    ):
        session.run(called)


@pytest.mark.parametrize("call", ["to device", "launch", "from device", "synchronize"])
def test_an_error_of_the_driver_is_one_of_the_device(open_session, cuda, call):
    one = asked("block")
    with open_session(one) as session:
        session.run(one)
        cuda.failing = call
        with pytest.raises(DeviceError, match=f"^{call} failed: no luck$"):
            session.run(one)
        cuda.failing = None


def test_a_cubin_that_does_not_load_costs_its_cells(open_session, cuda):
    one = asked("mm_tile", dtype="int32")
    with open_session(one) as session:
        cuda.failing = "module_from_file"
        with pytest.raises(CellError, match=r"^mm_tile-b16-int32-guarded\.cubin does not load: "):
            session.run(one)
        cuda.failing = None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("make_context", r"^Stand-in: gives no context \(make_context failed: no luck\); check"),
        ("mem_alloc", r"^Stand-in: no memory for the buffers \(mem_alloc failed: no luck\); meas"),
    ],
)
def test_a_card_that_cannot_be_had_is_one_line(open_session, cuda, call, message):
    cuda.failing = call
    with pytest.raises(StudyError, match=message), open_session(asked("block")):
        pass
    assert cuda.log.count("pop") == cuda.log.count("detach") == (call == "mem_alloc")
