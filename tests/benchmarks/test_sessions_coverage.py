"""Coverage of intervals over sessions, simulated with the noise of recordings and held out."""

import sys

import pytest

from benchmarks import sessions_coverage as coverage

pytestmark = pytest.mark.exhaustive


def test_both_tables_are_printed_and_intervals_cover(patch, capsys):
    patch(coverage, EFFECTS={"as estimated": None})
    patch(sys, argv=["sessions_coverage", "--repeats", "42", "--seed", "7"])
    coverage.main()
    simulated, rows = (
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
        for text in capsys.readouterr().out.split("\n\n")
    )
    assert [row[1] for row in simulated] == [str(each) for each in coverage.SESSIONS]
    assert all(90 <= float(share.rstrip(" %")) <= 99 for row in simulated for share in row[2:])
    kernels = [row for row in rows if row[0] == "kernel"]
    counts = {row[1]: [0, 0] for row in kernels}
    for row in kernels:
        for at, number in enumerate(row[3].split(" of ")):
            counts[row[1]][at] += int(number)
    assert counts["all"][0] >= 0.9 * counts["all"][1] > 250
    assert all(inside >= 0.8 * count for inside, count in counts.values()), counts
    of_gpu = {row[2].rpartition("two-")[2]: row[3:] for row in kernels if row[1] == "L2"}
    assert of_gpu["in-turn-gpu0"] == ["40 of 60", "60 of 60"]
    del of_gpu["in-turn-gpu0"]
    assert {row[1] for row in of_gpu.values()} == {"52 of 60"}  # as in reproducibility.md
    assert set(counts) == {"L2", "device memory", "all"}
