"""Readers of result files: nvbench, Google Benchmark, pytest-benchmark, hyperfine and CSV.

A reader yields (benchmark, session, times in seconds), whatever tool wrote the file. A session is
one process of a benchmark program, usually one file.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.estimates import FloatArray
from base.errors import StudyError

Rows = Iterator[tuple[str, str, FloatArray]]
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SAMPLES = "nv/json/bin:"  # start of nvbench's tag for a file of sample times
_TOOLS = "nvbench, Google Benchmark, pytest-benchmark, hyperfine or CSV"


def read(path: Path) -> pd.DataFrame:
    """Return the samples of a result file, with the columns benchmark, session, sample and time_s.

    Rows of a benchmark are in the order of its samples. Raise StudyError if the file is not
    readable or not complete.
    """
    if not path.is_file():
        raise StudyError(f"{path}: is not a file; name a result file of {_TOOLS}")
    try:
        rows = [*(_csv(path) if path.suffix == ".csv" else _json(path))]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        text = f"{path}: not a complete result file of {_TOOLS} ({reason}); write it again"
        raise StudyError(text) from None
    if not rows:
        raise StudyError(f"{path}: contains no times; check that its benchmarks have run")
    table = pd.DataFrame(rows, columns=["benchmark", "session", "time_s"])
    twice = table.loc[table.duplicated(["benchmark", "session"]), "benchmark"]
    if len(twice):
        raise StudyError(f"{path}: contains {twice.iloc[0]} more than once; rename one of them")
    values = np.concatenate(table.pop("time_s").to_list())
    table = table.astype("category").loc[table.index.repeat([len(times) for *_, times in rows])]
    table = table.assign(sample=table.groupby(level=0).cumcount(), time_s=values)
    wrong = table.loc[~(np.isfinite(values) & (values >= 0)), "benchmark"]
    if len(wrong):
        text = f"{path}: a time of {wrong.iloc[0]} is negative or not a number; measure it again"
        raise StudyError(text)
    return table.reset_index(drop=True)


def _json(path: Path) -> Rows:
    with path.open(encoding="utf-8") as lines:
        content = json.load(lines)
    markers: dict[str, Callable[[Any, Path], Rows]] = {
        "devices": _nvbench,
        "machine_info": _pytest_benchmark,
        "context": _google_benchmark,
        "results": _hyperfine,
    }
    for marker, reader in markers.items():
        if isinstance(content, dict) and marker in content:
            return reader(content, path)
    raise ValueError("no known format")


def _nvbench(content: Any, path: Path) -> Rows:
    """Yield the isolated times of nvbench's ``--jsonbin``: float32 in files beside the JSON file.

    Older versions name these files relative to the folder in which nvbench ran.
    """
    for benchmark in content["benchmarks"]:
        for state in benchmark["states"] or []:
            if state.get("is_skipped"):
                continue
            name = f"{benchmark['name']} {state['name']}"
            tags = {summary["tag"]: summary["data"] for summary in state["summaries"] or []}
            data = [each for tag, each in tags.items() if tag.startswith(_SAMPLES)]
            if not data:
                raise StudyError(f"{path}: has no samples; run nvbench with --jsonbin FILE")
            fields = {item["name"]: item["value"] for item in data[0]}
            file = Path(fields["filename"])
            file = next((f for f in (path.parent / file, file) if f.is_file()), file)
            if not file.is_file():
                raise StudyError(f"{file}: missing; copy it together with {path}")
            times = np.fromfile(file, "<f4").astype(float)
            if len(times) != int(fields["size"]):
                raise StudyError(f"{file}: {len(times)} of {fields['size']} times; copy it again")
            yield name, str(path), times


def _google_benchmark(content: Any, path: Path) -> Rows:
    """Yield the time that Google Benchmark itself iterates by: CPU time, or as the name ends.

    ``UseRealTime`` and ``UseManualTime`` add ``/real_time`` and ``/manual_time`` to the name.
    """
    samples: dict[str, list[float]] = {}
    for run in content["benchmarks"]:
        if run.get("run_type", "iteration") != "iteration" or run.get("error_occurred"):
            continue
        clock = "real" if {"real_time", "manual_time"} & {*run["name"].split("/")} else "cpu"
        time = run[f"{clock}_time"] * _UNITS[run["time_unit"]]
        samples.setdefault(run["name"], []).append(time)
    if content["benchmarks"] and not samples:
        raise StudyError(f"{path}: has no samples; run without --benchmark_report_aggregates_only")
    return ((name, str(path), np.array(times, float)) for name, times in samples.items())


def _pytest_benchmark(content: Any, path: Path) -> Rows:
    for benchmark in content["benchmarks"]:
        times = benchmark["stats"].get("data")
        if not times:
            remedy = "run pytest with --benchmark-json FILE, or with --benchmark-save-data"
            raise StudyError(f"{path}: has no samples; {remedy}")
        yield benchmark["fullname"], str(path), np.array(times, float)


def _hyperfine(content: Any, path: Path) -> Rows:
    for result in content["results"]:
        yield result["command"], str(path), np.array(result["times"], float)


def _csv(path: Path) -> Rows:
    """Yield the times of a CSV file with the columns name, time_s and, if it has any, session."""
    table = pd.read_csv(path)
    if missing := {"name", "time_s"} - {*table}:
        columns = " and ".join(sorted(missing))
        raise StudyError(f"{path}: no column {columns}; its columns are name, time_s[, session]")
    sessions = table["session"].astype(str) if "session" in table else ""
    table = table.assign(session=sessions).astype({"name": str, "time_s": float})
    for (name, session), rows in table.groupby(["name", "session"], sort=False):
        yield name, f"{path} {session}".strip(), rows["time_s"].to_numpy()
