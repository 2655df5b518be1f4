"""Predictions compared with measurements: what is drawn, measured and reported, on a fake GPU."""

import json
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from analysis.data import recordings
from benchmarks import predict_shapes
from measurement.devices.pieces import Trial
from measurement.devices.session import Timing
from measurement.sampling import supervisor
from tests.support import simulated_shapes as truth
from tests.support import warm
from tests.support.fakes import FakeDevice, FakeHardware

pytestmark = pytest.mark.exhaustive


class ShapedDevice(FakeDevice):
    """Takes the times of the simulated host."""

    def multiplied(self, cell, change, later):
        a, b = self.inputs.rounded(cell.dtype, cell.shape, (0, 0))
        self.c[cell] = a @ b
        time_s = truth.run_s(cell.shape, cell.host_memory)
        return Timing(time_s, None, 0.0, time_s, 0.0)

    def throughput(self, cell, batches):
        times = [
            [
                truth.batch_s(cell.shape, b.products, b.streams, b.same_a, multiplies)
                for multiplies in (False, True)
            ]
            for b in batches
        ]
        trials = [Trial(b, 1, *pair) for b, pair in zip(batches, times, strict=True)]
        return trials, [self.c[cell]]


@dataclass(frozen=True)
class ShapedHardware(FakeHardware):
    def open_gpu(self, device, inputs, builds, cubins, partner, primary=False):
        return ShapedDevice(self, "gpu0", inputs)


@pytest.fixture
def run(patch, monkeypatch, gpu_recording, tmp_path, capsys):
    """Return a function that compares on a fake GPU: exit status, lines, and the JSON."""
    made = truth.recorded_shapes(gpu_recording, seed=0)
    patch(predict_shapes, build_all=lambda *_: [], find_nvcc=lambda: None, _RUNS=3, _LARGEST=512)
    patch(predict_shapes, CACHE=tmp_path / "references")
    patch(supervisor, _SPAWN=warm.CONTEXT)
    monkeypatch.setattr(recordings, "load", lambda paths: {"recording": made})

    def compare(*others):
        out = tmp_path / "out.json"
        arguments = ["--recording", "x", "--count", "12", "--out", str(out), *others]
        monkeypatch.setattr(sys, "argv", ["predict_shapes", *arguments])
        status = predict_shapes.main(ShapedHardware(tmp_path))
        return status, capsys.readouterr().out.splitlines(), json.loads(out.read_text())

    return compare


def test_measured_medians_are_compared_with_predictions(run):
    _, lines, found = run()
    compared = found["compared"]
    assert len(compared) == 12
    assert (
        found["inside"]
        == np.mean([abs(one["log_ratio"]) <= one["half_width"] for one in compared])
        >= 0.75
    )
    assert {one["run"]["products"] > 1 for one in compared} == {False, True}
    assert len({one["run"]["location"] for one in compared}) > 3
    for one in compared:
        ratio = np.log(one["predicted_s"] / one["measured_s"])
        assert one["log_ratio"] == pytest.approx(ratio)
    assert lines[-6].startswith(f"12 questions, {found['inside']:.1%} inside")
    of_places = [line.split()[0] for line in lines[2 + 12 : -6]]
    assert of_places == sorted({one["run"]["location"] for one in compared})
