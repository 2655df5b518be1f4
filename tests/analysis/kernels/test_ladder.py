"""Steps: speedups over the previous step, verdicts, and changes in the machine code."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.kernels import counts
from analysis.kernels.ladder import _FACTS, changed, ladder_table
from analysis.kernels.machine_code import machine_code_table
from analysis.kernels.properties import sustained_table
from kernels.catalog.entries import VARIANTS
from measurement.recording.recording import KERNEL, read
from tests.support.report_data import only
from tests.support.simulated import FEW, SPEEDUP, recorded


def steps_of(recording):
    recordings = {"card": recording}
    tables = data.builds_table(recordings), data.instructions_table(recordings)
    code = machine_code_table(*tables, counts.counts_table(counts.read([]), []))
    found = data.sources(recordings)
    return ladder_table(found, code, sustained_table(found))


@pytest.fixture(scope="module")
def steps(gpu_recording):
    return steps_of(gpu_recording)


def one(steps, name, n=2048, quantity="kernel", memory="pinned", dtype="float32"):
    where = {"n": n, "quantity": quantity, "host_memory": memory, "dtype": dtype}
    return only(steps, variant=name, **where)


def test_ladder_steps_have_a_row_per_type_and_shape_and_list_the_changes_of_the_build(steps):
    after = steps["variant"].map(lambda name: VARIANTS[name].after)
    assert (steps["after"] == after.where(after != "sgemm_top", "register_tile_async")).all()
    keys = ["gpu", "variant", "dtype", "batch", "m", "n", "k", "host_memory", "quantity"]
    assert not steps.duplicated(keys).any()
    known = [name for name, v in VARIANTS.items() if getattr(v, "theory", True)]
    expected = [name for name in known if VARIANTS[name].after and not VARIANTS[name].fixed_blocks]
    assert list(dict.fromkeys(steps["variant"])) == expected
    rows = steps[(steps["variant"] == "mm_tile") & (steps["quantity"] == "kernel")]
    assert (set(rows["dtype"]), set(rows["n"])) == ({"int32", "float32", "float64"}, {65, 256})
    assert set(steps[steps["variant"] == "bmm_tile"]["batch"]) == {3}
    padded = steps[steps["variant"] == "block_padded"]
    assert (set(padded["n"]), set(padded["after"])) == ({250}, {"block"})
    text = one(steps, "block_unroll4")["changed"]
    shares = "occupancy 50 → 75 %; FMAs of the loop 32 → 51.2 %"
    assert text == f"registers per thread 38 → 40; {shares}"
    assert one(steps, "block_strided")["changed"] == "", "its build is unknown"
    assert one(steps, "cublas_sgemm")["changed"] == "", "a library has no build"
    before = {column: 1.0 for column, _ in _FACTS}
    assert changed(before, before) == ""
    after = before | {"widest_shared_loads_bits": 128, "occupancy": 0.25, "unrolling": None}
    assert changed(before, after) == "occupancy 100 → 25 %; widest shared load 1 → 128 bits"


def test_a_step_of_the_ladder_is_compared_with_its_nearest_measured_predecessor(
    steps, gpu_recording
):
    known = (("block_unroll4", 3.0, "faster"), ("block_strided", 0.5, "slower"))
    for name, speedup, verdict in known:
        row = one(steps, name)
        assert row["speedup"] == row["after_time_s"] / row["time_s"]
        assert row["speedup"] == pytest.approx(speedup, rel=0.02)
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
        cell = f"variant == '{name}' and n == 2048 and block_size == 32"
        time_s = gpu_recording.kernels.query(cell)["kernel_s"].median()
        assert (row["time_s"], row["verdict"]) == (time_s, verdict)
    assert VARIANTS["cublas_sgemm"].after == "sgemm_top"
    row = one(steps, "cublas_sgemm")
    assert row["after"] == VARIANTS["sgemm_top"].after == "register_tile_async"
    ratio = SPEEDUP["cublas_sgemm"] / SPEEDUP["register_tile_async"]
    assert row["speedup"] == pytest.approx(ratio, rel=0.02)
    kernel, total = (one(steps, "tile_transposed_b", quantity=q) for q in ("kernel", "total"))
    assert kernel["verdict"] == "faster"
    assert total["verdict"] == "slower", "transposing takes longer than it saves"
    few = read(recorded(sizes=(256,), holdout=(), samples=5, variants=FEW))
    few = replace(few, kernels=few.kernels.groupby(KERNEL, dropna=False).head(5))
    row = one(steps_of(few), "block_unroll4", n=256)
    assert row["speedup"] == pytest.approx(3, rel=0.05)
    assert (row["verdict"], pd.isna(row["speedup_low"])) == ("no interval", True)


def test_both_sides_of_a_step_have_the_same_or_their_fastest_block_size(steps, gpu_recording):
    both = steps[steps["block_size"].notna() & steps["after_block_size"].notna()]
    assert (both["block_size"] == both["after_block_size"]).all()
    sizes = both.groupby("variant")["block_size"].unique().map(list).to_dict()
    of_page = ("tile_uncoalesced", "tile_transposed_b", "tile_conflict_free")
    assert {tuple(sizes.pop(name)) for name in of_page} == {(16,)}
    assert set(map(tuple, sizes.values())) == {(32,)}
    (source,) = data.sources({"card": gpu_recording})
    cell = "variant == 'tile_conflict_free' and n == 2048 and host_memory == 'pinned'"
    cells = source.cells.query(cell)
    row = one(steps, "outer_product")
    fastest = cells.loc[cells["kernel_s"].idxmin(), ["block_size", "kernel_s"]]
    assert list(row[["after_block_size", "after_time_s"]]) == list(fastest)
    samples = gpu_recording.samples
    gone = (samples["variant"] == "block") & (samples["block_size"] == 32)
    made = replace(gpu_recording, samples=samples[~gone])
    assert one(steps_of(made), "block_unroll4")["block_size"] == 16, "the largest common one"
