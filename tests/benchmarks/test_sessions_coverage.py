"""Coverage of intervals over sessions, simulated with the noise of recordings and held out."""

import sys

import numpy as np
import pytest

from benchmarks import sessions_coverage as coverage

pytestmark = pytest.mark.exhaustive


def test_both_tables_of_coverage_are_printed_and_intervals_have_their_coverage(patch, capsys):
    patch(coverage, EFFECTS={"as estimated": None})
    patch(sys, argv=["sessions_coverage", "--repeats", "42"])
    coverage.main()
    simulated, rows = (
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
        for text in capsys.readouterr().out.split("\n\n")
    )
    assert [row[1] for row in simulated] == [str(each) for each in coverage.SESSIONS]
    assert all(90 <= float(share.rstrip(" %")) <= 99 for row in simulated for share in row[2:])
    counts = {tuple(row[:3]): [int(number) for number in row[3].split(" of ")] for row in rows}
    assert len(counts) == 8 * 5
    on_cpu = {key[0]: inside / of for key, (inside, of) in counts.items() if key[2] == "cpu"}
    assert min(on_cpu.values()) >= 0.8, "of each host that no fit has seen"
    others = np.sum([each for key, each in counts.items() if key[2] != "cpu"], axis=0)
    assert others[0] >= 0.95 * others[1] > 10_000
