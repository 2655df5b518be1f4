"""Recordings of one GPU model combined as sessions: numbers and refusals."""

import pytest

from analysis.data import recordings as data
from analysis.data.sessions import folders_by_session, together
from measurement.recording.recording import RecordingError, read
from tests.support.simulated import FEW, recorded

SMALL = {"sizes": (256,), "holdout": (), "samples": 6, "variants": FEW}


@pytest.fixture(scope="module")
def first():
    return read(recorded(**SMALL))


def test_merged_sessions_number_their_rows_and_keep_all_gpus(first, tmp_path):
    assert together([first]) is first
    assert set(first.samples["session"]) == {0}
    assert first.sessions == (first.provenance,)
    second = read(recorded(**SMALL, seed=1))
    both = together([first, second])
    for name in ("samples", "checks", "ceilings", "cold_starts"):
        frame = getattr(both, name)
        for at, one in enumerate((first, second)):
            own = frame[frame["session"] == at].drop(columns="session").reset_index(drop=True)
            assert own.equals(getattr(one, name).drop(columns="session")), name
    assert both.builds.equals(first.builds), "the same sources and kernels"
    assert both.sessions == (first.provenance, second.provenance)
    series = [{"variants": FEW, "dtypes": ["float32"], "block_sizes": [], "shapes": ["64"]}]
    changed = {"protocol": {"samples": 20}, "cpu": {"sizes": [64]}, "series": series}
    configuration = first.provenance["configuration"] | changed
    assert together([first, read(recorded(**SMALL, seed=1, configuration=configuration))]).later
    folders = {"a": [tmp_path / "x"], "b": [tmp_path / "y", tmp_path / "z"]}
    named = {name: path.name for name, path in folders_by_session(folders).items()}
    assert named == {"a": "x", "b.0": "y", "b.1": "z"}
    pair = read(recorded(**SMALL, gpus=2, seed=1))
    found = data.sources({"card": together([first, pair])})
    assert [source.label for source in found] == ["card-gpu0", "card-gpu1"]
    assert [set(source.recording.samples["session"]) for source in found] == [{0, 1}, {0, 1}]
    own = found[1].own(found[1].recording.samples)
    assert set(own.loc[own["device"] == "gpu1", "session"]) == {1}


def test_sessions_that_differ_in_gpus_study_or_sources_are_not_merged(first):
    for changes, fault in (
        ({"gpu_name": "Other GPU"}, r"has other GPUs \(Other GPU\)"),
        ({"gpus": 0}, r"has other GPUs \(none\)"),
        ({"sizes": (256, 512)}, r"has another study \(sizes\)"),
        ({"sources": {"kernels/block.cu": "0" * 64}}, r"has other sources \(.*kernels/block.cu"),
    ):
        other = read(recorded(**(SMALL | changes)))
        with pytest.raises(RecordingError, match=rf"^[^\n]*{other.path}[^\n]*{fault}[^\n]*$"):
            together([first, other])
