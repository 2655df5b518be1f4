"""The study on a real Slurm, with a fake GPU and the real CPU."""

import json
import os
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from base.errors import StudyError
from measurement.recorder import on_node
from measurement.recording import recording
from tests.support import ROOT
from tests.support.compilers import stand_in
from tests.support.fakes import FakeHardware
from tests.support.studies import config_text

PARTS = ["analysis", "base", "cpu_reference", "data/published", "kernels", "measurement", "report"]
PARTS += ["study", "tests/support", "workflow", "CITATION.cff", "README.md", "Snakefile"]
PROTOCOL = {"max_samples": 6, "gpu_cell_budget_s": 0.1, "cpu_cell_budget_s": 0.1}
PROTOCOL |= {"single_run_s": 100, "hang_limit_s": 600}
GPUS = [{"id": name, "slurm": "h100"} for name in ("killed", "kept")]
# Replaces the node's hardware: one GPU, on which a run of `killed` takes too long.
HARDWARE = """
import sys
from pathlib import Path
from tests.support.fakes import FakeHardware


def Host():
    folder = Path("hardware") / sys.argv[1]
    folder.mkdir(parents=True, exist_ok=True)
    return FakeHardware(folder, gpus=1, run_s=60.0 * (sys.argv[1] == "killed"), real_cpu=True)
"""
# Cancels the job of `killed` after its first run has started.
KILL = """
until grep -q "^run" hardware/killed/log 2>/dev/null; do sleep 0.1; done
scancel "$(tr -dc 0-9 <results/measured/killed.attempt)"
"""


def lacking():
    """Return what is missing here to run a Slurm; None if nothing."""
    programs = ("slurmctld", "slurmd", "munged", "sbatch", "unshare")
    missing = [name for name in programs if not shutil.which(name, path=_path())]
    if missing:
        return f"{missing[0]} is not installed (on Debian: slurmctld, slurmd, slurm-client, munge)"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "the package snakemake-executor-plugin-slurm is not installed"
    alone = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True)
    return "namespaces are not allowed here" if alone.returncode or os.geteuid() else None


def _path():
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project after a study on Slurm with one killed job."""
    if why := lacking():
        pytest.skip(why)
    base = tmp_path_factory.mktemp("slurm")
    project = base / "project"
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        (project / part).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / part, project / part)
    nvcc = {"nvcc": str(stand_in(base / "bin" / "nvcc"))}
    (project / "config.yaml").write_text(config_text({}, PROTOCOL, GPUS, toolchain=nvcc))
    (project / "stand_in.py").write_text(HARDWARE)
    script = project / "measurement" / "recorder" / "on_node.py"
    real = "from measurement.recorder.hardware import Host\n"
    assert real in script.read_text()
    script.write_text(script.read_text().replace(real, "from stand_in import Host\n"))
    ports = [str(free_port()) for _ in range(2)]
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    cluster = [*alone, "sh", ROOT / "tests" / "support" / "slurm.sh", base / "cluster", *ports]
    profile = ["--workflow-profile", "workflow/profiles/slurm", "--config", "scope=full"]
    study = [sys.executable, "-m", "snakemake", "results/tables/missing.csv", *profile]
    command = [*cluster, "sh", "-c", f'({KILL}) & exec "$@"', "sh", *study]
    environment = {**os.environ, "PATH": _path()}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return project


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.slow
def test_a_job_that_is_killed_costs_its_gpu_alone_and_is_named_with_the_reason(project):
    missing = pd.read_csv(project / "results" / "tables" / "missing.csv")
    assert missing.to_dict("records") == [
        {"recording": "killed", "reason": "Slurm ended its job: CANCELLED"}
    ]
    kept = recording.read(project / "results" / "recordings" / "kept")
    assert set(kept.checks["device"]) == {"gpu0", "cpu"}
    assert set(kept.checks["status"]) == {"passed"}
    assert kept.provenance["devices"][0]["name"] == "Stand-in"
    summary = pd.read_csv(project / "results" / "tables" / "summary.csv")
    assert set(summary["recording"]) == {"kept"}
    assert (project / "results" / "recordings" / "killed.partial").exists(), "can be resumed"


# ---- Jobs and the reasons of failures


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return tmp_path / "id.attempt"


def test_a_node_without_a_gpu_is_told_by_the_second_attempt(attempt, tmp_path):
    with pytest.raises(StudyError, match="finds no GPU") as error:
        on_node.measure("id", attempt, FakeHardware(tmp_path, gpus=0))
    assert on_node.reason(attempt) == str(error.value)


def test_outside_of_slurm_the_command_is_named(attempt, tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(StudyError, match="--workflow-profile workflow/profiles/slurm"):
        on_node.measure("id", attempt, FakeHardware(tmp_path))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("JobState=NODE_FAIL Reason=NodeDown Dependency=", "NODE_FAIL (NodeDown)"),
        ("JobState=PREEMPTED Reason=None Dependency=", "PREEMPTED"),
        ("", "the node failed, or the job was cancelled or preempted"),
    ],
)
def test_a_job_that_slurm_ended_is_told_by_its_state(attempt, tmp_path, monkeypatch, said, reason):
    attempt.write_text(json.dumps({"job": "7"}))
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho '{said}'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert on_node.reason(attempt) == f"Slurm ended its job: {reason}"


def test_a_job_that_never_began_is_told(tmp_path):
    assert on_node.reason(Path(tmp_path / "none")) == "Slurm did not start its job"
