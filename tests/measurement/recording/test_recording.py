"""Recordings: atomic writes, exact reads, errors that name the fault; the committed ones."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analysis.data.recordings import stale_sources
from analysis.published import systems
from base.errors import StudyError
from base.files import sha256
from measurement.recording import gallery, recording
from measurement.recording.recording import CELL, MANIFEST, TABLES, RecordingError
from tests.support import ROOT
from tests.support.report_data import SYSTEMS

FILES = ["provenance.json", *TABLES]


@pytest.fixture(scope="module")
def small(make_recording, tmp_path_factory):
    """A small recording of a GPU and its host; not to be changed."""
    folder, few = tmp_path_factory.mktemp("recordings") / "small", ("naive", "block")
    options = {"holdout": (), "samples": 2, "complete": True, "variants": few}
    return make_recording(folder, sizes=(32,), **options)


@pytest.fixture
def broken(small, tmp_path):
    """A copy of the recording, which tests break."""
    return shutil.copytree(small.path, tmp_path / "broken")


def frames(source):
    return {name: source.table(name).copy() for name in TABLES}


def refusal(folder):
    """Return the fault in the error of reading, whose message names folder and remedy."""
    with pytest.raises(RecordingError) as refused:
        recording.read(folder)
    message = str(refused.value)
    assert isinstance(refused.value, StudyError)
    assert "\n" not in message
    end = "; restore the folder from version control or record it again"
    assert message.startswith(f"recording {folder}: ")
    assert message.endswith(end)
    return message.removeprefix(f"recording {folder}: ").removesuffix(end)


def test_a_written_recording_is_read_back_with_its_types_and_blanks(small, tmp_path):
    rows = [
        ("cpu", "naive", "float32", 1, 7, 7, 7, None, None, 16),
        ("gpu0", "bmm_tile", "int32", 3, 5, 8, 2**31 - 1, 4, "pinned", None),
        ("gpu0", "bmm_tile", "int32", 3, 5, 8, 2**31 - 1, 8, "pinned", None),
    ]
    cells = pd.DataFrame(rows, columns=CELL)
    of_cpu = {"round": 0, "position": 1, "time_unix_s": 1704067200, "total_s": 1 / 3}
    of_cpu |= {"other_threads_s": 1e-9, "cpu_clock_before_hz": 3_700_000_000}
    of_cpu |= {"cpu_clock_after_hz": 2**33}
    of_gpu = {"round": 1, "position": 0, "time_unix_s": 1704067201.123456, "total_s": 2 / 3}
    of_gpu |= {"host_s": 1e-12, "h2d_s": 0.1 + 0.2, "kernel_s": 1 / 7, "d2h_s": 1e-10}
    of_gpu |= {"sm_clock_hz": 1980000000, "memory_clock_hz": 2619000000, "power_w": 119.873}
    of_gpu |= {"temperature_celsius": 31, "throttle_reasons": 0}
    samples = cells[:2].join(pd.DataFrame([of_cpu, of_gpu]))
    checks = cells.assign(
        build=[None, "exact", "guarded"],
        status=["passed", "passed", "failed"],
        reason=[None, "NA", 'wrong, "NA", ± 1, NULL'],  # a text, not a gap
        worst_row=[None, 2**31, 1],
        worst_column=[0, 3, 2],
        worst_error=[0.0, 1 / 3, float("inf")],
        worst_bound=[1e-300, 1.0, 0.0],
    )
    path = tmp_path / "new" / "one"
    kept = ("builds.csv", "instructions.csv", "ceilings.csv")
    others = {name: one if name in kept else one[:0] for name, one in frames(small).items()}
    tables = others | {"samples.csv.gz": samples, "checks.csv": checks}
    written = recording.write(path, small.provenance, tables)
    assert {file.name for file in path.iterdir()} == {MANIFEST, *FILES}
    again = recording.read(str(path))
    assert (again.path, again.provenance) == (path, small.provenance)
    for name, frame in (("samples.csv.gz", samples), ("checks.csv", checks)):
        wanted = frame.astype(TABLES[name])[list(TABLES[name])]
        wanted = wanted.rename(columns=recording.RENAMED.get(name, {}))
        for read in (written, again):
            found = read.table(name)
            assert set(found.pop("session")) == {0}
            pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    pd.testing.assert_frame_equal(again.builds, small.builds)
    pd.testing.assert_frame_equal(again.instructions, small.instructions)
    assert again.samples.isna().sum().sum() == 15
    types = TABLES["builds.csv"] | {"session": "Int64"}
    assert {c: str(t) for c, t in again.builds.dtypes.items()} == types


def test_equal_data_give_equal_bytes_and_a_manifest_for_sha256sum(small, tmp_path, monkeypatch):
    monkeypatch.setattr(recording.gzip.time, "time", lambda: 1.9e9)
    again = tmp_path / "again"
    again.mkdir()
    (again / "energy.csv").write_text("left by an interrupted run")
    recording.write(again, small.provenance, frames(small))
    assert again.stat().st_mode & 0o777 == 0o755
    names = {path.name for path in again.iterdir()}
    assert names == {MANIFEST, *FILES}
    for name in names:
        assert (again / name).read_bytes() == (small.path / name).read_bytes(), name
    lines = dict(line.split("  ")[::-1] for line in (again / MANIFEST).read_text().splitlines())
    assert lines == {name: sha256(again / name) for name in FILES}


@pytest.mark.parametrize("every", [True, False], ids=["every rename", "the last rename"])
def test_an_interrupted_write_keeps_the_older_recording(small, broken, monkeypatch, every):
    before = {path.name: path.read_bytes() for path in broken.iterdir()}
    rename = os.replace
    interrupted = []

    def interrupt(source, target):
        if every or (Path(target) == broken and not interrupted):
            interrupted.append(source)
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(recording.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        recording.write(broken, small.provenance | {"seed": 2}, frames(small))
    assert {path.name: path.read_bytes() for path in broken.iterdir()} == before
    if every:  # a first write leaves nothing
        with pytest.raises(KeyboardInterrupt):
            recording.write(broken.with_name("new"), small.provenance, frames(small))
    assert [path.name for path in broken.parent.iterdir()] == ["broken"]


def test_a_recording_with_invalid_content_is_not_written(small, broken, tmp_path):
    bad = frames(small)
    bad["checks.csv"]["status"] = "fine"
    required = "format, simulated, started_utc, finished_utc, host, "
    required += "devices, software, compile, git, configuration, seed, sources, attempts, phases"
    for target in (broken, tmp_path / "new"):
        with pytest.raises(RecordingError, match="status: 'fine' is not one of"):
            recording.write(target, small.provenance, bad)
        with pytest.raises(RecordingError, match=f"the file: missing {required}; add it"):
            recording.write(target, {}, frames(small))
        assert [path.name for path in tmp_path.iterdir()] == ["broken"]
    pd.testing.assert_frame_equal(recording.read(broken).checks, small.checks)
    with pytest.raises(RecordingError, match=r"\d: is not empty and not a recording; use another"):
        recording.write(tmp_path, small.provenance, frames(small))
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


@pytest.mark.parametrize("name", FILES)
def test_an_error_names_the_altered_file_of_a_recording(broken, name):
    file = broken / name
    data = file.read_bytes()
    for spoilt in (data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], data[:-1], data + b"\n", b""):
        file.write_bytes(spoilt)
        assert refusal(broken) == f"{name} was altered or truncated (its SHA-256 differs)"
    file.unlink()
    assert refusal(broken) == f"{name} is missing"
    file.write_bytes(data)
    manifest = broken / MANIFEST
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(line for line in lines if name not in line))
    assert refusal(broken) == f"{MANIFEST} does not list {name}"


def test_an_error_names_an_invalid_manifest_or_folder(broken):
    for path in (broken / "none", broken / MANIFEST):
        with pytest.raises(RecordingError, match=f"recording {path}: no such folder; correct"):
            recording.read(path)
    text = (broken / MANIFEST).read_text()
    for data in (b"hash name\n", b"\xff  x\n"):
        (broken / MANIFEST).write_bytes(data)
        assert refusal(broken) == f"{MANIFEST} is not in the format of sha256sum"
    lines = text.splitlines(keepends=True)
    (broken / MANIFEST).write_text("".join([*lines, lines[0]]))
    assert refusal(broken) == f"{MANIFEST} lists a file twice"
    (broken / MANIFEST).write_text(text.replace("checks.csv", "other.csv"))
    assert refusal(broken).startswith(f"{MANIFEST} lists 'other.csv', which is not a file of")
    (broken / MANIFEST).unlink()
    assert refusal(broken) == f"{MANIFEST} is missing"


# Recordings of two GPUs of one host contain only a part of the study.
WHOLE = sorted({path.name for path in gallery.GALLERY.iterdir() if "-two-" not in path.name})


@pytest.fixture(scope="module")
def measured(make_recording, tmp_path_factory):
    """A small recording marked as measured; not to be changed."""
    options = {"sizes": (32, 64), "holdout": (), "samples": 2, "simulated": False}
    return make_recording(tmp_path_factory.mktemp("gallery") / "small", **options)


@pytest.fixture(scope="module")
def committed():
    return {made.path.name: made for made in gallery.committed()}


@pytest.mark.slow
def test_committed_recordings_are_valid_and_listed_in_the_gallery(committed):
    found = {name: gallery.faults(made) for name, made in committed.items()}
    assert found == {name: [] for name in committed}
    page = (ROOT / "docs" / "results" / "recordings.md").read_text()
    remedy = "run: gemm-study document recordings > docs/results/recordings.md"
    assert page == gallery.gallery(committed.values()) + "\n", remedy


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_every_system_of_the_sources_has_passed_on_the_recorded_gpus(committed, name):
    """In the committed recordings, whose sources must be those of this tree."""
    made = committed[name]
    assert stale_sources(made.provenance) == []
    checks = made.checks
    devices = {device["device"] for device in made.provenance["devices"]}
    assert devices
    for system in systems.read(SYSTEMS):
        on_side = (checks["device"] == "cpu") == (system.side == "cpu")
        own = checks[(checks["variant"] == system.variant) & on_side]
        assert set(own["status"]) <= {"passed", "not_launchable"}, system
        passed = own[own["status"] == "passed"]
        assert set(passed["device"]) == ({"cpu"} if system.side == "cpu" else devices), system


def test_recordings_that_must_not_be_committed_are_refused(measured):
    for changes, words in (
        ({"simulated": True}, "its times are simulated"),
        ({"git": {"commit": None, "dirty": None}}, "its commit is unknown"),
        (
            {"git": {"commit": "0" * 40, "dirty": True, "changed": ["base/a.py"]}},
            "it was recorded with uncommitted changes of base/a.py; ",
        ),
    ):
        (fault,) = gallery.faults(replace(measured, provenance=measured.provenance | changes))
        assert fault.startswith(words)
    (fault,) = gallery.faults(replace(measured, checks=measured.checks.assign(status="failed")))
    assert "none of its cells passed" in fault


def test_validate_describes_a_recording_or_names_wrong_files(measured, tmp_path, command):
    done = command("validate", measured.path)
    assert done.returncode == 0
    digest = sha256(measured.path / MANIFEST)
    for words in ("1 × Simulated GPU", "Simulated CPU, 4 CPUs", "passed", "full", digest):
        assert words in done.stdout
    shutil.copytree(measured.path, tmp_path / "one")
    (tmp_path / "one" / "notes.txt").write_text("mine")
    done = command("validate", tmp_path / "one")
    assert done.returncode == 2
    assert done.stderr.endswith("one: notes.txt does not belong to a recording; remove it\n")
    provenance = tmp_path / "one" / "provenance.json"
    provenance.write_text(json.dumps(json.loads(provenance.read_text()) | {"seed": 2}))
    done = command("validate", tmp_path / "one")
    assert done.returncode == 2
    assert "provenance.json was altered" in done.stderr
    assert done.stderr.count("\n") == 1
