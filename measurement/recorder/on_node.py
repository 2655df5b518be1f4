"""Measuring a GPU on a node of a Slurm cluster, or reporting why its recording is missing.

Rule measure_on_node runs ``gemm-study node``. Attempt 1 records. If it fails or Slurm ends it,
Snakemake starts attempt 2, which only writes the reason; the other GPUs are not affected. Both
attempts write ``results/measured/ID.json`` with the key `recording` or `missing`.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from base.errors import StudyError
from base.files import write_atomic
from measurement.recorder.hardware import Host
from measurement.recorder.record import record
from measurement.recorder.target import unused
from study.config import load

CONFIG, MEASURED = "results/config.yaml", Path("results/measured")
PROFILE = "workflow/profiles/slurm"


def run(name: str, attempt: int) -> None:
    """Write the outcome of attempt 1 or 2 for the entry `name`; raise StudyError."""
    if name not in (names := [gpu.id for gpu in load(CONFIG).gpus if gpu.slurm]):
        allowed = ", ".join(names) or "none"
        raise StudyError(f"{name}: no GPU of Slurm in {CONFIG} has this id; allowed: {allowed}")
    facts = MEASURED / f"{name}.attempt"
    if attempt == 1:
        outcome = {"recording": str(measure(name, facts, Host()))}
    else:
        outcome = {"missing": reason(facts)}
        print(f"error: {name}: {outcome['missing']}", file=sys.stderr)
    write_atomic(MEASURED / f"{name}.json", json.dumps(outcome) + "\n")


def measure(name: str, attempt: Path, hardware: Host) -> Path:
    """Record the GPU of this Slurm job; return the folder of the recording.

    Write an error to the file `attempt`, for attempt 2, and raise it as StudyError.
    """
    job = os.environ.get("SLURM_JOB_ID")
    write_atomic(attempt, json.dumps({"job": job}))
    try:
        if job is None:
            raise StudyError(
                f"this GPU needs Slurm; run `snakemake report --workflow-profile {PROFILE}`"
            )
        # Snakemake requests one CPU, so Slurm may have bound the step to one.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        if not hardware.select("auto"):
            raise StudyError("CUDA finds no GPU on this node; check `nvidia-smi` there")
        folder = unused(Path("results/recordings") / name)
        record(load(CONFIG), "auto", folder, None, hardware=hardware)
    except StudyError as error:
        write_atomic(attempt, json.dumps({"job": job, "error": str(error)}))
        raise
    return folder


def reason(attempt: Path) -> str:
    """Return why the first attempt left no recording."""
    if not attempt.is_file():
        return "Slurm did not start its job"
    attempt_facts = json.loads(attempt.read_text())
    return str(attempt_facts.get("error") or f"Slurm ended its job: {_state(attempt_facts['job'])}")


def _state(job: str) -> str:
    """Return the state that Slurm reports for an ended job; Slurm keeps it for some minutes."""
    command = ["scontrol", "show", "job", job]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    state = re.search(r"JobState=(\S+) Reason=(\S+)", shown)
    if not state:
        return "the node failed, or the job was cancelled or preempted"
    return state[1] + (f" ({state[2]})" if state[2] != "None" else "")
