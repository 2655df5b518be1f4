"""Recordings: labels, tables, staleness, and the refusal of broken ones."""

import gzip
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import schema
from analysis.data import recordings as data
from base.errors import StudyError
from base.files import sha256
from kernels.cubins.compile import BuildResult
from kernels.cubins.machine_code import InstructionCount
from measurement.recording.recording import CELL, TABLES, Recording, RecordingError


@pytest.fixture(scope="module")
def two_gpus(make_recording, tmp_path_factory) -> Recording:
    path = tmp_path_factory.mktemp("recordings") / "two"
    return make_recording(path, gpus=2, sizes=(256, 512), holdout=(), seed=1)


def test_labels_are_ids_with_device_where_there_are_several(gpu_recording, cpu_recording, two_gpus):
    found = data.sources({"card": gpu_recording, "host": cpu_recording, "two": two_gpus})
    assert [s.label for s in found] == ["card", "host", "two-gpu0", "two-gpu1"]
    assert [s.device for s in found] == ["gpu0", None, "gpu0", "gpu1"]
    assert found[0].machine == "Simulated CPU + Simulated GPU"
    assert found[1].machine == "Simulated CPU"
    assert found[0].holdout_sizes == {1536}
    with pytest.raises(StudyError, match="'two-gpu1' is taken"):
        data.sources({"two": two_gpus, "two-gpu1": gpu_recording})


def test_every_gpu_is_summarised_from_its_own_samples(two_gpus):
    first, second = data.sources({"two": two_gpus})
    assert set(first.cells["device"]) == {"cpu", "gpu0"}
    assert set(second.cells["device"]) == {"cpu", "gpu1"}
    samples = two_gpus.samples
    own = samples[(samples["device"] == "gpu1") & (samples["variant"] == "buffered_row")]
    own = own[(own["n"] == 512) & (own["host_memory"] == "pinned")]
    times = second.times("kernel")
    chosen = times[(times["implementation"] == "gpu_buffered_row") & (times["n"] == 512)]
    assert list(chosen["time_s"]) == [own["in_run_kernel_s"].median()]


def test_times_name_implementations_and_point_into_cells(gpu_recording):
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


def test_orders_are_square_products_of_float32_at_the_orders_of_the_study(gpu_recording):
    (source,) = data.sources({"card": gpu_recording})
    orders = source.square_cells
    assert set(orders["n"]) == {256, 512, 1024, 1536, 2048}
    assert set(orders["dtype"]) == {"float32"}
    assert (orders[["m", "k"]].eq(orders["n"], axis=0)).all(axis=None)
    others = source.cells.drop(orders.index)
    assert {"int32", "float64"} < set(others["dtype"])
    assert set(others.loc[others["variant"] == "block", "n"]) == {250}
    assert "mm_tile" in set(orders["variant"]), "at an order of the study"
    # the index is the row in cells and in draws
    pd.testing.assert_frame_equal(source.cells.loc[orders.index], orders)
    table = data.summary_table([source])
    assert (table.loc[table["series"] == "sizes", "total_s"] == orders["total_s"].array).all()
    assert set(table["series"]) == {"sizes", "shapes"}


def test_recordings_table_counts_and_describes(gpu_recording, cpu_recording):
    found = data.sources({"card": gpu_recording, "host": cpu_recording})
    card, host = data.recordings_table(found).to_dict("records")
    assert (card["gpu"], card["device"], card["gpu_name"]) == ("card", "gpu0", "Simulated GPU")
    assert host["device"] == "cpu"
    assert pd.isna([host["gpu"], host["gpu_name"]]).all()
    assert card["cpu_model"] == "Simulated CPU"
    assert card["simulated"] is True
    assert card["live"] is False
    assert (card["commit"], card["dirty"]) == ("0" * 40, False)
    assert card["started_utc"] == "2024-01-01T00:00:00Z"
    assert card["samples"] == len(gpu_recording.samples)
    statuses = gpu_recording.checks["status"].value_counts()
    for status in ("passed", "failed", "not_launchable"):
        assert card[f"cells_{status}"] == statuses[status] > 0
    assert host["cells_failed"] == 0
    assert (card["stale"], card["stale_sources"]) == (False, "")


def test_a_recording_made_by_the_workflow_is_live(make_recording, tmp_path, gpu_recording):
    path = tmp_path / "results" / "recordings" / "local"
    made = make_recording(path, gpus=0, sizes=(256,))
    assert data.is_live(made, tmp_path)
    assert not data.is_live(made, tmp_path / "elsewhere")
    assert not data.is_live(replace(made, path=tmp_path / "data" / "recordings" / "x"), tmp_path)
    assert not data.is_live(gpu_recording)


def test_a_recording_is_stale_when_a_measured_source_changes_or_goes(make_recording, tmp_path):
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text(f"// {name}\n")
    hashes = {name: sha256(tmp_path / name) for name in ("b.cu", "a.cu")}
    made = make_recording(tmp_path / "r", gpus=0, sizes=(256,), sources=hashes)

    def stale():
        row = data.recordings_table(data.sources({"r": made}), tmp_path).iloc[0]
        return bool(row["stale"]), row["stale_sources"]

    assert stale() == (False, "")
    (tmp_path / "b.cu").write_text("// b.cu \n")
    assert stale() == (True, "b.cu")
    (tmp_path / "a.cu").unlink()
    assert stale() == (True, "a.cu;b.cu")
    assert data.stale_sources(made.provenance, tmp_path) == ["a.cu", "b.cu"]


def test_sizes_that_no_gpu_measured_are_listed_if_there_is_a_gpu(two_gpus, cpu_recording):
    def unmeasured(**recordings):
        table = data.unmeasured_sizes_table([1777, 256, 96], data.checks_table(recordings))
        return table["n"].tolist()

    assert unmeasured(two=two_gpus, host=cpu_recording) == [96, 1777]
    assert unmeasured(host=cpu_recording) == unmeasured() == []


def test_products_of_other_shapes_are_no_measured_sizes(gpu_recording):
    checks = data.checks_table({"card": gpu_recording})
    other = checks[checks["device"] != "cpu"].head(1).assign(n=3, k=512, m=1)
    table = data.unmeasured_sizes_table([3, 1777], pd.concat([checks, other]))
    assert table["n"].tolist() == [3, 1777]
    assert (table["least_n"] > 3).all()


def test_checks_and_builds_carry_the_id(gpu_recording, cpu_recording):
    recordings = {"card": gpu_recording, "host": cpu_recording}
    checks = data.checks_table(recordings)
    assert list(checks) == ["recording", "session", *TABLES["checks.csv"]]
    assert len(checks) == len(gpu_recording.checks) + len(cpu_recording.checks)
    failed = checks[checks["status"] == "failed"]
    assert set(failed["recording"]) == {"card"}
    assert (failed["worst_row"] == 3).all()
    builds = data.builds_table(recordings)
    assert list(builds) == ["recording", *TABLES["builds.csv"]]
    assert list(builds["registers_per_thread"]) == [40, 32, 38, 40, 24, 128, 40, 16, 40]
    assert list(builds["variant"])[-3:] == ["mm_tile", "hold", "probes"]


def test_builds_of_the_tree_stand_beside_those_of_the_recordings(gpu_recording):
    counts = (InstructionCount("kernel", "FFMA", 0, 8), InstructionCount("loop", "LDS", 128, 2))
    facts = ("sm_75", "block", "float32", 8, "exact", 40, 512, 0, 0, 0, "13.2.1", "0" * 64)
    built = [BuildResult(*facts, counts)]
    builds = data.builds_table({"card": gpu_recording}, built)
    assert list(builds["recording"].drop_duplicates()) == ["card", "tree"]
    assert builds.iloc[-1]["registers_per_thread"] == 40
    instructions = data.instructions_table({"card": gpu_recording}, built)
    assert len(instructions) == len(gpu_recording.instructions) + 2
    last = instructions.iloc[-1]
    assert tuple(last[["recording", "scope", "opcode", "bits", "count"]]) == (
        *("tree", "loop", "LDS", 128, 2),
    )


def test_environment_is_the_provenance_as_text(gpu_recording, cpu_recording):
    table = data.environment_table({"card": gpu_recording})
    values = dict(zip(table["item"], table["value"], strict=True))
    assert values["host.cpu_model"] == "Simulated CPU"
    assert values["gpu0.name"] == "Simulated GPU"
    assert values["gpu0.limits.max_threads_per_block"] == "1024"
    assert values["compile.nvcc_flags"] == "-O3 -std=c++17"
    assert values["simulated"] == "True"
    assert "software.packages.pycuda" not in values, "not known"
    assert not [item for item in values if item.startswith("sources")]
    host = data.environment_table({"host": cpu_recording})
    assert "devices" not in set(host["item"]), "there is none"
    assert (values["host.caches.L1.bytes"], values["host.caches.L3.shared_by"]) == ("32768", "4")
    assert values["host.usable_threads"] == "4"


def test_the_order_of_a_recordings_rows_changes_nothing(gpu_recording):
    """But for that of one cell's samples, which is the order of time."""
    assert list(data.summary_table([]))[:3] == ["recording", "gpu", "device"]
    assert list(data.recordings_table([]))[-1] == "stale_sources"
    assert all(table({}).empty for table in (data.checks_table, data.builds_table))
    mixed = gpu_recording.samples.sample(frac=1, random_state=1)
    shuffled = replace(
        gpu_recording,
        samples=mixed.sort_values("round", kind="stable"),
        checks=gpu_recording.checks.sample(frac=1, random_state=2),
    )
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


@pytest.mark.parametrize("name", [*TABLES, "provenance.json"])
def test_an_altered_file_is_refused_by_name(gpu_recording, tmp_path, name):
    path = shutil.copytree(gpu_recording.path, tmp_path / "altered")
    content = (path / name).read_bytes()
    if name.endswith(".gz"):
        content = gzip.compress(gzip.decompress(content).replace(b"512", b"513", 1))
    else:
        content = content.replace(b"sm_90", b"sm_91").replace(b"passed", b"failed", 1) + b" "
    (path / name).write_bytes(content)
    with pytest.raises(RecordingError, match=f"altered: {name} was altered or truncated"):
        data.load({"card": [path]})


@pytest.mark.parametrize("name", ["samples.csv.gz", "checks.csv", "MANIFEST.sha256"])
def test_a_cut_off_or_missing_file_is_refused_by_name(gpu_recording, tmp_path, name):
    path = shutil.copytree(gpu_recording.path, tmp_path / "short")
    file = path / name
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(RecordingError, match=r"short: .*(or truncated|does not list|not in)"):
        data.load({"card": [path]})
    file.unlink()
    with pytest.raises(RecordingError, match=f"short: {name} is missing"):
        data.load({"card": [path]})
