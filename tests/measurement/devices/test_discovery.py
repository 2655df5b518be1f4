"""The GPUs of a host, and one-line errors for missing parts."""

import os
import re
import sys
from types import SimpleNamespace

import pytest

from base.errors import StudyError
from measurement.devices import discovery
from measurement.devices.discovery import CudaDevice, cuda_devices, select
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
def test_without_driver_or_card_pycuda_is_not_asked(nvml, monkeypatch, count):
    nvml.count = count
    monkeypatch.setattr(discovery, "driver", lambda: pytest.fail("asked for PyCUDA"))
    assert cuda_devices() == []
    assert select("auto") == []
    with pytest.raises(StudyError, match=r"^GPU 0: not found on this host \(GPUs: none\); set "):
        select(0)
    assert nvml.open == 0


def test_selection_is_by_index_by_name_or_all(nvml, pycuda):
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


def test_missing_pycuda_and_libcuda_are_one_line(nvml, monkeypatch, tmp_path):
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


def test_gpus_are_numbered_by_bus_unless_the_user_says_otherwise(nvml, pycuda, monkeypatch):
    cuda_devices()
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    cuda_devices()
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    pycuda.failing = "init"
    with pytest.raises(StudyError, match=r"^CUDA: the driver does not start \(init failed: no luc"):
        cuda_devices()


def test_command_lists_the_gpus(nvml, pycuda, command):
    done = command("measurement", "devices")
    assert done.returncode == 0
    assert done.stdout == (
        "0  NVIDIA H100  compute capability 9.0\n1  NVIDIA RTX PRO 6000  compute capability 12.0\n"
    )
    nvml.count = 0
    done = command("measurement", "devices")
    assert done.returncode == 2
    assert re.fullmatch("error: no NVIDIA GPU: the driver lists none; check.*\n", done.stderr)
