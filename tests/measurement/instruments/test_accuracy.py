"""Errors of products: matrices, unit, and the table in the recording."""

from contextlib import nullcontext

import numpy as np
import pytest

from base.errors import StudyError
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
from measurement.instruments import accuracy, addition
from measurement.instruments.accuracy import MATRICES, add_accuracy, cells_of, rows_of
from measurement.recording import recording

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
    cells = cells_of(variants, ORDER)
    return list(rows_of(lambda inputs: nullcontext(Multiplier(inputs, **how)), cells, 1))


def test_errors_of_float32_are_some_units_and_of_16_bits_thousands():
    rows = errors(["block"])
    assert [row["matrices"] for row in rows] == list(MATRICES)
    for row in rows:
        assert (row["variant"], row["block_size"], row["n"]) == ("block", 32, ORDER)
        assert 0 < row["rms_units"] < row["worst_units"] < ORDER
    rows = {row["variant"]: row for row in errors(["naive", "block"], rough=["naive"])[:2]}
    assert rows["naive"]["worst_units"] > 1000 * rows["block"]["rms_units"]
    # What cannot be launched, and a kernel of another variant, have no errors.
    found = errors(["buffered_row", "block", "block_padded", "cublas_sgemm"])
    assert {row["variant"] for row in found} == {"block", "cublas_sgemm"}
    assert len(found) == 2 * len(MATRICES)


def test_the_matrices_are_what_their_names_say():
    made = {}
    for kind, make in MATRICES.items():
        inputs = Inputs([("float32", Shape.square(512))], 1)
        made[kind] = inputs.pair("float32", Shape.square(512))
        make(*made[kind])
    for matrix in made["scaled"]:
        magnitudes = np.log10(np.abs(matrix))
        assert (magnitudes.min(), magnitudes.max()) == pytest.approx((-6, 6), abs=0.01)
        assert 0.4 < (matrix < 0).mean() < 0.6
    a, b = (matrix.astype(float) for matrix in made["cancelling"])
    assert np.abs(a @ b).max() < 0.01 * (np.abs(a) @ np.abs(b)).min()
    assert np.abs(a @ b).min() > 0


@pytest.fixture
def card(make_recording, tmp_path, monkeypatch):
    """A recording, and a GPU of the same name with the recorded kernels."""
    few = {"sizes": (64,), "holdout": (), "samples": 2, "variants": ("naive", "block")}
    made = make_recording(tmp_path / "r", **few)
    study = made.provenance["configuration"] | {"variants": ["block", "naive", "cublas_sgemm"]}
    tables = {name: made.table(name) for name in recording.TABLES}
    made = recording.write(made.path, made.provenance | {"configuration": study}, tables)
    monkeypatch.setattr(accuracy, "ORDER", ORDER)
    monkeypatch.setattr(cells_of, "__defaults__", (ORDER,))
    monkeypatch.setattr(addition, "_build", lambda *_: [])
    monkeypatch.setattr(addition, "lock_file", lambda device: tmp_path / "lock")
    monkeypatch.setattr(
        accuracy, "GpuSession", lambda device, inputs, *_: nullcontext(Multiplier(inputs))
    )
    monkeypatch.setattr(addition, "select", lambda n: [CudaDevice(n, "Simulated GPU", "8.6")])
    return made


def test_errors_are_added_to_the_recording_and_replace_older_ones(
    card, capsys, monkeypatch, tmp_path
):
    for _ in range(2):
        added = add_accuracy(card.path, 0)
    read = recording.read(card.path)
    assert len(read.accuracy) == len(added.accuracy) > 2 * len(MATRICES)
    assert set(read.accuracy["matrices"]) == set(MATRICES)
    assert set(read.accuracy["device"]) == {"gpu0"}
    assert read.samples.equals(card.samples)
    assert list(read.provenance["accuracy"]) == ["added_utc"]
    assert "errors of" in capsys.readouterr().err
    with (
        only_run(CudaDevice(0, "Simulated GPU", "8.6"), tmp_path / "lock", "recording"),
        pytest.raises(StudyError, match=r"in use by process \d+ of .*, recording"),
    ):
        add_accuracy(card.path, 0)
    monkeypatch.setattr(addition, "select", lambda index: [CudaDevice(index, "Other", "8.6")])
    with pytest.raises(StudyError, match="was made on Simulated GPU, GPU 0 is Other"):
        add_accuracy(card.path, 0)
