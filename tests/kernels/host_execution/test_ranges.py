"""Errors of products of unusual values: what tensor cores keep, and what they lose."""

import csv

import numpy as np
import pytest

from analysis.data.store import Store
from analysis.kernels.properties import ranges_table
from kernels.host_execution import ranges

GRADED, INFINITE = "rows of A graded from 2^20 to 2^-20", "one infinity in A"


@pytest.fixture(scope="module")
def errors(host_builds, tmp_path_factory):
    path = tmp_path_factory.mktemp("ranges") / "ranges.csv"
    ranges.write(path, host_builds)
    return path


def rows_of(errors, variant):
    with errors.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["variant"] == variant]
    return {
        row["matrices"]: (float(row["worst_units"]), int(row["nonfinite_wrong"])) for row in rows
    }


def test_errors_in_strict_fp32_do_not_depend_on_the_magnitudes(errors):
    rows = rows_of(errors, ranges.STRICT)
    assert len(rows) == len(ranges.MATRICES)
    assert {wrong for _, wrong in rows.values()} == {0}
    worst = [units for units, _ in rows.values()]
    assert min(worst) == pytest.approx(max(worst), rel=0.01)
    assert max(worst) < ranges.N


@pytest.mark.parametrize("variant", ranges.TENSOR)
def test_tensor_cores_handle_large_and_small_matrices_but_not_graded_rows(errors, variant):
    rows = rows_of(errors, variant)
    usual = rows["uniform in [-1, 1)"]
    assert rows["times 2^40"] == rows["times 2^-40"] == usual
    assert usual[0] < 4
    assert rows[GRADED][0] > 100 * usual[0]
    assert rows[INFINITE][1] == ranges.N, "a row of C is NaN instead of infinite"
    assert rows["one NaN in A"][1] == 0


def test_tf32_rounds_operands_to_ten_bits(errors):
    rows = rows_of(errors, ranges.TF32)
    assert 500 < rows["uniform in [-1, 1)"][0] < 2**13
    numbers = np.array([1, 1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -(2.0**-140)], np.float32)
    rounded = [1, 1 + 2.0**-10, 1, 1 + 2.0**-9]
    assert list(ranges._tf32(numbers)[:4]) == rounded
    assert np.isnan(ranges._tf32(np.array([np.nan], np.float32))[0])


def test_the_table_of_ranges_has_the_throughput_on_each_gpu(computed, tmp_path):
    path, summary = tmp_path / "ranges.csv", Store(computed)["summary"]
    path.write_text("variant,matrices,worst_units,nonfinite_wrong\nnaive,uniform,2.5,0\n")
    table = ranges_table(path, summary)
    assert list(table["gpu"]) == ["card"]
    assert table["worst_units"].item() == 2.5
    cells = summary.query("variant == 'naive' and n == 2048 and gpu == 'card'")
    assert table["kernel_flop_per_s"].item() == cells["kernel_flop_per_s"].max()
    assert ranges_table(None, summary).empty
    assert ranges_table(path, summary[summary["gpu"].isna()]).empty
