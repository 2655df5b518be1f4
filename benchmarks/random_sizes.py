"""Reports for random lists of sizes: ``python -m benchmarks.random_sizes --out FOLDER``.

FOLDER becomes a clone of this checkout. A list has one to eight sizes from 1 to 2000; the commit's
hash is the seed. For each list the command writes `config.local.yaml` with a short protocol and one
of three lists of GPUs. Then it runs `make report`, and checks exit status, page and logs.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from base.command_line import whole_number
from base.paths import ROOT

PROTOCOL = {"cpu_cell_budget_s": 0.02, "cpu_warm_run_s": 0.0, "cold_starts": 1, "max_samples": 9}
GPUS = [{"id": "local", "device": "auto"}, {"id": "gpu", "recording": "data/recordings/h100-sxm"}]
WORDS = ("Traceback", "error:", "Warning")  # not in a log


def draw(commit: str, number: int) -> list[int]:
    """Return a list of sizes, unsorted and perhaps with repeated sizes."""
    random = Random(f"{commit} {number}")
    return [random.randint(1, 2000) for _ in range(random.randint(1, 8))]


def problems(checkout: Path, sizes: list[int], gpus: int) -> list[str]:
    """Make the report for a list of sizes; return what is wrong."""
    page = checkout / "results" / "report.html"
    study = {"sizes": sizes, "cpu": {"sizes": sizes}, "protocol": PROTOCOL}
    own = {"study": study} | ({"gpus": GPUS[:gpus]} if gpus else {})
    (checkout / "config.local.yaml").write_text(json.dumps(own))
    page.unlink(missing_ok=True)
    done = subprocess.run(["make", "report"], cwd=checkout, capture_output=True, text=True)
    found = [(done.stdout + done.stderr)[-300:]] if done.returncode or not page.exists() else []
    for log in (checkout / "results" / "logs").rglob("*.log"):
        found += [f"{log.name}: {word}" for word in WORDS if word in log.read_text()]
    check = [str(checkout / ".venv/bin/gemm-study"), "check", "--templates", "report"]
    checked = subprocess.run(check, cwd=checkout, capture_output=True, text=True)
    return found or [checked.stdout] * checked.returncode


def main() -> int:
    """Make the reports; return the number of wrong ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the clone")
    parser.add_argument("--lists", type=whole_number, default=40, help="number of lists")
    asked, wrong = parser.parse_args(), 0
    subprocess.run(["git", "clone", "--quiet", ROOT, asked.out], check=True)
    commit = subprocess.check_output(["git", "-C", asked.out, "rev-parse", "HEAD"], text=True)
    for number in range(1, asked.lists + 1):
        sizes, begin = draw(commit.strip(), number), time.monotonic()
        found = problems(asked.out, sizes, number % 3)
        wrong += bool(found)
        print(number, sizes, f"{time.monotonic() - begin:.0f} s", found or "right", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
