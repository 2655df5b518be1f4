"""Recordings: labels, tables, staleness, refusals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import schema
from analysis.data import recordings as data
from base.errors import StudyError
from kernels.catalog.source import code_sha256
from measurement.recording.recording import CELL, RecordingError, read
from tests.support.simulated import FEW, recorded


@pytest.fixture(scope="module")
def two_gpus():
    return read(recorded(gpus=2, sizes=(256, 512), holdout=(), seed=1, variants=FEW))


def test_labels_are_ids_and_every_gpu_has_its_own_samples(gpu_recording, cpu_recording, two_gpus):
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
    samples = two_gpus.samples
    own = samples[(samples["device"] == "gpu1") & (samples["variant"] == "buffered_row")]
    own = own[(own["n"] == 512) & (own["host_memory"] == "pinned")]
    times = second.times("kernel")
    chosen = times[(times["implementation"] == "gpu_buffered_row") & (times["n"] == 512)]
    assert list(chosen["time_s"]) == [own["in_run_kernel_s"].median()]


def test_times_and_square_cells_point_into_the_cells(gpu_recording):
    source = data.sources({"card": gpu_recording})[0]
    for quantity, memory in (("total", "pageable"), ("kernel", "pinned")):
        times = source.times(quantity)
        gpu = times[times["implementation"].str.startswith("gpu_")]
        cells = source.cells.loc[gpu.index]
        assert set(cells["host_memory"]) == {memory}
        assert (gpu["implementation"] == "gpu_" + cells["variant"]).all()
        np.testing.assert_array_equal(gpu["time_s"], cells[f"{quantity}_s"])
        np.testing.assert_array_equal(gpu["time_high_s"], cells[f"{quantity}_high_s"])
        naive = times[times["implementation"] == "gpu_naive"]
        assert naive["block_size"].isna().all()
        assert set(source.cells.loc[naive.index, "block_size"]) == {32}
        assert list(naive["n"]) == [256, 512, 1024, 1536, 2048]
        draws = source.draws[quantity][gpu.index]
        np.testing.assert_allclose(np.median(draws, axis=1), gpu["time_s"], rtol=0.02)
    times = source.times("total")
    packed = times[times["implementation"] == "cpu_packed"]
    assert list(packed["n"]) == sorted(set(packed["n"]))
    assert set(source.cells.loc[packed.index, "threads"]) == {1}
    squares = source.square_cells
    assert (set(squares["n"]), set(squares["dtype"])) == ({256, 512, 1024, 1536, 2048}, {"float32"})
    assert (squares[["m", "k"]].eq(squares["n"], axis=0)).all(axis=None)
    others = source.cells.drop(squares.index)
    assert {"int32", "float64"} < set(others["dtype"])
    assert set(others.loc[others["variant"] == "block", "n"]) == {250}
    assert "mm_tile" in set(squares["variant"]), "at a size of the study"
    # The index is the row in cells and in draws.
    pd.testing.assert_frame_equal(source.cells.loc[squares.index], squares)
    table = data.summary_table([source])
    assert (table.loc[table["series"] == "sizes", "total_s"] == squares["total_s"].array).all()
    assert set(table["series"]) == {"sizes", "shapes"}


def test_summary_has_a_row_for_each_measured_cell(gpu_recording, cpu_recording, two_gpus):
    recordings = {"card": gpu_recording, "host": cpu_recording, "two": two_gpus}
    table = data.summary_table(data.sources(recordings))
    assert tuple(table) == schema.TABLES["summary"].columns
    assert not table.duplicated(["recording", *CELL]).any()
    for name, recording in recordings.items():
        cells = recording.samples.drop_duplicates(CELL)
        assert (table["recording"] == name).sum() == len(cells)
    on_cpu = table["device"] == "cpu"
    unknown = ["gpu", "build", "kernel_s", "kernel_flop_per_s"]
    assert table.loc[on_cpu, unknown].isna().all(axis=None)
    assert set(table.loc[~on_cpu, "gpu"]) == {"card", "two-gpu0", "two-gpu1"}
    assert set(table.loc[~on_cpu, "build"].dropna()) == {"exact", "guarded"}
    assert set(table.loc[~on_cpu & table["build"].isna(), "variant"]) == {"cublas_sgemm"}
    row = table.query("gpu == 'card' and variant == 'block' and n == 512").iloc[0]
    assert row["flop_per_s"] == 2 * 512**3 / row["total_s"]
    assert row["kernel_flop_per_s"] == 2 * 512**3 / row["kernel_s"]
    assert row["total_low_s"] < row["total_s"] < row["total_high_s"]
    table = table[table["gpu"] == "card"]
    rows = table[table["variant"] == "bmm_tile"]
    assert set(rows["dtype"]) == {"int32", "float64"}
    for row in rows.to_dict("records"):
        assert (row["batch"], row["m"], row["k"], row["n"]) == (3, 17, 33, 65)
        assert row["flop_per_s"] == 2 * 3 * 17 * 33 * 65 / row["total_s"]
    gpu = table[table["device"] != "cpu"]
    assert gpu["overhead_s"].to_numpy() == pytest.approx(5e-6)
    has_work = {"tile_transposed_b", "tile_conflict_free", "block_padded"}
    assert set(gpu.loc[gpu["host_s"].notna(), "variant"]) == has_work


def test_a_recording_of_the_workflow_is_live_and_stale_if_a_source_changes(tmp_path, gpu_recording):
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


def test_square_sizes_that_no_gpu_measured_are_listed(two_gpus, cpu_recording, gpu_recording):
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


def test_the_order_of_a_recordings_rows_changes_nothing(gpu_recording):
    """The samples of one cell stay in order of time."""
    assert list(data.summary_table([]))[:3] == ["recording", "gpu", "device"]
    assert list(data.recordings_table([]))[-1] == "stale_sources"
    assert all(table({}).empty for table in (data.checks_table, data.builds_table))
    mixed = gpu_recording.samples.sample(frac=1, random_state=1)
    checks = gpu_recording.checks.sample(frac=1, random_state=2)
    samples = mixed.sort_values("round", kind="stable")
    shuffled = replace(gpu_recording, samples=samples, checks=checks)
    tables = [data.summary_table(data.sources({"a": r})) for r in (gpu_recording, shuffled)]
    pd.testing.assert_frame_equal(*tables)


def test_what_cannot_be_loaded_is_refused_by_name(gpu_recording, monkeypatch, tmp_path):
    with pytest.raises(RecordingError, match="nowhere: no such folder"):
        data.load({"card": [tmp_path / "nowhere"]})
    with pytest.raises(StudyError, match="'published'"):
        data.load({"published": [gpu_recording.path]})
    known = {name: entry for name, entry in data.VARIANTS.items() if name != "block"}
    monkeypatch.setattr(data, "VARIANTS", known)
    with pytest.raises(StudyError, match="'card': block is not in the catalog; "):
        data.load({"card": [gpu_recording.path]})
