"""The kernels and the session on a real GPU; skipped without one."""

from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.nvbench_kernels import stamps
from kernels.catalog.entries import VARIANTS
from kernels.catalog.locations import LOCATIONS
from kernels.catalog.product import with_entry
from kernels.catalog.user_supplied import read
from kernels.catalog.variant import SEQUENTIAL
from kernels.cubins.build import Build, build_for
from kernels.cubins.compile import architecture, build_all, read_result
from kernels.host_execution.check import execute
from kernels.products.elements import ELEMENTS
from kernels.products.gate import evaluate
from kernels.products.matrices import POISON_WORD, Inputs, reference
from kernels.products.references import CACHE
from kernels.products.shape import Shape
from measurement.devices.discovery import cuda_devices, driver
from measurement.devices.gpu import GpuSession
from measurement.devices.observers import Reading, gpu_observers, results
from measurement.devices.throughput import Batch
from measurement.sampling.protocol import gate
from measurement.sampling.worker import Worker
from study import cells as planned
from study.cells import gpu_cells, problems
from study.config import Series
from study.plan import builds
from tests.support import studies
from tests.support.cache import code, made
from tests.support.fakes import CALLED
from tests.support.gpu_lock import gpu
from tests.support.tricks import InProcess

pytestmark = pytest.mark.gpu
STUDY = {
    "dtypes": list(ELEMENTS),
    "sizes": [1, 17, 31, 33, 64, 100, 128, 130],
    "holdout_sizes": [2048],
    "variants": list(VARIANTS),
    "block_sizes": [1, 3, 4, 8, 16, 31, 32],
    "host_memory": ["pinned", "pageable"],
}
# Source L's shapes, single and in batches.
SHAPES = [
    f"{batch}x{shape}" for batch in (1, 3, 16) for shape in ("17x33x65", "1x512x3", "640x320x1000")
]
KERNELS = [name for name, entry in VARIANTS.items() if entry.kernel_name]


@pytest.fixture(scope="module")
def cubins(card, nvcc):
    name = architecture(card.compute_capability)
    wanted = builds(study(series=[shapes_of(KERNELS)]))
    folder = made("cubins", [code("base", "kernels"), name], partial(build_all, nvcc, wanted, name))
    return folder, [read_result(folder / name / f"{build.stem}.cubin") for build in wanted]


def study(**changes):
    """Return the study with changed keys, without validation."""
    return studies.study({}).model_copy(update=STUDY | changes)


def shapes_of(variants):
    """Return a series of all SHAPES, without validation: some variants support none."""
    return Series.model_construct(
        variants=variants, dtypes=list(ELEMENTS), block_sizes=[8, 16, 32], shapes=SHAPES
    )


@pytest.mark.gpu("alone")
def test_a_pytorch_function_multiplies_and_has_kernel_only_times(card, cubins, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "called.py").write_text(CALLED)
    entry = read(tmp_path / "called.py")
    for text in ("17x33x65", "256"):
        one = planned.Cell("gpu0", with_entry(entry, "float32", Shape.parse(text)), "pinned")
        given = Inputs(problems([one]), 1)
        with GpuSession(card, given, cubins[1], cubins[0], True) as session:
            session.poison(one)
            session.run(one)
            verdict = evaluate(session.product(one), *reference(*given.pair("float32", one.shape)))
            assert verdict.passed, verdict
            assert 1e-6 < session.kernel_time(one, flushed=False).kernel_s < 1e-3


@pytest.fixture(scope="module")
def inputs():
    largest = [("float32", Shape.square(2048)), ("float64", Shape.square(130))]
    awkward = [(dtype, Shape.parse(text)) for dtype in ELEMENTS for text in (*SHAPES, 130)]
    return Inputs([*largest, *awkward], seed=1)


@pytest.fixture(scope="module")
def session(card, cubins, inputs):
    folder, results = cubins
    partner = next(iter(cuda_devices()[1:]), None)
    with GpuSession(card, inputs, results, folder, partner=partner) as session:
        yield session


def small_cells(variant):
    least = VARIANTS[variant].edges[0]
    sizes = STUDY["sizes"] if least == 1 else [least, min(least + 33, 2048)]
    return gpu_cells(study(variants=[variant], sizes=sizes, holdout_sizes=[]), "gpu0")


def awkward_cells(variant):
    awkward = {"sizes": [17], "holdout_sizes": [], "series": [shapes_of([variant])]}
    return gpu_cells(study(variants=[variant], **awkward), "gpu0")


def cell(variant, n, block, memory="pinned"):
    return planned.cell("gpu0", variant, "float32", Shape.square(n), block, memory)


def passes(session, cells, inputs):
    device = InProcess(session, cells, CACHE, inputs)
    outcomes = list(gate(device, cells, lambda _: None))
    checks = {check.cell: check for check, _ in outcomes}
    return checks, {sample.cell: sample.run.timing for _, sample in outcomes if sample}


def passed(session, cells, inputs):
    """Return checks and timings of cells that pass the gate."""
    checks, timings = passes(session, cells, inputs)
    assert {str(c): check.reason for c, check in checks.items() if check.status != "passed"} == {}
    assert set(timings) == set(cells)
    return checks, timings


@pytest.mark.parametrize("variant", VARIANTS)
def test_products_of_awkward_sizes_and_block_sizes_pass_the_gate_on_a_gpu(session, inputs, variant):
    cells = small_cells(variant)
    entry = VARIANTS[variant]
    if (not entry.kernel_name or entry.only_capability) and session.not_launchable(cells[0]):
        pytest.skip(session.not_launchable(cells[0]))
    _, timings = passed(session, cells, inputs)
    in_turn = entry.flow in SEQUENTIAL
    memories = {memory for memory in STUDY["host_memory"] if entry.takes_memory(memory)}
    assert {c.host_memory for c in cells} == memories
    for c, timing in timings.items():
        if not in_turn:
            assert 0 < timing.total_s < 10
            continue
        step = VARIANTS[c.variant].host_step
        assert (timing.host_s is not None) == (step is not None)
        parts = (timing.host_s or 0.0, timing.h2d_s, timing.kernel_s, timing.d2h_s)
        assert min(parts[1:]) > 0
        assert sum(parts) <= timing.total_s < 10


@pytest.mark.parametrize("variant", ["mm_naive", "mm_tile", "bmm_naive", "bmm_tile"])
def test_products_of_every_shape_batch_and_type_pass_the_gate_on_a_gpu(session, inputs, variant):
    """Integers use their whole range, so nearly every sum overflows; products are exact."""
    cells = awkward_cells(variant)
    assert {c.dtype for c in cells} == set(VARIANTS[variant].dtypes)
    assert {c.shape.batch for c in cells} == ({1, 3, 16} if variant.startswith("bmm") else {1})
    assert {(17, 33, 65), (1, 512, 3), (640, 320, 1000)} < {
        (c.shape.m, c.shape.k, c.shape.n) for c in cells
    }
    checks, _ = passed(session, cells, inputs)
    errors = [check.verdict.worst_error for c, check in checks.items() if c.dtype == "int32"]
    assert set(errors) == {0.0}


@pytest.mark.parametrize("variant", KERNELS)
def test_kernels_write_nothing_outside_the_matrices(session, variant):
    """NaN behind A and B would reach the product; ones behind C must be unchanged."""
    memory = "pinned" if VARIANTS[variant].takes_memory("pinned") else "pageable"
    cells = [c for c in small_cells(variant) if c.host_memory == memory and "float" in c.dtype]
    if session.not_launchable(cells[0]):
        pytest.skip(session.not_launchable(cells[0]))
    behind = np.empty(session._bytes[2] // 4, np.float32)
    words = np.array([POISON_WORD, POISON_WORD, 1], np.uint32)
    for asked in cells:
        for buffer, size, word in zip(session._on_device, session._bytes, words, strict=True):
            driver().memset_d32(buffer, int(word), size // 4)
        session.run(asked)
        assert np.isfinite(session.product(asked)).all(), asked
        driver().memcpy_dtoh(behind, session._on_device[2])
        seen = asked.product.operands
        used = seen.c_elements * ELEMENTS[asked.dtype].bytes // 4
        assert (behind.view(np.uint32)[used:] == 1).all(), asked


def test_matrices_in_pageable_and_in_pinned_memory_are_separate(session, inputs):
    for memory in ("pinned", "pageable"):
        asked = cell("block", 33, 8, memory)
        session.poison(asked)
        assert np.isnan(session.product(asked)).all()
        session.run(asked)
    pinned, pageable = (session.product(cell("block", 33, 8, m)) for m in ("pinned", "pageable"))
    assert not np.shares_memory(pinned, pageable)
    np.testing.assert_array_equal(pinned, pageable)
    a, b = inputs.pair("float32", Shape.square(33))
    np.testing.assert_allclose(pinned, a @ b, atol=1e-4)


def test_a_cell_that_exceeds_a_limit_of_the_gpu_is_not_launched(session, inputs):
    asked = [cell("buffered_row", 2048, None), cell("buffered_column", 100, None)]
    checks, timings = passes(session, asked, inputs)
    said = f"needs 2048 threads per block, {session.limits.max_threads_per_block} allowed"
    assert (checks[asked[0]].status, checks[asked[0]].reason) == ("not_launchable", said)
    assert set(timings) == {asked[1]}


def test_a_cubin_that_does_not_load_fails_only_its_configurations(card, cubins, inputs, tmp_path):
    folder, results = cubins
    name = architecture(card.compute_capability)
    for path in (folder / name).iterdir():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / path.name).write_bytes(path.read_bytes())
    (tmp_path / name / "block-b8-float32-exact.cubin").write_bytes(b"no code")
    asked = [cell("naive", 64, 8), cell("block", 64, 8), cell("block", 100, 8)]
    with GpuSession(card, inputs, results, tmp_path) as session:
        checks, _ = passes(session, asked, inputs)
    assert [checks[c].status for c in asked] == ["passed", "failed", "passed"]
    assert checks[asked[1]].reason.startswith("block-b8-float32-exact.cubin: cannot be loaded: ")


def test_checking_products_needs_no_cubins_of_helper_kernels(card, cubins, inputs, tmp_path):
    folder, results = cubins
    name = architecture(card.compute_capability)
    (tmp_path / name).mkdir()
    cubin = Path(name, "block-b8-float32-exact.cubin")
    (tmp_path / cubin).write_bytes((folder / cubin).read_bytes())
    with GpuSession(card, inputs, results, tmp_path) as session:
        passed(session, [cell("block", 64, 8)], inputs)


def test_a_kernel_that_leaves_elements_unwritten_fails_the_gate(card, cubins, inputs):
    """A build of another block size leaves elements of C unwritten."""
    folder, results = cubins
    with GpuSession(card, inputs, results, folder) as session:
        asked = cell("naive", 31, 8)
        build = build_for(asked.product)
        launches = session._launches
        other = launches.function(Build("naive", 4, "float32", True), 1)
        launches._functions[build, build.variant] = other
        checks, _ = passes(session, [asked], inputs)
    assert checks[asked].status == "failed"
    assert "= nan, expected" in checks[asked].reason


def test_closing_a_session_destroys_its_cuda_context(card, cubins, inputs):
    folder, results = cubins
    before = driver().Context.get_current()
    for variant in 2 * ("block", "naive"):
        with GpuSession(card, inputs, results, folder) as session:
            passed(session, [cell(variant, 64, 8)], inputs)
            assert driver().Context.get_current() != before
        assert driver().Context.get_current() == before


def kernel_s(session, asked):
    return session.kernel_time(asked, flushed=False).kernel_s


@pytest.mark.gpu("alone")
@pytest.mark.parametrize("n", [64, 256, 2048])
def test_kernel_only_times_agree_with_times_by_the_clock_of_the_gpu(session, n):
    asked = cell("block_unroll4", n, 32)
    by_clock_s = stamps(session)
    ratios = [kernel_s(session, asked) / by_clock_s(asked) for _ in range(31)]
    assert np.median(ratios) == pytest.approx(1, abs=0.1 if n == 64 else 0.02)


@pytest.mark.gpu("alone")
def test_kernel_only_times_do_not_depend_on_host_memory(session):
    cells = [cell("block_unroll4", 256, 32, memory) for memory in ("pinned", "pageable")]
    isolated_s = [np.median([kernel_s(session, each) for _ in range(31)]) for each in cells]
    assert isolated_s[0] == pytest.approx(isolated_s[1], rel=0.02)
    assert session.run(cells[0]).kernel_s > isolated_s[0], "there the card waits for the host"


@pytest.mark.gpu("alone")
def test_energy_is_read_from_the_counter_of_the_gpu(session):
    session.observers = gpu_observers(session._device.pci_bus_id())
    one = cell("block_unroll4", 2048, 32)
    device = InProcess(session, [one], CACHE)
    found = device.call(Worker.energy, one, 0.5)
    assert found.launches == round(found.duration_s / found.launch_s)
    assert found.energy_j == pytest.approx(found.power_w * found.launch_s)
    assert 100e6 < found.sm_clock_hz < 5e9
    assert 20 < device.call(Worker.idle_power_w, 0.5) < found.power_w < 2000


def test_a_gpu_reports_its_state_in_si_units(session):
    observers = gpu_observers(session._device.pci_bus_id()).runs
    session.run(cell("block_unroll4", 2048, 32), observers=observers)
    reading = Reading(**results(observers))
    assert 100e6 < reading.sm_clock_hz < 5e9
    assert 100e6 < reading.memory_clock_hz < 50e9
    assert 0 < reading.temperature_celsius < 120
    assert 1 < reading.power_w < 2000
    assert reading.throttle_reasons in range(256)


# One variant per kernel, without tensor cores, whose order of sums is undocumented.
OWN = [name for name in KERNELS if VARIANTS[name].kernel_name == name]
IN_ORDER = [name for name in OWN if not VARIANTS[name].tensor_products]


def pinned_cells(variant):
    others = awkward_cells(variant) if VARIANTS[variant].shapes != "square" else []
    return [one for one in (*small_cells(variant), *others) if one.host_memory != "pageable"]


# Each block size is a test, because the host needs minutes for all tile shapes of a kernel.
BLOCKS = dict.fromkeys((name, one.block_size) for name in IN_ORDER for one in pinned_cells(name))


@pytest.mark.gpu("later")
@pytest.mark.parametrize(("variant", "block"), BLOCKS)
def test_gpu_products_equal_those_of_host_execution_bit_for_bit(
    session, variant, block, tmp_path_factory
):
    """With FMAs, which ptxas generates for all products and sums here."""
    folder = tmp_path_factory.getbasetemp() / "host_execution"
    for asked in pinned_cells(variant):
        if asked.block_size != block or session.not_launchable(asked):
            continue
        large = asked.shape.flop > Shape.square(200).flop
        if large and max(VARIANTS[variant].tile(block)) < 64:
            continue  # the host would take minutes, and smaller shapes have many tiles
        expected, _ = execute(asked.product, "fused", folder=folder)
        with gpu():
            session.run(asked)
            product = session.product(asked)
        np.testing.assert_array_equal(product.view(np.int32), expected.view(np.int32))


@pytest.mark.gpu("alone")
@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("variant", ["block", "cublas_sgemm", "sgemm_tensor_tma"])
def test_products_are_correct_at_every_location_of_the_matrices(session, inputs, variant, location):
    entry = VARIANTS[variant]
    blocks = [16] if entry.block_sizes else [None]
    cells = [cell(variant, n, block, location) for n in (17, 128, 2048) for block in blocks]
    if session.not_launchable(cells[0]):
        pytest.skip(session.not_launchable(cells[0]))
    _, timings = passed(session, cells, inputs)
    moved_s = timings[cells[-1]].h2d_s, timings[cells[-1]].d2h_s
    if location == "resident":
        assert max(moved_s) < 1e-4
    elif location in ("pinned", "registered"):
        assert min(moved_s) > 1e-4


@pytest.mark.gpu("alone")
@pytest.mark.parametrize("variant", ["block", "cublas_sgemm"])
def test_every_stream_of_a_batch_computes_the_correct_product(session, inputs, variant):
    one = cell(variant, 512, 16 if VARIANTS[variant].block_sizes else None)
    worker = InProcess(session, [one], CACHE, inputs)
    trials = worker.call(Worker.throughput, one, [Batch(1, 8), Batch(4, 8), Batch(2, 8, True)])
    run_s, copies_s = (
        {
            setting: median(getattr(one, name) for one in trials if one.setting == setting)
            for setting in (Batch(1, 8), Batch(4, 8), Batch(2, 8, True))
        }
        for name in ("run_s", "copies_s")
    )
    assert run_s[Batch(4, 8)] < run_s[Batch(1, 8)]
    assert all(copies_s[setting] < 1.5 * run_s[setting] for setting in run_s)
