"""Process cold starts: request, answer, errors, and a real start."""

import io
import json
import os
import re
import sys
import time
from dataclasses import asdict, astuple, replace

import numpy as np
import pytest

from base.errors import exit_status
from kernels.cubins.build import build_for
from kernels.cubins.compile import architecture, build_cubin
from measurement.devices import cold_start as module
from measurement.devices.cold_start import ColdStart, ColdStartRequest, cold_start
from measurement.devices.errors import CellError
from tests.support.products import product_of

LAUNCH = ("block", (4, 4, 1), (32, 32), 0, "float32", "128", (128,), "pinned", 7)
REQUEST = ColdStartRequest(1, "cubins/block-b32-float32-exact.cubin", *LAUNCH)
TIMES = ColdStart(0.1, 0.2, 0.01, 0.02, 1e-4, 2e-4, 5e-5, 0.331)


@pytest.fixture
def child(monkeypatch):
    def put(script):
        monkeypatch.setattr(module, "_COMMAND", [sys.executable, "-c", script])

    return put


def test_the_process_gets_the_request_and_its_answer_is_returned(child, tmp_path, monkeypatch):
    file = tmp_path / "asked"
    child(
        f"import os, sys; open({str(file)!r}, 'w').write(os.getcwd() + '\\n' + sys.stdin.read())\n"
        f"print({json.dumps(asdict(TIMES))!r})"
    )
    monkeypatch.chdir(tmp_path)
    assert cold_start(REQUEST, 30) == TIMES
    folder, question = file.read_text().splitlines()
    assert folder == str(module.ROOT), "where the package is found"
    cubin = str(tmp_path / "cubins" / "block-b32-float32-exact.cubin")
    monkeypatch.setattr(sys, "stdin", io.StringIO(question))
    lists = {"grid": [4, 4, 1], "threads": [32, 32], "arguments": [128]}  # JSON has no tuples
    assert module._read_request() == replace(REQUEST, cubin=cubin, **lists)
    assert json.loads(question)["cubin"] == cubin


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('print(\'{"error": "cuInit failed:\\\\nno device"}\')', "cuInit failed: no device"),
        ('print(\'{"error": "bad"}\'); raise SystemExit(134)', "bad"),
        ("import os; os.abort()", "the process was killed by SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", "the process was killed by SIGKILL"),
        ("raise SystemExit(3)", "the process exited with status 3"),
        ("raise ValueError('no\\nthing')", "thing"),
        ("import sys; print('a', 'b ' * 300, sep='\\n', file=sys.stderr); sys.exit(1)", "b b b"),
        ("", "no times in the answer ''"),
        ("print('hello')", "no times in the answer 'hello'"),
        ("print('[1, 2]')", "no times in the answer '[1, 2]'"),
        ("print('{\"init_s\": 1}')", "no times in the answer '{\"init_s\": 1}'"),
        ("import sys; sys.stdout.buffer.write(b'\\xff' * 999)", "no times in the answer '"),
        (f"print({json.dumps(asdict(TIMES) | {'init_s': 'x'})!r})", "no times"),
        (f"print({json.dumps(asdict(TIMES) | {'warm_s': 1})!r})", "no times"),
        (f"print({json.dumps(asdict(TIMES))!r}); raise SystemExit(1)", "exited with status 1"),
    ],
)
def test_failure_is_one_line(child, script, message):
    child(script)
    with pytest.raises(CellError) as failed:
        cold_start(REQUEST, 30)
    said = str(failed.value)
    assert re.fullmatch(f"cold start: .*{re.escape(message)}.*", said)
    assert len(said) < 300


@pytest.mark.slow
def test_process_that_hangs_is_ended_at_the_limit(child, tmp_path):
    file = tmp_path / "pid"
    child(
        f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid()))\n"
        "print('{}', flush=True); time.sleep(60)"
    )
    begin = time.monotonic()
    with pytest.raises(CellError, match=r"^cold start: killed after 1\.5 s$"):
        cold_start(REQUEST, 1.5)
    assert 1.5 <= time.monotonic() - begin < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_what_prevents_the_real_process_is_one_line(monkeypatch, tmp_path):
    (tmp_path / "pycuda.py").write_text("raise ModuleNotFoundError(\"No module named 'pycuda'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = r"^cold start: ModuleNotFoundError: No module named 'pycuda'"
    with pytest.raises(CellError, match=said):
        cold_start(REQUEST, 60)
    monkeypatch.setattr(module, "_COMMAND", ["/nowhere/python"])
    said = r"^cold start: cannot start a process \(No such file or directory\)"
    with pytest.raises(CellError, match=said):
        cold_start(REQUEST, 5)


def test_an_invalid_request_is_one_line(monkeypatch, capsys):
    for question in ("", "{}", "[]", '{"n": 1', '{"order": 1}'):
        monkeypatch.setattr(sys, "stdin", io.StringIO(question))
        assert exit_status(module.main) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: standard input: not a cold-start request (")
        assert said.err.count("\n") == 1


def test_a_product_that_nothing_computed_is_refused():
    for numbers, fault in (([1, np.nan], "NaN"), ([1, -np.inf], "infinite"), ([0, 0], "only zero")):
        with pytest.raises(CellError, match=fault):
            module._check(np.array(numbers, np.float32))
    module._check(np.array([0, -1], np.float32))  # some zeros are allowed


def test_phases_are_timed_separately():
    clock = module._PhaseClock()
    with clock.timed("slow_s"):
        time.sleep(0.02)
    time.sleep(0.05)
    with clock.timed("fast_s"):
        pass
    assert list(clock.times_s) == ["slow_s", "fast_s"]
    assert 0.02 <= clock.times_s["slow_s"] < 0.05
    assert 0 < clock.times_s["fast_s"] < 0.01


@pytest.fixture(scope="module")
def real(card, nvcc, tmp_path_factory):
    product = product_of("block", 1024, 32)
    build = build_for(product)
    cubin = tmp_path_factory.mktemp("cubins") / f"{build.stem}.cubin"
    build_cubin(nvcc, build, architecture(card.compute_capability), cubin)
    grid, arguments = product.launch.grid, product.arguments
    where = {"device": card.index, "cubin": str(cubin)}
    return replace(REQUEST, **where, grid=grid, shape=str(product.shape), arguments=arguments)


@pytest.mark.gpu
@pytest.mark.parametrize("host_memory", ["pinned", "pageable"])
def test_real_start_takes_its_time(real, host_memory):
    begin = time.monotonic()
    times = cold_start(replace(real, host_memory=host_memory), 120)
    wall_s = time.monotonic() - begin
    assert min(astuple(times)) > 0
    parts_s = sum(astuple(times)) - times.total_s
    assert parts_s <= times.total_s < wall_s
    assert times.context_s > 1e-3, "no context is made in less"
    assert times.kernel_s < 1


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": "blok"}, "cuModuleGetFunction failed"),
        ({"cubin": "/nowhere/block.cubin"}, "cuModuleLoad failed"),
        ({"device": 99}, "cuDeviceGet failed"),
        ({"threads": (64, 64)}, "cuFuncSetBlockShape failed"),
        ({"grid": (1, 1, 1), "threads": (0, 1)}, "failed"),
    ],
)
def test_real_start_that_fails_is_one_line(real, changes, message):
    with pytest.raises(CellError, match=f"^cold start: .*{message}"):
        cold_start(replace(real, **changes), 120)
