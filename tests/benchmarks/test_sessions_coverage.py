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
    counts = {tuple(row[:2]): [int(number) for number in row[2].split(" of ")] for row in rows}
    kernels, others = (
        [counts[part, kind] for kind in kinds]
        for part, kinds in (("kernel", ("L2", "device memory")), ("total", ("pinned", "pageable")))
    )
    assert all(inside >= 0.95 * count > 150 for inside, count in kernels + others), counts
    assert counts["total", "CPU"] == [510, 807]  # as in reproducibility.md
    assert len(counts) == 5
