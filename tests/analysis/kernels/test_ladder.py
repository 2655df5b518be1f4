"""Steps: their speedups over the step before, verdicts, and what changed in the machine code."""

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.kernels.counts import counts_table, read
from analysis.kernels.energy import energy_table
from analysis.kernels.ladder import changed, ladder_table
from analysis.kernels.machine_code import machine_code_table
from kernels.catalog.entries import VARIANTS
from tests.support.report_data import rewritten
from tests.support.simulated import SPEEDUP


def steps_of(recording, name="card"):
    recordings = {name: recording}
    code = machine_code_table(
        data.builds_table(recordings),
        data.instructions_table(recordings),
        counts_table(read([]), []),
    )
    found = data.sources(recordings)
    return ladder_table(found, code, energy_table(found))


@pytest.fixture(scope="module")
def steps(gpu_recording):
    return steps_of(gpu_recording)


def one(steps, name, n=2048, quantity="kernel", memory="pinned", dtype="float32"):
    rows = steps[(steps["variant"] == name) & (steps["n"] == n) & (steps["dtype"] == dtype)]
    rows = rows[(rows["quantity"] == quantity) & (rows["host_memory"] == memory)]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def test_every_variant_that_comes_after_another_has_its_steps(steps):
    after = steps["variant"].map(lambda name: VARIANTS[name].after)
    assert (steps["after"] == after.where(after != "sgemm_top", "register_tile_async")).all()
    keys = ["gpu", "variant", "dtype", "batch", "m", "n", "k", "host_memory", "quantity"]
    assert not steps.duplicated(keys).any()
    assert list(dict.fromkeys(steps["variant"])) == [
        name for name, entry in VARIANTS.items() if entry.after and not entry.fixed_blocks
    ]


def test_a_speedup_is_the_time_of_the_step_before_over_its_own(steps, gpu_recording):
    for name, speedup in (("block_unroll4", 3.0), ("block_strided", 0.5)):
        row = one(steps, name)
        assert (
            row["speedup"]
            == row["after_time_s"] / row["time_s"]
            == pytest.approx(speedup, rel=0.02)
        )
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
        samples = gpu_recording.samples
        own = samples[(samples["variant"] == name) & (samples["n"] == 2048)]
        own = own[(own["block_size"] == 32) & (own["host_memory"] == "pinned")]
        assert row["time_s"] == own["in_run_kernel_s"].median()
    assert one(steps, "block_unroll4")["verdict"] == "faster"
    assert one(steps, "block_strided")["verdict"] == "slower"


def test_a_step_is_compared_with_the_last_that_was_measured(steps):
    """Recordings older than a variant have the one before it; the simulated one lacks one."""
    assert VARIANTS["cublas_sgemm"].after == "sgemm_top"
    row = one(steps, "cublas_sgemm")
    assert row["after"] == VARIANTS["sgemm_top"].after == "register_tile_async"
    ratio = SPEEDUP["cublas_sgemm"] / SPEEDUP["register_tile_async"]
    assert row["speedup"] == pytest.approx(ratio, rel=0.02)


def test_totals_hold_what_the_host_does(steps):
    kernel, total = (one(steps, "tile_transposed_b", quantity=q) for q in ("kernel", "total"))
    assert kernel["verdict"] == "faster"
    assert total["verdict"] == "slower", "transposing takes longer than it saves"


def test_both_sides_have_the_same_block_where_both_take_one(steps):
    both = steps[steps["block_size"].notna() & steps["after_block_size"].notna()]
    assert (both["block_size"] == both["after_block_size"]).all()
    sizes = both.groupby("variant")["block_size"].unique().map(list).to_dict()
    of_page = ("tile_uncoalesced", "tile_transposed_b", "tile_conflict_free")
    assert {tuple(sizes.pop(name)) for name in of_page} == {(16,)}
    assert set(map(tuple, sizes.values())) == {(32,)}


def test_a_side_without_block_is_compared_with_the_fastest_of_the_other(steps, gpu_recording):
    (source,) = data.sources({"card": gpu_recording})
    cells = source.cells[(source.cells["variant"] == "tile_conflict_free")]
    cells = cells[(cells["n"] == 2048) & (cells["host_memory"] == "pinned")]
    row = one(steps, "outer_product")
    fastest = cells.loc[cells["kernel_s"].idxmin()]
    assert (row["after_block_size"], row["after_time_s"]) == (
        fastest["block_size"],
        fastest["kernel_s"],
    )


@pytest.mark.slow
def test_where_the_usual_block_is_missing_it_is_the_largest_of_both(gpu_recording, tmp_path):
    samples = gpu_recording.samples
    gone = (samples["variant"] == "block") & (samples["block_size"] == 32)
    made = rewritten(gpu_recording, tmp_path / "less", samples=samples[~gone])
    assert one(steps_of(made), "block_unroll4")["block_size"] == 16


def test_types_of_elements_and_shapes_are_compared_with_their_own(steps):
    rows = steps[(steps["variant"] == "mm_tile") & (steps["quantity"] == "kernel")]
    assert set(rows["dtype"]) == {"int32", "float32", "float64"}
    assert set(rows["n"]) == {65, 256}
    batch = steps[steps["variant"] == "bmm_tile"]
    assert set(batch["batch"]) == {3}
    padded = steps[steps["variant"] == "block_padded"]
    assert (set(padded["n"]), set(padded["after"])) == ({250}, {"block"})


def test_too_few_samples_have_a_speedup_and_no_verdict(make_recording, tmp_path):
    made = make_recording(tmp_path / "few", sizes=(256,), holdout=(), samples=5)
    row = one(steps_of(made), "block_unroll4", n=256)
    assert row["speedup"] == pytest.approx(3, rel=0.05)
    assert (row["verdict"], pd.isna(row["speedup_low"])) == ("no interval", True)


def test_what_changed_is_what_differs_between_the_two_builds(steps):
    text = one(steps, "block_unroll4")["changed"]
    assert text == ("registers a thread 38 → 40; occupancy 50 → 75 %; FMAs of the loop 32 → 51.2 %")
    assert one(steps, "block_strided")["changed"] == "", "its build is not known"
    assert one(steps, "cublas_sgemm")["changed"] == "", "a library has no build"


def test_changes_leave_out_what_is_alike_or_not_known():
    before = dict.fromkeys(
        (
            *("registers_per_thread", "occupancy", "spill_store_bytes", "loop_fma_share"),
            *("unrolling", "loop_barriers", "widest_global_loads_bits"),
            *("widest_shared_loads_bits", "shared_load_conflicts_per_request"),
            *("shared_store_conflicts_per_request", "flop_per_byte_accessed"),
        ),
        1.0,
    )
    assert changed(before, before) == ""
    after = before | {"widest_shared_loads_bits": 128, "occupancy": 0.25, "unrolling": None}
    assert changed(before, after) == "occupancy 100 → 25 %; widest shared load 1 → 128 bits"


def test_a_host_without_gpu_has_no_steps(cpu_recording):
    steps = steps_of(cpu_recording, "host")
    assert steps.empty
