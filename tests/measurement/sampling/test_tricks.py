"""Tricks that make code look fast are refused, and their honest twins pass; without a GPU.

The tricks run as calls in the memory of a fake CUDA. test_tricks_gpu.py has those of real kernels.
"""

import hashlib
import inspect
import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest

from base import command_line
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product, with_entry
from kernels.catalog.user_supplied import read
from kernels.products.shape import Shape
from measurement.devices import calls, flows, gpu, launching
from measurement.devices.calls import Intact
from measurement.devices.discovery import CudaDevice
from measurement.devices.errors import CellError
from measurement.devices.gpu import GpuSession
from measurement.devices.second_check import SAME, SecondCheck, compare, project
from measurement.sampling import worker
from study.cells import Cell, cell, problems
from tests.support.fake_cuda import FakeCublas, FakeCuda, FakeGraphs
from tests.support.tricks import SAMPLES, inputs_of, outcome

GATE_CALLS = 2  # the run of the gate, and the warm-up of the first sample
CEILINGS = {"fp32_flop_per_s": 1e13, "l2_bytes_per_s": 1e12}


def test_catalog_kernels_get_changed_inputs_only_in_some_last_samples():
    own = cell("gpu0", "block", "float32", Shape.square(64), 16, "pinned")
    second = SecondCheck(problems([own]), 1)
    assert second.draw(own, last=False) == SAME
    lasts = [second.draw(own, last=True) for _ in range(400)]
    assert {change == SAME or change.checked for change in lasts} == {True}
    assert 40 < sum(change.checked for change in lasts) < 200  # a quarter of them


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_second_check_finds_one_wrong_element_anywhere(dtype):
    shape, rng = Shape(2, 500, 600, 700), np.random.default_rng(3)
    one = cell("gpu0", "bmm_tile", dtype, shape, 8, "pinned")
    second = SecondCheck(problems([one]), 1)
    a, b = second.inputs.pair(dtype, shape)
    product = a.astype("d") @ b.astype("d") if dtype == "float32" else a @ b
    missed = 0
    for _ in range(20):
        c = product.astype(dtype)
        place = tuple(int(rng.integers(0, edge)) for edge in product.shape)
        c[place] += 3 * shape.k**2 / 4 * 2.0**-24 if dtype == "float32" else 1
        rows = partial(np.take, c.reshape(-1, shape.n), axis=0)
        with suppress(CellError):
            second.check(one, SAME, partial(project, c), rows)
            missed += 1
    # A check misses less than 1 % of such errors (where the random vector is nearly zero).
    assert missed <= 3


def test_the_second_check_finds_imprecise_sums_among_small_errors():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape, "f") for shape in ((16, 12288), (12288, 16)))
    assert compare(a @ b, a, b, 0.005).passed
    assert not compare((a * np.float32(1 + 2.0**-12)) @ b, a, b, 0.005).passed


@pytest.mark.parametrize(("digits", "dtype"), [(24, np.float32), (11, np.float16)])
def test_a_product_of_half_matrices_is_compared_with_the_error_bound_of_halves(digits, dtype):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape, "f") for shape in ((16, 4096), (4096, 16)))
    multiple = 1 + 3 * 2 ** (24 - digits) / 4096

    def passes(precision):
        short = [matrix.astype(precision).astype("f") for matrix in (a, b)]
        product = (short[0] @ short[1]).astype(precision).astype("f")
        return compare(product, a, b, multiple, digits).passed

    assert passes(dtype)
    if digits == 11:
        changed = (a + np.float32(2.0**-7)) @ b
        assert not compare(changed, a, b, multiple, digits).passed
    else:
        assert not passes(np.float16)


@pytest.mark.parametrize("precision", [np.float16, np.float32])
def test_the_largest_errors_of_a_correct_product_are_not_called_imprecise(precision):
    rng, digits = np.random.default_rng(2), np.finfo(precision).nmant + 1
    a, b = (rng.uniform(-1, 1, shape).astype("f") for shape in ((512, 4096), (4096, 512)))
    multiple = 1 + 3 * 2 ** (24 - digits) / 4096
    short = [matrix.astype(precision).astype("f") for matrix in (a, b)]
    product = (short[0] @ short[1]).astype(precision).astype("f")

    def passes(values, largest=True):
        row = np.argmax(np.abs(values - a @ b).max(axis=1))
        columns = np.argsort(-np.abs(values[row] - a[row] @ b))[:4]
        values, right = values[[row]][:, columns], b[:, columns]
        return compare(values, a[[row]], right, multiple, digits, largest).passed

    assert passes(product)
    assert passes(product, False) == (precision is np.float32)
    product[7, 5:12] += 0.4
    assert not passes(product)


class Code:
    """Code under test; `trick` is one of the functions below."""

    def __init__(self, trick, cuda):
        self.trick, self.cuda, self.stored, self.calls = trick, cuda, {}, 0

    def __call__(self, a, b, c, stream):
        self.calls += 1
        # `c` is the memory itself, so what is written there is the product.
        addresses = tuple(each.address for each in (a, b, c))
        places = zip(addresses, (a.shape, b.shape, c.shape), strict=True)
        matrices = [self.cuda.matrices(at, "float32", 1, *shape)[0] for at, shape in places]
        self.trick(self, *matrices, addresses)

    @property
    def late(self):
        return self.calls > GATE_CALLS

    def compute(self, a, b, c):
        self.cuda.now_ms += self.cuda.launch_ms
        np.matmul(a, b, out=c)

    def by_key(self, key, a, b, c):
        if key not in self.stored:
            self.compute(a, b, c)
            self.stored[key] = c.copy()
        c[:] = self.stored[key]


def honest(code, a, b, c, addresses):
    code.compute(a, b, c)


def by_pointer(code, a, b, c, addresses):
    code.by_key(addresses, a, b, c)


def by_corners(code, a, b, c, addresses):
    code.by_key((a.shape, addresses), a, b, c)


def by_content(code, a, b, c, addresses):
    """Is honest: it compares all inputs, which differ in every timed launch."""
    code.by_key(a.tobytes() + b.tobytes(), a, b, c)


def constant_inputs(code, a, b, c, addresses):
    code.by_key("all inputs", a, b, c)


def once(code, a, b, c, addresses):
    if not code.late:
        code.compute(a, b, c)


def leftover_product(code, a, b, c, addresses):
    if np.isnan(c[0, 0]):
        code.compute(a, b, c)


def skipped(code, a, b, c, addresses):
    rows = len(a) * 4 // 5 if code.late else len(a)
    code.compute(a[:rows], b, c[:rows])


def one_element(code, a, b, c, addresses):
    code.compute(a, b, c)
    if code.late:
        rng = np.random.default_rng(code.calls)
        c[rng.integers(0, len(c)), rng.integers(0, len(c))] += 0.1


def two_rows(code, a, b, c, addresses):
    code.compute(a, b, c)
    if code.late:
        c[np.random.default_rng(code.calls).integers(0, len(c), 2)] *= 1.01


def early_exit(code, a, b, c, addresses):
    if len(a) < 100 or not code.late:
        code.compute(a, b, c)


def other_stream(code, a, b, c, addresses):
    if code.late:
        code.cuda.pending.append(lambda: np.matmul(a, b, out=c))
    else:
        code.compute(a, b, c)


def other_gpu(code, a, b, c, addresses):
    code.compute(a, b, c)
    if code.late:
        code.cuda.opened.add(1)


def written_inputs(code, a, b, c, addresses):
    code.compute(a, b, c)
    if code.late:
        b[:] = 0


def stopped_clock(code, a, b, c, addresses):
    np.matmul(a, b, out=c)  # takes no time of the fake GPU


def reduced(code, a, b, c, addresses, bits=11):
    """Round to a significand of so many bits, as tensor cores do."""
    if code.late:
        (a, i), (b, j) = np.frexp(a), np.frexp(b)
        a, b = np.round(a * 2.0**bits) / 2.0**bits, np.round(b * 2.0**bits) / 2.0**bits
        a, b = np.ldexp(a, i).astype(np.float32), np.ldexp(b, j).astype(np.float32)
    code.compute(a, b, c)


def precise_where_sparse(code, a, b, c, addresses):
    reduced(code, a, b, c, addresses)
    sparse = (a == 0).any(axis=1)
    c[sparse] = a[sparse] @ b


def slow(code, a, b, c, addresses):
    code.compute(a, b, c)
    code.cuda.now_ms += 5


def before_the_timer(code, a, b, c, addresses):
    """Compute the products of later launches in a launch that is not timed."""
    code.compute(a, b, c)
    code.cuda.now_ms += 5 if code.calls <= GATE_CALLS + 2 * SAMPLES else 0


WRONG, FAST = "refused: a timed product is wrong", "is below the physical floor"
# Trick: its function, shape, reason (None: honest, or nothing is gained).
TRICKS = {
    "honest": (honest, 40, None),
    "honest, large": (honest, 300, None),
    "honest, long sums": (honest, "16x16384x16", None),
    "stored by pointer": (by_pointer, 40, WRONG),
    "stored by shape and pointer": (by_corners, 40, WRONG),
    "stored by all content": (by_content, 40, None),
    "computed once": (once, 40, WRONG),
    "leftover product": (leftover_product, 40, WRONG),
    "skipped elements": (skipped, 40, WRONG),
    "one wrong element": (one_element, 700, WRONG),
    "two wrong rows": (two_rows, 700, WRONG),
    "early exit by N": (early_exit, 120, WRONG),
    "constant inputs": (constant_inputs, 40, WRONG),
    "another stream, or a late thread": (other_stream, 40, WRONG),
    "another GPU": (other_gpu, 40, "refused: called.py uses GPU 1, which is not measured"),
    "inputs written": (written_inputs, 40, "refused: "),
    "TF32 or FP16": (reduced, "16x4096x16", WRONG),
    "BF16": (partial(reduced, bits=8), "16x16384x16", WRONG),
    "precise in sparse rows": (precise_where_sparse, "16x4096x16", "float32 allows"),
    "honest, 5 ms": (slow, 40, None),
    "computed before the timer": (before_the_timer, 40, "work was done before the timer started"),
    "no time": (stopped_clock, 300, FAST),
}


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Return a function that measures code at size N and returns the reason of its refusal."""
    gpus = 2 * [("Stand-in", (8, 0))]
    cuda = FakeCuda(gpus, durations_ms=(0.01, 0.5, 4.0))
    cuda.cublas = FakeCublas(cuda)
    path = tmp_path / "called.py"
    path.write_text("def multiply(a, b, c, stream):\n    pass\n")
    for module, name, value in (
        (gpu, "driver", lambda: cuda),
        (flows, "_library", lambda: FakeGraphs(cuda)),
    ):
        monkeypatch.setattr(module, name, value)
    entry = read(path)

    def tried(trick, n):
        code = Code(trick, cuda)
        if trick is not honest:  # comparing all functions takes most of the time
            monkeypatch.setattr(launching, "Intact", lambda _: Mock())
        monkeypatch.setattr(launching, "load_call", lambda *_: code)
        one = Cell("gpu0", with_entry(entry, "float32", Shape.parse(n)), "pinned")
        device = CudaDevice(0, "Stand-in", "8.0")
        with GpuSession(device, inputs_of([one]), [], tmp_path, True) as session:
            return outcome(session, one, tmp_path, CEILINGS)

    return tried


@pytest.mark.slow
@pytest.mark.parametrize(("trick", "n", "reason"), TRICKS.values(), ids=TRICKS)
def test_user_code_that_cheats_is_refused_and_honest_code_is_accepted(trial, trick, n, reason):
    said = trial(trick, n)
    assert (reason in said and "\n" not in said) if reason else said is None, said


@pytest.mark.slow
def test_caching_products_by_full_content_still_computes_every_timed_product(trial, monkeypatch):
    computed = []
    compute = Code.compute
    monkeypatch.setattr(Code, "compute", lambda *own: (compute(*own), computed.append(1)))
    assert trial(by_content, 40) is None
    assert len(computed) >= 2 * SAMPLES
    log = flows._library().cuda.log
    resets = ["cuCtxResetPersistingL2Cache", "cuCtxSetLimit", "cuStreamSetAttribute"]
    assert [log.count(name) for name in resets] == [2 * SAMPLES + 1] * 3, "and the second first"


REPLACED = {
    "a function of NumPy": (np, "abs"),
    "a hash": (hashlib, "new"),
    "the affinity": (os, "sched_setaffinity"),
    "a clock": (gpu.time, "perf_counter_ns"),
    "the checker": (worker, "evaluate"),
    "a method of the session": (GpuSession, "product"),
}


@pytest.mark.parametrize(("owner", "name"), REPLACED.values(), ids=REPLACED)
def test_an_error_names_a_function_that_user_code_replaced(monkeypatch, owner, name):
    intact = Intact(FakeCuda([("Stand-in", (8, 0))]))
    intact.check("called.py")
    monkeypatch.setattr(owner, name, lambda *_: 0)
    with pytest.raises(Exception, match=rf"^refused: called.py replaced \S*{name}; leave it"):
        intact.check("called.py")


def test_a_library_may_replace_what_only_the_command_line_imports(monkeypatch):
    assert command_line.inspect
    intact = Intact(FakeCuda([("Stand-in", (8, 0))]))
    monkeypatch.setattr(inspect, "getfile", lambda _: "")  # as PyTorch does when it is imported
    intact.check("called.py")


def test_packages_that_user_code_imports_are_recorded_with_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "_before", set())
    monkeypatch.setattr(calls, "_named", set())
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loaded_later.py").write_text("import json\n__version__ = '1.2'\n")
    (tmp_path / "odd.py").write_text("__version__ = 'a\\nb'\n")
    path = tmp_path / "called.py"
    inner = "import loaded_later, odd, colorsys"
    path.write_text(f"import numpy as np\n\n\ndef multiply(a, b, c, stream):\n    {inner}\n")
    assert calls.imported() == {}
    function = calls.load_call(path)
    assert calls.imported() == {"numpy": np.__version__}
    function(1, 2, 3, 4)
    assert calls.imported() == {"loaded_later": "1.2", "numpy": np.__version__, "odd": None}


def test_an_ordinary_triton_kernel_is_accepted(tmp_path):
    path = tmp_path / "triton_gemm.py"
    path.write_text(
        "import time\nimport torch\nimport triton\nimport triton.language as tl\n\n\n"
        "@triton.jit\ndef kernel(a, b, c, n: tl.constexpr):\n"
        "    at = tl.arange(0, n)\n    tl.store(c + at, tl.load(a + at) + tl.load(b + at))\n\n\n"
        "def multiply(a, b, c, stream):\n    kernel[(1,)](a, b, c, 16)\n"
    )
    assert read(path).name == "triton_gemm"


@pytest.mark.parametrize("name", ["cublas_default", "cublas_tf32", "cublas_bf16", "cublas_fp16"])
def test_a_library_mode_with_rounded_operands_passes_all_checks(tmp_path, monkeypatch, name):
    cuda = FakeCuda([("Stand-in", (8, 0))], durations_ms=(0.01, 0.5, 4.0))
    monkeypatch.setattr(gpu, "driver", lambda: cuda)
    monkeypatch.setattr(gpu.cublas, "find_library", lambda: FakeCublas(cuda))
    dtype, device = VARIANTS[name].dtypes[0], CudaDevice(0, "Stand-in", "8.0")

    def said(shape):
        one = cell("gpu0", name, dtype, Shape.parse(shape), None, "pinned")
        with GpuSession(device, inputs_of([one]), [], tmp_path) as session:
            return outcome(session, one, tmp_path, CEILINGS)

    assert said("48x16x40") is None
    assert said("16x8192x16") is None
    entry = replace(VARIANTS[name], digits=24)  # more digits than the operands have
    monkeypatch.setattr(Product, "entry", entry)
    assert (said("48x16x40") is None) == (name == "cublas_default")
