"""Faults: only their cells fail, and no sample is lost."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from base.errors import StudyError
from measurement.recorder import record as recorder
from measurement.recorder.record import record
from measurement.recording import journal, recording
from measurement.recording.recording import CELL, KERNEL, MEASURED
from measurement.recording.schema import SETTING
from study.config import validate
from tests.support import ROOT, warm
from tests.support.builds import cpu_library
from tests.support.fakes import CONFIG, FakeHardware, Fault, make_cubins, record_warm

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("stand_ins")]

SAMPLES = "samples.csv.gz"
KEYS = {
    SAMPLES: [*CELL, "round"],
    "checks.csv": [*CELL, "build", "status", "reason"],
    "builds.csv": ["variant", "dtype", "block_size", "build"],
    "instructions.csv": ["variant", "dtype", "build", "scope", "opcode", "bits"],
    "kernels.csv.gz": [*KERNEL, "round"],
    "energy.csv": KERNEL,
    "pieces.csv": [*KERNEL, "host_memory", *SETTING, "round"],
    "cold_starts.csv": [*CELL, "round"],
    "ceilings.csv": ["device", "quantity", "round"],
    "neighbours.csv": [*CELL, "round", "neighbours"],
}


@pytest.fixture
def config():
    return yaml.safe_load(CONFIG)


@pytest.fixture
def fake_cubins(config, tmp_path):
    return make_cubins(tmp_path / "cubins", validate(config, "config.yaml").study)


def measure(config, folder, cubins, *faults, at_once=False, **options):
    """Record with faulty GPUs; return the recording and the hardware."""
    hardware = FakeHardware(folder, faults, **options)
    checked = validate(config, "config.yaml")
    return record(checked, "auto", folder / "r", cubins, None, hardware, at_once), hardware


def statuses(made):
    """Return status and reason of every GPU cell, by (variant, n)."""
    checks = made.checks[made.checks["device"] != "cpu"]
    return {
        (row.variant, row.n): (row.status, row.reason)
        for row in checks.itertuples()
        if row.host_memory == "pinned"
    }


def content(made):
    """Return the key of each row of each table."""
    frames = {name: made.table(name) for name in MEASURED}
    return {
        name: sorted(map(str, frame[KEYS[name]].itertuples(index=False)))
        for name, frame in frames.items()
    }


@pytest.mark.parametrize(
    ("kind", "reason", "restarts"),
    [
        ("wrong", "1 of 64 elements wrong; worst C(1, 2) = ", 0),
        ("nan", "1 of 64 elements wrong; worst C(1, 2) = nan, expected ", 0),
        ("unwritten", "8 of 64 elements wrong; worst C(3, 0) = nan, expected ", 0),
        ("refused", "too many resources requested for launch", 0),
        ("stopped", "the launch timed out and was terminated", 2),
        ("illegal", "an illegal memory access was encountered", 2),
        ("crash", "the measuring process was killed by signal 11", 2),
        ("hang", "no answer within 5 s (study.protocol.hang_limit_s): the process was killed", 2),
    ],
)
def test_fault_at_gate_costs_its_cells_only(config, fake_cubins, tmp_path, kind, reason, restarts):
    if kind == "hang":
        config["study"]["protocol"]["hang_limit_s"] = 5  # also limits the start of a process
    made, hardware = measure(config, tmp_path, fake_cubins, Fault(kind), gpus=1)
    found = statuses(made)
    status, said = found.pop(("block", 8))
    assert status == "failed"
    assert said.startswith(reason)
    assert found.pop(("buffered_row", 70)) == (
        "not_launchable",
        "needs 70 threads per block, 64 allowed",
    )
    assert {status for status, _ in found.values()} == {"passed"}
    assert len(hardware.lines("open gpu")) == 1 + restarts, "pinned and pageable both fail"
    assert set(made.checks.loc[made.checks["device"] == "cpu", "status"]) == {"passed"}
    passed = made.checks[made.checks["status"] == "passed"]
    sampled = made.samples.groupby(CELL, dropna=False).size()
    assert len(sampled) == len(passed)
    assert (sampled >= 6).all()


@pytest.mark.parametrize(
    ("kind", "number"), [("refused", 4), ("refused", 10), ("illegal", 10), ("crash", 10)]
)
def test_a_fault_while_sampling_drops_cells_samples(config, fake_cubins, tmp_path, kind, number):
    """Run 1 is the check, runs 2 to 7 are the pilot, then samples follow."""
    made, _ = measure(config, tmp_path, fake_cubins, Fault(kind, number=number), gpus=1)
    checks = made.checks[(made.checks["variant"] == "block") & (made.checks["n"] == 8)]
    assert set(checks["status"]) == {"failed"}
    assert set(checks["build"]) == {"exact"}
    spoiled = (made.samples["variant"] == "block") & (made.samples["n"] == 8)
    assert not spoiled.any()
    others = {"naive", "buffered_row", "block", "blocked", "bmm_tile"}
    assert set(made.samples["variant"]) == others


def test_a_device_that_is_lost_ends_the_recording_and_loses_nothing(config, fake_cubins, tmp_path):
    with pytest.raises(StudyError) as lost:
        measure(config, tmp_path, fake_cubins, Fault("lost", number=10), gpus=1)
    said = str(lost.value)
    assert said.startswith("gpu0: lost after gpu0 block B=4 N=8 ")
    assert "rerun the same command when the device works again" in said
    assert "\n" not in said
    assert not (tmp_path / "r").exists()
    (tmp_path / "lost").unlink()
    kept = (tmp_path / "r.partial" / "journal.jsonl").read_text()
    made, _ = measure(config, tmp_path, fake_cubins, gpus=1)
    assert kept.count('"cold_starts.csv"') >= 2
    assert set(made.checks["status"]) == {"passed", "not_launchable"}
    assert made.provenance["attempts"] == 2
    assert not (tmp_path / "r.partial").exists()


def start_warm(folder, cubins):
    """Record in a forked process without imports."""
    process = warm.CONTEXT.Process(target=record_warm, args=(folder, folder / "r", cubins))
    process.start()
    return process


def test_killed_at_random_points_nothing_is_lost_or_measured_twice(config, fake_cubins, tmp_path):
    (tmp_path / "whole").mkdir()
    whole, _ = measure(config, tmp_path / "whole", fake_cubins)
    folder = tmp_path / "killed"
    folder.mkdir()
    path = folder / "r.partial" / "journal.jsonl"
    rng = random.Random(5)
    rows = {name: len(rows) for name, rows in content(whole).items()}
    counted = (SAMPLES, "checks.csv", "kernels.csv.gz", "energy.csv")
    lines = sum(rows[name] for name in counted) + rows["neighbours.csv"] // 2
    lines += rows[SAMPLES] + rows["kernels.csv.gz"]  # here the pilot has as many rows
    # Each attempt is killed when the journal has this number of lines.
    goals = sorted(rng.sample(range(1, lines), 8))
    kept = b""
    for goal in goals:
        process = start_warm(folder, fake_cubins)
        while not path.exists() or path.read_bytes().count(b"\n") < goal:
            assert process.is_alive(), "its error stands above"
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.01))
        process.kill()
        process.join()
        now = path.read_bytes()
        assert now.startswith(kept), "a line that was on file is gone"
        kept = now[: now.rfind(b"\n") + 1]
    process = start_warm(folder, fake_cubins)
    process.join(120)
    assert process.exitcode == 0
    made = recording.read(folder / "r")
    assert content(made) == content(whole)
    assert 4 < made.provenance["attempts"] <= 9
    assert not (folder / "r.partial").exists()
    written = [json.loads(line) for line in kept.splitlines()]
    stamps = {row["time_unix_s"] for name, rows in written if name == SAMPLES for row in rows}
    assert len(stamps) > 50
    checked = [tuple(r[k] for k in CELL) for name, rows in written for r in rows if "status" in r]
    assert len(checked) == len(set(checked)), "a cell was checked twice"
    assert stamps <= set(made.samples["time_unix_s"])


def test_a_line_cut_off_is_measured_again(config, fake_cubins, tmp_path):
    with pytest.raises(StudyError):
        measure(config, tmp_path, fake_cubins, Fault("lost", number=3), gpus=1)
    (tmp_path / "lost").unlink()
    path = tmp_path / "r.partial" / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rstrip(b"\n").rfind(b"\n") + 25])
    made, _ = measure(config, tmp_path, fake_cubins, gpus=1)
    assert not made.samples.duplicated([*CELL, "round"]).any()
    assert (made.samples.groupby(CELL, dropna=False).size() == 6).all()


def test_interrupted_recording_is_not_continued_with_another_study(config, fake_cubins, tmp_path):
    with pytest.raises(StudyError):
        measure(config, tmp_path, fake_cubins, Fault("lost", number=3), gpus=1)
    before = (tmp_path / "r.partial" / "journal.jsonl").read_bytes()
    config["study"]["protocol"]["max_samples"] = 9
    with pytest.raises(StudyError, match=r"r\.partial: contains an interrupted .* study; restore"):
        measure(config, tmp_path, fake_cubins, gpus=1)
    with pytest.raises(StudyError, match="recording with other study, GPUs; restore"):
        measure(config, tmp_path, fake_cubins, gpus=2)
    assert (tmp_path / "r.partial" / "journal.jsonl").read_bytes() == before


def test_gpus_at_once_go_on_where_they_were_interrupted(config, fake_cubins, tmp_path):
    with pytest.raises(StudyError, match=r"^gpu\d: lost after "):
        measure(config, tmp_path, fake_cubins, Fault("lost", number=10), at_once=True)
    kept = (tmp_path / "r.partial" / "journal.jsonl").read_bytes()
    (tmp_path / "lost").unlink()
    with pytest.raises(StudyError, match="recording with other order of GPUs; restore"):
        measure(config, tmp_path, fake_cubins)
    made, _ = measure(config, tmp_path, fake_cubins, at_once=True)
    assert made.provenance["attempts"] == 2
    assert kept.count(b'"samples.csv.gz"') > 0
    assert not made.samples.duplicated([*CELL, "round"]).any()
    whole, _ = measure(config, tmp_path, fake_cubins)
    assert content(made)["kernels.csv.gz"] == content(whole)["kernels.csv.gz"]


def test_two_recorders_on_one_folder(config, fake_cubins, tmp_path):
    process = start_warm(tmp_path, fake_cubins)
    try:
        while not (tmp_path / "r.partial" / "journal.jsonl").exists():
            assert process.is_alive(), "its error stands above"
            time.sleep(0.01)
        with pytest.raises(StudyError, match="r: another process is recording there; wait for its"):
            measure(config, tmp_path, fake_cubins, gpus=0)
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
    assert set(recording.read(tmp_path / "r").checks["status"]) == {"passed", "not_launchable"}


def test_the_worker_dies_with_a_killed_recorder(fake_cubins, tmp_path):
    command = [sys.executable, "-m", "tests.support.fakes", tmp_path, tmp_path / "r", fake_cubins]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    log = tmp_path / "log"
    # The recorder logs cold starts itself, before it starts a worker.
    while not (log.exists() and "run gpu" in log.read_text()):
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "a worker goes on without its recorder"
        time.sleep(0.05)


def test_a_full_disk_ends_in_one_line_and_what_was_measured_is_kept(
    config, fake_cubins, tmp_path, monkeypatch
):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill_the_disk(*arguments):
        library = cpu_library(*arguments)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1]))  # maximum size of a file
        return library

    monkeypatch.setattr(recorder, "build_library", fill_the_disk)
    try:
        with pytest.raises(StudyError, match="all samples so far are kept: free disk space"):
            measure(config, tmp_path, fake_cubins, gpus=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    monkeypatch.undo()
    assert not (tmp_path / "r").exists()
    kept = (tmp_path / "r.partial" / "journal.jsonl").read_bytes()
    assert len(kept) <= 12_000
    made, _ = measure(config, tmp_path, fake_cubins, gpus=1)
    assert not made.samples.duplicated([*CELL, "round"]).any()
    assert set(made.checks["status"]) == {"passed", "not_launchable"}
    assert made.provenance["attempts"] == 2


def test_clock_set_back_changes_nothing_but_time_stamps(config, fake_cubins, tmp_path, monkeypatch):
    with pytest.raises(StudyError):
        measure(config, tmp_path, fake_cubins, Fault("lost", number=3), gpus=1)
    (tmp_path / "lost").unlink()
    header = tmp_path / "r.partial" / "header.json"
    facts = json.loads(header.read_text())
    facts["facts"]["started_utc"] = "2099-01-01T00:00:00Z"  # a wrong clock
    header.write_text(json.dumps(facts))
    made, _ = measure(config, tmp_path, fake_cubins, gpus=1)
    dates = [made.provenance["started_utc"], made.provenance["finished_utc"]]
    assert dates == sorted(dates)
    assert datetime.fromisoformat(dates[1]).year < 2099
    assert not made.samples.duplicated([*CELL, "round"]).any()
    assert (made.samples["total_s"] > 0).all()


def test_nothing_measured_leaves_nothing_behind(config, fake_cubins, tmp_path):
    (tmp_path / "lost").touch()
    config["study"]["protocol"]["cold_starts"] = 0
    with pytest.raises(StudyError, match="gpu0: cannot create a context"):
        measure(config, tmp_path, fake_cubins)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("cubins", "gpu0.lock", "gpu1.lock", "lost")
    ]


def test_a_new_journal_replaces_one_whose_folder_went(tmp_path):
    header = {"task": {"study": 1}, "facts": {}}
    with journal.open_journal(tmp_path / "r", header) as first:
        first.add_phase({"device": "cpu", "phase": "start", "wall_s": 1.0, "busy_s": 0.0})
    assert list(tmp_path.iterdir()) == []
    with journal.open_journal(tmp_path / "r", header) as second:
        assert second.attempts == 1
        assert second.phases == []


def test_a_journal_changed_from_outside_is_refused(tmp_path):
    rows = [{"device": "gpu0", "kernel_s": 1e-9}]
    with journal.open_journal(tmp_path / "r", {"task": {}, "facts": {}}) as own:
        own.add_phase({"device": "gpu0"})
        with (tmp_path / "r.partial" / "journal.jsonl").open("a") as file:
            file.write(json.dumps(["kernels.csv.gz", rows]) + "\n")
        with pytest.raises(StudyError, match=r"journal.jsonl: another process changed it; delete"):
            own.add_phase({"device": "gpu0"})
