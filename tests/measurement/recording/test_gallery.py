"""The requirements of committed recordings, checked on all of them."""

import json
import shutil
from dataclasses import replace

import pytest

from analysis.data.recordings import stale_sources
from analysis.published.systems import read
from base.files import sha256
from measurement.recording import gallery
from measurement.recording.recording import MANIFEST
from tests.support import ROOT
from tests.support.report_data import SYSTEMS

# Recordings of two GPUs of one host contain only a part of the study.
WHOLE = sorted({path.name for path in gallery.GALLERY.iterdir() if "-two-" not in path.name})


@pytest.fixture(scope="module")
def measured(make_recording, tmp_path_factory):
    """A small recording marked as measured; not to be changed."""
    options = {"sizes": (32, 64), "holdout": (), "samples": 2, "simulated": False}
    return make_recording(tmp_path_factory.mktemp("gallery") / "small", **options)


@pytest.fixture(scope="module")
def committed():
    return {recording.path.name: recording for recording in gallery.committed()}


@pytest.mark.slow
def test_committed_recordings_are_valid_and_listed_in_the_gallery(committed):
    found = {name: gallery.faults(recording) for name, recording in committed.items()}
    assert found == {name: [] for name in committed}
    page = (ROOT / "docs" / "results" / "recordings.md").read_text()
    remedy = "run: python -m measurement gallery > docs/results/recordings.md"
    assert page == gallery.gallery(committed.values()) + "\n", remedy


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_every_system_has_passed_on_the_recorded_gpus(committed, name):
    """In the committed recordings, whose sources must be those of this tree."""
    recording = committed[name]
    assert stale_sources(recording.provenance) == []
    checks = recording.checks
    devices = {device["device"] for device in recording.provenance["devices"]}
    assert devices
    for system in read(SYSTEMS):
        on_side = (checks["device"] == "cpu") == (system.side == "cpu")
        own = checks[(checks["variant"] == system.variant) & on_side]
        assert set(own["status"]) <= {"passed", "not_launchable"}, system
        passed = own[own["status"] == "passed"]
        assert set(passed["device"]) == ({"cpu"} if system.side == "cpu" else devices), system


def test_what_was_not_measured_from_a_known_tree_or_never_passed_is_refused(measured):
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


def test_a_recording_is_described_and_wrong_files_are_named(measured, tmp_path, command):
    done = command("measurement", "validate", measured.path)
    assert done.returncode == 0
    digest = sha256(measured.path / MANIFEST)
    for words in ("1 × Simulated GPU", "Simulated CPU, 4 CPUs", "passed", "full", digest):
        assert words in done.stdout
    shutil.copytree(measured.path, tmp_path / "one")
    (tmp_path / "one" / "notes.txt").write_text("mine")
    done = command("measurement", "validate", tmp_path / "one")
    assert done.returncode == 2
    assert done.stderr.endswith("one: notes.txt does not belong to a recording; remove it\n")
    provenance = tmp_path / "one" / "provenance.json"
    provenance.write_text(json.dumps(json.loads(provenance.read_text()) | {"seed": 2}))
    done = command("measurement", "validate", tmp_path / "one")
    assert done.returncode == 2
    assert "provenance.json was altered" in done.stderr
    assert done.stderr.count("\n") == 1
