"""State of a run, from Snakemake's events."""

import pytest

from workflow.progress import EXPECTED_S, State

STARTED = {"event": "job_info", "jobid": 1, "rule_name": "measure", "rule_msg": "", "log": ["log"]}
FAILED = {"event": "job_error", "jobid": 1}


@pytest.mark.parametrize(
    ("told", "left_s"), [("", 60), ("at most 0:05 left", 60), ("about 2:00 left", 120)]
)
def test_a_restarted_job_has_not_failed_and_its_time_is_not_that_of_a_short_phase(
    tmp_path, monkeypatch, told, left_s
):
    monkeypatch.chdir(tmp_path)
    state = State(EXPECTED_S)
    state.note({"event": "run_info", "stats": {"measure": 1, "tables": 1, "total": 2}})
    state.note(STARTED)
    state.note(FAILED)
    assert state.failed
    state.note(STARTED)
    assert state.failed is None
    (tmp_path / "log").write_text(told)
    assert state.jobs[1].left_s() == pytest.approx(left_s, abs=2)
    state.jobs[1].began -= 20
    assert state.jobs[1].left_s() == pytest.approx(max(left_s - 20, 120 * ("2:00" in told)), abs=2)
