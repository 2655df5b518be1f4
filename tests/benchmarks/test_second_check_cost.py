"""The cost of the second check: repeated for older recordings, else as recorded."""

from dataclasses import replace

import pytest

from benchmarks.second_check_cost import cost_s
from tests.support.simulated import FEW


@pytest.mark.slow
def test_checks_are_repeated_or_read(make_recording, tmp_path):
    made = make_recording(tmp_path / "a", sizes=(64,), holdout=(), variants=FEW)
    seconds, checks = cost_s(made, 1)
    assert 0 < seconds < 10
    assert checks >= (made.checks["status"] == "passed").sum()
    phase = {"device": "gpu0", "phase": "second_check", "wall_s": 2.5, "busy_s": 0.0}
    known = made.provenance | {"phases": [*made.provenance["phases"], phase]}
    assert cost_s(replace(made, provenance=known), 1) == (2.5, 0)
