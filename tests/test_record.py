"""Making a recording: this host's CPU, stand-ins for GPUs, and what is refused beforehand."""

import json
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import yaml

from kernels.build import BuildResult
from kernels.catalog import DeviceLimits, build_for, builds, not_launchable
from measurement import __main__ as cli
from measurement import provenance, recording
from measurement import record as recorder
from measurement.cells import cpu_cells, gpu_cells
from measurement.discovery import CudaDevice, cuda_devices
from measurement.errors import StudyError, exit_status
from measurement.files import sha256
from measurement.recording import CELL
from measurement.session import CellError, Timing

ROOT = Path(__file__).resolve().parent.parent
CONFIG = """
study:
  seed: 11
  dtypes: [float32]
  sizes: [8]
  holdout_sizes: [18]
  variants: [naive, buffered_row, block]
  block_sizes: [4]
  host_memory: [pinned, pageable]
  cpu: { variants: [naive, blocked], sizes: [8, 12], block_sizes: [4, 8] }
  protocol:
    confidence: 0.95
    relative_half_width: 0.5
    min_samples: 6
    max_samples: 8
    gpu_cell_budget_s: 10
    cpu_cell_budget_s: 10
gpus:
  - { id: local, device: auto }
"""
# Of 16 threads a block: buffered_row runs at n = 8 and not at n = 18.
LIMITS = DeviceLimits(16, 49152, 65536, 2**31 - 1, 65535, 32, 2**30)


@pytest.fixture
def config():
    return yaml.safe_load(CONFIG)


@pytest.fixture
def study(config):
    return config["study"]


@pytest.fixture
def no_gpu(monkeypatch):
    """A host without GPU."""
    monkeypatch.setattr(recorder, "select", lambda _: [])


class FakeGpuSession:
    """Multiplies with numpy; `fault` may spoil a product, given cell, product and pass (from 1)."""

    def __init__(self, device, inputs, builds, cubins):
        assert {(b.architecture, b.nvcc) for b in builds} == {("sm_86", "13.9.7")}
        assert (cubins / "sm_86" / "block-b4-exact.cubin").is_file()
        self.inputs = inputs
        self.c = {}

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *_):
        self.log.append("exit")

    def not_launchable(self, cell):
        return not_launchable(cell.variant, cell.n, cell.block_size, LIMITS)

    def build(self, cell):
        return build_for(cell.variant, cell.n, cell.block_size).kind

    def poison(self, cell):
        self.c[cell] = np.full((cell.n, cell.n), np.nan, np.float32)

    def run(self, cell):
        assert self.log[-1] == "enter"
        self.passes[cell] = self.passes.get(cell, 0) + 1
        np.matmul(*self.inputs.pair(cell.n), out=self.c[cell])
        self.fault(cell, self.c[cell], self.passes[cell])
        return Timing(4e-3, 1e-3, 2e-3, 5e-4)

    def product(self, cell):
        return self.c[cell]


@pytest.fixture
def gpus(monkeypatch):
    """Two cards of one kind, simulated at the boundary of the session; returns its class."""
    devices = [CudaDevice(index, "Stand-in", "8.6") for index in range(2)]

    class Session(FakeGpuSession):
        log: ClassVar = []
        passes: ClassVar = {}

        @staticmethod
        def fault(cell, c, number):
            pass

    def describe(device):
        return {
            "device": f"gpu{device.index}",
            "name": device.name,
            "compute_capability": device.compute_capability,
            "multiprocessors": 1,
            "memory_bytes": 2**30,
            "limits": {"max_threads_per_block": 16},
        }

    chosen = {"auto": devices, 0: devices[:1], 1: devices[1:]}
    monkeypatch.setattr(recorder, "select", chosen.get)
    monkeypatch.setattr(recorder, "GpuSession", Session)
    monkeypatch.setattr(provenance, "gpu", describe)
    versions = {"driver": "600.1", "cuda_driver": "13.9"}
    monkeypatch.setattr(provenance, "drivers", lambda: versions)
    return Session


@pytest.fixture
def cubins(study, tmp_path):
    """The cubins of the study, as they were built beforehand."""
    folder = tmp_path / "cubins"
    (folder / "sm_86").mkdir(parents=True)
    for build in builds(study):
        cubin = folder / "sm_86" / f"{build.stem}.cubin"
        cubin.write_text(build.stem)
        facts = (build.variant, build.block_size, build.kind, 32, 0, 0, 0, 0, "13.9.7")
        result = BuildResult("sm_86", *facts, sha256(cubin))
        cubin.with_suffix(".json").write_text(json.dumps(asdict(result)))
    return folder


def cells_of(frame):
    """Return the cells of a table as tuples, None for what a cell has not."""
    table = frame[CELL].astype(object)
    return [tuple(row) for row in table.where(table.notna(), None).itertuples(index=False)]


def planned(cells):
    return [tuple(asdict(cell).values()) for cell in cells]


def test_host_without_gpu_is_recorded(config, study, no_gpu, tmp_path, capfd):
    out = tmp_path / "new" / "host"
    before = datetime.now(UTC).replace(microsecond=0)
    made = recorder.record(config, "auto", out, None)
    assert made.path == out
    read = recording.read(out)
    assert cells_of(read.checks) == planned(cpu_cells(study))
    assert set(read.checks["status"]) == {"passed"}
    assert read.checks["build"].isna().all()
    assert (read.checks["worst_error"] <= read.checks["worst_bound"]).all()
    assert sorted(set(cells_of(read.samples)), key=str) == sorted(
        planned(cpu_cells(study)), key=str
    )
    counts = read.samples.groupby(["variant", "n", "block_size"], dropna=False).size()
    assert counts.between(6, 8).all()
    assert (read.samples["total_s"] > 0).all()
    assert read.samples[["h2d_s", "kernel_s", "d2h_s"]].isna().all(axis=None)
    assert read.samples["round"].min() == 1
    assert read.builds.empty
    facts = read.provenance
    started, finished = (
        datetime.strptime(facts[key], "%Y-%m-%dT%H:%M:%S%z")
        for key in ("started_utc", "finished_utc")
    )
    assert before <= started <= finished <= datetime.now(UTC)
    assert read.samples["time_unix_s"].between(started.timestamp(), finished.timestamp() + 1).all()
    assert facts["simulated"] is False
    assert facts["devices"] == []
    assert facts["configuration"] == study
    assert facts["seed"] == 11
    assert set(facts["sources"]) == {"cpu_reference/naive.c", "cpu_reference/blocked.c"}
    assert facts["software"]["nvcc"] is None
    assert capfd.readouterr().out == ""


def test_gpus_and_their_host_are_one_recording(config, study, gpus, cubins, tmp_path):
    made = recorder.record(config, "auto", tmp_path / "r", cubins)
    cells = [*gpu_cells(study, "gpu0"), *gpu_cells(study, "gpu1"), *cpu_cells(study)]
    assert cells_of(made.checks) == planned(cells)
    checks = made.checks.set_index(["device", "variant", "n"]).sort_index()
    refused = checks[checks["status"] != "passed"]
    assert set(refused.index) == {("gpu0", "buffered_row", 18), ("gpu1", "buffered_row", 18)}
    assert set(refused["status"]) == {"not_launchable"}
    assert set(refused["reason"]) == {"needs 18 threads a block, 16 allowed"}
    assert set(checks.loc[("gpu1", "block", 8), "build"]) == {"exact"}
    assert set(checks.loc[("gpu1", "block", 18), "build"]) == {"guarded"}
    passed = made.checks[made.checks["status"] == "passed"]
    assert set(cells_of(made.samples)) == set(cells_of(passed))
    on_gpu = made.samples[made.samples["device"] != "cpu"]
    assert set(on_gpu["total_s"]) == {4e-3}
    assert set(on_gpu["kernel_s"]) == {2e-3}
    assert (on_gpu.groupby(["device", "variant", "n", "host_memory"]).size() == 6).all()
    assert sorted(made.builds["variant"]) == ["block", "block", "buffered_row", "naive", "naive"]
    assert list(gpus.log) == ["enter", "exit"] * 2
    facts = made.provenance
    assert [device["device"] for device in facts["devices"]] == ["gpu0", "gpu1"]
    assert (facts["software"]["nvcc"], facts["software"]["driver"]) == ("13.9.7", "600.1")
    assert {f"kernels/{name}.cu" for name in study["variants"]} < set(facts["sources"])


def test_one_gpu_of_two_is_recorded_under_its_index(config, gpus, cubins, tmp_path):
    made = recorder.record(config, 1, tmp_path / "r", cubins)
    assert set(made.checks["device"]) == {"gpu1", "cpu"}
    assert [device["device"] for device in made.provenance["devices"]] == ["gpu1"]


def test_faulty_cells_fail_with_their_reason_and_the_rest_is_measured(
    config, gpus, cubins, tmp_path
):
    def fault(cell, c, _):
        if cell.variant == "block" and cell.n == 8:
            c[1, 2] = np.nan
        if cell.variant == "block" and cell.n == 18:
            raise CellError("an illegal instruction was encountered")

    gpus.fault = staticmethod(fault)
    made = recorder.record(config, 0, tmp_path / "r", cubins)
    failed = made.checks[made.checks["variant"] == "block"]
    assert set(failed["status"]) == {"failed"}
    wrong, broken = failed[failed["n"] == 8], failed[failed["n"] == 18]
    assert wrong["reason"].str.startswith("1 of 64 elements wrong; worst C(1, 2) = nan").all()
    assert (wrong["worst_row"] == 1).all()
    assert set(broken["reason"]) == {"an illegal instruction was encountered"}
    assert broken["worst_row"].isna().all()
    assert len(failed) == 4
    assert set(made.samples["variant"]) == {"naive", "buffered_row", "blocked"}
    assert {count for cell, count in gpus.passes.items() if cell.variant == "block"} == {1}


def test_a_cell_that_fails_while_it_is_sampled_is_failed_and_the_rest_goes_on(
    config, gpus, cubins, tmp_path
):
    def fault(cell, _, number):
        if cell.variant == "block" and cell.n == 8 and number == 4:
            raise CellError("the launch timed out and was terminated")

    gpus.fault = staticmethod(fault)
    made = recorder.record(config, 0, tmp_path / "r", cubins)
    hit = (made.checks["variant"] == "block") & (made.checks["n"] == 8)
    assert set(made.checks[hit]["status"]) == {"failed"}
    assert set(made.checks[hit]["reason"]) == {"the launch timed out and was terminated"}
    assert "failed" not in set(made.checks[~hit]["status"])
    sampled = made.checks[made.checks["status"] == "passed"]
    assert set(cells_of(made.samples)) == set(cells_of(sampled))


def test_a_host_on_which_every_cell_fails_is_recorded_too(config, no_gpu, tmp_path, monkeypatch):
    def starved(*_):
        raise MemoryError("no memory for its buffer")

    monkeypatch.setattr(recorder.Library, "multiply", starved)
    made = recorder.record(config, "auto", tmp_path / "r", None)
    assert set(made.checks["status"]) == {"failed"}
    assert set(made.checks["reason"]) == {"no memory for its buffer"}
    assert made.samples.empty


def test_kernels_are_built_for_the_gpus_where_none_are_given(config, gpus, tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo V13.9.7 && exit\n'
        'while [ "$1" != -o ]; do shift; done\necho code >"$2"\n'
    )
    nvcc.chmod(0o755)
    config["toolchain"] = {"nvcc": str(nvcc)}
    made = recorder.record(config, 0, tmp_path / "r", None)
    assert set(made.builds["architecture"]) == {"sm_86"}
    assert set(made.builds["nvcc"]) == {"13.9.7"}
    assert len(made.builds) == 5
    assert gpus.log == ["enter", "exit"]


def test_cpu_and_gpu_cells_have_budgets_of_their_own(config, study, gpus, cubins, tmp_path):
    study["protocol"] |= {"gpu_cell_budget_s": 1e-3, "cpu_cell_budget_s": 1e-9}
    made = recorder.record(config, 0, tmp_path / "r", cubins)
    assert (made.samples["round"] == 0).all(), "every pass alone exceeds its budget"
    assert not made.samples.duplicated(CELL).any()
    study["protocol"]["gpu_cell_budget_s"] = 10
    made = recorder.record(config, 0, tmp_path / "r", cubins)
    assert set(made.samples[made.samples["device"] == "gpu0"]["round"]) == {1, 2, 3, 4, 5, 6}
    assert set(made.samples[made.samples["device"] == "cpu"]["round"]) == {0}


def refusal(*arguments):
    """Return the message with which a recording is refused."""
    with pytest.raises(StudyError) as refused:
        recorder.record(*arguments)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_without_gcc_nothing_is_written(config, no_gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(config, "auto", tmp_path / "new" / "r", None).startswith("gcc: not found")
    assert list(tmp_path.iterdir()) == []


def test_without_nvcc_no_gpu_is_used(config, gpus, tmp_path):
    config["toolchain"] = {"nvcc": str(tmp_path / "none")}
    assert "none is no program" in refusal(config, "auto", tmp_path / "r", None)
    assert gpus.log == []
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("suffix", [".cubin", ".json"])
def test_missing_cubin_is_named_before_anything_is_measured(config, gpus, cubins, tmp_path, suffix):
    (cubins / "sm_86" / f"block-b4-guarded{suffix}").unlink()
    said = refusal(config, "auto", tmp_path / "r", cubins)
    assert said.startswith(f"{cubins}/sm_86/block-b4-guarded.cubin: missing, or not")
    assert gpus.log == []
    assert not (tmp_path / "r").exists()


def test_folder_with_something_else_is_refused_and_untouched(config, no_gpu, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    assert refusal(config, "auto", out, None).startswith(f"{out}: is not empty and no recording")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.txt"]


def test_a_new_recording_replaces_the_older_one(config, no_gpu, tmp_path):
    first = recorder.record(config, "auto", tmp_path / "r", None)
    config["study"]["cpu"]["sizes"] = [8]
    recorder.record(config, "auto", tmp_path / "r", None)
    again = recording.read(tmp_path / "r")
    assert len(again.checks) < len(first.checks)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_command_records_and_sums_up(config, no_gpu, tmp_path, monkeypatch, capsys):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    out = tmp_path / "r"
    monkeypatch.setattr(sys, "argv", ["m", "record", "--config", str(file), "--out", str(out)])
    assert exit_status(cli.main) == 0
    samples = len(recording.read(out).samples)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"{out}: {samples} samples; cells: 6 passed"


def run(*arguments):
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "measurement", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_missing_configuration_is_one_line(tmp_path):
    file = tmp_path / "config.yaml"
    done = run("record", "--config", file, "--out", tmp_path / "r")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (f"error: {file}: No such file or directory; name a configuration file\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["gpu0", "-1", "0.5", "²", ""])
def test_device_that_is_no_index_is_told_so(tmp_path, monkeypatch, capsys, device):
    arguments = ["m", "record", "--config=config.yaml", f"--device={device}", f"--out={tmp_path}/r"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        exit_status(cli.main)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("python -m measurement record: error: argument --device: ")
    assert repr(device) in last


def test_gpu_of_a_host_that_has_none_is_one_line(tmp_path):
    try:
        if cuda_devices():
            pytest.skip("this host has a GPU")
    except StudyError as error:
        pytest.skip(f"this host has a GPU; {error}")
    done = run("record", "--config", "config.yaml", "--device", "0", "--out", tmp_path / "r")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: GPU 0: not on this host, which has: none; set the entry's device to one of them, "
        "or to auto\n"
    )
    assert list(tmp_path.iterdir()) == []
