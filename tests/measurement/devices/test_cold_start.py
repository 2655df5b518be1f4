"""Process cold starts: answers, errors, and a real start."""

import multiprocessing
import os
import sys
import time
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from kernels.cubins.build import build_for
from kernels.cubins.compile import architecture, build_cubin
from measurement.devices import cold_start as module
from measurement.devices.cold_start import ColdStart, cold_start
from measurement.devices.errors import CellError
from study.cells import Cell
from tests.support.products import product_of

CELL = Cell("gpu0", product_of("block", 128, 32), "pinned")
CUBIN = Path("cubins/block-b32-float32-exact.cubin")
TIMES = ColdStart(0.1, 0.2, 0.01, 0.02, 1e-4, 2e-4, 5e-5, 0.331)


def times_of_the_request(sender, *request):
    sender.send(TIMES if request == (1, CUBIN, CELL, 7) else f"asked for {request}")


def killed(sender, *_):
    os.kill(os.getpid(), 9)


def left(sender, *_):
    raise SystemExit(3)


def hanging(sender, *_):
    time.sleep(60)


def test_the_cold_start_process_gets_the_request_and_its_answer_is_returned(monkeypatch):
    monkeypatch.setattr(module, "_answer", times_of_the_request)
    assert cold_start(1, CUBIN, CELL, 7, 30) == TIMES
    with pytest.raises(CellError, match=r"^cold start: asked for \(2, "):
        cold_start(2, CUBIN, CELL, 7, 30)


@pytest.mark.parametrize(
    ("child", "message"),
    [(killed, "the process was killed by SIGKILL"), (left, "the process exited with status 3")],
)
def test_if_the_cold_start_process_dies_the_error_says_how(monkeypatch, child, message):
    monkeypatch.setattr(module, "_answer", child)
    with pytest.raises(CellError, match=f"^cold start: {message}$"):
        cold_start(1, CUBIN, CELL, 7, 30)


def test_a_cold_start_process_that_hangs_is_ended_at_the_limit(monkeypatch):
    monkeypatch.setattr(module, "_answer", hanging)
    begin = time.monotonic()
    with pytest.raises(CellError, match=r"^cold start: killed after 0\.5 s$"):
        cold_start(1, CUBIN, CELL, 7, 0.5)
    assert 0.5 <= time.monotonic() - begin < 30
    assert not multiprocessing.active_children()


def test_a_missing_package_in_a_cold_start_is_a_one_line_error(monkeypatch, tmp_path):
    (tmp_path / "pycuda.py").write_text("raise ModuleNotFoundError('No module named\\n pycuda')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # the new process has the same
    said = r"^cold start: ModuleNotFoundError: No module named pycuda$"
    with pytest.raises(CellError, match=said):
        cold_start(1, CUBIN, CELL, 7, 60)


def test_a_cold_start_without_a_computed_product_is_refused():
    for numbers, fault in (([1, np.nan], "NaN"), ([1, -np.inf], "infinite"), ([0, 0], "only zero")):
        with pytest.raises(CellError, match=fault):
            module._check(np.array(numbers, np.float32))
    module._check(np.array([0, -1], np.float32))  # some zeros are allowed


@pytest.fixture(scope="module")
def cubin(card, nvcc, tmp_path_factory):
    build = build_for(product_of("block", 1024, 32))
    cubin = tmp_path_factory.mktemp("cubins") / f"{build.stem}.cubin"
    build_cubin(nvcc, build, architecture(card.compute_capability), cubin)
    return cubin


@pytest.mark.gpu
@pytest.mark.parametrize("host_memory", ["pinned", "pageable"])
def test_a_cold_start_on_a_real_gpu_is_timed(card, cubin, host_memory):
    cell = Cell("gpu0", product_of("block", 1024, 32), host_memory)
    begin = time.monotonic()
    times = cold_start(card.index, cubin, cell, 7, 120)
    wall_s = time.monotonic() - begin
    assert min(astuple(times)) > 0
    parts_s = sum(astuple(times)) - times.total_s
    assert parts_s <= times.total_s < wall_s
    assert times.context_s > 1e-3, "no context is made in less"
    assert times.kernel_s < 1


@pytest.mark.gpu
def test_a_failed_cold_start_on_a_real_gpu_is_a_one_line_error(card, cubin):
    other = replace(CELL, product=product_of("naive", 128, 32))
    for device, file, cell, message in (
        (card.index, cubin, other, "cuModuleGetFunction failed"),
        (card.index, Path("/nowhere/block.cubin"), CELL, "cuModuleLoad failed"),
        (99, cubin, CELL, "cuDeviceGet failed"),
    ):
        with pytest.raises(CellError, match=f"^cold start: .*{message}"):
            cold_start(device, file, cell, 7, 120)
