"""Benchmarks that need a GPU: how they compare, and what the tuner gets, without GPU or tool."""

import json
import re
from itertools import product

import numpy as np
import pytest

from base.errors import StudyError
from benchmarks import nvbench_kernels, tuner_kernels
from benchmarks.compare_with_nvbench import Times, compare, read_nvbench
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from tests.support.products import product_of

pytestmark = pytest.mark.exhaustive

KERNELS, CELLS = nvbench_kernels.KERNELS, tuner_kernels.CELLS


# ---- compare_with_nvbench


def nvbench_json():
    """Results in nvbench's layout: 0.2 ms with warm caches, 0.3 ms cold."""

    def state(launches):
        time = {"name": "value", "type": "float64", "value": str((launches + 0.5) * 2e-4)}
        summaries = [{"tag": "nv/cold/time/gpu/median", "data": [time]}]
        axis = {"name": "Launches", "type": "int64", "value": str(launches)}
        names = {"name": f"Device=0 Launches={launches}", "axis_values": [axis]}
        return names | {"is_skipped": False, "summaries": summaries}

    states = {
        nvbench_kernels.label(*kernel): [state(1), state(nvbench_kernels.train(kernel[2]))]
        for kernel in KERNELS
    }
    return {"benchmarks": [{"name": name, "states": each} for name, each in states.items()]}


def test_the_comparison_with_nvbench_uses_medians_over_the_rounds():
    taken = ((1.00, 1.5, 1.0, 1.0, 2.0), (1.98, 2.5, 1.9, 2.0, 2.5), (3.12, 4.1, 3.0, 3.0, 4.0))
    rounds = [Times(*times) for times in taken]
    compared = compare(("block", 32, 1024), rounds)
    assert compared.times == Times(1.98, 2.5, 1.9, 2.0, 2.5)
    assert (compared.ratio, compared.flushed_ratio) == (0.99, 1.0)
    assert np.isnan([compared.ratio_low, compared.ratio_high]).all(), "three rounds: no interval"
    compared = compare(("block", 32, 1024), 3 * rounds)
    assert (compared.ratio_low, compared.ratio_high) == pytest.approx((0.99, 1.04))


def test_warm_and_cold_times_are_read_from_the_file_of_nvbench(tmp_path):
    path, results = tmp_path / "r.json", nvbench_json()
    path.write_text(json.dumps(results))
    times = read_nvbench(path)
    assert list(times) == KERNELS
    assert all(pair == pytest.approx((2e-4, 3e-4)) for pair in times.values())
    results["benchmarks"][0]["states"][0] |= {"is_skipped": True, "skip_reason": "too short"}
    path.write_text(json.dumps(results))
    with pytest.raises(StudyError, match="bNone-n256: skipped: too short"):
        read_nvbench(path)


# ---- tuner_cells


class FakeTuner:
    """kernel_tuner: times every allowed combination of parameters."""

    def __init__(self, failing=None):
        self.failing, self.calls = failing, []

    def tune_kernel(self, name, source, problem_size, arguments, parameters, **options):
        self.calls.append(options)
        assert f"void {name}(const float *a, const float *b, float *c, int n)" in source
        n = problem_size[0]
        results, names = [], ("BLOCK", "block_size_x", "block_size_y")
        for values in product(*map(parameters.get, names)):
            named = dict(zip(names, values, strict=True))
            if all(eval(rule, {}, named) for rule in options["restrictions"]):
                assert product_of(name, n, values[0]).launch.threads == values[1:]
                time_ms = "failed" if values[0] == self.failing else 1.0
                results.append({"BLOCK": values[0], "time": time_ms})
        return results, {}


@pytest.mark.parametrize("name", CELLS)
def test_kernel_tuner_gets_the_launch_geometry_of_the_catalog(name):
    tuner, inputs = FakeTuner(), Inputs([("float32", Shape.square(256))], seed=1)
    assert tuner_kernels.tune(tuner, "NVCUDA", name, 256, CELLS[name], inputs) == len(CELLS[name])
    (options,) = tuner.calls
    assert options["grid_div_x"] == options["grid_div_y"] == ["BLOCK"]
    failing = CELLS[name][0]
    with pytest.raises(StudyError, match=re.escape(f"{name} N=256 B={failing}: no time")):
        tuner_kernels.tune(FakeTuner(failing), "CUPY", name, 256, CELLS[name], inputs)
