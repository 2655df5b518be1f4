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
from measurement.recording.recording import CELL, MEASURED
from measurement.recording.schema import ALL
from study.config import validate
from tests.support import ROOT, warm
from tests.support.builds import cpu_library
from tests.support.fakes import CONFIG, FakeHardware, Fault, make_cubins, record_warm

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("stand_ins")]

SAMPLES = "samples.csv.gz"


@pytest.fixture
def config():
    return yaml.safe_load(CONFIG)


@pytest.fixture
def fake_cubins(config, tmp_path):
    return make_cubins(tmp_path / "cubins", validate(config, "config.yaml").study)


@pytest.fixture(scope="module")
def shared():
    return {}


@pytest.fixture
def whole(shared, config, fake_cubins, tmp_path):
    """The content of a recording of two GPUs without faults, made once."""
    if not shared:
        (tmp_path / "whole").mkdir()
        shared.update(content(measure(config, tmp_path / "whole", fake_cubins)[0]))
    return shared


def measure(config, folder, cubins, *faults, at_once=False, **options):
    """Record with faulty GPUs; return the recording and the hardware."""
    hardware = FakeHardware(folder, faults, **options)
    checked = validate(config, "config.yaml")
    return record(checked, "auto", folder / "r", cubins, None, hardware, at_once), hardware


def content(made):
    """Return the key of each row of each table, and the result of each check."""
    keys = {name: ALL[name].keys[0] for name in MEASURED}
    keys["checks.csv"] += ("build", "status", "reason")
    return {
        name: sorted(map(str, made.table(name)[list(key)].itertuples(index=False)))
        for name, key in keys.items()
    }


# Cells (variant, N), and the fault of each: its kind, and the beginning of its reason.
WRONG = {
    ("block", 8): ("wrong", "1 of 64 elements wrong; worst C(1, 2) = "),
    ("block", 70): ("nan", "1 of 4900 elements wrong; worst C(1, 2) = nan, expected "),
    ("buffered_row", 8): ("unwritten", "8 of 64 elements wrong; worst C(3, 0) = nan, expected "),
    ("naive", 70): ("refused", "too many resources requested for launch"),
}
DEADLY = {
    ("block", 8): ("stopped", "the launch timed out and was terminated"),
    ("block", 70): ("illegal", "an illegal memory access was encountered"),
    ("buffered_row", 8): ("crash", "the measuring process was killed by signal 11"),
    ("naive", 70): ("hang", "no answer within 5 s (study.protocol.hang_limit_s): the process was"),
}


@pytest.mark.parametrize(("faults", "restarts"), [(WRONG, 0), (DEADLY, 8)], ids=["wrong", "deadly"])
def test_faults_at_the_gate_cost_their_cells_only(config, fake_cubins, tmp_path, faults, restarts):
    config["study"]["protocol"]["hang_limit_s"] = 5  # also limits the start of a process
    planned = [Fault(kind, *cell) for cell, (kind, _) in faults.items()]
    made, hardware = measure(config, tmp_path, fake_cubins, *planned, gpus=1)
    rows = made.checks[made.checks["host_memory"] == "pinned"].itertuples()
    found = {(row.variant, row.n): (row.status, row.reason) for row in rows}
    for cell, (_, reason) in faults.items():
        status, said = found.pop(cell)
        assert status == "failed"
        assert said.startswith(reason)
    too_many = ("not_launchable", "needs 70 threads per block, 64 allowed")
    assert found.pop(("buffered_row", 70)) == too_many
    assert set(found) == {("naive", 8), ("bmm_tile", 4)}
    assert {status for status, _ in found.values()} == {"passed"}
    assert len(hardware.lines("open gpu")) == 1 + restarts, "pinned and pageable both fail"
    assert set(made.checks.loc[made.checks["device"] == "cpu", "status"]) == {"passed"}
    passed = made.checks[made.checks["status"] == "passed"]
    sampled = made.samples.groupby(CELL, dropna=False).size()
    assert len(sampled) == len(passed)
    assert (sampled >= 6).all()


# Runs are counted per process, so only the first two faults can be in one recording.
@pytest.mark.parametrize(
    "faults",
    [
        [Fault("refused", number=4), Fault("refused", "naive", 70, number=10)],
        [Fault("illegal", number=10)],
        [Fault("crash", number=10)],
    ],
    ids=["refused", "illegal", "crash"],
)
def test_faults_while_sampling_drop_the_samples_of_cells(config, fake_cubins, tmp_path, faults):
    """Run 1 is the check, runs 2 to 7 are the pilot, then samples follow."""
    made, _ = measure(config, tmp_path, fake_cubins, *faults, gpus=1)
    for fault in faults:
        checks, samples = (
            table[(table["variant"] == fault.variant) & (table["n"] == fault.n)]
            for table in (made.checks, made.samples)
        )
        assert set(checks["status"]) == {"failed"}
        assert set(checks["build"]) == {"exact" if fault.n == 8 else "guarded"}
        assert samples.empty
    others = {"naive", "buffered_row", "block", "blocked", "bmm_tile"}
    assert set(made.samples["variant"]) == others


def test_a_lost_device_ends_the_recording_and_the_next_attempt_loses_nothing(
    config, fake_cubins, tmp_path
):
    """The last line is cut off meanwhile, and the clock is set back."""
    with pytest.raises(StudyError) as lost:
        measure(config, tmp_path, fake_cubins, Fault("lost", number=10), gpus=1)
    said = str(lost.value)
    assert said.startswith("gpu0: lost after gpu0 block B=4 N=8 ")
    assert "rerun the same command when the device works again" in said
    assert "\n" not in said
    assert not (tmp_path / "r").exists()
    (tmp_path / "lost").unlink()
    journal_file, header = (
        tmp_path / "r.partial" / f"{x}" for x in ("journal.jsonl", "header.json")
    )
    kept = journal_file.read_bytes()
    assert kept.count(b'"cold_starts.csv"') >= 2
    other = {**config, "study": config["study"] | {"seed": 12}}
    with pytest.raises(StudyError, match=r"r\.partial: contains an interrupted .* study; restore"):
        measure(other, tmp_path, fake_cubins, gpus=1)
    with pytest.raises(StudyError, match="recording with other study, GPUs; restore"):
        measure(other, tmp_path, fake_cubins, gpus=2)
    assert journal_file.read_bytes() == kept
    journal_file.write_bytes(kept[: kept.rstrip(b"\n").rfind(b"\n") + 25])
    facts = json.loads(header.read_text())
    facts["facts"]["started_utc"] = "2099-01-01T00:00:00Z"
    header.write_text(json.dumps(facts))
    made, _ = measure(config, tmp_path, fake_cubins, gpus=1)
    assert set(made.checks["status"]) == {"passed", "not_launchable"}
    assert made.provenance["attempts"] == 2
    dates = [made.provenance["started_utc"], made.provenance["finished_utc"]]
    assert dates == sorted(dates)
    assert datetime.fromisoformat(dates[1]).year < 2099
    assert not made.samples.duplicated([*CELL, "round"]).any()
    assert (made.samples.groupby(CELL, dropna=False).size() == 6).all()
    assert (made.samples["total_s"] > 0).all()
    assert not (tmp_path / "r.partial").exists()


def start_warm(folder, cubins):
    """Record in a forked process without imports."""
    process = warm.CONTEXT.Process(target=record_warm, args=(folder, folder / "r", cubins))
    process.start()
    return process


def test_killed_at_random_points_nothing_is_lost_or_measured_twice(fake_cubins, whole, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    path = folder / "r.partial" / "journal.jsonl"
    rng = random.Random(5)
    rows = {name: len(rows) for name, rows in whole.items()}
    counted = (SAMPLES, "checks.csv", "kernels.csv.gz", "energy.csv")
    lines = sum(rows[name] for name in counted) + rows["neighbours.csv"] // 2
    lines += rows[SAMPLES] + rows["kernels.csv.gz"]  # here the pilot has as many rows
    # Each attempt is killed when the journal has this number of lines.
    goals = sorted(rng.sample(range(1, lines), 8))
    kept = b""
    for goal in goals:
        process = start_warm(folder, fake_cubins)
        while not path.exists() or path.read_bytes().count(b"\n") < goal:
            assert process.is_alive(), "its error is printed above"
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.01))
        process.kill()
        process.join()
        now = path.read_bytes()
        assert now.startswith(kept), "a line on file is gone"
        kept = now[: now.rfind(b"\n") + 1]
    process = start_warm(folder, fake_cubins)
    process.join(120)
    assert process.exitcode == 0
    made = recording.read(folder / "r")
    assert content(made) == whole
    assert 4 < made.provenance["attempts"] <= 9
    assert not (folder / "r.partial").exists()
    written = [json.loads(line) for line in kept.splitlines()]
    stamps = {row["time_unix_s"] for name, rows in written if name == SAMPLES for row in rows}
    assert len(stamps) > 50
    checked = [tuple(r[k] for k in CELL) for name, rows in written for r in rows if "status" in r]
    assert len(checked) == len(set(checked)), "a cell was checked twice"
    assert stamps <= set(made.samples["time_unix_s"])


def test_gpus_at_once_resume_where_they_were_interrupted(config, fake_cubins, whole, tmp_path):
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
    assert content(made)["kernels.csv.gz"] == whole["kernels.csv.gz"]


def test_two_recorders_on_one_folder(config, fake_cubins, tmp_path):
    process = start_warm(tmp_path, fake_cubins)
    try:
        while not (tmp_path / "r.partial" / "journal.jsonl").exists():
            assert process.is_alive(), "its error is printed above"
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
        assert time.monotonic() < deadline, "a worker outlives its recorder"
        time.sleep(0.05)


def test_a_full_disk_gives_one_line_and_all_samples_are_kept(
    config, fake_cubins, tmp_path, monkeypatch
):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill_the_disk(*arguments):
        library = cpu_library(*arguments)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1]))  # maximum size of a file
        return library

    try:
        with monkeypatch.context() as patch:
            patch.setattr(recorder, "build_library", fill_the_disk)
            with pytest.raises(StudyError, match="all samples so far are kept: free disk space"):
                measure(config, tmp_path, fake_cubins, gpus=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "r").exists()
    kept = (tmp_path / "r.partial" / "journal.jsonl").read_bytes()
    assert len(kept) <= 12_000
    made, _ = measure(config, tmp_path, fake_cubins, gpus=1)
    assert not made.samples.duplicated([*CELL, "round"]).any()
    assert set(made.checks["status"]) == {"passed", "not_launchable"}
    assert made.provenance["attempts"] == 2


def test_nothing_measured_leaves_nothing_behind(config, fake_cubins, tmp_path):
    (tmp_path / "lost").touch()
    config["study"]["protocol"]["cold_starts"] = 0
    with pytest.raises(StudyError, match="gpu0: cannot create a context"):
        measure(config, tmp_path, fake_cubins)
    left = {"cubins", "gpu0.lock", "gpu1.lock", "lost"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_new_journal_replaces_a_removed_one_and_a_changed_one_is_refused(tmp_path):
    header = {"task": {"study": 1}, "facts": {}}
    with journal.open_journal(tmp_path / "r", header) as first:
        first.add_phase({"device": "cpu", "phase": "start", "wall_s": 1.0, "busy_s": 0.0})
    assert list(tmp_path.iterdir()) == []
    with journal.open_journal(tmp_path / "r", header) as second:
        assert second.attempts == 1
        assert second.phases == []
        second.add_phase({"device": "gpu0"})
        with (tmp_path / "r.partial" / "journal.jsonl").open("a") as file:
            file.write(json.dumps(["kernels.csv.gz", [{"kernel_s": 1e-9}]]) + "\n")
        with pytest.raises(StudyError, match=r"journal.jsonl: another process changed it; delete"):
            second.add_phase({"device": "gpu0"})
