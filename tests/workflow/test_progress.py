"""State of a run, from Snakemake's events."""

import pytest

from workflow import progress
from workflow.progress import EXPECTED_S, State

STARTED = {"event": "job_info", "jobid": 1, "rule_name": "measure", "rule_msg": "", "log": ["log"]}
FAILED = {"event": "job_error", "jobid": 1}


@pytest.mark.parametrize(
    ("told", "left_s"), [("", 60), ("at most 0:05 left", 60), ("about 2:00 left", 120)]
)
def test_a_restarted_job_is_not_reported_as_failed_and_shows_its_expected_time(
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


def test_progress_without_a_terminal_repeats_unchanged_work_after_a_pause(monkeypatch, capsys):
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    display = progress.Display()
    for seconds, work in ((0, "a"), (1, "a"), (1, "b"), (progress._PLAIN_S, "b")):
        now_s += seconds
        display.show(work)
    shown = [line.split(" · ")[1] for line in capsys.readouterr().err.splitlines()]
    assert shown == ["a", "b", "b"]
