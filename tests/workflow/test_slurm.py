"""The study on a real Slurm, with a fake GPU and the real CPU."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec

import pandas as pd
import pytest
import yaml

from base.errors import StudyError
from base.paths import FOLDERS
from kernels.host_execution.counts import table
from measurement.recorder import on_node
from measurement.recording import recording
from study.counting import plan
from tests.support import ROOT
from tests.support.compilers import program, stand_in
from tests.support.fakes import FakeHardware
from tests.support.studies import config_text, study

PARTS = ["CITATION.cff", "README.md", "Snakefile", *FOLDERS, "data/published", "tests/support"]
PROTOCOL = {"samples": 6, "gpu_cell_budget_s": 0.1, "cpu_cell_budget_s": 0.1}
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


PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
ALONE = ["unshare", "--mount", "--pid", "--fork"]


def lacking():
    """Return what is missing here to run a Slurm; None if nothing."""
    for name in ("slurmctld", "slurmd", "munged", "sbatch", "unshare"):
        if not shutil.which(name, path=PATH):
            return f"{name} is not installed (on Debian: slurmctld, slurmd, slurm-client, munge)"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "the package snakemake-executor-plugin-slurm is not installed"
    alone = subprocess.run([*ALONE, "true"], capture_output=True)
    return "namespaces are not allowed here" if alone.returncode or os.geteuid() else None


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project, with counts, after a study on Slurm with one killed job."""
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
    counts = project / "results" / "counts"
    counts.mkdir(parents=True)
    for one in plan(study({}), None):
        (counts / f"{one.stem}.csv").write_text(table([], one.counted))
    script = project / "measurement" / "recorder" / "on_node.py"
    real = "from measurement.recorder.hardware import Host\n"
    assert real in script.read_text()
    script.write_text(script.read_text().replace(real, "from stand_in import Host\n"))
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as found:
            ports.append(str(found.getsockname()[1]))
    script = ["sh", ROOT / "tests" / "support" / "slurm.sh", base / "cluster", *ports]
    profile = ["--workflow-profile", "workflow/profiles/slurm", "--config", "scope=full"]
    run = [sys.executable, "-m", "snakemake", "results/tables/missing.csv", *profile]
    command = [*ALONE, "--kill-child", "--mount-proc", *script]
    command += ["sh", "-c", f'({KILL}) & exec "$@"', "sh", *run]
    options = {"cwd": project, "env": {**os.environ, "PATH": PATH}, "timeout": 300}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return project


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_killed_slurm_job_loses_only_its_gpu_and_the_report_names_the_reason(project):
    missing = pd.read_csv(project / "results" / "tables" / "missing.csv")
    killed = {"recording": "killed", "reason": "Slurm ended its job: CANCELLED"}
    assert missing.to_dict("records") == [killed]
    kept = recording.read(project / "results" / "recordings" / "kept")
    assert set(kept.checks["device"]) == {"gpu0", "cpu"}
    assert set(kept.checks["status"]) == {"passed"}
    assert kept.provenance["devices"][0]["name"] == "Stand-in"
    summary = pd.read_csv(project / "results" / "tables" / "summary.csv")
    assert set(summary["recording"]) == {"kept"}
    assert (project / "results" / "recordings" / "killed.partial").exists(), "can be resumed"


def test_the_slurm_profile_limits_the_threads_of_jobs_that_ask_for_all_cores():
    """Slurm does not: other jobs with 1024 threads would stay pending."""
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    rules = "".join(path.read_text() for path in ROOT.glob("workflow/rules/*.smk"))
    asking = re.findall(r"^rule (\w+):(?:(?!^rule ).)*?^    threads: 1024", rules, re.S | re.M)
    assert set(profile["set-threads"]) == set(asking) == {"build", "count", "measure"}
    assert max(profile["set-threads"].values()) <= 8


# ---- Jobs and the reasons of failures


@pytest.mark.parametrize("name", ["local", "nope", "../outside"])
@pytest.mark.parametrize("attempt", [1, 2])
def test_a_node_measures_only_an_entry_with_the_key_slurm(tmp_path, monkeypatch, name, attempt):
    (tmp_path / "results").mkdir()
    gpus = [{"id": "local", "device": "auto"}, {"id": "cluster", "slurm": "a100"}]
    (tmp_path / "results" / "config.yaml").write_text(config_text({}, PROTOCOL, gpus))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match=f"^{name}: no GPU .* has this id; allowed: cluster$"):
        on_node.run(name, attempt)
    assert [path.name for path in tmp_path.rglob("*")] == ["results", "config.yaml"]


def test_errors_name_a_node_without_gpu_and_a_command_outside_of_slurm(tmp_path, monkeypatch):
    attempt = tmp_path / "id.attempt"
    assert on_node.reason(attempt) == "Slurm did not start its job"
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(StudyError, match="--workflow-profile workflow/profiles/slurm"):
        on_node.measure("id", attempt, FakeHardware(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(StudyError, match="finds no GPU") as error:
        on_node.measure("id", attempt, FakeHardware(tmp_path, gpus=0))
    assert on_node.reason(attempt) == str(error.value), "by the second attempt"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("JobState=NODE_FAIL Reason=NodeDown Dependency=", "NODE_FAIL (NodeDown)"),
        ("JobState=PREEMPTED Reason=None Dependency=", "PREEMPTED"),
        ("", "the node failed, or the job was cancelled or preempted"),
    ],
)
def test_the_report_names_the_state_of_a_job_that_slurm_ended(tmp_path, monkeypatch, said, reason):
    attempt = tmp_path / "id.attempt"
    attempt.write_text(json.dumps({"job": "7"}))
    program(tmp_path / "scontrol", f"echo '{said}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert on_node.reason(attempt) == f"Slurm ended its job: {reason}"
