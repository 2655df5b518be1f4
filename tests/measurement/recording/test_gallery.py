"""The requirements of committed recordings, checked on all of them."""

import json
from dataclasses import replace

import pytest

from base.files import sha256
from measurement.recording import gallery
from measurement.recording.recording import MANIFEST
from tests.support import ROOT


@pytest.fixture(scope="module")
def measured(make_recording, tmp_path_factory):
    """A small recording marked as measured; not to be changed."""
    folder = tmp_path_factory.mktemp("gallery") / "small"
    options = {"sizes": (32, 64), "holdout": (), "samples": 2, "simulated": False}
    return make_recording(folder, **options)


@pytest.mark.slow
def test_what_travels_is_valid_and_stands_in_the_gallery():
    recordings = gallery.committed()
    assert {one.path.name: gallery.faults(one) for one in recordings} == {
        one.path.name: [] for one in recordings
    }
    page = (ROOT / "docs" / "results" / "recordings.md").read_text()
    remedy = "run: python -m measurement gallery > docs/results/recordings.md"
    assert page == gallery.gallery(recordings) + "\n", remedy


def test_a_recording_is_described_with_what_it_is_cited_by(measured, command):
    done = command("measurement", "validate", measured.path)
    assert done.returncode == 0
    for words in ("1 × Simulated GPU", "Simulated CPU, 4 CPUs", "passed", "full"):
        assert words in done.stdout
    assert sha256(measured.path / MANIFEST) in done.stdout


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


def test_other_files_and_altered_ones_are_named(make_recording, tmp_path, command):
    make_recording(tmp_path / "one", sizes=(32, 64), holdout=(), samples=2, simulated=False)
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
