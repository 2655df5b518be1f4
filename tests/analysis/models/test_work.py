"""The work of a launch: counted by hand, taken from counters, or unknown."""

import numpy as np
import pandas as pd
import pytest

from analysis.kernels.machine_code import EXACT
from analysis.models.work import COLUMNS, GpuFacts, with_work
from kernels.host_execution.counts import ncu_metric

N = 1024
BLOCKS = (N // 32) ** 2
CODE = ["variant", "dtype", "block_size", "build", "registers_per_thread", "static_shared_bytes"]
CODE += ["instructions", "loop_instructions", "loop_fmas"]
COUNTERS = ["variant", "dtype", "batch", "m", "n", "k", "block_size", "ncu_metric", "counter"]


def cells(*rows):
    frame = pd.DataFrame(rows, columns=["variant", "n", "block_size"])
    return frame.astype({"block_size": "Int64"})


def card(code=(), counters=(), capability="9.0"):
    known = (pd.DataFrame(code, columns=CODE), pd.DataFrame(counters, columns=COUNTERS))
    return GpuFacts(132, capability, *(each.astype({"block_size": "Int64"}) for each in known))


# 84 instructions of the main loop do 32 FMAs, 37 are outside of it.
BLOCK32 = ("block", "float32", 32, EXACT, 32, 8192, 121, 84, 32)
NAIVE32 = ("naive", "float32", 32, EXACT, 32, 0, 50, 20, 4)


def test_units_of_work_of_block_and_naive_equal_hand_counts():
    found = with_work(cells(("block", N, 32)), card([BLOCK32])).iloc[0]
    warps = BLOCKS * 32
    tiles = N // 32
    # A warp's load of a row of a tile: one line of four sectors; C is stored in the same way.
    requests = warps * tiles * 2 + warps
    assert (found["sectors"], found["lines"]) == (4 * requests, requests)
    # For each tile it stores two rows, reads 32 rows of B and eight times four elements of A; half
    # a warp is served at once.
    assert found["wavefronts"] == warps * tiles * (2 + 32 + 2 * 8)
    assert found["instructions"] == warps * (37 + tiles * 84)
    # 1024 blocks on 132 multiprocessors: some have eight. Two fit at once: four waves of 32 tiles.
    assert (found["imbalance"], found["waits"]) == (pytest.approx(8 * 132 / 1024), 4 * 32)
    row = ("buffered_row", "float32", None, EXACT, 32, 0, 50, 20, 4)
    asked = cells(("naive", N, 32), ("buffered_row", N, None))
    found = with_work(asked, card([NAIVE32, row]))
    assert found["waits"].tolist() == [0, 4]  # 1024 blocks of 1024 threads, two at once
    assert found["wavefronts"].tolist()[0] == 0
    # Neighbouring threads of naive read and store down a column: 32 lines; B's element is shared.
    loads = N**3 // 32
    assert found["lines"].tolist()[0] == loads * 33 + N * N // 32 * 32
    # Blocks of few threads are counted by warps.
    one, four = (with_work(cells(("block", 256, block)), None).iloc[0]["lines"] for block in (1, 2))
    assert one == pytest.approx(256**3 * 2 + 256**2)
    assert four == pytest.approx(256**3 / 2 / 4 * 4 + 256**2 / 4 * 2)
    guarded = ("block", "float32", 32, "guarded", 32, 8192, 221, 84, 32)
    odd, even = cells(("block", N - 1, 32)), cells(("block", N, 32))
    both, exact = card([BLOCK32, guarded]), card([BLOCK32])
    pairs = ((odd, both), (odd, exact), (even, both))
    issued = [with_work(asked, gpu).iloc[0]["instructions"] for asked, gpu in pairs]
    assert (issued[0] - issued[1], issued[2]) == (BLOCKS * 32 * 100, BLOCKS * 32 * (37 + 32 * 84))
    asked = cells(("block", N, 32), ("naive", N, 32)).set_index(pd.Index([7, 3])).assign(x=1)
    found = with_work(asked, exact)
    assert (list(found.index), list(found)) == ([7, 3], [*asked, *COLUMNS])


def test_counters_replace_theory_and_unknown_work_is_blank():
    key = ("block", "float32", 1, N, N, N, 32)
    loads, stores = (ncu_metric(f"shared_{way}_wavefronts") for way in ("load", "store"))
    sectors = ncu_metric("global_load_sectors")
    counters = [(*key, loads, 1e9), (*key, stores, 2e9), (*key, sectors, 5e9)]
    asked = cells(("block", N, 32), ("block", 512, 32))
    found = with_work(asked, card(counters=counters))
    theory = with_work(asked, None)
    assert found["wavefronts"].iloc[0] == 3e9
    stored = N * N // 32 * 4
    assert found["sectors"].iloc[0] == 5e9 + stored
    assert found["lines"].iloc[0] == theory["lines"].iloc[0], "of which there is no counter"
    counted = ["sectors", "wavefronts"]
    np.testing.assert_array_equal(found.iloc[1][counted], theory.iloc[1][counted])
    asked = cells(("block", N, 32), ("cublas_sgemm", N, None))
    bare = with_work(asked, None)
    assert bare[COLUMNS].iloc[0].isna().tolist() == [False, False, False, True, True, True]
    assert bare[COLUMNS].iloc[1].isna().all()
    without_code = with_work(asked, card()).iloc[0]
    assert without_code["imbalance"] > 1
    assert np.isnan([without_code["instructions"], without_code["waits"]]).all()
    unknown = with_work(asked, card([BLOCK32], capability="3.0")).iloc[0]
    assert np.isnan(unknown["waits"])
    assert unknown["instructions"] > 0
    no_loop = (*BLOCK32[:-1], 0)
    assert np.isnan(with_work(asked, card([no_loop])).iloc[0]["instructions"])
