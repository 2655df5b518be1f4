"""Provenance: the facts recorded, and private facts that must not be."""

import getpass
import os
import platform
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from base.errors import StudyError
from kernels.catalog.source import code_sha256
from kernels.cubins.build import PROBES, Build
from measurement.devices.discovery import CudaDevice
from measurement.recorder import provenance
from measurement.recorder import record as recorder
from study.config import validate
from tests.support import ROOT
from tests.support.fake_cuda import FakeCuda, FakeNvml
from tests.support.fakes import FakeHardware
from tests.support.studies import config_text

ONE = {"samples": 1, "warm_up_s": 0.001}
CONFIG = config_text({"variants": ["naive"], "block_sizes": [32]}, ONE)


@pytest.mark.slow
@pytest.mark.usefixtures("stand_ins")
def test_a_recording_contains_no_host_user_or_path(tmp_path, monkeypatch):
    """Neither the real names nor those that the system reports."""
    names = [name for name in (socket.gethostname(), getpass.getuser()) if len(name) > 3]
    fields = {**platform.uname()._asdict(), "node": "secret-host"}
    kept = [fields[key] for key in ("system", "node", "release", "version", "machine")]
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(kept))
    monkeypatch.setattr(platform, "uname", lambda: SimpleNamespace(**fields))
    monkeypatch.setattr(socket, "gethostname", lambda: "secret-host")
    for variable in ("USER", "LOGNAME", "USERNAME", "HOSTNAME", "LNAME"):
        monkeypatch.setenv(variable, "secret-user")
    assert (getpass.getuser(), platform.node()) == ("secret-user", "secret-host")
    hardware = FakeHardware(tmp_path, gpus=0, real_cpu=True)
    config = validate(yaml.safe_load(CONFIG), "config.yaml")
    made = recorder.record(config, "auto", tmp_path / "r", None, None, hardware)
    assert made.provenance["host"] == provenance.host()
    files = made.path.iterdir()
    text = "".join(file.read_text() for file in files if file.suffix != ".gz")
    assert "secret" not in text
    assert not [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]
    places = [place for place in (str(Path.home()), str(ROOT), str(tmp_path)) if place != "/"]
    assert not [place for place in places if place in text]


def test_each_gpu_has_a_hash_that_changes_with_each_start_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_BOOT", tmp_path / "boot_id")
    assert provenance.machine_start() is None, "the system has no boot ID"
    found = []
    for boot in "ab":
        (tmp_path / "boot_id").write_text(f"{boot}\n")
        found += [provenance.machine_start(gpu) for gpu in ("", "GPU-1", "GPU-2", "GPU-1")]
    assert len(set(found)) == 6
    assert found[1] == found[3]
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in found)


def test_every_measured_source_is_hashed():
    builds = [Build("block", 8, "float32", guarded) for guarded in (False, True)]
    builds += [Build("buffered_row", None, "float32", False), PROBES]
    sources = provenance.sources(builds, [], ["naive"])
    kernels = [f"kernels/{name}.cu" for name in ("block", "buffered_row", "probes")]
    assert list(sources) == ["cpu_reference/ceilings.c", "cpu_reference/naive.c", *kernels]
    assert all(digest == code_sha256((ROOT / path).read_text()) for path, digest in sources.items())
    with pytest.raises(StudyError, match="variant 'blok': unknown"):
        provenance.sources([], [], ["blok"])


@pytest.fixture
def nvml(monkeypatch):
    """The NVML of a host with four GPUs, whose ECC mode is unknown."""
    fake = FakeNvml(4)
    cuda = FakeCuda(4 * [("NVIDIA H100", (9, 0))], L2_CACHE_SIZE=52428800)
    monkeypatch.setattr(provenance, "pynvml", fake)
    monkeypatch.setattr(provenance.cublas, "version", lambda: "13.1.0")
    monkeypatch.setattr(provenance, "driver", lambda: cuda)
    return fake


def test_provenance_describes_a_gpu_in_si_units_without_serial_number(nvml):
    limits = {"max_threads_per_block": 1024, "max_shared_bytes_per_block": 49152}
    limits |= {"max_registers_per_block": 65536, "max_grid_x": 2**31 - 1, "max_grid_y": 65535}
    limits |= {"max_grid_z": 65534, "warp_size": 32, "max_threads_per_multiprocessor": 2048}
    limits |= {"max_blocks_per_multiprocessor": 32, "registers_per_multiprocessor": 65536}
    limits |= {"shared_bytes_per_multiprocessor": 233472, "l2_cache_bytes": 52428800}
    known = {"device": "gpu3", "name": "NVIDIA H100", "compute_capability": "9.0", "ecc": None}
    known |= {"multiprocessors": 132, "memory_bytes": 2**40, "sm_clock_max_hz": 1_980_000_000}
    known |= {"memory_clock_max_hz": 2_619_000_000, "pcie_generation": 5, "pcie_width": 16}
    known |= {"power_limit_w": 350.0, "persistence_mode": 1}
    known["limits"] = limits | {"max_shared_bytes_per_block_optin": 166912}
    known["machine_start"] = provenance.machine_start("GPU-5ca1ab1e-3")
    assert provenance.gpu(CudaDevice(3, "NVIDIA H100", "9.0")) == known
    for mode in (1, 0):
        nvml.values["EccMode"] = lambda mode=mode: [mode, 1]
        assert provenance.gpu(CudaDevice(0, "x", "9.0"))["ecc"] is bool(mode)
    assert nvml.open == 0
    assert provenance.drivers() == {"driver": "600.1", "cuda_driver": "13.2", "cublas": "13.1.0"}
    nvml.count = 0
    with pytest.raises(KeyError):
        provenance.gpu(CudaDevice(0, "x", "9.0"))
    assert nvml.open == 0
