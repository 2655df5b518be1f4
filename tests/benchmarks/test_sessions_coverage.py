"""The simulation of intervals over sessions prints a row for each effect and number of sessions."""

import sys

from benchmarks import sessions_coverage


def test_it_prints_a_table(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sessions_coverage", "--repeats", "5"])
    sessions_coverage.main()
    lines = capsys.readouterr().out.splitlines()
    rows = len(sessions_coverage.EFFECTS) * len(sessions_coverage.SESSIONS)
    assert len(lines) == 2 + rows
    assert all(line.count("|") == 6 for line in lines)
