"""Kernels compared with the ceilings of their GPU: lower bounds of the time, and the largest."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.ceilings import ceilings_table
from analysis.kernels.roofline import _l2_bytes, nearest_bound, roofline_table
from tests.support.products import product_of
from tests.support.report_data import frame, only, theory

N = 2048
FLOP = 2 * N**3


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    products = [product_of("naive", N, block) for block in (8, 32)] + [product_of("block", N, 32)]
    return theory(tmp_path_factory.mktemp("counts"), products)


# A build with 64 instructions per 16 steps of k and thread, 2 blocks per multiprocessor.
CODE = {"recording": "card", "architecture": "sm_90", "variant": "block", "dtype": "float32"}
CODE |= {"block_size": 32, "build": "exact", "blocks_per_multiprocessor": 2, "instructions": 100}
CODE |= {"loop_instructions": 64, "loop_fmas": 16}


def roofline_of(recording, counts, code=(CODE,)):
    sources = data.sources({"card": recording})
    known = ceilings_table(sources)
    return roofline_table(sources, known, counts, frame("machine_code", list(code)))


@pytest.fixture(scope="module")
def roofline(gpu_recording, counts):
    return roofline_of(gpu_recording, counts)


def one(roofline, name):
    return only(roofline, variant=name)


def test_each_lower_bound_is_work_divided_by_its_ceiling(roofline, gpu_recording):
    most = ceilings_table(data.sources({"card": gpu_recording}))
    rates = most[most["host_memory"].isna()].set_index("quantity")["value"].to_dict()
    row = one(roofline, "block")
    assert row["block_size"] == 32
    assert row["compute_bound_s"] == pytest.approx(FLOP / rates["fp32_flop_per_s"])
    assert row["dram_bound_s"] == pytest.approx(3 * 4 * N**2 / rates["device_copy_bytes_per_s"])
    pipe = max(rates["l1_bytes_per_s"], rates["shared_bytes_per_s"])
    lines = 2 * N**3 // 32 // 32 + N**2 // 32
    assert row["l1_bound_s"] == pytest.approx(lines * 128 / pipe)
    assert row["flop_per_byte_of_sectors"] == pytest.approx(FLOP / (lines * 4 * 32))
    # a request reads four words of A in two wavefronts, or one word of B's row; tiles are stored
    wavefronts = N**3 // 32 // 4 * 2 + N**3 // 32 + 2 * N**3 // 32 // 32
    assert row["shared_bound_s"] == pytest.approx(wavefronts * 128 / pipe), "with merged loads"
    assert row["pipe_bound_s"] == pytest.approx(row["l1_bound_s"] + row["shared_bound_s"])
    # Two adjacent blocks of 32×32 load 32 rows of A and 64 columns of B.
    moved = 4 * ((N // 32) ** 2 // 2 * (32 + 64) * N + N**2)
    assert row["l2_bound_s"] == pytest.approx(moved / rates["l2_bytes_per_s"])
    clock = rates["l2_latency_cycles"] / rates["l2_latency_s"]
    instructions = N**2 // 32 * (100 + (N / 16 - 1) * 64)
    assert row["issue_bound_s"] == pytest.approx(instructions / (4 * 100 * clock))
    assert row["kernel_flop_per_s"] == FLOP / row["kernel_s"]
    # Each of 32 lanes of the naive kernel uses one sector of another line.
    row = roofline[(roofline["variant"] == "naive") & (roofline["block_size"] == 32)].iloc[0]
    in_sectors = 2 * N**3 / row["flop_per_byte_of_sectors"] / pipe
    assert (row["bound"], row["l1_bound_s"] / in_sectors) == ("l1", pytest.approx(4, rel=0.1))


def test_operands_are_read_from_l2_once_if_all_blocks_run_at_once():
    once, alone = (_l2_bytes(product_of("block", 64, 32), at_once) for at_once in (264, 0))
    assert once == 4 * ((64 + 64) * 64 + 64 * 64), "four blocks of 32×32"
    assert alone == 4 * (4 * (32 + 32) * 64 + 64 * 64)


def test_a_ceiling_limits_a_kernel_only_from_80_percent_of_it():
    for time_s, limited_by in ((1.0, "l1"), (1.24, "l1"), (1.26, None), (100.0, None)):
        found = nearest_bound({"compute": 0.1, "l1": 1.0, "pipe": 1.0}, time_s)
        assert (found["bound"], found.get("limited_by")) == ("l1", limited_by)


def test_a_missing_ceiling_gives_no_bound_and_tensor_kernels_use_theirs(gpu_recording, counts):
    ceilings = gpu_recording.ceilings
    older = ceilings[~ceilings["quantity"].isin(["l1_bytes_per_s", "shared_bytes_per_s"])]
    row = one(roofline_of(replace(gpu_recording, ceilings=older), counts), "block")
    assert row[["l1_bound_s", "shared_bound_s"]].isna().all()
    assert row["bound"] == "issue"
    none = roofline_of(replace(gpu_recording, ceilings=ceilings[:0]), counts)
    assert none[["bound", "bound_s"]].isna().all(axis=None)
    assert none["kernel_flop_per_s"].notna().all()
    variants = gpu_recording.samples["variant"].replace("register_tile", "sgemm_tensor")
    made = replace(gpu_recording, samples=gpu_recording.samples.assign(variant=variants))
    found = data.sources({"card": made})
    known = ceilings_table(found)
    tensor = known[known["quantity"] == "fp32_flop_per_s"]
    tensor = tensor.assign(quantity="fp16_tensor_flop_per_s", value=1e15)
    code = frame("machine_code", [CODE])
    rows = roofline_table(found, pd.concat([known, tensor]), counts, code)
    row = one(rows, "sgemm_tensor")
    assert row["units"] == "tensor cores"
    assert row["compute_bound_s"] == pytest.approx(3 * FLOP / 1e15), "three partial products"
    assert row["share_of_units"] == row["compute_bound_s"] / row["kernel_s"]
    assert one(rows, "block")["units"] == "FP32"
    plain = roofline_table(found, known, counts, code)
    assert pd.isna(one(plain, "sgemm_tensor")["compute_bound_s"])
