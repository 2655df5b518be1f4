"""The CPU variants: products, errors, the library's build, and the CPU as a device."""

import os
import timeit
from functools import cache

import numpy as np
import pytest

from base.errors import StudyError
from cpu_reference import blas
from cpu_reference import library as binding
from cpu_reference.blas import LIBRARIES
from cpu_reference.catalog import VARIANTS, variant
from cpu_reference.library import (
    FLAGS,
    MACHINE_FLAGS,
    OWN_FLAGS,
    Library,
    build_library,
    find_gcc,
    gcc_version,
)
from kernels.products.gate import evaluate
from kernels.products.matrices import Inputs, reference
from kernels.products.shape import Shape
from measurement.devices.cpu import CpuSession
from measurement.devices.errors import CellError
from measurement.devices.observers import CpuTelemetry, Reading
from study.cells import CPU, cell
from tests.support import ROOT
from tests.support.builds import cpu_library
from tests.support.compilers import program

pytestmark = pytest.mark.slow


def installed(name):
    try:
        return VARIANTS[name].compiled or bool(LIBRARIES[name]())
    except StudyError:
        return False


# Variant, block size, threads.
CASES = [
    (name, block, threads)
    for name, entry in VARIANTS.items()
    if installed(name)
    for block in ([1, 3, 8, 64, 512] if entry.blocked else [None])
    for threads in ([1, 2, 3] if entry.parallel else [1])
]
COMPILED = {name: entry for name, entry in VARIANTS.items() if entry.compiled}
GUARD = 16


@pytest.fixture(scope="module")
def library():
    return Library(cpu_library())


@pytest.fixture(scope="module")
def gate():
    @cache
    def of(n):
        a, b = Inputs([("float32", Shape.square(n))], seed=n).pair("float32", Shape.square(n))
        return a, b, *reference(a, b)

    return of


@pytest.mark.parametrize(("name", "block", "threads"), CASES)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 100])
def test_the_product_of_every_cpu_variant_equals_that_of_numpy(library, name, block, threads, n):
    rng = np.random.default_rng(n)
    a, b = (rng.random((n, n), dtype=np.float32) * 2 - 1 for _ in range(2))
    before = a.copy(), b.copy()
    buffer = np.full(n * n + 2 * GUARD, np.nan, np.float32)
    c = buffer[GUARD:-GUARD].reshape(n, n)
    library.multiply(name, a, b, c, block, threads)
    exact = a.astype(float) @ b.astype(float)
    allowed = n * 2.0**-23 * (np.abs(a).astype(float) @ np.abs(b).astype(float))
    assert (np.abs(c - exact) <= allowed).all()
    assert np.isnan(buffer[:GUARD]).all()
    assert np.isnan(buffer[-GUARD:]).all()
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize(
    ("case", "n"),
    [
        *((case, 255) for case in CASES if case[1] not in (1, 3)),
        *((case, n) for case in CASES if case[0] in ("packed", "blas") for n in (1000, 1023)),
    ],
    ids=str,
)
def test_larger_cpu_products_pass_the_correctness_check(library, gate, case, n):
    a, b, expected, bound = gate(n)
    c = np.full((1, n, n), np.nan, np.float32)
    library.multiply(case[0], a[0], b[0], c[0], *case[1:])
    verdict = evaluate(c, expected, bound)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("name", "block", "threads", "n"),
    [
        *((*case, 100) for case in CASES if VARIANTS[case[0]].compiled),
        # Several blocks; `packed` splits its sums.
        *((*case, 700) for case in CASES if case[0] == "packed" or case[1] == 512),
    ],
)
def test_compiled_variants_add_terms_in_the_order_of_k(library, name, block, threads, n):
    """A float32 sum of numbers of very different magnitude depends on their order."""
    rng = np.random.default_rng(7)
    a = (rng.standard_normal((n, n)) * 10.0 ** rng.integers(-4, 5, (n, n))).astype(np.float32)
    c = np.empty((n, n), np.float32)
    library.multiply(name, a, np.ones((n, n), np.float32), c, block, threads)
    in_order = np.cumsum(a, axis=1, dtype=np.float32)[:, -1]
    assert (in_order != np.cumsum(a[:, ::-1], axis=1, dtype=np.float32)[:, -1]).any()
    np.testing.assert_array_equal(c, np.repeat(in_order[:, None], n, axis=1))


@pytest.mark.parametrize("name", ["mkl", "blis"])
def test_cells_of_a_library_that_is_not_installed_are_not_launchable(library, monkeypatch, name):
    monkeypatch.setattr(blas.metadata, "files", lambda _: None)
    monkeypatch.setattr(blas, "find_spec", lambda _: None)
    monkeypatch.setattr(blas, "import_module", lambda _: exec("import no_such_module"))
    monkeypatch.setattr(library, "_blas", {})
    session = CpuSession(library, Inputs([("float32", Shape.square(8))], seed=1))
    said = session.not_launchable(cell(CPU, name, "float32", Shape.square(8), threads=1))
    assert said == f"{name}: not installed; run `make setup LAYERS=blas`"


def test_threads_and_block_sizes_that_a_variant_does_not_support_are_refused(library):
    for name, block, threads, said in (
        *((name, 8, 2, "cannot run on 2 threads") for name in ("naive", "blocked")),
        ("packed", 8, 0, "cannot run on 0 threads"),
        *(("blocked", block, 1, "needs a block size") for block in (None, 0)),
    ):
        with pytest.raises(ValueError, match=f"{name}: {said}"):
            library.multiply(name, square(), square(), square(), block, threads)
    with pytest.raises(StudyError, match="'fast': unknown; use one of naive, loop_order"):
        variant("fast")


def test_no_cpu_variant_exceeds_the_measured_ceilings(library):
    a, b, c = (np.ones((256, 256), np.float32) for _ in range(3))
    product = library.prepare("packed", a, b, c)
    # Measured in turn: on a busy host, the throughput may be halved for a moment.
    rates = [(library.fma_flop_per_s(), timeit.timeit(product, number=1)) for _ in range(40)]
    rate, seconds = max(rate for rate, _ in rates), min(seconds for _, seconds in rates)
    assert 0.02 * rate < 2 * 256**3 / seconds < 1.5 * rate
    p, q = np.full((2, 1 << 22), [[2], [3]], np.float32)
    out = np.empty_like(p)
    assert 1e8 < library.triad_bytes_per_s(out, p, q) < 1e12
    assert (out == 11).all()
    fitting = np.zeros(4, np.float32)
    for wrong in (np.zeros(3, np.float32), np.zeros(4), np.zeros(8, np.float32)[::2]):
        with pytest.raises(ValueError, match="contiguous float32 of one length"):
            library.triad_bytes_per_s(fitting, fitting, wrong)


def square(n=4, dtype=np.float32):
    return np.zeros((n, n), dtype)


def test_matrices_of_the_wrong_shape_type_or_layout_are_refused(library):
    wrong = [square(dtype=np.float64), square(dtype=np.int32), square(5), square(3)]
    wrong += [np.zeros(shape, np.float32) for shape in ((4, 5), 16, (4, 4, 1))]
    wrong += [np.asfortranarray(np.arange(16, dtype=np.float32).reshape(4, 4))]
    wrong += [np.zeros((4, 8), np.float32)[:, ::2]]
    triples = [[square(), square(), square()] for _ in range(3 * len(wrong))]
    for number, matrices in enumerate(triples):
        matrices[number % 3] = wrong[number // 3]
    for shape in ((4, 5), (5, 4), (16,), (4, 4, 1)):  # accepted, they would be read out of bounds
        data = np.zeros(1000, np.float32)[: np.prod(shape)]
        triples.append([data.reshape(shape) for _ in range(3)])
    for matrices in triples:
        with pytest.raises(ValueError, match=r"contiguous float32: |square matrices only"):
            library.multiply("naive", *matrices, None)


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("text", ["17x33x65", "200x100x1", "1x512x3"])
def test_libraries_multiply_matrices_of_any_shape(library, name, text):
    if not installed(name):
        pytest.skip(f"{name} is not installed")
    shape = Shape.parse(text)
    one = cell(CPU, name, "float32", shape, threads=1)
    inputs = Inputs((("float32", shape),), 1)
    with CpuSession(library, inputs) as session:
        session.poison(one)
        session.run(one)
        product = session.product(one)
    assert product.shape == (1, shape.m, shape.n)
    assert evaluate(product, *reference(*inputs.pair("float32", shape))).reason is None


def test_the_first_gcc_on_path_is_used_and_its_version_is_read(monkeypatch, tmp_path):
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StudyError, match=r"^gcc: not found on PATH; install it.*$"):
        find_gcc()
    gcc = program(tmp_path / "gcc", '[ "$1" = -dumpfullversion ] && echo 12.3.4')
    monkeypatch.setenv("PATH", f"{tmp_path}:{path}")
    assert find_gcc() == gcc
    assert gcc_version(gcc) == "12.3.4"


def test_a_failed_build_of_the_cpu_library_is_a_one_line_error(tmp_path):
    said = "echo 'a.c: In function' >&2; echo 'a.c:1: error: no x' >&2"
    for script, complaint in ((said, "a.c:1: error: no x"), ("echo killed", "without a message")):
        gcc = program(tmp_path / "gcc", f"{script}; exit 1")
        with pytest.raises(StudyError) as refused:
            build_library(gcc, tmp_path)
        assert str(refused.value) == f"cpu_reference: gcc failed: {complaint}"


def test_the_cpu_library_is_built_with_exact_arithmetic_for_any_machine(tmp_path):
    gcc = program(tmp_path / "gcc", f'echo "$@" >{tmp_path}/line; exec {find_gcc()} "$@"')

    def words(*flags):
        build_library(gcc, tmp_path, *flags)
        return set((tmp_path / "line").read_text().split())

    own, other = words(), words(["-O2", "-mavx2"])
    assert {*FLAGS, "-O3", "-march=native", "-fno-loop-interchange"} <= own
    inexact = ("-ffast-math", "-Ofast", "-funsafe", "-fassociative", "-freciprocal")
    assert not [flag for flag in own if flag.startswith(inexact)]
    assert {str(ROOT / entry.source) for entry in COMPILED.values()} <= own
    assert {*OWN_FLAGS, "-O2", "-mavx2"} <= other
    assert not set(MACHINE_FLAGS) & other


def cpu_cell(name, n, block=None, threads=1):
    return cell(CPU, name, "float32", Shape.square(n), block, threads=threads)


def test_a_cpu_session_times_a_product(library):
    inputs = Inputs([("float32", Shape.square(20))], seed=1)
    watch = CpuTelemetry(library.clock_hz)
    with CpuSession(library, inputs) as session:
        for asked in (cpu_cell("blocked", 20, 8), cpu_cell("naive", 7), cpu_cell("blas", 7)):
            session.poison(asked)
            assert np.isnan(session.product(asked)).all()
            timing = session.run(asked, observers=[watch])
            a, b = inputs.pair(asked.dtype, asked.shape)
            np.testing.assert_allclose(session.product(asked), a @ b, atol=1e-5)
            assert 0 < timing.total_s < 1
            assert timing.busy_s == timing.total_s
            parts = (timing.host_s, timing.h2d_s, timing.kernel_s, timing.d2h_s)
            assert {*parts, session.not_launchable(asked), session.build(asked)} == {None}
            reading = Reading(**watch.results())
            assert 0 <= reading.other_threads_s < 1e-3
            assert 1e6 < reading.cpu_clock_before_hz < 1e10
            assert 1e6 < reading.cpu_clock_after_hz < 1e10


def test_a_variant_that_cannot_allocate_memory_fails_only_its_cell(tmp_path, monkeypatch):
    sources = tmp_path / "cpu_reference"
    sources.mkdir()
    (sources / "ceilings.c").write_text(
        "double fma_rate, triad_rate;\ndouble clock_rate(long n) { return n; }\n"
    )
    for name in COMPILED:
        (sources / f"{name}.c").write_text(f"int {name}(void) {{ return {name == 'naive':d}; }}\n")
    monkeypatch.setattr(binding, "ROOT", tmp_path)
    starved = Library(build_library(find_gcc(), tmp_path))
    session = CpuSession(starved, Inputs([("float32", Shape.square(4))], seed=1))
    with pytest.raises(CellError, match="CPU variant naive: not enough memory for its buffer"):
        session.run(cpu_cell("naive", 4))
    session.run(cpu_cell("column_buffered", 4))
