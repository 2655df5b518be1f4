"""Speedups over the naive kernel and over the CPU."""

import numpy as np
import pandas as pd
import pytest

from analysis.overview.speedups import speedups
from analysis.schema import renaming
from analysis.stats.estimates import drawn_cells, summarise
from kernels.catalog.baselines import SOURCE_NAIVE, SPEEDUP_BASELINES
from measurement.recording.recording import CELL

TYPES = dict.fromkeys(("batch", "m", "n", "k", "block_size", "threads"), "Int64")
# Device, variant, dtype, n, block size, host memory, threads: medians of total and kernel, seconds.
TIMES = {
    ("gpu0", "naive", "float32", 512, 32, "pinned", None): (8.0, 6.0),
    ("gpu0", "naive", "float32", 512, 16, "pinned", None): (10.0, 9.0),
    ("gpu0", "block", "float32", 512, 16, "pinned", None): (2.0, 1.0),
    ("gpu0", "naive", "float32", 512, 32, "pageable", None): (12.0, 6.0),
    ("gpu0", "block", "float32", 512, 16, "pageable", None): (4.0, 1.5),
    ("gpu0", "buffered_row", "float32", 256, None, "pinned", None): (1.0, 0.5),
    ("cpu", "naive", "float32", 512, None, None, 1): (100.0, np.nan),
    ("cpu", "blocked", "float32", 512, 64, None, 1): (20.0, np.nan),
    ("cpu", "blocked", "float32", 512, 8, None, 1): (30.0, np.nan),
    ("cpu", "blas", "float32", 512, None, None, 1): (10.0, np.nan),
    ("cpu", "blas", "float32", 512, None, None, 16): (1.0, np.nan),
    ("cpu", "packed", "float32", 512, None, None, 16): (1.2, np.nan),
}


def samples_of(times, count=9):
    """Return `count` samples per cell in steps of 1 % around its median."""
    steps = 1 + 0.01 * (np.arange(count) - count // 2)
    rows = [
        (*cell[:3], 1, *[cell[3]] * 3, *cell[4:], total * step, np.nan, 0.0, kernel * step, 0.0)
        for cell, (total, kernel) in times.items()
        for step in steps
    ]
    parts = ["total_s", "host_s", "h2d_s", "kernel_s", "d2h_s"]
    return pd.DataFrame(rows, columns=[*CELL, *parts]).astype(TYPES)


def table_of(samples):
    draws = {part: drawn_cells(samples, f"{part}_s") for part in ("total", "kernel")}
    cells = summarise(samples.assign(in_run_kernel_s=samples["kernel_s"]))
    cells = cells.rename(columns=renaming("in_run_kernel_s", "kernel_s"))
    table = speedups(cells, draws)
    table["block_size"] = table["block_size"].fillna(0)
    return table


def of_cell(table, variant="block", n=512, block_size=16, host_memory="pinned"):
    """Return the rows of a cell by baseline (the naive kernel: by quantity)."""
    keys = {"variant": variant, "n": n, "block_size": block_size, "host_memory": host_memory}
    rows = table[(table[list(keys)] == list(keys.values())).all(axis=1)]
    return rows.set_index(rows["baseline"].mask(rows["baseline"] == SOURCE_NAIVE, rows["quantity"]))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (("naive", 512, 16, "pinned"), {"total": 0.8}),
        (("block", 512, 16, "pinned"), {"total": 4, "kernel": 6, "cpu_naive": 50, "cpu_own": 10}),
        (("block", 512, 16, "pinned"), {"cpu_blas": 5, "cpu_blas_all": 0.5, "cpu_best": 0.5}),
        (("block", 512, 16, "pageable"), {"total": 3, "kernel": 4, "cpu_blas": 2.5}),
    ],
)
def test_speedups_compare_with_each_baseline_in_the_same_host_memory(cell, expected):
    rows = of_cell(table_of(samples_of(TIMES)), *cell)
    assert dict(rows["speedup"][list(expected)]) == pytest.approx(expected)
    decided = rows[rows["verdict"] != "undecided"]
    assert ((decided["verdict"] == "faster") == (decided["speedup"] > 1)).all()


def test_a_baseline_is_the_best_measured_cell_and_has_a_speedup_of_one_over_itself():
    table = table_of(samples_of(TIMES))
    block = of_cell(table)
    assert list(block.index) == ["total", "kernel", *(f"cpu_{name}" for name in SPEEDUP_BASELINES)]
    chosen = block[["baseline_variant", "baseline_block_size", "baseline_threads"]].fillna(0)
    assert list(chosen.loc["cpu_own"]) == ["blocked", 64, 1]
    assert list(chosen.loc["cpu_best"]) == list(chosen.loc["cpu_blas_all"]) == ["blas", 0, 16]
    naive = of_cell(table, "naive", block_size=32).loc[["total", "kernel"]]
    assert (naive[["speedup", "speedup_low", "speedup_high"]] == 1).all(axis=None)
    without = {cell: t for cell, t in TIMES.items() if cell[1] != "blas" and cell[6] != 16}
    block = of_cell(table_of(samples_of(without)))
    assert list(block.index) == ["total", "kernel", "cpu_naive", "cpu_own", "cpu_best"]
    assert list(block.loc["cpu_best", ["baseline_variant", "baseline_threads"]]) == ["blocked", 1]
    assert block.at["cpu_best", "speedup"] == block.at["cpu_own", "speedup"] == pytest.approx(10)
    faster = TIMES | {("cpu", "packed", "float32", 512, None, None, 16): (0.5, np.nan)}
    block = of_cell(table_of(samples_of(faster)))
    assert (block.at["cpu_best", "baseline_variant"], block.at["cpu_own", "speedup"]) == (
        "packed",
        pytest.approx(10),
    )


def test_missing_measurements_give_no_speedup_and_the_unit_of_time_does_not_matter():
    table = table_of(samples := samples_of(TIMES))
    assert of_cell(table, "buffered_row", 256, 0).empty
    without = {cell: t for cell, t in TIMES.items() if cell[0] != "cpu" and cell[1] != "naive"}
    assert table_of(samples_of(without)).empty
    block = of_cell(table_of(samples_of(TIMES, count=5)))
    assert block.at["total", "speedup"] == pytest.approx(4)
    assert block[["speedup_low", "speedup_high"]].isna().all(axis=None)
    assert set(block["verdict"]) == {"no interval"}
    enough = of_cell(table_of(samples_of(TIMES, count=7))).loc["total"]
    # Samples within 3 % of the median: a ratio of medians stays within 1.03/0.97.
    assert 4 * 0.97 / 1.03 <= enough["speedup_low"] < 4
    assert 4 < enough["speedup_high"] <= 4 * 1.03 / 0.97
    others_first = samples.sort_values("n", ascending=False, kind="stable")  # in order of time
    pd.testing.assert_frame_equal(table_of(others_first), table)
    times = ["total_s", "h2d_s", "kernel_s", "d2h_s"]
    scaled = table_of(samples.assign(**{name: samples[name] / 1024 for name in times}))
    pd.testing.assert_frame_equal(scaled, table)
