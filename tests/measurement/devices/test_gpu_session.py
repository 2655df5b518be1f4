"""GpuSession on a fake CUDA: copies, launches, times and errors."""

import os

import numpy as np
import pytest

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.catalog.locations import LOCATIONS
from kernels.catalog.product import with_entry
from kernels.catalog.user_supplied import read
from kernels.catalog.variant import IN_TURN
from kernels.cubins.build import build_for
from kernels.cubins.compile import BuildResult
from kernels.products.elements import exact
from kernels.products.gate import evaluate
from kernels.products.matrices import POISON_WORD, Inputs, reference
from kernels.products.shape import Shape
from measurement.devices import buffers, flows, gpu, launching, pieces, runs, staging
from measurement.devices.discovery import CudaDevice
from measurement.devices.errors import CellError, DeviceError
from measurement.devices.gpu import GpuSession
from measurement.devices.pieces import Setting, settings_of
from measurement.devices.session import KernelTime, Timing
from measurement.devices.throughput import Batch
from study.cells import Cell, cell, problems
from tests.support.fake_cuda import STREAM, FakeCublas, FakeCuda, FakeGraphs

MARGIN = 2**26  # left free by the session


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    fake.cublas = FakeCublas(fake)
    monkeypatch.setattr(gpu, "driver", lambda: fake)
    monkeypatch.setattr(gpu.cublas, "find_library", lambda: fake.cublas)
    return fake


@pytest.fixture
def open_session(cuda, tmp_path):
    def opened(*cells, registers=32, shared=0, partner=None):
        uses = (registers, shared, 0, 0, 0, "13.9.7", "")
        results = [
            BuildResult("sm_80", b.variant, b.dtype, b.block_size, b.kind, *uses)
            for b in {build_for(c.product) for c in cells} - {None}
        ]
        inputs = Inputs(problems(list(cells)), 1)
        device = CudaDevice(0, "Stand-in", "8.0")
        primary = any(cell.product.is_user_supplied for cell in cells)
        return GpuSession(device, inputs, results, tmp_path, primary, partner)

    return opened


def asked(name, shape=40, memory="pinned", dtype=None):
    blocks = VARIANTS[name].block_sizes
    block = None if blocks is None else 16 if 16 in blocks else blocks[0]
    return cell("gpu0", name, dtype or VARIANTS[name].dtypes[0], Shape.parse(shape), block, memory)


CELLS = [
    *(asked(name) for name, entry in VARIANTS.items() if entry.flow == IN_TURN),
    *(asked("mm_tile", "17x33x65", dtype=dtype) for dtype in VARIANTS["mm_tile"].dtypes),
    *(asked("bmm_naive", "3x17x33x65", dtype=dtype) for dtype in VARIANTS["bmm_naive"].dtypes),
    *(asked("cublas_sgemm", shape) for shape in ("17x33x65", "1x50x3")),
    *(asked("cublas_bf16", shape) for shape in ("17x33x65", "1x50x3")),
]
BLOCK = asked("block")


@pytest.fixture
def session(open_session):
    with open_session(BLOCK) as session:
        yield session


def check(session, one):
    given = session._inputs.pair(exact(one.dtype), one.shape)
    return evaluate(session.product(one), *reference(*given), one.bound_multiple)


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_run_of_every_variant_multiplies_and_returns_the_product(open_session, cuda, memory):
    cells = [asked(c.variant, c.shape, memory, c.dtype) for c in CELLS]
    with open_session(*cells) as session:
        for one in cells:
            session.poison(one)
            elements = one.shape.c_elements
            assert check(session, one).reason.startswith(f"{elements} of {elements} elements wrong")
            size = session._host[memory].work(one).c.nbytes
            assert (session._on_device[2].data[:size].view(np.uint32) == 2**31 - 1).all()
            timing = session.run(one)
            assert check(session, one).reason is None, one
            assert (timing.host_s is None) == (one.product.entry.host_step is None), one
            assert (timing.h2d_s, timing.kernel_s, timing.d2h_s) == (1e-3, 2e-3, 4e-3)
            if one.product.kernel is None:
                continue
            name, seen, grid, threads, shared = cuda.launched
            launch = one.product.launch
            assert (name, seen) == (one.product.kernel.kernel, one.product.operands)
            assert (grid, threads) == (launch.grid, (*launch.threads, 1))
            assert shared == launch.dynamic_shared_bytes


# The calls of a run: in and out are copies, R the records of events, wait a synchronisation.
CALLS = {
    "pinned": "R in in R launch R out R wait",
    "pageable": "R in in R launch R out R wait",
    "registered": "R pin pin pin in in R launch R out R wait unpin unpin unpin",
    "managed": "R R launch R R wait",
    "prefetched": "gpu R move move move R launch R move R wait",
    "a_resident": "in wait R in R launch R out R wait",
    "c_stays": "R in in R launch R R wait out wait",
    "resident": "in in wait R R launch R R wait out wait",
}
WORDS = {"record": "R", "to device": "in", "from device": "out", "synchronize": "wait"}
WORDS |= {"cuMemHostRegister_v2": "pin", "cuMemHostUnregister": "unpin", "launch": "launch"}
WORDS |= {"cuCtxGetDevice": "gpu", "cuMemPrefetchAsync": "move"}


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("name", ["block", "cublas_sgemm"])
def test_a_run_copies_only_the_matrices_its_location_names_and_can_be_checked(
    open_session, cuda, monkeypatch, location, name
):
    monkeypatch.setattr(flows, "_library", lambda: FakeGraphs(cuda))
    one = asked(name, memory=location)
    with open_session(one) as session:
        session.run(one)
        session.poison(one)
        cuda.log.clear()
        session.run(one)
        expected = CALLS[location].replace(" launch" if name == "cublas_sgemm" else "", "")
        assert " ".join(WORDS[call] for call in cuda.log) == expected
        assert check(session, one).reason is None


@pytest.mark.parametrize("name", ["block", "cublas_sgemm"])
def test_a_batch_copies_and_multiplies_in_every_stream(open_session, cuda, name):
    one = asked(name)
    alone, shared = Batch(3, 12), Batch(2, 6, same_a=True)
    with open_session(one) as session:
        cuda.log.clear()
        trials, products = session.throughput(one, [alone, shared])
        rounds = len(trials) // 2
        assert [trial.setting for trial in trials] == rounds * [alone, shared]
        assert cuda.log.count("to device") == (rounds + 1) * 2 * (2 * 12 + 1 + 6), (
            "A once per batch"
        )
        expected = reference(*session._inputs.pair(one.dtype, one.shape))
        assert len(products) == 3
        assert all(evaluate(product, *expected).reason is None for product in products)


def test_products_in_concurrent_streams_do_not_share_prepared_operands(open_session):
    one = asked("sgemm_tensor_tma", 128)
    with open_session(one) as session, pytest.raises(CellError, match="streams would share"):
        session.throughput(one, [Batch(2, 4)])


def test_a_driver_error_fails_the_run_and_the_context_is_still_released(open_session, cuda):
    one = asked("tile_transposed_b")
    with open_session(one) as session:
        for call in ("to device", "launch", "from device", "synchronize"):
            cuda.failing = call
            with pytest.raises(DeviceError, match=f"^{call} failed: no luck$"):
                session.run(one)
        cuda.failing = None
        cuda.log.clear()
    assert cuda.log == ["pop", "detach"]


@pytest.mark.parametrize("shape", ["100x1024x33", "1024x50x20"])
def test_a_run_in_pieces_copies_and_multiplies_all_rows_once(open_session, cuda, shape):
    one = asked("sgemm_top_pieces", shape)
    count = len(*one.product.pieces(8))
    with open_session(one) as session:
        for _ in range(2):
            session.poison(one)
            cuda.log.clear()
            timing = session.run(one)
            assert check(session, one).reason is None
        assert timing.total_s > 0
        assert timing.busy_s == timing.total_s, "its parts run at the same time"
        piece = ["to device", "wait", "launch", "from device"]
        called = [name for name in cuda.log if name != "module_from_file"]
        assert called == ["to device", "record", *piece * count, *["synchronize"] * count]
        cuda.failing = "launch"
        with pytest.raises(DeviceError, match="launch failed"):
            session.run(one)


@pytest.fixture
def graphs(cuda, monkeypatch):
    fake = FakeGraphs(cuda)
    monkeypatch.setattr(flows, "_library", lambda: fake)
    return fake


def test_the_graph_of_a_run_is_captured_only_once(open_session, cuda, graphs):
    one = asked("sgemm_top_graph")
    with open_session(one) as session:
        cuda.failing = "from device"
        with pytest.raises(DeviceError, match="from device failed"):
            session.run(one)
        assert cuda.log[-1] == "cuStreamEndCapture"
        cuda.failing, graphs.failing = None, "cuGraphInstantiateWithFlags"
        with pytest.raises(CellError, match="cuGraphInstantiateWithFlags returned error 700"):
            session.run(one)
        assert cuda.log[-1] == "cuGraphDestroy"
        graphs.failing = None
        session.run(one)
        recorded = ["to device", "to device", "launch", "from device"]
        made = ["cuStreamBeginCapture_v2", *recorded, "cuStreamEndCapture"]
        made += ["cuGraphInstantiateWithFlags", "cuGraphDestroy"]
        run = ["cuGraphLaunch", "synchronize"]
        assert cuda.log[-len(made + run) :] == made + run
        cuda.log.clear()
        assert session.run(one).busy_s > 0
        assert cuda.log == run
        graphs.failing = "cuGraphLaunch"
        with pytest.raises(DeviceError, match="cuGraphLaunch returned error 700"):
            session.run(one)
    assert "cuGraphExecDestroy" in cuda.log


@pytest.mark.parametrize("shape", ["300x70x600", "1024x50x20", 512])
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_run_in_pieces_prepares_b_once_and_a_for_each_piece(
    open_session, cuda, graphs, monkeypatch, shape, memory
):
    """From pageable memory through rings of three chunks of 16 KiB, which are used repeatedly."""
    monkeypatch.setattr(staging, "_RING", 3)
    name = {"pinned": "sgemm_tensor_pieces", "pageable": "sgemm_tensor_staged"}[memory]
    one = asked(name, shape, memory)
    count = one.product.piece_counts[0]
    with open_session(one) as session:
        session.use({one: Setting(count, 3, 2**14)})
        session.poison(one)
        session.run(one)
        assert check(session, one).reason is None
        calls = [name for name in cuda.log if name in ("split", "launch")]
        assert calls == ["split", *["split", "launch"] * count]
        assert cuda.log.count("cuGraphLaunch") == (memory == "pinned")
        if memory == "pageable":
            session.poison(one)
            assert session.run(one).total_s > 0
            assert check(session, one).reason is None
            cuda.failing = "from device"
            with pytest.raises(DeviceError, match="from device failed"):
                session.run(one)
    assert cuda.log.count("push") == cuda.log.count("pop") - 1, "threads leave the context"


@pytest.mark.parametrize("reach", [True, False])
def test_a_run_on_two_gpus_multiplies_half_of_the_rows_on_each(open_session, cuda, reach):
    one = asked("sgemm_tensor_two_gpus", "1300x70x2048")
    cuda.gpus, cuda.can_reach = cuda.gpus * 2, reach
    with open_session(one) as session:
        assert session.not_launchable(one).startswith("needs a second GPU")
    with open_session(one, partner=CudaDevice(1, "Stand-in", "8.0")) as session:
        for count in (3, 1):
            session.use({one: Setting(count)})
            session.poison(one)
            cuda.log.clear()
            session.run(one)
            assert check(session, one).reason is None
            assert cuda.log.count("launch") == 2 * count
            assert cuda.log.count("to the other") == (8 if reach else 0)
            assert cuda.log.count("to device") == 2 * count + (8 if reach else 16)
        session.poison(one)
        (c,) = session._runs._two.lanes[1].launches.on_device[2:]
        assert set(c.data[: 4 * one.shape.c_elements].view("u4")) == {POISON_WORD}
        cuda.failing = "from device"
        with pytest.raises(DeviceError, match="from device failed"):
            session.run(one)


TRIALS = {"sgemm_top_pieces": 3, "sgemm_tensor_pieces": 1, "sgemm_tensor_staged": 3}


@pytest.mark.parametrize(("name", "times"), TRIALS.items())  # a graph is enqueued once
def test_trials_time_a_run_in_all_settings(open_session, cuda, graphs, monkeypatch, name, times):
    memory = "pageable" if name.endswith("staged") else "pinned"
    core = {min(staging.CORES)}
    monkeypatch.setattr(staging, "CORES", core)
    monkeypatch.setattr(runs, "CORES", range(2))
    monkeypatch.setattr(pieces, "ROUNDS", 2)
    one = asked(name, "1100x50x2048", memory)
    with open_session(one) as session:
        session.poison(one)
        trials = session.trials(one)
        assert check(session, one).reason is None
        launches = cuda.log.count("launch")
        if memory == "pageable":
            pools = session._runs._staged._every[3]
            assert [pool.submit(os.sched_getaffinity, 0).result() for pool in pools] == [core] * 2
        cuda.failing = "to device"
        with pytest.raises(DeviceError, match="to device failed"):
            session.trials(one)
    settings = settings_of(one.product, 2)
    assert [trial.round for trial in trials] == [1] * len(settings) + [2] * len(settings)
    assert {trial.setting for trial in trials} == set(settings)
    assert all(trial.copies_s > 0 and trial.run_s > 0 for trial in trials)
    made = (len(*one.product.pieces(each.pieces)) for each in settings)
    assert launches == times * sum(made), "copies are timed without kernels"


def test_operands_of_tensor_kernels_are_prepared_before_every_launch(open_session, cuda):
    small, large = asked("sgemm_tensor_tma", 40), asked("sgemm_tensor_tma", "300x70x200")
    with open_session(small, large) as session:
        for one in (small, large, small):
            session.poison(one)
            cuda.log.clear()
            assert session.run(one).kernel_s == 2e-3
            assert [name for name in cuda.log if name in ("split", "launch")] == ["split", "launch"]
            assert check(session, one).reason is None
        assert len(session._launches._prepared.data) == large.product.prepared_bytes
        assert session.kernel_time(small, flushed=False).kernel_s == 2e-3
    one = asked("sgemm_mapped", 40)  # in mapped memory, without copies
    with open_session(one) as session:
        for _ in range(2):
            session.poison(one)
            session.run(one)
            cuda.log.clear()
            assert session.run(one).total_s > 0
            assert check(session, one).reason is None
            assert cuda.log == ["launch", "synchronize"]


def test_a_kernel_is_queued_between_its_events_behind_a_blocking_kernel(session, cuda):
    session.kernel_time(BLOCK, flushed=False)
    for flushed in (False, True):
        cuda.log.clear()
        assert session.kernel_time(BLOCK, flushed) == KernelTime(1, 2e-3)
        before = ["to device", "to device", "launch", *["mem_alloc", "memset"] * flushed]
        assert cuda.log == [*before, "block", "record", "launch", "record", "synchronize"]
        assert list(cuda.words) == [1, 0], "released"
    assert len(session._filler.data) == 2 * 4096
    cuda.failing = "record"
    with pytest.raises(DeviceError, match=r"^record failed: no luck$"):
        session.kernel_time(BLOCK, flushed=False)
    assert cuda.words[0] == 1, "released whatever happens"
    cuda.failing = None

    def expire():
        cuda.words[1] = 1

    with pytest.raises(CellError, match="no kernel-only time: the call waits for the GPU"):
        session._blocking_kernel.elapsed_s(expire)


@pytest.mark.parametrize(
    ("launch_ms", "launches"), [(0.3, 1), (0.2, 2), (0.1, 3), (0.01, 25), (0.001, 100)]
)
def test_a_sample_of_a_short_kernel_has_several_launches(
    session, open_session, cuda, launch_ms, launches
):
    cuda.launch_ms = launch_ms
    for _ in range(2):
        found = session.kernel_time(BLOCK, flushed=False)
        assert found == KernelTime(launches, pytest.approx(launch_ms / 1e3))
        queued = cuda.log[len(cuda.log) - cuda.log[::-1].index("block") :]
        assert queued == ["record", *["launch"] * launches, "record", "synchronize"]
    assert session.kernel_time(BLOCK, flushed=True).launches == 1, "a second would find its caches"
    with open_session(BLOCK) as other:
        cuda.launch_ms = 20.1  # a long kernel is run once before its first time
        for launches in (2, 1, 1):
            cuda.log.clear()
            other.kernel_time(BLOCK, flushed=False)
            assert cuda.log.count("launch") == launches


HOST_S = {"block": None, "cublas_sgemm": None, "tile_conflict_free": 13e-9, "block_padded": 13e-9}


@pytest.mark.parametrize(("name", "host_s"), HOST_S.items())
def test_host_steps_are_part_of_the_end_to_end_time(open_session, monkeypatch, name, host_s):
    """The host steps take 10 ns before the copies and 3 ns after them, of 103 ns."""
    one, log, clock = asked(name), [], iter([0, 10, 100, 103])
    with open_session(one) as session:
        session.run(one)
        for step in ("prepare", "finish"):
            monkeypatch.setattr(buffers.Work, step, lambda _, step=step: log.append(step))
        now = lambda: log.append("clock") or next(clock)  # noqa: E731
        monkeypatch.setattr(gpu.time, "perf_counter_ns", now)
        assert session.run(one) == Timing(103e-9, host_s, 1e-3, 2e-3, 4e-3)
    assert log == ["clock", "prepare", "clock", "clock", "finish", "clock"]


def test_a_launch_that_the_gpu_cannot_run_has_a_stated_reason(open_session, cuda, monkeypatch):
    cells = [asked("block", 40), asked("block", 48), asked("block_padded"), asked("cublas_sgemm")]
    with open_session(*cells) as session:
        assert [session.build(one) for one in cells] == ["guarded", "exact", "exact", None]
        assert [session.not_launchable(one) for one in cells] == [None] * 4
    monkeypatch.setattr(gpu.cublas, "find_library", lambda: None)
    with open_session(*cells) as session:
        found = [session.not_launchable(one) for one in cells]
    assert found == [None, None, None, gpu.cublas.MISSING]
    one = cells[0]
    with open_session(one, registers=300) as session:
        assert session.not_launchable(one) == "needs 77824 registers per block, 65536 allowed"
    with open_session(one, shared=166913) as session:
        said = "needs 166913 bytes of shared memory per block, 166912 allowed"
        assert session.not_launchable(one) == said
    cuda.static_bytes = 49152  # together with dynamic shared memory more than the default
    with open_session(asked("buffered_row"), shared=cuda.static_bytes) as session:
        assert session.run(asked("buffered_row")).total_s > 0
    cuda.free_bytes = MARGIN + 3 * 4 * 40**2 - 1
    with open_session(one) as session:
        said = "needs 19200 bytes for the matrices, the GPU has 19199"
        assert session.not_launchable(one) == said
        assert {buffer.data.size for buffer in session._on_device} == {6399}, "no more than fits"


@pytest.fixture
def called(tmp_path, graphs):
    path = tmp_path / "called.py"
    path.write_text("def multiply(a, b, c, stream):\n    raise ValueError('two\\nlines')\n")
    return Cell("gpu0", with_entry(read(path), "float32", Shape.parse("17x33x65")), "pinned")


def test_a_python_function_runs_in_the_primary_context(open_session, cuda, called, monkeypatch):
    seen = []

    def multiply(a, b, c, stream):
        faces = [matrix.__cuda_array_interface__ for matrix in (a, b, c)]
        seen[:] = [face["shape"] for face in faces], {face["typestr"] for face in faces}, stream
        cuda.multiply([face["data"][0] for face in faces], "float32", called.shape)

    monkeypatch.setattr(launching, "load_call", lambda *_: multiply)
    with open_session(called) as session:
        assert (session.not_launchable(called), session.build(called)) == (None, None)
        session.poison(called)
        session.run(called)
        assert check(session, called).passed
        assert session.kernel_time(called, flushed=False).kernel_s > 0
    assert seen == [[(17, 33), (33, 65), (17, 65)], {"<f4"}, STREAM]
    assert cuda.log.index("retain_primary_context") < cuda.log.index("push")


def test_faulty_calls_and_cubins_fail_only_their_cells(open_session, cuda, called, tmp_path):
    with open_session(called) as session, pytest.raises(CellError, match=r"^called.py: Val.*two$"):
        session.run(called)
    (tmp_path / "called.py").write_text("import no_such_library\n")
    said = r"^called\.py: ModuleNotFoundError: No module named"
    with open_session(called) as session, pytest.raises(CellError, match=said):
        session.run(called)
    one = asked("mm_tile", dtype="int32")
    said = r"^mm_tile-b16-int32-guarded\.cubin: cannot be load"
    with open_session(one) as session:
        cuda.failing = "module_from_file"
        with pytest.raises(CellError, match=said):
            session.run(one)


def test_an_unavailable_gpu_is_a_one_line_error(open_session, cuda):
    for cuda.failing, message in (
        ("make_context", "cannot create a context"),
        ("mem_alloc", "not enough memory for the buffers"),
    ):
        said = rf"^Stand-in: {message} \({cuda.failing} failed: no luck\); "
        with pytest.raises(StudyError, match=said), open_session(asked("block")):
            pass
        assert cuda.log.count("pop") == cuda.log.count("detach") == (cuda.failing == "mem_alloc")


@pytest.mark.parametrize("ramp_s", [0.0, 0.05])
def test_launches_under_load_are_counted_only_after_the_ramp(
    open_session, cuda, monkeypatch, ramp_s
):
    """Launches take 1 ms, in the ramp 3 ms."""
    clock = iter(np.arange(0, 9, 0.01))
    begin_s = next(clock)

    def now_s():
        passed_s = next(clock)
        cuda.launch_ms = 3.0 if passed_s - begin_s <= ramp_s else 1.0
        return passed_s

    with open_session(BLOCK) as session:
        session.kernel_time(BLOCK, flushed=False)
        monkeypatch.setattr(gpu.time, "perf_counter", now_s)
        one_s = session.load(BLOCK, ramp_s, 0.2, [])
    assert one_s == pytest.approx(1e-3, rel=0.01)
