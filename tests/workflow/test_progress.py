"""State of a run, from Snakemake's events."""

import pytest

from workflow.progress import EXPECTED_S, State

STARTED = {"event": "job_info", "jobid": 1, "rule_name": "measure", "rule_msg": "", "log": ["log"]}
FAILED = {"event": "job_error", "jobid": 1}


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The state of a run that begins to measure and will compute tables."""
    monkeypatch.chdir(tmp_path)
    found = State(EXPECTED_S)
    found.note({"event": "run_info", "stats": {"measure": 1, "tables": 1, "total": 2}})
    found.note(STARTED)
    return found


def test_a_job_that_is_tried_again_has_not_failed(state):
    state.note(FAILED)
    assert state.failed
    state.note(STARTED)
    assert state.failed is None


@pytest.mark.parametrize(
    ("told", "left_s"), [("", 60), ("at most 0:05 left", 60), ("about 2:00 left", 120)]
)
def test_the_remaining_time_is_not_that_of_a_short_phase(state, tmp_path, told, left_s):
    (tmp_path / "log").write_text(told)
    assert state.jobs[1].left_s() == pytest.approx(left_s, abs=2)
