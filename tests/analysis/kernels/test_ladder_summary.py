"""Summary of the ladder: each kernel with cuBLAS, the GPU's throughput and the previous step."""

import pandas as pd
import pytest

from analysis.kernels.ladder_summary import ladder_summary_table
from kernels.catalog.entries import VARIANTS
from tests.support.report_data import cpu_cell, frame, gpu_cell, interval, only, square

FLOP = 2 * 2048**3
LIBRARY = "cublas_sgemm"


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
    cell("buffered_row", 0.003, n=1024, block_size=None),
    cell("naive_coalesced", 0.004, block_size=8),
    cell("mm_tile", 0.0001),
    cell("block", 0.001, label="other", memory="pageable"),
    cpu_cell("card", "naive", 4096, 1.0),
]
STEP = {"gpu": "card", "variant": "block", "host_memory": "pinned", "dtype": "float32"}
STEP |= {"verdict": "faster", **square(2048), **interval("speedup", 8.0, 0.01)}
LADDER = [
    STEP | {"quantity": "total", "speedup": 3.0},
    STEP | {"quantity": "kernel", "host_memory": "pageable", "speedup": 4.0},
    STEP | {"quantity": "kernel", "gpu": "other", "speedup": 5.0},
    STEP | {"quantity": "kernel", "m": 17, "speedup": 6.0},
    STEP | {"quantity": "kernel"},
]
# Speedups over the naive kernel in blocks of 32×32.
SPEEDUPS = [
    {"source": "card", "variant": variant, "n": n, "block_size": block, "host_memory": memory}
    | interval("kernel_speedup", speedup, 0.01)
    for variant, n, block, memory, speedup in (
        ("buffered_row", 1024, None, "pinned", 1.5),
        ("buffered_row", 1024, None, "pageable", 9.0),
        ("naive_coalesced", 2048, 8, "pinned", 2.0),
        ("naive_coalesced", 2048, 32, "pinned", 3.0),
        ("block", 2048, 32, "pinned", 30.0),
    )
]
ROOFLINE = [
    {"gpu": "card", "variant": variant, "n": 2048, "block_size": block, "units": "FP32"}
    | {"share_of_units": share, "traffic_bytes": 1e9, "bound": "shared", "share_of_bound": 0.9}
    for variant, block, share in (("block", 32, 0.25), ("block", 8, 0.5), (LIBRARY, None, 0.75))
]


def summary_of(**rows):
    return ladder_summary_table({name: frame(name, each) for name, each in rows.items()})


@pytest.fixture(scope="module")
def summary():
    return summary_of(summary=CELLS, ladder=LADDER, roofline=ROOFLINE, speedups=SPEEDUPS)


def one(summary, variant, gpu="card"):
    return only(summary, variant=variant, gpu=gpu)


def test_kernels_are_listed_with_their_idea_in_the_sequence_of_the_catalog(summary):
    own = list(summary.loc[summary["gpu"] == "card", "variant"])
    assert own == ["naive", "naive_coalesced", "buffered_row", "block", "cublas_sgemm"]
    assert own == [name for name in VARIANTS if name in own]
    assert list(summary["gpu"]) == ["card"] * 5 + ["other"]
    assert summary["idea"].map(len).min() > 0
    assert list(summary["is_library"]) == [False, False, False, False, True, False]


def test_a_kernel_has_its_fastest_block_size_at_its_largest_size(summary):
    block = one(summary, "block")
    assert (block["n"], block["block_size"], block["kernel_s"]) == (2048, 32, 0.002)
    assert (block["kernel_low_s"], block["samples"]) == (0.00198, 20)
    assert one(summary, "naive")["block_size"] == 32, "the source's launch, not the fastest"
    assert one(summary, "buffered_row")["n"] == 1024
    assert one(summary, "block", "other")["kernel_s"] == 0.001, "only pageable memory"


def test_throughput_and_speedup_are_those_of_the_same_kernel_and_size(summary):
    block = one(summary, "block")
    assert (block["kernel_flop_per_s"], block["share_of_library"]) == (FLOP / 0.002, 0.0005 / 0.002)
    assert (block["share_of_units"], block["units"], block["bound"]) == (0.25, "FP32", "shared")
    assert (block["traffic_bytes"], block["share_of_bound"]) == (1e9, 0.9)
    library = one(summary, "cublas_sgemm")  # without a block size
    assert (library["share_of_units"], library["share_of_library"]) == (0.75, 1)
    assert pd.isna(one(summary, "buffered_row")["share_of_library"]), "not measured at its size"
    assert one(summary, "block", "other")[["share_of_units", "share_of_library"]].isna().all()
    block = one(summary, "block")
    step = ["after", "speedup", "verdict"]
    bounds = ["speedup_low", "speedup_high"]
    assert list(block[step + bounds]) == ["naive_coalesced", 8.0, "faster", 7.92, 8.08]
    assert pd.isna(one(summary, "naive")["speedup"])
    buffered, coalesced = one(summary, "buffered_row"), one(summary, "naive_coalesced")
    assert list(buffered[step]) == ["naive", 1.5, "faster"]
    assert coalesced["speedup"] == 2.0, "of the same block size"
    assert pd.isna(one(summary, "cublas_sgemm")["verdict"]), "not measured"


def test_without_a_gpu_it_is_empty():
    assert summary_of(summary=CELLS[-1:], ladder=[], roofline=[], speedups=[]).empty
