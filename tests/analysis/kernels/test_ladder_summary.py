"""Summary of the ladder: each kernel with cuBLAS, the GPU's throughput and the previous step."""

import numpy as np
import pandas as pd
import pytest

from analysis.kernels.ladder_summary import ladder_summary_table
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
    | {"share_of_units": share, "traffic_bytes": 1e9, "bound": "shared", "share_of_bound": 0.9}
    for variant, block, share in (("block", 32, 0.25), ("block", 8, 0.5), (LIBRARY, None, 0.75))
]


def drawn(label, rows, quantity):
    """Draws within 1 % of each time."""
    return rows["kernel_s"].to_numpy()[:, None] * np.linspace(0.99, 1.01, 41)[None, :]


def summary_of(**rows):
    return ladder_summary_table({name: frame(name, each) for name, each in rows.items()}, drawn)


@pytest.fixture(scope="module")
def summary():
    return summary_of(summary=CELLS, roofline=ROOFLINE)


def one(summary, variant, gpu="card", block_size=None):
    chosen = summary if block_size is None else summary[summary["block_size"] == block_size]
    return only(chosen, variant=variant, gpu=gpu)


def test_kernels_of_the_catalog_have_their_fastest_block_at_the_largest_size(summary):
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
    assert summary_of(summary=CELLS[-1:], roofline=[]).empty


def test_speedups_and_shares_are_ratios_of_the_throughputs(summary):
    prefixes = [name.replace("-", "_") for name in BASELINES[:-1]]
    for baseline, speedup in (("after", "speedup"), *((p, f"{p}_speedup") for p in prefixes)):
        rows = summary[summary[speedup].notna()]
        assert len(rows) >= 3
        quotient = rows["kernel_flop_per_s"] / rows[f"{baseline}_flop_per_s"]
        assert quotient.to_numpy() == pytest.approx(rows[speedup].to_numpy(), rel=1e-9)
        assert (rows[f"{speedup}_low"] <= rows[speedup]).all()
    block = one(summary, "block")
    assert (block["kernel_flop_per_s"], block["share_of_library"]) == (FLOP / 0.002, 0.0005 / 0.002)
    assert (block["share_of_units"], block["units"], block["bound"]) == (0.25, "FP32", "shared")
    assert (block["traffic_bytes"], block["share_of_bound"]) == (1e9, 0.9)
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
def test_baselines_have_their_fastest_block_size(summary, variant, block, expected):
    row = one(summary, variant, block_size=block)
    names = ("after", "after_block_size", "speedup", "fastest_naive_speedup", "verdict")
    for name, value in zip(names, expected, strict=True):
        near = pytest.approx(value) if isinstance(value, float) else value
        assert row[name] == near if value else pd.isna(row[name]), name


def test_each_named_baseline_is_chosen_at_the_size_of_the_row():
    on_cpu = [cpu_cell("card", name, 2048, time_s) for name, time_s in CPU_S.items()]
    summary = summary_of(summary=[*CELLS, *on_cpu], roofline=ROOFLINE)
    row = one(summary, "block")
    for baseline, variant, block, speedup in (
        *(("fastest_naive", "naive", 8, 4.0), ("source_naive", "naive", 32, 8.0)),
        *(("cublas", LIBRARY, None, 0.25), ("fastest_cpu", "packed", None, 25.0)),
    ):
        assert (row[f"{baseline}_variant"], row["kernel_s"]) == (variant, 0.002)
        of_block = row[f"{baseline}_block_size"]
        assert of_block == block if block else pd.isna(of_block)
        assert row[f"{baseline}_speedup"] == pytest.approx(speedup)
        assert row["kernel_flop_per_s"] / row[f"{baseline}_flop_per_s"] == pytest.approx(speedup)
        assert row[f"{baseline}_verdict"] == ("faster" if speedup > 1 else "slower")
        elsewhere = pd.isna(one(summary, "buffered_row")[f"{baseline}_variant"])
        assert elsewhere == (baseline != "fastest_naive"), "not measured at N = 1024"
        itself = summary[(summary["variant"] == variant) & summary["block_size"].eq(block)]
        assert itself[f"{baseline}_speedup"].isna().all()
