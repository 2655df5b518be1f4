"""The kernel-only time of a kernel."""

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.trust.comparison import compare
from measurement.recording.recording import CELL, KERNEL, read
from tests.support.simulated import FEW, recorded
from tests.support.simulated_tables import LAUNCH_S

SMALL = {"sizes": (256, 512), "holdout": (), "samples": 9, "variants": FEW}


@pytest.fixture(scope="module")
def held():
    return read(recorded(**SMALL, complete=True))


def test_cells_that_differ_in_host_memory_share_kernel_only_times(held):
    (source,) = data.sources({"card": held})
    cells = source.cells[source.cells["device"] != "cpu"]
    assert set(cells["kernel_samples"]) == {10}
    assert set(cells["samples"]) == {9}
    medians = held.kernels.groupby(KERNEL, dropna=False)["kernel_s"].median()
    own = cells.groupby(KERNEL, dropna=False)["kernel_s"]
    assert (own.nunique() == 1).all()
    pd.testing.assert_series_equal(own.first(), medians, check_names=False)
    assert (cells["kernel_low_s"] < cells["kernel_s"]).all()
    draws = source.draws["kernel"][cells.index]
    np.testing.assert_allclose(np.median(draws, axis=1), cells["kernel_s"], rtol=0.002)
    drawn = source.drawn(cells, "kernel")
    np.testing.assert_allclose(np.median(drawn, axis=1), cells["kernel_s"], rtol=0.002)
    on_cpu = source.cells[source.cells["device"] == "cpu"]
    unknown = ["kernel_s", "kernel_low_s", "in_run_kernel_s"]
    assert on_cpu[unknown].isna().all(axis=None)
    assert set(on_cpu["kernel_samples"]) == {0}
    samples = held.samples[held.samples["device"] != "cpu"]
    medians = samples.groupby(CELL, dropna=False, as_index=False).median(numeric_only=True)
    np.testing.assert_allclose(cells["in_run_kernel_s"], medians["in_run_kernel_s"])
    short = cells["kernel_s"] < 1e-5
    apart = (cells["in_run_kernel_s"] - cells["kernel_s"])[short]
    assert apart.median() == pytest.approx(LAUNCH_S, rel=0.1)
    assert cells["overhead_s"][short].median() == pytest.approx(5e-6 + LAUNCH_S, rel=0.1)


def test_kernel_only_times_of_two_sessions_are_averaged_and_compared(held):
    again = read(recorded(**SMALL, complete=True, seed=1))
    both = together([held, again])
    (source,) = data.sources({"card": both})
    cells = source.cells[source.cells["device"] != "cpu"]
    assert set(cells["kernel_samples"]) == {20}
    assert set(cells["sessions"]) == {2}
    each = both.kernels.groupby([*KERNEL, "session"], dropna=False)["kernel_s"].median()
    means = np.exp(np.log(each).groupby(KERNEL, dropna=False).mean())
    own = cells.groupby(KERNEL, dropna=False)["kernel_s"].first()
    np.testing.assert_allclose(own, means)
    assert source.draws["kernel"][cells.index].shape == (len(cells), 2000)
    frame = compare(held, again, 0.02)
    kernels = frame[frame["quantity"] == "kernel"]
    assert not kernels.duplicated(KERNEL).any(), "host memory does not matter to them"
    assert set(kernels["samples_a"]) == {10}
    assert set(kernels["verdict"]) <= {"same", "undecided"}
    np.testing.assert_allclose(kernels["ratio"], 1, atol=0.02)
