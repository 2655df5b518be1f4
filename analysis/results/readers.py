"""Readers of result files: nvbench, Google Benchmark, pytest-benchmark, hyperfine and CSV.

Each reader yields (benchmark, session, times in seconds), whichever tool wrote the file. A session
is one process of a benchmark program, usually one file.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.estimates import FloatArray
from base.errors import StudyError

Rows = Iterable[tuple[str, str, FloatArray]]
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
LARGEST_MB, MOST_SAMPLES = 256, 1001  # limit of a file, and of a benchmark in one session
_SAMPLES = "nv/json/bin:nv/cold/sample_times"  # nvbench's tag for a file of times


def read(path: Path) -> pd.DataFrame:
    """Return the samples of a result file: benchmark, session, sample, time_s and made_s.

    made_s is the time at which the file says it was made, otherwise its modification time. If a
    benchmark has more than `MOST_SAMPLES` samples, evenly spaced ones are kept. Raise StudyError if
    the file is not readable or complete.
    """
    if not path.is_file() or path.stat().st_size > LARGEST_MB * 10**6:
        raise StudyError(f"{path}: missing, or larger than {LARGEST_MB} MB; name a result file")
    try:
        samples, made = (_csv(path), None) if path.suffix == ".csv" else _json(path)
        rows = [_row(*row) for row in samples]
        if not sum(len(times) for *_, times in rows):
            raise StudyError(f"{path}: contains no times; check that its benchmarks have run")
        table = pd.DataFrame(rows, columns=["benchmark", "session", "time_s"])
        for name in table.loc[table.duplicated(["benchmark", "session"]), "benchmark"]:
            raise StudyError(f"{path}: contains {name} more than once; rename one of them")
        values = np.concatenate(table.pop("time_s").to_list())
        places = table.index.repeat([len(times) for *_, times in rows])
        table = table.astype("category").loc[places]
        dated = pd.to_datetime([made], utc=True, errors="coerce")[0]
        at_s = path.stat().st_mtime if pd.isna(dated) else dated.timestamp()
        table = table.assign(sample=table.groupby(level=0).cumcount(), time_s=values, made_s=at_s)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RuntimeError) as e:
        reason = f"lacks {e}" if isinstance(e, KeyError) else f"{e}".splitlines()[0]
        raise StudyError(f"{path}: not a complete result file ({reason}); write it again") from None
    for name in table.loc[~(np.isfinite(values) & (values >= 0)), "benchmark"]:
        raise StudyError(f"{path}: a time of {name} is negative or not a number; measure again")
    return table.reset_index(drop=True)


def _row(name: str, session: str, times: FloatArray) -> tuple[str, str, FloatArray]:
    """Return a printable name, the session, and the sorted times, thinned evenly if too many."""
    name = "".join(letter if letter.isprintable() else " " for letter in name.strip())
    if len(times) > MOST_SAMPLES:
        times = np.sort(times)[np.linspace(0, len(times) - 1, MOST_SAMPLES).astype(int)]
    return name, session, times


def _nvbench(content: Any, path: Path) -> Rows:
    """Yield the isolated times of nvbench; with ``--jsonbin`` they are in separate files."""
    for benchmark in content["benchmarks"]:
        states = [state for state in benchmark["states"] or [] if not state.get("is_skipped")]
        for state in states:
            name = f"{benchmark['name']} {state['name']}"
            tags = {summary["tag"]: summary["data"] for summary in state["summaries"] or []}
            if _SAMPLES not in tags:
                raise StudyError(f"{path}: has no samples; run nvbench with --jsonbin FILE")
            fields = {item["name"]: item["value"] for item in tags[_SAMPLES]}
            file = path.parent / fields["filename"]
            file = file if file.is_file() else Path(fields["filename"])  # older: a full path
            if not file.is_file():
                raise StudyError(f"{file}: missing; copy it together with {path}")
            times = np.fromfile(file, "<f4").astype(float)
            if len(times) != int(fields["size"]):
                raise StudyError(f"{file}: {len(times)} of {fields['size']} times; copy it again")
            yield name, str(path), times


def _google_benchmark(content: Any, path: Path) -> Rows:
    """Yield CPU times, unless a benchmark's name says that another time ends its iterations."""
    samples: dict[str, list[float]] = {}
    for run in content["benchmarks"]:
        if run.get("run_type", "iteration") == "iteration" and not run.get("error_occurred"):
            clock = "real" if {"real_time", "manual_time"} & {*run["name"].split("/")} else "cpu"
            time = run[f"{clock}_time"] * _UNITS[run["time_unit"]]
            samples.setdefault(run["name"], []).append(time)
    if content["benchmarks"] and not samples:
        raise StudyError(f"{path}: has no samples; run without --benchmark_report_aggregates_only")
    return ((name, str(path), np.array(times, float)) for name, times in samples.items())


def _pytest_benchmark(content: Any, path: Path) -> Rows:
    for benchmark in content["benchmarks"]:
        if not (times := benchmark["stats"].get("data")):
            raise StudyError(f"{path}: has no samples; run pytest with --benchmark-json FILE")
        yield benchmark["fullname"], str(path), np.array(times, float)


def _hyperfine(content: Any, path: Path) -> Rows:
    for run in content["results"]:
        yield run["command"], str(path), np.array(run["times"], float)


def _json(path: Path) -> tuple[Rows, str | None]:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    readers: dict[str, Callable[[Any, Path], Rows]] = {
        "devices": _nvbench,
        "machine_info": _pytest_benchmark,
        "context": _google_benchmark,
        "results": _hyperfine,
    }
    if not (markers := [marker for marker in readers if marker in {*content}]):
        raise ValueError("no known format: nvbench, Google Benchmark, pytest-benchmark, hyperfine")
    made = content.get("datetime") or (content.get("context") or {}).get("date")
    return readers[markers[0]](content, path), made


def _csv(path: Path) -> Rows:
    """Yield the times of a CSV file with the columns name, time_s and, optionally, session."""
    table = pd.read_csv(path)
    if not isinstance(table.index, pd.RangeIndex) or {"name", "time_s"} - {*table}:
        raise StudyError(f"{path}: its columns are not name, time_s[, session]; write them so")
    table = table.assign(session=table.get("session", ""))
    for (name, session), times in table.groupby(["name", "session"], sort=False)["time_s"]:
        yield f"{name}", f"{path} {session}".strip(), times.to_numpy(float)
