"""Recordings: labels, tables, staleness, refusals."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from base.errors import StudyError
from kernels.catalog.source import code_sha256
from measurement.recording.recording import RecordingError, read
from tests.support.simulated import FEW, recorded


@pytest.fixture(scope="module")
def two_gpus():
    return read(recorded(gpus=2, sizes=(256, 512), holdout=(), seed=1, variants=FEW))


def test_a_gpu_has_its_recordings_label_and_only_its_own_samples(
    gpu_recording, cpu_recording, two_gpus
):
    found = data.sources({"card": gpu_recording, "host": cpu_recording, "two": two_gpus})
    assert [s.label for s in found] == ["card", "host", "two-gpu0", "two-gpu1"]
    assert [s.device for s in found] == ["gpu0", None, "gpu0", "gpu1"]
    assert found[0].machine == "Simulated CPU + Simulated GPU"
    assert (found[1].machine, found[0].holdout_sizes) == ("Simulated CPU", {1536})
    with pytest.raises(StudyError, match="label 'two-gpu1' is already used"):
        data.sources({"two": two_gpus, "two-gpu1": gpu_recording})
    first, second = data.sources({"two": two_gpus})
    assert set(first.cells["device"]) == {"cpu", "gpu0"}
    assert set(second.cells["device"]) == {"cpu", "gpu1"}
    kernels = two_gpus.kernels
    own = kernels[(kernels["device"] == "gpu1") & (kernels["variant"] == "buffered_row")]
    own = own[own["n"] == 512]
    times = second.times("kernel")
    chosen = times[(times["implementation"] == "gpu_buffered_row") & (times["n"] == 512)]
    assert list(chosen["time_s"]) == [own["kernel_s"].median()]


def test_a_live_recording_becomes_stale_if_a_source_changes(tmp_path, gpu_recording):
    path = tmp_path / "results" / "recordings" / "local"
    path.mkdir(parents=True)
    made = replace(gpu_recording, path=path)
    assert data.is_live(made, tmp_path)
    assert not data.is_live(made, tmp_path / "elsewhere")
    assert not data.is_live(replace(made, path=tmp_path / "data" / "recordings" / "x"), tmp_path)
    assert not data.is_live(gpu_recording)
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text(f"int n; // {name}\n")
    hashes = {name: code_sha256(f"int n; // {name}") for name in ("b.cu", "a.cu")}
    made = replace(gpu_recording, provenance=gpu_recording.provenance | {"sources": hashes})

    def stale():
        row = data.recordings_table(data.sources({"r": made}), tmp_path).iloc[0]
        return bool(row["stale"]), row["stale_sources"]

    assert stale() == (False, "")
    (tmp_path / "b.cu").write_text("/* another\n   comment */\n  int n;\n")
    assert stale() == (False, "")
    (tmp_path / "b.cu").write_text("int m; // b.cu\n")
    assert stale() == (True, "b.cu")
    (tmp_path / "a.cu").unlink()
    assert stale() == (True, "a.cu;b.cu")
    assert data.stale_sources(made.provenance, tmp_path) == ["a.cu", "b.cu"]


def test_throughput_counts_both_multiplications_and_additions_for_any_shape(gpu_recording):
    rows = data.summary_table(data.sources({"card": gpu_recording}))
    flop = 2.0 * rows[["batch", "m", "n", "k"]].astype(float).prod(axis=1)
    assert rows["flop_per_s"].tolist() == (flop / rows["total_s"]).tolist()
    timed = rows[rows["kernel_s"].notna()]
    assert timed["kernel_flop_per_s"].tolist() == (flop / rows["kernel_s"])[timed.index].tolist()


def test_a_recording_of_two_sessions_lasts_from_its_first_start_to_its_last_end(gpu_recording):
    later = gpu_recording.provenance | {
        "started_utc": "2031-01-01T00:00:00Z",
        "finished_utc": "2031-01-02T00:00:00Z",
    }
    made = replace(gpu_recording, later=(later,))
    row = data.recordings_table(data.sources({"card": made})).iloc[0]
    started = gpu_recording.provenance["started_utc"]
    assert (row["started_utc"], row["finished_utc"]) == (started, later["finished_utc"])


def test_sizes_of_the_study_that_no_gpu_measured_are_listed(two_gpus, cpu_recording, gpu_recording):
    def unmeasured(**recordings):
        table = data.unmeasured_sizes_table([1777, 256, 96], data.checks_table(recordings))
        return table["n"].tolist()

    assert unmeasured(two=two_gpus, host=cpu_recording) == [96, 1777]
    assert unmeasured(host=cpu_recording) == unmeasured() == []
    checks = data.checks_table({"card": gpu_recording})
    other = checks[checks["device"] != "cpu"].head(1).assign(n=3, k=512, m=1)
    table = data.unmeasured_sizes_table([3, 1777], pd.concat([checks, other]))
    assert table["n"].tolist() == [3, 1777]
    assert (table["least_n"] > 3).all()


def test_an_error_names_the_recording_that_cannot_be_loaded(gpu_recording, monkeypatch, tmp_path):
    with pytest.raises(RecordingError, match="nowhere: no such folder"):
        data.load({"card": [tmp_path / "nowhere"]})
    with pytest.raises(StudyError, match="'published'"):
        data.load({"published": [gpu_recording.path]})
    known = {name: entry for name, entry in data.VARIANTS.items() if name != "block"}
    monkeypatch.setattr(data, "VARIANTS", known)
    with pytest.raises(StudyError, match="'card': block is not in the catalog; "):
        data.load({"card": [gpu_recording.path]})
