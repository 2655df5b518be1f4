"""The simulation of intervals over sittings prints a row for each effect and number of sittings."""

import sys

from benchmarks import sittings_coverage


def test_it_prints_a_table(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sittings_coverage", "--repeats", "5"])
    sittings_coverage.main()
    lines = capsys.readouterr().out.splitlines()
    rows = len(sittings_coverage.EFFECTS) * len(sittings_coverage.SITTINGS)
    assert len(lines) == 2 + rows
    assert all(line.count("|") == 6 for line in lines)
