"""The audit of the published numbers: its findings, all of which follow from the tables."""

import numpy as np
import pandas as pd
import pytest

from analysis.data import published
from analysis.published.audit import audit_tables, fit_constant
from tests.support.report_data import PUBLISHED, STATEMENTS, only

TIMES, STATED = published.read(PUBLISHED), published.read_statements(STATEMENTS)
ROW_AT_1024 = {"table": 4, "implementation": "gpu_buffered_row", "n": 1024}
UNROLLED = {"table": 6, "implementation": "gpu_block_unroll4"}


@pytest.fixture(scope="module")
def audited():
    return audit_tables(TIMES, STATED)


def changed(column, value, **where):
    """Return the tables after one column of one published cell was changed."""
    chosen = pd.Series(True, TIMES.index)
    for name, wanted in where.items():
        chosen &= (TIMES[name] == wanted).fillna(False)
    assert (chosen.sum(), (TIMES.loc[chosen, column] == value).any()) == (1, False), where
    return audit_tables(TIMES.assign(**{column: TIMES[column].mask(chosen, value)}), STATED)


def one(tables, name, **where):
    """Return the only row of a table of the audit with these values."""
    return only(tables[f"audit_{name}"], **where)


def test_printed_throughputs_follow_from_the_printed_times(audited):
    printed = audited["audit_cells"].dropna(subset="printed_flop_per_s")
    assert len(printed) == 25
    assert printed["rate_agrees"].all()
    row = one(audited, "cells", **ROW_AT_1024)
    assert row["flop_per_s"] == 2 * 1024**3 / 0.12
    bounds = (row["flop_per_low_s"], row["flop_per_high_s"])
    assert bounds == pytest.approx((17.18e9, 18.67e9), 1e-3)
    for column, value in (("gflops_printed", 19.9), ("time_s", 0.15)):
        cells = changed(column, value, **ROW_AT_1024)["audit_cells"]
        (wrong,) = cells[cells["rate_agrees"].eq(False)].to_dict("records")
        assert {name: wrong[name] for name in ROW_AT_1024} == ROW_AT_1024


def test_start_up_constants_give_bounds_of_the_speedups_without_them(audited):
    cold = one(audited, "constants", first_table=2, last_table=5)
    assert cold["constant_s"] == pytest.approx(0.0542, abs=5e-5)
    bounds = (cold["constant_low_s"], cold["constant_high_s"])
    assert bounds == pytest.approx((0.0527, 0.0557), 1e-3)
    warm = one(audited, "constants", first_table=6)
    assert warm["shortest_s"] < cold["constant_low_s"], "Table 6 does not hold the constant"
    row = one(audited, "cells", **ROW_AT_1024)
    assert row["speedup_without_constant"] == pytest.approx(2.37, abs=5e-3)
    bounds = [row[f"speedup_without_constant_{end}"] for end in ("low", "high")]
    assert bounds == pytest.approx([2.11, 2.69], abs=5e-3)
    assert row["m0_limit"] == pytest.approx(2, rel=1e-3)
    row = one(audited, "cells", **UNROLLED, n=256, block_size=16)
    assert row["speedup_without_constant"] == pytest.approx((0.055 - 0.0542) / 0.0005, rel=0.1)
    assert row["speedup"] == 0.055 / 0.0005
    cold = {"first_table": 2, "last_table": 5}
    before = one(audited, "constants", **cold)
    cell = {"table": 5, "implementation": "gpu_block", "n": 256, "block_size": 32}
    after = one(changed("time_s", 0.071, **cell), "constants", **cold)
    assert after["least_n_near"] == before["least_n_near"] - 1 == 6
    for time_s, above in ((0.15, [False, False]), (0.13, [False, True])):
        row = one(changed("time_s", time_s, **ROW_AT_1024), "cells", **ROW_AT_1024)
        bounds = [row[f"speedup_without_constant_{end}"] for end in ("low", "high")]
        assert [bound > row["m0_limit"] for bound in bounds] == above


def test_the_audit_compares_the_stated_highest_throughput_and_the_cpu_columns(audited):
    (row,) = audited["audit_headline"].to_dict("records")
    assert (row["n"], row["headline_flop_per_s"], row["time_s"]) == (2048, 344e9, 0.058)
    assert row["headline_s"] == pytest.approx(0.0499, abs=5e-5)
    assert row["flop_per_s"] == pytest.approx(296.2e9, rel=1e-4)
    assert (row["copies"], row["copy_bytes"]) == (3, 4 * 2048**2)
    assert row["copies_bytes_per_s"] == pytest.approx(6.25e9, rel=1e-2)
    for time_s, low, high in ((0.051, 30e9, 100e9), (0.0499, 1e12, np.inf)):  # less for copies
        row = one(changed("time_s", time_s, **UNROLLED, n=2048, block_size=32), "headline")
        assert row["time_s"] == time_s
        assert max(low, row["link_bytes_per_s"]) < row["copies_bytes_per_s"] <= high
    row = one(audited, "cpu", table=2)
    assert (row["n"], row["cpu_time_s"], row["verdict"]) == (2048, 103, "naive")
    assert row["cpu_flop_per_s"] == pytest.approx(0.1668e9, rel=1e-3)
    assert (row["over_headline"], row["stated_speedup"]) == (pytest.approx(2062, rel=1e-3), 2000)
    cell = {"table": 2, "implementation": "cpu_naive", "n": 2048}
    for time_s, verdict in ((3.1, "as captioned"), (20, "neither")):
        assert one(changed("time_s", time_s, **cell), "cpu", table=2)["verdict"] == verdict


@pytest.mark.parametrize(
    ("statement", "value", "table", "column", "expected"),
    [
        ("best_flop_per_s", 300e9, "headline", "headline_s", 0.0573),
        ("link_bytes_per_s", 4e9, "headline", "link_bytes_per_s", 4e9),
        ("speedup_over_cpu", 3000, "cpu", "stated_speedup", 3000),
        ("tuned_cpu_speedup", 10, "cpu", "verdict", "neither"),
        ("tuned_cpu_most_flop_per_s", 7e9, "cpu", "tuned_most_flop_per_s", 7e9),
        ("tuned_cpu_least_flop_per_s", 1e8, "cpu", "verdict", "as captioned"),
    ],
)
def test_changing_a_number_in_the_text_of_the_source_changes_the_audit(
    audited, statement, value, table, column, expected
):
    bent = audit_tables(TIMES, {**STATED, statement: published.Statement(2048, value, 0.0)})
    before, after = (found[f"audit_{table}"].iloc[-1][column] for found in (audited, bent))
    assert before != after
    assert after == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-3))


def test_the_audit_lists_inconsistent_pairs_of_printed_times_if_there_are_any(audited):
    pairs = audited["audit_pairs"]
    row = pairs[(pairs["n"] == 512) & (pairs["block_size"] == 8) & (pairs["table"] == 5)]
    row = row[row["other_block_size"] == 16].iloc[0]
    assert (row["time_s"], row["other_time_s"], row["differs"]) == (0.055, 0.059, True)
    assert row["is_empty"], "nothing is left above the constant"

    def faster(tables):
        return tables["audit_pairs"]["differs"].sum()

    block = {"table": 5, "implementation": "gpu_block", "n": 512, "block_size": 8}
    assert faster(audited) == 4
    assert faster(changed("time_s", 0.0595, **block)) == 2, "no longer than of B = 16 and 32"
    found = audit_tables(TIMES.query("implementation == 'cpu_naive' and n == 256"), STATED)
    assert found["audit_cells"]["rate_agrees"].notna().sum() == 2
    for name in ("constants", "headline", "pairs"):
        assert found[f"audit_{name}"].empty, name
        assert len(found[f"audit_{name}"].columns) > 5
    assert set(found["audit_cpu"]["verdict"]) == {"neither"}


def kernels(rng, constant=0.05, noise=0.03, count=7):
    """Return number, n and time of kernels with a constant and a cost that grows with n³."""
    sizes = np.array([256.0, 512.0, 1024.0, 2048.0])
    number, n = np.repeat(np.arange(count), len(sizes)), np.tile(sizes, count)
    cost = rng.uniform(2e-11, 3e-10, count)[number]
    return number, n, (constant + cost * n**3) * np.exp(noise * rng.standard_normal(len(n)))


@pytest.mark.exhaustive
def test_intervals_cover_a_known_start_up_constant():
    inside = 0
    for seed in range(100):
        fitted = fit_constant(*kernels(np.random.default_rng(seed)))
        assert fitted.value == pytest.approx(0.05, rel=0.1)
        inside += fitted.low <= 0.05 <= fitted.high
    assert 88 <= inside <= 100


def test_the_start_up_constant_scales_with_the_unit_of_time_and_needs_two_kernels():
    number, n, time_s = kernels(np.random.default_rng(1), noise=0.005)
    steep = number == 0
    time_s[steep] = 0.05 + 1e-13 * n[steep] ** 4
    assert fit_constant(number, n, time_s).value == pytest.approx(0.05, rel=0.02)
    number, n, time_s = kernels(np.random.default_rng(2))
    own, scaled = (fit_constant(number, n, f * time_s) for f in (1.0, 1e3))
    assert scaled.value == pytest.approx(1e3 * own.value, rel=1e-3)
    assert scaled.high / scaled.low == pytest.approx(own.high / own.low, rel=0.01)
    fitted = fit_constant(*kernels(np.random.default_rng(3), count=1))
    assert fitted.value == pytest.approx(0.05, rel=0.1)
    assert np.isnan([fitted.low, fitted.high]).all()
