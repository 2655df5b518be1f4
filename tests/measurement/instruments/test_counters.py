"""Hardware counters, from ncu's output, and errors of products: both are added to a recording."""

import os
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from base.errors import StudyError
from kernels.cubins.compile import read_result
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
from measurement.instruments import accuracy, addition
from measurement.instruments.check import plan
from measurement.instruments.counters import METRICS, count, rows_of
from measurement.recording import recording
from tests.support.fakes import make_cubins
from tests.support.studies import study

HEADER = ["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *METRICS]


def ncu_output(launches, values=None, drop=None):
    """Return ncu's output: messages, a header, a line of units, one line per launch.

    Launches are names with threads per block and blocks along either edge.
    """
    header = [name for name in HEADER if name != drop]
    rows = [header, [*5 * [""], *(["sector"] * (len(header) - 5))]]
    for index, (name, threads, edge) in enumerate(launches):
        numbers = values or [f"{1000 * index + 4194304:,}"] * (len(header) - 5)
        rows.append([index, 7, name, threads, f"({edge}, {edge}, 1)", *numbers])
    quoted = [",".join(f'"{field}"' for field in row) for row in rows]
    return "\n".join(["==PROF== Connected to process 7", "check: 2 cells run", *quoted]) + "\n"


def launched(name, edge, **changes):
    return ncu_output([(name, "(8, 8, 1)", edge)], **changes)


CELLS = plan(["block", "buffered_row"], [8, 32], ["512"])


def test_counters_are_assigned_to_cells_by_kernel_name_and_threads():
    output = ncu_output([("block", "(32, 32, 1)", 16), ("block", "(8, 8, 1)", 64)])
    rows = list(rows_of(output, CELLS))
    assert len(rows) == 2 * len(METRICS)
    assert [row["metric"] for row in rows] == METRICS * 2
    first, last = rows[0], rows[-1]
    assert (first["variant"], first["block_size"], first["n"]) == ("block", 32, 512)
    assert first["value"] == 4194304.0
    assert (last["variant"], last["block_size"]) == ("block", 8)
    assert last["value"] == 4195304.0
    cells = plan(["sgemm_tensor_tma"], [], ["512"])  # its operands are prepared by another kernel
    output = ncu_output([("split_parts", "(256, 1, 1)", 8), ("sgemm_tensor_tma", "(384, 1, 1)", 4)])
    output = output.replace("(4, 4, 1)", "(16, 1, 1)")
    assert {row["value"] for row in rows_of(output, cells)} == {4195304.0}


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", "ERR_NVGPUCTRPERM - no permission;"),
        ("", "no counters in its output; check the permissions to read"),
        (launched("naive", 64), "unexpected launch naive (8, 8, 1) (64, 64, 1)"),
        (launched("block", 65), "unexpected launch block (8, 8, 1) (65, 65, 1)"),
        (launched("block", 64, drop=METRICS[0]), f"{METRICS[0]} is missing for gpu block B=8 N=5"),
        (
            launched("block", 64, values=["n/a"] * len(METRICS)),
            f"{METRICS[0]} is n/a for gpu block B",
        ),
    ],
)
def test_an_invalid_counter_in_the_output_of_ncu_is_refused(output, reason):
    with pytest.raises(StudyError, match=f"^ncu: {re.escape(reason)}"):
        list(rows_of(output, CELLS))


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A fake GPU, which can be locked."""
    monkeypatch.setattr(addition, "lock_file", lambda device: tmp_path / "lock")
    monkeypatch.setattr(addition, "select", lambda n: [CudaDevice(n, "Simulated GPU", "8.6")])


@pytest.fixture
def recorded(make_recording, gpu, tmp_path, monkeypatch):
    """A recording of two GPUs with the cubins that this host builds."""
    cubins = tmp_path / "cubins"
    configuration = {
        "variants": ["naive", "block", "block_padded", "cublas_sgemm"],
        "sizes": [512],
        "holdout_sizes": [],
        "dtypes": ["float32"],
        "block_sizes": [8, 16, 32],
    }
    shapes = {"block_sizes": [32], "shapes": [512, "17x33x65"]}
    series = {"variants": ["mm_naive"], "dtypes": ["float64", "int32"]} | shapes
    configuration["series"] = [series]
    make_cubins(cubins, study(configuration))
    results = [read_result(path) for path in sorted((cubins / "sm_86").glob("*.cubin"))]
    few = {"sizes": (64,), "holdout": (), "samples": 2, "variants": ("naive", "block")}
    made = make_recording(tmp_path / "r", gpus=2, complete=True, **few)
    builds = made.builds.iloc[:0].copy()
    for result in results:
        builds.loc[len(builds)] = result.row()
    provenance = made.provenance | {"configuration": configuration}
    tables = {name: made.table(name) for name in recording.TABLES}
    recording.write(made.path, provenance, tables | {"builds.csv": builds})

    def build_all(nvcc, wanted, architecture, folder):
        assert {build.stem for build in wanted} <= {path.stem for path in cubins.rglob("*.cubin")}
        return [r for r in results if r.variant != "probes"]

    monkeypatch.setattr(addition, "build_all", build_all)
    monkeypatch.setattr(addition, "find_nvcc", lambda _: Path("nvcc"))
    return made.path


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """A fake ncu that prints a file and logs its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "ncu"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "Version 2025.3.1.0 (build 1)" && exit\n'
        f'echo "$@" >> {folder}/called\nfor last; do :; done; cat {folder}/$last\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    launches = [(n, f"({b}, {b}, 1)", 512 // b) for n in ("naive", "block") for b in (8, 16, 32)]
    (folder / "float32").write_text(ncu_output(launches))
    for dtype, value in (("float64", 8), ("int32", 4)):
        values = [str(value)] * len(METRICS)
        (folder / dtype).write_text(ncu_output([("mm_naive", "(32, 32, 1)", 16)], values))
    return folder


@pytest.mark.slow
def test_hardware_counters_are_added_to_a_recording(recorded, ncu):
    before = recording.read(recorded)
    made = count(recorded, 0)
    assert len(made.counters) == 8 * len(METRICS)
    others = made.counters[made.counters["dtype"] != "float32"]
    assert set(zip(others["variant"], others["dtype"], others["value"], strict=True)) == {
        ("mm_naive", "float64", 8.0),
        ("mm_naive", "int32", 4.0),
    }
    edges = made.counters[["batch", "m", "n", "k"]].drop_duplicates()
    assert edges.to_numpy().tolist() == [[1, 512, 512, 512]]
    assert set(made.counters["device"]) == {"gpu0"}
    assert made.provenance["counters"]["ncu"] == "2025.3.1.0"
    for name in set(recording.TABLES) - {"counters.csv"}:
        assert made.table(name).equals(before.table(name)), f"{name} is kept"
    assert made.provenance["started_utc"] == before.provenance["started_utc"]
    called = (ncu / "called").read_text()
    assert "--variants naive block --sizes" in called, "a kernel is counted once"
    assert "--clock-control none" in called
    assert "--sizes 512 --block-sizes 8 16 32 --dtypes float32" in called
    for dtype in ("float64", "int32"):
        assert f"--variants mm_naive --sizes 512 --block-sizes 32 --dtypes {dtype}" in called
    again = count(recorded, 0)
    assert len(again.counters) == len(made.counters), "counted again, not added twice"
    path = recorded / "counters.csv"
    path.write_text(path.read_text().replace("4194304.0", "4194305.0"))
    with pytest.raises(StudyError, match=r"counters\.csv was altered or truncated"):
        recording.read(recorded)
    path.unlink()
    with pytest.raises(StudyError, match=r"counters\.csv is missing"):
        recording.read(recorded)


@pytest.mark.slow
def test_a_failed_reading_of_counters_leaves_the_recording_unchanged(recorded, ncu, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(recorded))
        with pytest.raises(StudyError, match=r"^ncu: not found on PATH; install"):
            count(recorded, 0)
    with monkeypatch.context() as patch:
        patch.setattr(addition, "select", lambda _: [CudaDevice(0, "Another GPU", "8.6")])
        with pytest.raises(StudyError, match="was made on Simulated GPU, Simulated GPU, GPU 0 is"):
            count(recorded, 0)
    for dtype in ("float32", "float64", "int32"):
        (ncu / dtype).write_text(ncu_output([]))
    with pytest.raises(StudyError, match="this GPU can run none of its kernels"):
        count(recorded, 0)
    made = recording.read(recorded)
    assert made.counters.empty
    assert set(made.counters) == {*recording.TABLES["counters.csv"], "session"}
    tables = {name: made.table(name) for name in recording.TABLES}
    changed = made.builds.assign(cubin_sha256="0" * 64)
    recording.write(recorded, made.provenance, tables | {"builds.csv": changed})
    with pytest.raises(StudyError, match=r"build of \w+ differs \(recorded: nvcc 13\.9\.7, here"):
        count(recorded, 0)
    assert recording.read(recorded).counters.empty


ORDER = 64


class Multiplier:
    """Multiplies in float32, the variants `rough` in float16."""

    def __init__(self, inputs, rough=()):
        self.inputs, self.rough, self.c = inputs, rough, None

    def not_launchable(self, cell):
        return "no" if cell.variant == "buffered_row" else None

    def poison(self, cell):
        self.c = None

    def run(self, cell):
        a, b = self.inputs.pair(cell.dtype, cell.shape)
        self.c = a @ b
        if cell.variant in self.rough:
            self.c = (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)

    def product(self, cell):
        return self.c


def errors(variants, **how):
    cells = accuracy.cells_of(variants, ORDER)
    return list(accuracy.rows_of(lambda inputs: nullcontext(Multiplier(inputs, **how)), cells, 1))


def test_measured_errors_of_float32_kernels_are_small_and_of_16_bit_operands_large():
    rows = errors(["block"])
    assert [row["matrices"] for row in rows] == list(accuracy.MATRICES)
    for row in rows:
        assert (row["variant"], row["block_size"], row["n"]) == ("block", 32, ORDER)
        assert 0 < row["rms_units"] < row["worst_units"] < ORDER
    rows = {row["variant"]: row for row in errors(["naive", "block"], rough=["naive"])[:2]}
    assert rows["naive"]["worst_units"] > 1000 * rows["block"]["rms_units"]
    # What cannot be launched, and a kernel of another variant, have no errors.
    found = errors(["buffered_row", "block", "block_padded", "cublas_sgemm"])
    assert {row["variant"] for row in found} == {"block", "cublas_sgemm"}
    assert len(found) == 2 * len(accuracy.MATRICES)


@pytest.fixture
def measured(make_recording, gpu, tmp_path, monkeypatch):
    """A recording, and a GPU of the same name with the recorded kernels."""
    few = {"sizes": (64,), "holdout": (), "samples": 2, "variants": ("naive", "block")}
    made = make_recording(tmp_path / "r", **few)
    study = made.provenance["configuration"] | {"variants": ["block", "naive", "cublas_sgemm"]}
    tables = {name: made.table(name) for name in recording.TABLES}
    made = recording.write(made.path, made.provenance | {"configuration": study}, tables)
    monkeypatch.setattr(accuracy, "ORDER", ORDER)
    monkeypatch.setattr(accuracy.cells_of, "__defaults__", (ORDER,))
    monkeypatch.setattr(addition, "_build", lambda *_: [])
    session = lambda device, inputs, *_: nullcontext(Multiplier(inputs))  # noqa: E731
    monkeypatch.setattr(accuracy, "GpuSession", session)
    return made


def test_measured_errors_replace_older_ones_in_a_recording(measured, capsys, monkeypatch, tmp_path):
    for _ in range(2):
        added = accuracy.add_accuracy(measured.path, 0)
    read = recording.read(measured.path)
    assert len(read.accuracy) == len(added.accuracy) > 2 * len(accuracy.MATRICES)
    assert set(read.accuracy["matrices"]) == set(accuracy.MATRICES)
    assert set(read.accuracy["device"]) == {"gpu0"}
    assert read.samples.equals(measured.samples)
    assert list(read.provenance["accuracy"]) == ["added_utc"]
    assert "errors of" in capsys.readouterr().err
    with (
        only_run(CudaDevice(0, "Simulated GPU", "8.6"), tmp_path / "lock", "recording"),
        pytest.raises(StudyError, match=r"in use by process \d+ of .*, recording"),
    ):
        accuracy.add_accuracy(measured.path, 0)
    monkeypatch.setattr(addition, "select", lambda index: [CudaDevice(index, "Other", "8.6")])
    with pytest.raises(StudyError, match="was made on Simulated GPU, GPU 0 is Other"):
        accuracy.add_accuracy(measured.path, 0)
