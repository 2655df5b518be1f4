"""The GPUs of a host, errors for missing parts, locks, telemetry in SI units and energy."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from base.errors import StudyError
from measurement.devices import discovery, locks, observers
from measurement.devices.discovery import CudaDevice, cuda_devices, select
from measurement.devices.errors import CellError
from measurement.devices.locks import lock_file, only_run
from measurement.devices.observers import EnergyObserver, NvmlTelemetry, Reading, observed, results
from tests.support import ROOT
from tests.support.fake_cuda import FakeCuda, FakeNvml

CARDS = [("NVIDIA H100", (9, 0)), ("NVIDIA RTX PRO 6000", (12, 0))]


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setattr(discovery, "pynvml", fake)
    monkeypatch.setitem(os.environ, "CUDA_DEVICE_ORDER", "")  # restored after the test
    del os.environ["CUDA_DEVICE_ORDER"]
    return fake


@pytest.fixture
def pycuda(monkeypatch):
    driver = FakeCuda(CARDS)
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace(driver=driver))
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    return driver


@pytest.mark.parametrize("count", [None, 0])
def test_pycuda_is_not_imported_without_driver_or_gpu(nvml, monkeypatch, count):
    nvml.count = count
    monkeypatch.setattr(discovery, "driver", lambda: pytest.fail("asked for PyCUDA"))
    assert cuda_devices() == select("auto") == []
    with pytest.raises(StudyError, match=r"^GPU 0: not found on this host \(GPUs: none\); set "):
        select(0)
    assert nvml.open == 0


def test_gpus_are_selected_by_index_by_name_or_all_at_once(nvml, pycuda):
    h100 = CudaDevice(0, "NVIDIA H100", "9.0")
    rtx = CudaDevice(1, "NVIDIA RTX PRO 6000", "12.0")
    assert cuda_devices() == select("auto") == select("nvidia") == [h100, rtx]
    assert nvml.open == 0
    assert select(1) == select("rtx pro") == [rtx]
    found = "0 (NVIDIA H100), 1 (NVIDIA RTX PRO 6000)"
    for wanted in ("A100", 2):
        with pytest.raises(StudyError) as refused:
            select(wanted)
        said = f"not found on this host (GPUs: {found}); set the device to one of them or to auto"
        assert str(refused.value) == f"GPU {wanted}: {said}"


def test_a_missing_pycuda_or_libcuda_is_a_one_line_error(nvml, monkeypatch, tmp_path):
    names = ("pycuda", "pycuda.driver")
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StudyError, match=r"^PyCUDA: not installed; run `make setup`.*$"):
        cuda_devices()
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").touch()
    missing = "raise ImportError('libcuda.so.1: cannot open shared object file')\n"
    (tmp_path / "pycuda" / "driver.py").write_text(missing)
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StudyError, match=r"^libcuda\.so\.1: not found; install the NVIDIA driver"):
        cuda_devices()


def test_gpus_are_numbered_by_pci_bus_unless_the_user_sets_another_order(nvml, pycuda, monkeypatch):
    cuda_devices()
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    cuda_devices()
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    pycuda.failing = "init"
    with pytest.raises(StudyError, match=r"^CUDA: the driver does not start \(init failed: no luc"):
        cuda_devices()


H200 = CudaDevice(1, "NVIDIA H200", "9.0")
HOLD = """
import sys
from pathlib import Path
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
with only_run(CudaDevice(1, "NVIDIA H200", "9.0"), Path(sys.argv[1]), "recording into x"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_file_is_named_after_its_gpu_and_every_user_may_lock_it(monkeypatch, tmp_path):
    monkeypatch.setattr(locks, "driver", lambda: FakeCuda(2 * [("NVIDIA H200", (9, 0))]))
    monkeypatch.setattr(locks, "pynvml", FakeNvml(2))
    assert lock_file(H200) == Path("/tmp", "gemm-study-GPU-5ca1ab1e-1.lock")
    mask = os.umask(0o077)
    try:
        with only_run(H200, tmp_path / "lock", "counting"):
            pass
    finally:
        os.umask(mask)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.slow
def test_a_second_run_exits_naming_the_owner_and_gets_the_gpu_once_the_owner_ends(tmp_path):
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StudyError) as refused, only_run(H200, file, "counting"):
            pytest.fail("two runs on one GPU")
        holder.kill()
        holder.wait()
        with only_run(H200, file, "counting"):
            assert file.read_text().startswith(f"process {os.getpid()} of ")
    user = locks._user()
    assert str(refused.value) == (
        f"GPU 1 (NVIDIA H200): in use by process {holder.pid} of {user}, recording into x; wait "
        "for its end or choose another GPU"
    )


POWER_CAP, THERMAL, IDLE, SLOWDOWN = 0x4, 0x20, 0x1, 0x8


@pytest.fixture
def watched(monkeypatch):
    fake = FakeNvml()
    fake.throttled_ns = {observers._COUNTERS[POWER_CAP]: 5, observers._COUNTERS[THERMAL]: 7}
    fake.values["CurrentClocksEventReasons"] = lambda: IDLE
    monkeypatch.setattr(observers, "pynvml", fake)
    return fake


def reading(during=lambda: None):
    """The reading of a new observer around a block."""
    watch = NvmlTelemetry("0000:01:00.0")
    with observed([watch]):
        during()
    return Reading(**results([watch]))


def test_telemetry_is_in_si_units_and_shows_throttling_that_ended_during_the_run(watched):
    def throttle(reason):
        watched.throttled_ns[observers._COUNTERS[reason]] += 1

    assert reading() == Reading(1_980_000_000, 2_619_000_000, 41, 345.678, 0)
    assert reading(lambda: throttle(POWER_CAP)).throttle_reasons == POWER_CAP
    assert reading().throttle_reasons == 0, "throttling before the run does not count"
    throttle(THERMAL)
    watched.values["CurrentClocksEventReasons"] = lambda: SLOWDOWN | IDLE
    assert reading().throttle_reasons == SLOWDOWN, "nor does throttling between runs"
    watched.values.pop("CurrentClocksEventReasons")
    assert reading(lambda: throttle(THERMAL)).throttle_reasons == THERMAL


def test_values_that_a_gpu_does_not_report_are_none(watched):
    counters = watched.values["FieldValues"]
    watched.values, watched.throttled_ns = {}, {}
    assert reading() == Reading()
    watched.values["FieldValues"] = counters
    assert reading() == Reading()


def test_energy_is_read_between_two_updates_of_the_counter_after_the_ramp(monkeypatch):
    clock, counter = iter(np.arange(0, 9, 0.1)), iter([1.0, 5.0, 5.0, 7.0, 9.0, 9.0, 17.0, None])
    monkeypatch.setattr(observers.time, "perf_counter", lambda: next(clock))
    clocks_hz = iter([2, 1, 1, 3, None, 3, None])
    watch = EnergyObserver(lambda: next(counter), lambda: next(clocks_hz), 0.15)
    watch.before()
    for _ in range(7):
        watch.during()
    assert watch.results() == pytest.approx(
        {"duration_s": 0.3, "power_w": 10 / 0.3, "sm_clock_hz": 2}
    )
    with pytest.raises(CellError, match="no energy counter"):
        watch.during()
    watch.before()
    with pytest.raises(CellError, match="counter does not change"):
        watch.results()
