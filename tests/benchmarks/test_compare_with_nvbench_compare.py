"""Files of nvbench from samples, and the verdicts that its commands print."""

import json

import numpy as np
import pandas as pd
import pytest

from base.errors import StudyError
from benchmarks.compare_with_nvbench_compare import table, verdicts_of_tool, write_json
from tests.support.compilers import program

# Rows as nvbench-compare-legacy prints them: its status is the number of differences.
ROWS = """# kernels
|  cell  |   Ref Time |   %Diff |  Status  |
|--------|------------|---------|----------|
|   0    |   1.900 us |   9.42% | 🔴 SLOW  |
|   1    |   2.000 us |  -5.00% | 🟢 FAST  |
|   2    |   2.000 us |   0.00% | 🔵 SAME  |
|   3    |   2.000 us |   1.00% | 🟡 ????  |
"""


def test_times_are_written_as_nvbench_does(tmp_path):
    times = np.array([1e-6, 2e-6, 4e-6])
    root = json.loads(write_json({7: np.array([times, 3 * [1.9e9]])}, tmp_path / "a").read_text())
    (bench,) = root["benchmarks"]
    (state,) = bench["states"]
    values = {each["tag"]: each["data"] for each in state["summaries"]}
    mean = values["nv/cold/time/gpu/mean"][0]
    assert float(mean["value"]) == pytest.approx(times.mean())
    noise = float(values["nv/cold/time/gpu/stdev/relative"][0]["value"])
    assert noise == pytest.approx(times.std(ddof=1) / times.mean())
    assert float(values["nv/cold/sm_clock_rate/mean"][0]["value"]) == 1.9e9
    file, size = values["nv/json/bin:nv/cold/sample_times"]
    assert size["value"] == "3"
    assert np.fromfile(file["value"], "<f4").tolist() == times.astype("f4").tolist()


def test_verdicts_are_read_by_kernel_and_counted(tmp_path):
    script = program(tmp_path / "compare", f"cat <<'END'\n{ROWS}END\nexit 2")
    found = verdicts_of_tool(script, tmp_path, tmp_path)
    assert found == {0: "slower", 1: "faster", 2: "same", 3: "undecided"}
    script = program(tmp_path / "bad", "echo no such file >&2; exit 1")
    with pytest.raises(StudyError, match="no verdicts: no such file"):
        verdicts_of_tool(script, tmp_path, tmp_path)
    rows = [
        ("tool", slowdown, pair, found[number], number == 0)
        for slowdown in (0.0, 0.02, 0.05)
        for pair in ((0, 1), (1, 0))
        for number in found
    ]
    columns = ["tool", "slowdown", "pair", "verdict", "is_short"]
    (_, line) = table(pd.DataFrame(rows, columns=columns))
    assert line == ["tool", "2", "2", "2", "2", "25.00%", "2 of 2", "0.0%", "25.0%"]
