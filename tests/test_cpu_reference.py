"""The CPU variants: products, refusals, the library's build, and the CPU as a device."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from cpu_reference import library as binding
from cpu_reference.catalog import VARIANTS, cells, variant
from cpu_reference.library import FLAGS, Library, build_library, find_gcc, gcc_version
from kernels.shape import Shape
from measurement import cells as planning
from measurement.cells import CPU
from measurement.cpu import CpuSession
from measurement.errors import StudyError
from measurement.matrices import Inputs
from measurement.session import CellError
from measurement.telemetry import Reading

ROOT = Path(__file__).resolve().parent.parent
CASES = [
    (name, block)
    for name, entry in VARIANTS.items()
    for block in ([1, 3, 8, 64, 512] if entry.blocked else [None])
]
GUARD = 16


@pytest.fixture(scope="module")
def library():
    """The variants as they are measured, built once."""
    with tempfile.TemporaryDirectory() as folder:
        yield Library(build_library(find_gcc(), Path(folder)))


@pytest.mark.parametrize("entry", VARIANTS.values(), ids=VARIANTS)
def test_source_defines_the_function(entry):
    text = (ROOT / entry.source).read_text()
    assert f"int {entry.name}(const float *" in text
    assert sum(line.startswith("int ") for line in text.splitlines()) == 1


@pytest.mark.parametrize(("name", "block"), CASES)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 100])
def test_product_is_numpys(library, name, block, n):
    rng = np.random.default_rng(n)
    a, b = (rng.random((n, n), dtype=np.float32) * 2 - 1 for _ in range(2))
    before = a.copy(), b.copy()
    buffer = np.full(n * n + 2 * GUARD, np.nan, np.float32)
    c = buffer[GUARD:-GUARD].reshape(n, n)
    library.multiply(name, a, b, c, block)
    exact = a.astype(float) @ b.astype(float)
    allowed = n * 2.0**-23 * (np.abs(a).astype(float) @ np.abs(b).astype(float))
    assert (np.abs(c - exact) <= allowed).all()
    assert np.isnan(buffer[:GUARD]).all()
    assert np.isnan(buffer[-GUARD:]).all()
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize(("name", "block"), CASES)
def test_sums_keep_their_order(library, name, block):
    """A float32 sum of numbers of very different size tells in which order it was taken."""
    n = 100
    rng = np.random.default_rng(7)
    a = (rng.standard_normal((n, n)) * 10.0 ** rng.integers(-4, 5, (n, n))).astype(np.float32)
    c = np.empty((n, n), np.float32)
    library.multiply(name, a, np.ones((n, n), np.float32), c, block)
    in_order = np.cumsum(a, axis=1, dtype=np.float32)[:, -1]
    assert (in_order != np.cumsum(a[:, ::-1], axis=1, dtype=np.float32)[:, -1]).any()
    np.testing.assert_array_equal(c, np.repeat(in_order[:, None], n, axis=1))


def square(n=4, dtype=np.float32):
    return np.zeros((n, n), dtype)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    "wrong",
    [
        square(dtype=np.float64),
        square(dtype=np.int32),
        square(5),
        square(3),
        np.zeros((4, 5), np.float32),
        np.zeros(16, np.float32),
        np.zeros((4, 4, 1), np.float32),
        np.asfortranarray(np.arange(16, dtype=np.float32).reshape(4, 4)),
        np.zeros((4, 8), np.float32)[:, ::2],
    ],
    ids=["double", "integer", "larger", "smaller", "wide", "flat", "deep", "columns", "strided"],
)
def test_other_matrices_are_refused(library, place, wrong):
    matrices = [square(), square(), square()]
    matrices[place] = wrong
    with pytest.raises(ValueError, match="square, of one order, contiguous and float32"):
        library.multiply("naive", *matrices, None)


@pytest.mark.parametrize("shape", [(4, 5), (5, 4), (16,), (4, 4, 1)])
def test_three_alike_that_are_not_square_are_refused(library, shape):
    # One that got through would be read, and written, beyond its end.
    matrices = [np.zeros(1000, np.float32)[: np.prod(shape)].reshape(shape) for _ in range(3)]
    with pytest.raises(ValueError, match="square"):
        library.multiply("naive", *matrices, None)


def program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_missing_gcc_is_one_line_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StudyError) as refused:
        find_gcc()
    assert str(refused.value).startswith("gcc: not found on PATH; install it")
    assert "\n" not in str(refused.value)


def test_gcc_is_the_first_on_path_and_tells_its_version(monkeypatch, tmp_path):
    gcc = program(tmp_path / "gcc", '[ "$1" = -dumpfullversion ] && echo 12.3.4')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_gcc() == gcc
    assert gcc_version(gcc) == "12.3.4"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo 'a.c: In function' >&2; echo 'a.c:1: error: no x' >&2", "a.c:1: error: no x"),
        ("echo killed >&2", "without a message"),
    ],
)
def test_failed_build_is_one_line(tmp_path, script, complaint):
    gcc = program(tmp_path / "gcc", f"{script}; exit 1")
    with pytest.raises(StudyError) as refused:
        build_library(gcc, tmp_path)
    assert str(refused.value) == f"cpu_reference: gcc failed: {complaint}"


def test_library_is_built_optimised_for_this_machine_with_exact_arithmetic(tmp_path):
    gcc = program(tmp_path / "gcc", f'echo "$@" >{tmp_path}/line; exec {find_gcc()} "$@"')
    build_library(gcc, tmp_path)
    line = (tmp_path / "line").read_text().split()
    assert set(FLAGS) <= set(line)
    assert {"-O3", "-march=native", "-fno-loop-interchange"} <= set(line)
    inexact = ("-ffast-math", "-Ofast", "-funsafe", "-fassociative", "-ffp-contract=fast")
    assert not [flag for flag in line if flag.startswith(inexact)]
    assert {str(ROOT / entry.source) for entry in VARIANTS.values()} <= set(line)


def test_cells_have_a_block_size_where_the_variant_takes_one():
    study = {"variants": ["naive", "blocked"], "sizes": [2, 3], "block_sizes": [8, 16]}
    assert cells(study) == [
        ("naive", 2, None),
        ("naive", 3, None),
        *(("blocked", n, block) for n in (2, 3) for block in (8, 16)),
    ]
    with pytest.raises(StudyError, match="'fast' is not known; there are naive, column_buffered"):
        variant("fast")


def cell(name, n, block=None):
    return planning.cell(CPU, name, "float32", Shape.square(n), block)


def inputs_of(n):
    return Inputs([("float32", Shape.square(n))], seed=1)


def test_session_times_a_product(library):
    inputs = inputs_of(20)
    with CpuSession(library, inputs) as session:
        for asked in (cell("blocked", 20, 8), cell("naive", 7)):
            session.poison(asked)
            assert np.isnan(session.product(asked)).all()
            timing = session.run(asked)
            a, b = inputs.pair("float32", asked.shape)
            np.testing.assert_allclose(session.product(asked), a @ b, atol=1e-5)
            assert 0 < timing.total_s < 1
            assert timing.busy_s == timing.total_s
            parts = (timing.host_s, timing.h2d_s, timing.kernel_s, timing.d2h_s)
            assert parts == (None, None, None, None)
            assert session.not_launchable(asked) is None
            assert session.build(asked) is None
            assert session.telemetry.end() == Reading()


def test_variant_without_memory_fails_its_cell(tmp_path, monkeypatch):
    sources = tmp_path / "cpu_reference"
    sources.mkdir()
    for name in VARIANTS:
        (sources / f"{name}.c").write_text(f"int {name}(void) {{ return {name == 'naive':d}; }}\n")
    monkeypatch.setattr(binding, "ROOT", tmp_path)
    starved = Library(build_library(find_gcc(), tmp_path))
    session = CpuSession(starved, inputs_of(4))
    with pytest.raises(CellError, match="CPU variant naive: no memory for its buffer"):
        session.run(cell("naive", 4))
    session.run(cell("column_buffered", 4))
