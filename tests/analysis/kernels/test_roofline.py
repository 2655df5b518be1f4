"""Kernels compared with the ceilings of their GPU: lower bounds of the time, and the largest."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import ceilings
from analysis.data import recordings as data
from analysis.kernels.roofline import BOUNDS, roofline_table
from tests.support.products import product_of
from tests.support.report_data import only, rewritten, theory

N = 2048
FLOP = 2 * N**3
MATRICES = 3 * 4 * N**2


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    products = [product_of(name, N, 32) for name in ("naive", "block")]
    return theory(tmp_path_factory.mktemp("counts"), products)


def roofline_of(recording, counts):
    sources = data.sources({"card": recording})
    return roofline_table(sources, ceilings.ceilings_table(sources), counts)


@pytest.fixture(scope="module")
def roofline(gpu_recording, counts):
    return roofline_of(gpu_recording, counts)


@pytest.fixture(scope="module")
def rates(gpu_recording):
    most = ceilings.ceilings_table(data.sources({"card": gpu_recording}))
    return most[most["host_memory"].isna()].set_index("quantity")["value"].to_dict()


def one(roofline, name):
    return only(roofline, variant=name)


def test_each_variant_has_a_row_at_its_largest_size(roofline, gpu_recording):
    (source,) = data.sources({"card": gpu_recording})
    gpu = source.square_cells[source.square_cells["device"] != "cpu"]
    largest = gpu.groupby("variant")["n"].max().to_dict()
    assert roofline.set_index("variant")["n"].to_dict() == largest
    assert (largest["buffered_row"], set(roofline["host_memory"])) == (1024, {"pinned"})
    assert one(roofline, "naive")["block_size"] == 32, "the source's launch"


def test_bounds_and_balance_are_work_over_ceilings(roofline, rates):
    row = one(roofline, "block")
    assert row["block_size"] == 32
    assert row["compute_bound_s"] == pytest.approx(FLOP / rates["fp32_flop_per_s"])
    assert row["dram_bound_s"] == pytest.approx(MATRICES / rates["device_copy_bytes_per_s"])
    sectors = 2 * N**3 // 32 // 32 * 4 + N**2 // 8
    assert row["l1_bound_s"] == pytest.approx(sectors * 32 / rates["l1_bytes_per_s"])
    assert row["flop_per_byte_of_sectors"] == pytest.approx(FLOP / (sectors * 32))
    # a request reads four words of A in two wavefronts, or one word of B's row; tiles are stored
    wavefronts = N**3 // 32 // 4 * 2 + N**3 // 32 + 2 * N**3 // 32 // 32
    shared = wavefronts * 128 / rates["shared_bytes_per_s"]
    assert row["shared_bound_s"] == pytest.approx(shared), "with merged loads"
    assert row["kernel_flop_per_s"] == FLOP / row["kernel_s"]
    balance = rates["fp32_flop_per_s"] / rates["device_copy_bytes_per_s"]
    assert set(roofline["balance_flop_per_byte"]) == {balance}


def test_the_bound_is_the_largest_of_those_known(roofline):
    for row in roofline.to_dict("records"):
        bounds = {name: row[f"{name}_bound_s"] for name in BOUNDS}
        assert row["bound_s"] == bounds[row["bound"]] == pd.Series(bounds).max()
        assert row["share_of_bound"] == row["bound_s"] / row["kernel_s"]
    assert (one(roofline, "naive")["bound"], one(roofline, "block")["bound"]) == ("l1", "shared")
    row = one(roofline, "cublas_sgemm")
    assert row[["l1_bound_s", "shared_bound_s", "flop_per_byte_of_sectors"]].isna().all()
    assert row["bound"] == "compute"


@pytest.mark.slow
def test_missing_ceilings_of_older_recordings_give_no_bound(gpu_recording, counts, tmp_path):
    ceilings = gpu_recording.ceilings
    older = ceilings[~ceilings["quantity"].isin([BOUNDS["l1"], BOUNDS["shared"]])]
    made = roofline_of(rewritten(gpu_recording, tmp_path / "a", ceilings=older), counts)
    row = one(made, "block")
    assert row[["l1_bound_s", "shared_bound_s"]].isna().all()
    assert row["bound"] == "compute"
    none = roofline_of(rewritten(gpu_recording, tmp_path / "b", ceilings=ceilings[:0]), counts)
    assert none[["bound", "bound_s", "balance_flop_per_byte"]].isna().all(axis=None)
    assert none["kernel_flop_per_s"].notna().all()


def test_a_tensor_kernel_is_bounded_by_its_units(gpu_recording, counts):
    variants = gpu_recording.samples["variant"].replace("register_tile", "sgemm_tensor")
    made = replace(gpu_recording, samples=gpu_recording.samples.assign(variant=variants))
    found = data.sources({"card": made})
    known = ceilings.ceilings_table(found)
    tensor = known[known["quantity"] == "fp32_flop_per_s"]
    tensor = tensor.assign(quantity="fp16_tensor_flop_per_s", value=1e15)
    rows = roofline_table(found, pd.concat([known, tensor]), counts)
    row = one(rows, "sgemm_tensor")
    assert row["units"] == "tensor cores"
    assert row["compute_bound_s"] == pytest.approx(3 * FLOP / 1e15), "three partial products"
    assert row["share_of_units"] == row["compute_bound_s"] / row["kernel_s"]
    assert one(rows, "block")["units"] == "FP32"
    assert pd.isna(one(roofline_table(found, known, counts), "sgemm_tensor")["compute_bound_s"])
