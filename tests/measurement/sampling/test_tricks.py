"""Tricks that make code look fast are refused, and their honest twins pass; without a GPU.

The tricks run as calls in the memory of a fake CUDA. test_tricks_gpu.py has those of real kernels.
"""

import hashlib
import os
from types import SimpleNamespace

import numpy as np
import pytest

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.catalog.user_supplied import read
from kernels.products.change import (
    SAME,
    SPARE_BYTES,
    check,
    draw,
    project,
    random_vector,
    suspicious,
)
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices import calls, flows, gpu, launching
from measurement.devices.calls import Intact
from measurement.devices.discovery import CudaDevice
from measurement.devices.gpu import GpuSession
from measurement.sampling import worker
from measurement.sampling.second_check import SecondCheck
from study.cells import cell, problems
from tests.support.fake_cuda import FakeCublas, FakeCuda, FakeGraphs
from tests.support.fakes import READING
from tests.support.tricks import SAMPLES, inputs_of, outcome

GATE_CALLS = 2  # the run of the gate, and the warm-up of the first sample
CEILINGS = {"fp32_flop_per_s": 1e13, "l2_bytes_per_s": 1e12}


def test_samples_of_the_catalog_differ_only_at_the_end():
    own = cell("gpu0", "block", "float32", Shape.square(64), 16, "pinned")
    second = SecondCheck(problems([own]), 1)
    assert second.draw(own, last=False) == SAME
    assert second.draw(own, last=True).checked


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_one_element_beyond_its_bound_is_found_anywhere(dtype):
    shape, rng = Shape(2, 500, 600, 700), np.random.default_rng(3)
    inputs = Inputs([(dtype, shape)], 1, SPARE_BYTES)
    change = draw(rng, dtype, shape, True, True)
    a, b = inputs.pair(dtype, shape, change.begins)
    product, missed = (a.astype("d") @ b.astype("d") if dtype == "float32" else a @ b), 0
    for _ in range(20):
        place = tuple(map(int, (rng.integers(0, each) for each in product.shape)))
        c = product.astype(dtype)
        c[place] += 3 * shape.k**2 / 4 * 2.0**-24 if dtype == "float32" else 1
        vector = random_vector(rng, dtype, shape.n)
        row = suspicious(a, b, vector, project(c, vector), change)
        own = (dtype, shape, change, [row], c.reshape(-1, shape.n)[[row]], (1, 1))
        found = check(rng, inputs, *own, suspect=row)
        missed += found is None and place[0] * shape.m + place[1] not in change.thin
    assert missed <= 1


class Code:
    """Code under test: honest here, dishonest in the classes below."""

    calls = 0

    def __init__(self, cuda):
        self.cuda, self.stored = cuda, {}

    def __call__(self, a, b, c, stream):
        self.calls += 1
        # `c` is the memory itself, so what is written there is the product.
        left, right, product = (
            self.cuda.matrices(each.address, "float32", 1, *each.shape)[0] for each in (a, b, c)
        )
        self.multiply(left, right, product, tuple(each.address for each in (a, b, c)))

    def compute(self, a, b, c):
        self.cuda.now_ms += self.cuda.launch_ms
        np.matmul(a, b, out=c)

    def multiply(self, a, b, c, addresses):
        self.compute(a, b, c)

    def by_key(self, key, a, b, c):
        if key not in self.stored:
            self.compute(a, b, c)
            self.stored[key] = c.copy()
        c[:] = self.stored[key]


class ByPointer(Code):
    def multiply(self, a, b, c, addresses):
        self.by_key(addresses, a, b, c)


class ByCorners(Code):
    def multiply(self, a, b, c, addresses):
        self.by_key((a.shape, addresses), a, b, c)


class ByContent(Code):
    """Is honest: it compares all inputs, which differ in every timed launch."""

    def multiply(self, a, b, c, addresses):
        self.by_key(a.tobytes() + b.tobytes(), a, b, c)


class Once(Code):
    def multiply(self, a, b, c, addresses):
        if self.calls <= GATE_CALLS:
            self.compute(a, b, c)


class LeftoverProduct(Code):
    def multiply(self, a, b, c, addresses):
        if np.isnan(c[0, 0]):
            self.compute(a, b, c)


class Skipped(Code):
    def multiply(self, a, b, c, addresses):
        rows = len(a) if self.calls <= GATE_CALLS else len(a) * 4 // 5
        self.compute(a[:rows], b, c[:rows])


class OneElement(Code):
    def multiply(self, a, b, c, addresses):
        self.compute(a, b, c)
        if self.calls > GATE_CALLS:
            rng = np.random.default_rng(self.calls)
            c[rng.integers(0, len(c)), rng.integers(0, len(c))] += 0.1


class TwoRows(Code):
    def multiply(self, a, b, c, addresses):
        self.compute(a, b, c)
        if self.calls > GATE_CALLS:
            c[np.random.default_rng(self.calls).integers(0, len(c), 2)] *= 1.01


class EarlyExit(Code):
    def multiply(self, a, b, c, addresses):
        if len(a) < 100 or self.calls <= GATE_CALLS:
            self.compute(a, b, c)


class ConstantInputs(Code):
    def multiply(self, a, b, c, addresses):
        self.by_key("all inputs", a, b, c)


class OtherStream(Code):
    def multiply(self, a, b, c, addresses):
        if self.calls <= GATE_CALLS:
            self.compute(a, b, c)
        else:
            self.cuda.pending.append(lambda: np.matmul(a, b, out=c))


class OtherGpu(Code):
    def multiply(self, a, b, c, addresses):
        self.compute(a, b, c)
        if self.calls > GATE_CALLS:
            self.cuda.opened.add(1)


class WrittenInputs(Code):
    def multiply(self, a, b, c, addresses):
        self.compute(a, b, c)
        if self.calls > GATE_CALLS:
            b[:] = 0


class StoppedClock(Code):
    def multiply(self, a, b, c, addresses):
        np.matmul(a, b, out=c)  # takes no time of the fake GPU


def rounded(matrix, bits):
    """Round to a significand of so many bits, as tensor cores do."""
    scaled, exponent = np.frexp(matrix)
    return np.ldexp(np.round(scaled * 2.0**bits) / 2.0**bits, exponent).astype(np.float32)


class Reduced(Code):
    bits = 11

    def multiply(self, a, b, c, addresses):
        if self.calls <= GATE_CALLS:
            self.compute(a, b, c)
        else:
            self.compute(rounded(a, self.bits), rounded(b, self.bits), c)


class Reduced16(Reduced):
    bits = 8


class PreciseWhereThin(Reduced):
    def multiply(self, a, b, c, addresses):
        super().multiply(a, b, c, addresses)
        thin = (a == 0).any(axis=1)
        c[thin] = a[thin] @ b


class BeforeTheTimer(Code):
    """Computes the products of later launches in a launch that is not timed."""

    def compute(self, a, b, c):
        super().compute(a, b, c)
        is_run = self.calls <= GATE_CALLS + 2 * SAMPLES
        self.cuda.now_ms += 5 if is_run or self.is_honest else 0

    is_honest = False


class Slow(BeforeTheTimer):
    is_honest = True


WRONG, FAST = "refused: a timed product is wrong", "is below the physical floor"
# Trick: code, shape, reason (None: honest, or nothing is gained).
TRICKS = {
    "honest": (Code, 40, None),
    "honest, large": (Code, 300, None),
    "honest, long sums": (Code, "16x16384x16", None),
    "stored by pointer": (ByPointer, 40, WRONG),
    "stored by shape and pointer": (ByCorners, 40, WRONG),
    "stored by all content": (ByContent, 40, None),
    "computed once": (Once, 40, WRONG),
    "leftover product": (LeftoverProduct, 40, WRONG),
    "skipped elements": (Skipped, 40, WRONG),
    "one wrong element": (OneElement, 700, WRONG),
    "two wrong rows": (TwoRows, 700, WRONG),
    "early exit by N": (EarlyExit, 120, WRONG),
    "constant inputs": (ConstantInputs, 40, WRONG),
    "another stream, or a late thread": (OtherStream, 40, WRONG),
    "another GPU": (OtherGpu, 40, "refused: called.py uses GPU 1, which is not measured"),
    "inputs written": (WrittenInputs, 40, "refused: "),
    "TF32 or FP16": (Reduced, "16x4096x16", WRONG),
    "BF16": (Reduced16, "16x16384x16", WRONG),
    "precise in thin rows": (PreciseWhereThin, "16x4096x16", "float32 allows"),
    "honest, 5 ms": (Slow, 40, None),
    "computed before the timer": (BeforeTheTimer, 40, "work was done before the timer started"),
    "no time": (StoppedClock, 300, FAST),
}


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Return a function that measures code at size N and returns the reason of its refusal."""
    gpus = 2 * [("Stand-in", (8, 0))]
    cuda = FakeCuda(gpus, durations_ms=(0.01, 0.5, 4.0))
    cuda.cublas = FakeCublas(cuda)
    telemetry = SimpleNamespace(begin=lambda: None, end=lambda: READING)
    path = tmp_path / "called.py"
    path.write_text("def multiply(a, b, c, stream):\n    pass\n")
    for module, name, value in (
        (gpu, "driver", lambda: cuda),
        (gpu, "NvmlTelemetry", lambda _: telemetry),
        (flows, "_library", lambda: FakeGraphs(cuda)),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setitem(VARIANTS, "called", read(path))

    def tried(kind, n):
        code = kind(cuda)
        monkeypatch.setattr(launching, "load_call", lambda _: code)
        one = cell("gpu0", "called", "float32", Shape.parse(n), None, "pinned")
        device = CudaDevice(0, "Stand-in", "8.0")
        with GpuSession(device, inputs_of([one]), [], tmp_path) as session:
            return outcome(session, one, tmp_path, CEILINGS)

    return tried


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n", "reason"), TRICKS.values(), ids=TRICKS)
def test_a_trick_is_refused_and_honest_code_is_not(trial, kind, n, reason):
    said = trial(kind, n)
    assert (reason in said and "\n" not in said) if reason else said is None, said


def test_settings_of_the_l2_are_undone_before_each_run(trial):
    assert trial(Code, 40) is None
    log = flows._library().cuda.log
    resets = ["cuCtxResetPersistingL2Cache", "cuCtxSetLimit", "cuStreamSetAttribute"]
    assert [log.count(name) for name in resets] == [2 * SAMPLES + 1] * 3, "and the second first"


@pytest.mark.slow
def test_a_store_of_all_content_computes_every_timed_product(trial, monkeypatch):
    computed = []
    compute = Code.compute
    monkeypatch.setattr(Code, "compute", lambda *own: (compute(*own), computed.append(1)))
    assert trial(ByContent, 40) is None
    assert len(computed) >= 2 * SAMPLES


REPLACED = {
    "a function of NumPy": (np, "abs"),
    "a hash": (hashlib, "new"),
    "the affinity": (os, "sched_setaffinity"),
    "a clock": (gpu.time, "perf_counter_ns"),
    "the checker": (worker, "evaluate"),
    "a method of the session": (GpuSession, "product"),
}


@pytest.mark.parametrize(("owner", "name"), REPLACED.values(), ids=REPLACED)
def test_a_replaced_function_is_named(monkeypatch, owner, name):
    intact = Intact()
    intact.check("called.py")
    monkeypatch.setattr(owner, name, lambda *_: 0)
    with pytest.raises(Exception, match=rf"^refused: called.py replaced \S*{name}; leave it"):
        intact.check("called.py")


def test_what_a_call_imports_is_known_with_its_version(tmp_path, monkeypatch):
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


WITHHELD = {
    "a clock": "import time",
    "threads": "from threading import Thread",
    "another process": "import torch, subprocess",
    "this program": "from measurement.sampling import worker",
    "all modules": "import torch\nmodules = torch.sys.modules",
    "a file": "journal = open('journal.jsonl')",
    "names from text": "import torch\nos = getattr(torch, 'o' + 's')",
    "globals of a function": "found = multiply.__globals__",
    "frames of callers": "frame = (each for each in ()).gi_frame",
    "the gate's data": "import numpy\nexpected = numpy.load('references.npy')",
    "the journal": "import numpy\nnumpy.ones(8).tofile('journal.jsonl')",
    "native code": "import torch\ntorch.utils.cpp_extension.load_inline('a', 'b')",
    "a library": "import cffi\nclock = cffi.FFI().dlopen(None)",
    "a timer of signals": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1)",
    "a trace": "import torch\ntorch.sys.settrace(multiply)",
    "files by another reader": "import numpy\nrows = numpy.fromregex('journal.jsonl', 'x', 'U9')",
    "another's method": "import torch\ntorch.cuda.Event.elapsed_time = multiply",
}


@pytest.mark.parametrize("line", WITHHELD.values(), ids=WITHHELD)
def test_a_call_cannot_name_what_it_could_cheat_with(tmp_path, line):
    path = tmp_path / "called.py"
    path.write_text("def multiply(a, b, c, stream):\n    pass\n\n\n" + line + "\n")
    with pytest.raises(StudyError, match=r"called\.py:\d+: .*: a call "):
        read(path)
    path.write_text(
        "import torch\n\n\ndef multiply(a, b, c, stream):\n    torch.matmul(a, b, out=c)\n"
    )
    assert read(path).name == "called"
