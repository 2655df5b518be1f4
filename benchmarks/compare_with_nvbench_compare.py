"""Compare the verdicts of `gemm-study compare` with those of nvbench's two comparison commands.

    python -m benchmarks.compare_with_nvbench_compare --bin DIR [SESSION ...]

Kernel-only samples of each session are written as JSON of nvbench, with their times as a binary
file. DIR contains `nvbench-compare-legacy` and `nvbench-compare-robust`, as installed by
`pip install cuda-bench[compare]` into a separate environment. All ordered pairs of sessions with
one configuration are compared by all tools. The verdicts of this study use the variation between
the other sessions.
Slowdowns are simulated: the times of B are multiplied.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.stats.between import KNOWN
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED
from analysis.trust.comparison import GPU, SHORT_S, compare, decided, matched
from base.command_line import aligned
from base.errors import StudyError, exit_status
from base.paths import ROOT
from benchmarks.verdict_rates import COMMITTED, Sessions, fitted
from measurement.recording.recording import KERNEL, Recording, read

OWN, TOOLS = "gemm-study compare", ("nvbench-compare-legacy", "nvbench-compare-robust")
SLOWDOWNS = (0.0, 0.02, 0.05)
_STATUS = {"SLOW": SLOWER, "FAST": FASTER, "SAME": SAME}
_TIME = "nv/cold/time/gpu/"


def _summary(tag: str, value: float) -> dict[str, object]:
    data = [{"name": "value", "type": "float64", "value": repr(float(value))}]
    return {"tag": tag, "name": tag, "data": data}


def _file(tag: str, values: np.ndarray, file: Path) -> dict[str, object]:
    """Write values to `file`; return the summary that names it."""
    values.astype("<f4").tofile(file)
    data = [
        {"name": "filename", "type": "string", "value": str(file)},
        {"name": "size", "type": "int64", "value": str(len(values))},
    ]
    return {"tag": tag, "name": tag, "data": data}


def _state(number: int, times: np.ndarray, clocks: np.ndarray, folder: Path) -> dict[str, object]:
    """Return the state of one kernel; its times and SM clocks are written to `folder`."""
    q1, middle, q3 = np.quantile(times, [0.25, 0.5, 0.75])
    deviation = times.std(ddof=1)
    values = {
        "min": times.min(),
        "max": times.max(),
        "mean": times.mean(),
        "median": middle,
        "stdev/absolute": deviation,
        "stdev/relative": deviation / times.mean(),
        "q1": q1,
        "q3": q3,
        "iqr/absolute": q3 - q1,
        "iqr/relative": (q3 - q1) / middle,
    }
    return {
        "name": f"Device=0 cell={number}",
        "device": 0,
        "is_skipped": False,
        "axis_values": [{"name": "cell", "type": "int64", "value": str(number)}],
        "summaries": [
            _file("nv/json/bin:nv/cold/sample_times", times, folder / f"{number}.bin"),
            _file("nv/json/freqs-bin:nv/cold/sample_freqs", clocks, folder / f"{number}-hz.bin"),
            _summary("nv/cold/sm_clock_rate/mean", clocks.mean()),
            *(_summary(_TIME + name, value) for name, value in values.items()),
        ],
    }


def write_json(times: dict[int, np.ndarray], folder: Path) -> Path:
    """Write times in seconds and SM clocks in Hz: shape (2, samples), by kernel number.

    Return the path of the file of nvbench.
    """
    folder.mkdir()
    states = [_state(number, own[0], own[1], folder) for number, own in times.items()]
    axis = {"name": "cell", "type": "int64", "flags": "", "values": []}
    bench = {"name": "kernels", "devices": [0], "axes": [axis], "states": states}
    version = {"json": {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}}
    root = {
        "meta": {"version": version},
        "devices": [{"id": 0, "name": "GPU"}],
        "benchmarks": [bench],
    }
    path = folder / "nvbench.json"
    path.write_text(json.dumps(root))
    return path


def verdicts_of_tool(command: Path, a: Path, b: Path) -> dict[int, str]:
    """Return the verdict by number of the kernel; raise StudyError if the tool fails."""
    done = subprocess.run(
        [command, "--no-color", a, b], capture_output=True, text=True, check=False
    )
    rows = [line.strip("|").split("|") for line in done.stdout.splitlines() if line[:1] == "|"]
    found = {}
    for first, *_, last in rows:
        if first.strip().isdigit() and (word := re.search(r"[A-Z?]{4}", last)):
            found[int(first)] = _STATUS.get(word[0], UNDECIDED)
    if not found:  # the exit status may be the number of differences
        raise StudyError(f"{command}: no verdicts: {(done.stderr or done.stdout)[-300:]}")
    return found


def kernels(recording: Recording, first: Recording, numbers: pd.DataFrame) -> dict[int, np.ndarray]:
    """Return kernel-only times and SM clocks, see `write_json`; devices are named as in `first`."""
    rows = matched(recording.kernels, first, recording)
    rows = rows.astype(numbers.dtypes[KERNEL].to_dict()).merge(numbers, on=KERNEL)
    columns = ["kernel_s", "sm_clock_hz"]
    return {int(n): own[columns].to_numpy(float).T for n, own in rows.groupby("number")}


def counted(recordings: Sequence[Recording], folder: Path) -> pd.DataFrame:
    """Return one row per tool, slowdown, ordered pair and kernel: verdict, and is_short."""
    sessions = Sessions.of(recordings)
    pairs = [pair for own in sessions.pairs() for pair in (own, own[::-1])]
    frames = {}
    for at, other in pairs:
        frame = compare(recordings[at], recordings[other], THRESHOLD)
        frames[at, other] = frame[frame["same_code"] & (frame["side"] == GPU)]
    rows = []
    for pair in pairs:
        rest = [each for each in pairs if each[0] < each[1] and not set(each) & set(pair)]
        known = KNOWN | fitted({each: frames[each] for each in rest}, sessions)
        frame = frames[pair].reset_index(drop=True)
        numbers = frame[KERNEL].assign(number=frame.index)
        a, b = (recordings[at] for at in pair)
        sides = [kernels(a, a, numbers), kernels(b, a, numbers)]
        short = frame["median_a_s"] < SHORT_S
        for slowdown in SLOWDOWNS:
            factor = 1 + slowdown
            longer = np.array([[factor], [1]])
            times = {name: frame[name] * factor for name in ("median_b_s", "ratio")}
            found = {OWN: decided(frame.assign(**times), THRESHOLD, known)["verdict"].to_dict()}
            name = f"{pair[0]}-{pair[1]}-{slowdown}"
            files = [
                write_json(sides[0], folder / f"{name}-a"),
                write_json({n: own * longer for n, own in sides[1].items()}, folder / f"{name}-b"),
            ]
            for tool in TOOLS:
                found[tool] = verdicts_of_tool(folder / "bin" / tool, *files)
            for tool, own in found.items():
                rows += [(tool, slowdown, pair, own[n], short[n]) for n in sorted(own)]
        print(f"compared {pair}", file=sys.stderr, flush=True)
    return pd.DataFrame(rows, columns=["tool", "slowdown", "pair", "verdict", "is_short"])


def table(rows: pd.DataFrame) -> list[list[str]]:
    """Return one row of text per tool, with its titles."""
    lines = [["tool", "same", "faster", "slower", "undecided", "false slower", "pairs with slower"]]
    lines[0] += ["2 % found, from 20 µs", "5 % found, all"]
    for tool, own in rows.groupby("tool", sort=False):
        honest = own[own["slowdown"] == 0]
        counts = Counter(honest["verdict"])
        slower = own["verdict"] == SLOWER
        decided_ones = [counts[name] for name in (SAME, FASTER, SLOWER)]
        pairs = slower[honest.index].groupby(honest["pair"]).any()
        shares = [
            slower[honest.index].mean(),
            slower[(own["slowdown"] == 0.02) & ~own["is_short"]].mean(),
            slower[own["slowdown"] == 0.05].mean(),
        ]
        lines.append(
            [
                str(tool),
                *(f"{count}" for count in (*decided_ones, len(honest) - sum(decided_ones))),
                f"{shares[0]:.2%}",
                f"{pairs.sum()} of {len(pairs)}",
                *(f"{share:.1%}" for share in shares[1:]),
            ]
        )
    return lines


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_with_nvbench_compare")
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--bin", required=True, type=Path)
    arguments = parser.parse_args()
    for tool in TOOLS:
        if not (arguments.bin / tool).is_file():
            raise StudyError(f"--bin {arguments.bin}: has no {tool}; see --help")
    paths = arguments.recordings or [ROOT / path for path in COMMITTED]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bin").symlink_to(arguments.bin.resolve())
        rows = counted([read(path) for path in paths], Path(folder))
    print("\n".join(aligned(table(rows))))
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
