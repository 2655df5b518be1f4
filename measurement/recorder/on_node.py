"""Measure a GPU on a node of a Slurm cluster, or say why it is missing.

    python -m measurement.recorder.on_node ID --attempt N

What rule measure_on_node runs. The first attempt records. Where it fails, or Slurm ends it,
Snakemake calls a second, which measures nothing: it writes why there is no recording, so that a
node that fails costs its own GPU only. Either leaves ``results/measured/ID.json``, with `recording`
or `missing` in it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from base.errors import StudyError, exit_status
from base.files import write_atomic
from measurement.recorder.hardware import Hardware, Host
from measurement.recorder.record import record
from study.config import load

MEASURED = Path("results/measured")
PROFILE = "workflow/profiles/slurm"


def main() -> None:
    """Run the command; raises StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m measurement.recorder.on_node", description=__doc__
    )
    parser.add_argument("id", help="of an entry of the config's gpus")
    parser.add_argument("--attempt", type=int, required=True, help="1 measures, 2 says why not")
    arguments = parser.parse_args()
    attempt = MEASURED / f"{arguments.id}.attempt"
    if arguments.attempt == 1:
        folder = measure(arguments.id, attempt, Host())
        outcome = {"recording": str(folder)}
    else:
        outcome = {"missing": reason(attempt)}
        print(f"error: {arguments.id}: {outcome['missing']}", file=sys.stderr)
    write_atomic(MEASURED / f"{arguments.id}.json", json.dumps(outcome) + "\n")


def measure(name: str, attempt: Path, hardware: Hardware) -> Path:
    """Record the GPU that Slurm gave this job; return the folder of the recording.

    What goes wrong is kept in the file `attempt` for a second one; raises StudyError.
    """
    job = os.environ.get("SLURM_JOB_ID")
    write_atomic(attempt, json.dumps({"job": job}))
    try:
        if job is None:
            raise StudyError(
                f"it is measured through Slurm; run `snakemake report --workflow-profile {PROFILE}`"
            )
        # A step of Slurm's may be bound to as many CPUs as Snakemake asked for: one.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        if not hardware.select("auto"):
            raise StudyError("the node that Slurm gave has no GPU that CUDA can use")
        folder = Path("results/recordings") / name
        record(load("results/config.yaml"), "auto", folder, None, hardware=hardware)
    except StudyError as error:
        write_atomic(attempt, json.dumps({"job": job, "error": str(error)}))
        raise
    return folder


def reason(attempt: Path) -> str:
    """Return why the first attempt left no recording."""
    if not attempt.is_file():
        return "Slurm never started its job"
    known = json.loads(attempt.read_text())
    return str(known.get("error") or f"Slurm ended its job: {_state(known['job'])}")


def _state(job: str) -> str:
    """Return what Slurm says of a job that has ended; it forgets after some minutes."""
    command = ["scontrol", "show", "job", job]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"JobState=(\S+) Reason=(\S+)", shown)
    if not found:
        return "the node failed, or the job was cancelled or preempted"
    return found[1] + (f" ({found[2]})" if found[2] != "None" else "")


if __name__ == "__main__":
    sys.exit(exit_status(main))
