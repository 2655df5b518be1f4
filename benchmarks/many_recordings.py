"""How long a study of many recordings takes from tables to page, and how much memory.

    python -m benchmarks.many_recordings [--recordings N] [--kinds K] [--keep DIR]

Writes N simulated recordings of one GPU each, of K GPU models, which differ in what they can do,
and runs `python -m
analysis tables`, `figures` and `report` on them. For each it prints seconds and the most memory
that its processes held together (their proportional set sizes, sampled), and last the size of the
page. With `--keep`, recordings
and results stay in DIR, and recordings that are there already are used again.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from base.errors import StudyError, exit_status
from base.paths import ROOT
from cpu_reference.cores import usable_threads
from tests.support.simulated import Power, write_recording

_SAMPLED_S = 0.1


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    wall_s: float
    memory_bytes: int


def record(folder: Path, kinds: int, number: int) -> Path:
    """Write the recording of this number below `folder`, unless it is there; return its folder."""
    path, kind = folder / f"card{number}", number % kinds
    if not path.exists():
        factors = 4.0 ** np.random.default_rng(kind).uniform(-1, 1, 3)
        power = Power(*(float(each) for each in factors))
        write_recording(path, seed=number, gpu_name=f"Simulated GPU {kind}", power=power)
    return path


def cost(command: list[str]) -> Cost:
    """Run a command in the root of this tree and return what it took; raises StudyError."""
    began, most = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(command, cwd=ROOT, stderr=log) as process:
            while process.poll() is None:
                most = max(most, _memory_bytes(process.pid))
                time.sleep(_SAMPLED_S)
        wall_s = time.perf_counter() - began
        log.seek(0)
        last = (log.read().splitlines() or ["failed without a word"])[-1]
    if process.returncode:
        raise StudyError(f"{' '.join(command[:4])}: {last}")
    return Cost(wall_s, most)


def _memory_bytes(pid: int) -> int:
    """Return the memory of a process and its children; what they share counts once."""
    total = 0
    with suppress(OSError):  # it has ended
        process = Path(f"/proc/{pid}")
        found = re.search(r"^Pss: +(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE)
        total += 1024 * int(found[1]) if found else 0
        for children in process.glob("task/*/children"):
            total += sum(_memory_bytes(int(child)) for child in children.read_text().split())
    return total


def run(count: int, kinds: int, base: Path) -> dict[str, Cost]:
    """Return what each step takes with `count` recordings; all is written below `base`."""
    with ProcessPoolExecutor(usable_threads()) as pool:
        paths = list(pool.map(partial(record, base / "recordings", kinds), range(count)))
    given = [f"--recording={path.name}={path}" for path in paths]
    published = [f"--{name}=data/published/{csv}.csv" for name, csv in _PUBLISHED.items()]
    tables, figures, page = base / "tables", base / "figures", base / "report.html"
    steps = {
        "tables": [*published, *given, f"--out={tables}"],
        "figures": [f"--tables={tables}", f"--out={figures}"],
        "report": [
            *(f"--tables={tables}", f"--figures={figures}", "--template=report"),
            *(*given, f"--out={page}"),
        ],
    }
    command = [sys.executable, "-m", "analysis"]
    return {step: cost([*command, step, *options]) for step, options in steps.items()}


_PUBLISHED = {"published": "times", "systems": "systems", "statements": "statements"}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--recordings", type=int, default=50, metavar="N")
    parser.add_argument("--kinds", type=int, default=10, metavar="K", help="of GPU (10)")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = arguments.keep or Path(folder)
        costs = run(arguments.recordings, arguments.kinds, base)
        page = (base / "report.html").stat().st_size
    total = Cost(
        sum(one.wall_s for one in costs.values()), max(one.memory_bytes for one in costs.values())
    )
    for step, one in (costs | {"all": total}).items():
        print(f"{step:8}{one.wall_s:8.1f} s {one.memory_bytes / 1e9:8.2f} GB")
    print(f"{'page':8}{page / 1e6:8.2f} MB")


if __name__ == "__main__":
    sys.exit(exit_status(main))
