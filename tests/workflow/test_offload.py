"""``gemm-study doctor --offload``: its study, and its answers from what was measured."""

import json

import pandas as pd
import pytest

from base.errors import StudyError
from measurement.recording import recording
from study.cells import cpu_cells, gpu_cells
from study.config import load
from tests.support import ROOT
from tests.support.fakes import FakeHardware
from tests.support.simulated import FEW, write_recording
from workflow import offload as command

FACTOR = {"a_resident": 0.6}  # of the time from pinned memory


def placed(rows):
    """Return rows of a recording with those of the block kernel at another location."""
    pinned = rows[(rows["variant"] == "block") & (rows["host_memory"] == "pinned")]
    others = [pinned.assign(host_memory=location) for location in FACTOR]
    for other in others:
        if "total_s" in other:
            times = ["total_s", "h2d_s", "in_run_kernel_s", "d2h_s"]
            other[times] *= FACTOR[other["host_memory"].iloc[0]]
    return pd.concat([rows, *others], ignore_index=True)


@pytest.fixture
def measured(monkeypatch):
    """Let the command record a simulated GPU."""

    def record(config, device, out, cubins, hardware):
        made = write_recording(out, variants=FEW)
        frames = {name: made.table(name) for name in recording.TABLES}
        for name in ("samples.csv.gz", "checks.csv"):
            frames[name] = placed(frames[name])
        recording.write(out, made.provenance, frames)

    monkeypatch.setattr(command, "record", record)


def test_the_offload_study_is_small_and_has_both_shapes_at_each_location():
    study = command.small_study(load(ROOT / "config.yaml")).study
    cells = gpu_cells(study, "gpu0")
    assert {(cell.shape.family, cell.host_memory) for cell in cells} == {
        (family, location)
        for family in ("square", "matrix-vector")
        for location in ("pinned", "pageable", "a_resident")
    }
    assert len(cells) < 120
    assert {cell.shape.family for cell in cpu_cells(study, 16)} == {"square", "matrix-vector"}


def test_doctor_offload_prints_a_break_even_size_for_each_location(measured, tmp_path, capsys):
    hardware = FakeHardware(tmp_path, gpus=1)
    config = load(ROOT / "config.yaml")
    command.offload(config, "auto", True, hardware)
    found = json.loads(capsys.readouterr().out)["thresholds"]
    by_location = {row["host_memory"]: row for row in found}
    assert set(by_location) == {"pinned", "pageable", "a_resident"}
    assert {row["shape"] for row in found} == {"square"}
    assert by_location["a_resident"]["n"] <= by_location["pinned"]["n"]
    assert by_location["pinned"]["n"] <= by_location["pageable"]["n"]
    command.offload(config, "auto", False, hardware)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(found)
    assert "A on the GPU, others in pinned memory" in lines[1]


def test_doctor_offload_prints_one_line_on_a_host_without_gpu(tmp_path):
    with pytest.raises(StudyError, match=r"^--offload: no NVIDIA GPU on this host; check"):
        command.offload(load(ROOT / "config.yaml"), "auto", False, FakeHardware(tmp_path, gpus=0))
