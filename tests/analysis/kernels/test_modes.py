"""Modes of the library beside the mode of reference."""

import math
from dataclasses import replace

import pytest

from analysis.data import recordings as data
from analysis.kernels.modes import modes_table
from kernels.catalog.entries import CONTEXT, REFERENCE
from measurement.recording.recording import read
from tests.support.simulated import SPEEDUP, recorded

SMALL = {"sizes": (256, 512), "holdout": (), "variants": ["naive", REFERENCE], "complete": True}


@pytest.fixture(scope="module")
def made():
    return read(recorded(**SMALL))


def test_each_mode_of_the_library_has_its_time_speedup_and_error(made):
    table = modes_table(data.sources({"card": made})).set_index("variant")
    assert set(table.index) == {REFERENCE, *CONTEXT}
    assert set(table["n"]) == {512}, "other modes were measured at this size only"
    assert (table.at[REFERENCE, "mode"], table.at[REFERENCE, "speedup"]) == ("pedantic FP32", 1)
    row = table.loc["cublas_bf16"]
    assert row["speedup"] == pytest.approx(SPEEDUP["cublas_bf16"] / SPEEDUP[REFERENCE], rel=0.01)
    assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    assert row["kernel_flop_per_s"] == pytest.approx(2 * 512**3 / row["kernel_s"])
    assert row["samples"] == 10
    # The simulated checks have an error of 1 % of the bound.
    assert table.at[REFERENCE, "worst_units"] == pytest.approx(0.01 * 512, rel=1e-3)
    assert row["worst_units"] == pytest.approx(0.01 * (2**17 + 2**8 + 2 * 512), rel=1e-3)


def test_answers_of_the_report_use_only_the_reference_mode_of_cublas(made):
    (source,) = data.sources({"card": made})
    assert set(source.cells["variant"]) >= CONTEXT
    assert not set(source.square_cells["variant"]) & CONTEXT


def test_the_table_of_modes_is_empty_if_only_one_mode_was_measured(made):
    def without(name):
        frame = getattr(made, name)
        return frame[~frame["variant"].isin(CONTEXT)]

    few = {name: without(name) for name in ("samples", "kernels", "checks")}
    assert modes_table(data.sources({"card": replace(made, **few)})).empty
    no_errors = made.checks.assign(worst_bound=math.nan)
    table = modes_table(data.sources({"card": replace(made, checks=no_errors)}))
    assert table["worst_units"].isna().all()
