"""Summary of the ladder: each kernel with cuBLAS, the GPU's throughput and the previous step."""

import numpy as np
import pandas as pd
import pytest

from analysis.kernels.ladder_summary import PREVIOUS, ladder_tables
from kernels.catalog.baselines import BASELINES
from kernels.catalog.entries import VARIANTS
from tests.support.report_data import cpu_cell, frame, gpu_cell, only

FLOP = 2 * 2048**3
LIBRARY = "cublas_sgemm"
CPU_S = {"naive": 9.0, "packed": 0.05}


def cell(variant, kernel_s, n=2048, memory="pinned", block_size=32, label="card"):
    row = gpu_cell(label, variant, n, 4 * kernel_s, block_size, memory)
    return row | {"kernel_flop_per_s": 2 * n**3 / kernel_s, "kernel_samples": 20, "samples": 7}


CELLS = [
    cell("block", 0.004, block_size=8),
    cell("block", 0.002),
    cell("block", 0.0001, n=1024),
    cell("block", 0.001, memory="pageable"),
    cell("cublas_sgemm", 0.0005, block_size=None),
    cell("naive", 0.016),
    cell("naive", 0.008, block_size=8),
    cell("naive", 0.0045, n=1024, block_size=8),
    cell("buffered_row", 0.003, n=1024, block_size=None),
    cell("naive_coalesced", 0.004, block_size=8),
    cell("mm_tile", 0.0001),
    cell("block", 0.001, label="other", memory="pageable"),
    cpu_cell("card", "naive", 4096, 1.0),
]
ROOFLINE = [
    {"gpu": "card", "variant": variant, "n": 2048, "block_size": block, "units": "FP32"}
    | {"share_of_units": share, "bound": "shared", "share_of_bound": 0.9}
    for variant, block, share in (("block", 32, 0.25), ("block", 8, 0.5), (LIBRARY, None, 0.75))
]


def drawn(label, rows, quantity):
    """Draws within 1 % of each time."""
    return rows["kernel_s"].to_numpy()[:, None] * np.linspace(0.99, 1.01, 41)[None, :]


def tables_of(**rows):
    return ladder_tables({name: frame(name, each) for name, each in rows.items()}, drawn)


@pytest.fixture(scope="module")
def made():
    return tables_of(summary=CELLS, roofline=ROOFLINE)


@pytest.fixture
def summary(made):
    return made["ladder_summary"]


def one(summary, variant, gpu="card", block_size=None):
    chosen = summary if block_size is None else summary[summary["block_size"] == block_size]
    return only(chosen, variant=variant, gpu=gpu)


def test_the_summary_has_each_kernel_with_its_fastest_block_at_its_largest_size(summary):
    own = list(summary.loc[summary["gpu"] == "card", "variant"])
    assert own == ["naive", "naive", "naive_coalesced", "buffered_row", "block", "cublas_sgemm"]
    assert list(dict.fromkeys(own)) == [name for name in VARIANTS if name in own]
    assert list(summary["gpu"]) == ["card"] * 6 + ["other"]
    assert summary["idea"].map(len).min() > 0
    assert list(summary["is_library"]) == [False] * 5 + [True, False]
    assert list(summary.loc[summary["is_fastest"], "variant"]) == ["block"]
    block = one(summary, "block")
    assert (block["n"], block["block_size"], block["kernel_s"]) == (2048, 32, 0.002)
    assert (block["kernel_low_s"], block["samples"]) == (0.00198, 20)
    naive = summary[summary["variant"] == "naive"]
    assert list(naive["block_size"]) == [32, 8], "the source's launch, then the fastest"
    assert one(summary, "buffered_row")["n"] == 1024
    assert one(summary, "block", "other")["kernel_s"] == 0.001, "only pageable memory"
    assert all(table.empty for table in tables_of(summary=CELLS[-1:], roofline=[]).values())


def test_speedups_and_shares_are_ratios_of_throughputs(made, summary):
    compared = summary.merge(made["ladder_speedups"].dropna(subset="speedup"))
    assert compared["baseline"].value_counts().min() >= 3
    assert {*compared["baseline"]} == {PREVIOUS, *BASELINES[:-1]}
    quotient = compared["kernel_flop_per_s"] / compared["baseline_flop_per_s"]
    assert quotient.to_numpy() == pytest.approx(compared["speedup"].to_numpy(), rel=1e-9)
    assert (compared["speedup_low"] <= compared["speedup"]).all()
    block = one(summary, "block")
    assert (block["kernel_flop_per_s"], block["share_of_library"]) == (FLOP / 0.002, 0.0005 / 0.002)
    assert (block["share_of_units"], block["units"], block["bound"]) == (0.25, "FP32", "shared")
    assert block["share_of_bound"] == 0.9
    library = one(summary, "cublas_sgemm")  # without a block size
    assert (library["share_of_units"], library["share_of_library"]) == (0.75, 1)
    assert pd.isna(one(summary, "buffered_row")["share_of_library"]), "not measured at its size"
    assert one(summary, "block", "other")[["share_of_units", "share_of_library"]].isna().all()


@pytest.mark.parametrize(
    ("variant", "block", "expected"),
    [
        ("naive", 32, (None, None, None, 0.5, None)),
        ("naive", 8, ("naive", 32, 2.0, None, "faster")),
        ("naive_coalesced", 8, ("naive", 8, 2.0, 2.0, "faster")),  # not over 32×32: 4.0
        ("block", 32, ("naive_coalesced", 8, 2.0, 4.0, "faster")),
        ("buffered_row", None, ("naive", 8, 1.5, 1.5, "faster")),  # at N = 1024
    ],
)
def test_a_baseline_has_its_fastest_block_size_for_each_kernel(made, variant, block, expected):
    rows = made["ladder_speedups"]
    rows = rows[(rows["gpu"] == "card") & (rows["variant"] == variant)]
    rows = rows[rows["block_size"].isna() if block is None else rows["block_size"] == block]
    by_baseline = rows.set_index("baseline")
    over_naive = by_baseline.at["fastest-naive", "speedup"]
    names = ("baseline_variant", "baseline_block_size", "speedup", "verdict")
    step = [None] * 4 if expected[0] is None else list(by_baseline.loc[PREVIOUS, list(names)])
    for value, wanted in zip((*step[:3], over_naive, step[3]), expected, strict=True):
        near = pytest.approx(wanted) if isinstance(wanted, float) else wanted
        assert value == near if wanted else pd.isna(value)


def test_each_baseline_is_chosen_at_the_matrix_size_of_the_row():
    on_cpu = [cpu_cell("card", name, 2048, time_s) for name, time_s in CPU_S.items()]
    tables = tables_of(summary=[*CELLS, *on_cpu], roofline=ROOFLINE)
    rate = one(tables["ladder_summary"], "block")["kernel_flop_per_s"]
    for baseline, variant, block, speedup in (
        ("fastest-naive", "naive", 8, 4.0),
        ("source-naive", "naive", 32, 8.0),
        ("cublas", LIBRARY, None, 0.25),
        ("fastest-cpu", "packed", None, 25.0),
    ):
        rows = tables["ladder_speedups"]
        rows = rows[rows["baseline"] == baseline]
        row = one(rows, "block")
        assert row["baseline_variant"] == variant
        of_block = row["baseline_block_size"]
        assert of_block == block if block else pd.isna(of_block)
        assert row["speedup"] == pytest.approx(speedup)
        assert rate / row["baseline_flop_per_s"] == pytest.approx(speedup)
        assert row["verdict"] == ("faster" if speedup > 1 else "slower")
        elsewhere = (rows["variant"] == "buffered_row").any()
        assert elsewhere == (baseline == "fastest-naive"), "not measured at N = 1024"
        itself = rows[(rows["variant"] == variant) & rows["block_size"].eq(block)]
        assert itself["speedup"].isna().all()
