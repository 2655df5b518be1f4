"""The table machine_code: occupancy, instructions, conflicts, FLOP per byte of every build."""

import io

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.kernels.machine_code import machine_code_table, rows_of
from kernels.cubins.compile import BuildResult
from tests.support.products import product_of
from tests.support.report_data import only, theory

KERNELS = [
    *(("naive", 32, "float32"), ("naive_coalesced", 32, "float32"), ("block", 32, "float32")),
    *(("buffered_row", None, "float32"), ("register_tile", None, "float32")),
    *(("tile_transposed_b", 32, "float32"), ("mm_tile", 32, "int32"), ("mm_tile", 32, "float64")),
]


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Theory at the sizes 512 and 1024, and at one that needs bounds checks."""
    sizes = (512, 1024, 1000)
    products = [product_of(name, n, block, dtype) for name, block, dtype in KERNELS for n in sizes]
    return theory(tmp_path_factory.mktemp("counts"), products)


@pytest.fixture(scope="module")
def code(gpu_recording, counts):
    return made({"card": gpu_recording}, counts)


def made(recordings, counts, built=()):
    builds = data.builds_table(recordings, built)
    return machine_code_table(builds, data.instructions_table(recordings, built), counts)


def built(name, dtype="float32", loop=(), arch="sm_90", kind="exact"):
    return BuildResult(arch, name, dtype, 32, kind, 32, 8192, 0, 0, 0, "13.2", "0", loop)


def one(code, name, dtype="float32"):
    return only(code, variant=name, dtype=dtype)


def test_the_table_of_builds_has_occupancy_and_instruction_mix(code, gpu_recording):
    assert len(code) == len(gpu_recording.builds) - 2
    assert not {"probes", "hold"} & set(code["variant"])
    assert set(code["recording"]) == {"card"}
    # 64 warps and 65536 registers per SM: blocks of 32 warps, 40 registers per thread: 1 block fits
    block = one(code, "block")
    assert block["blocks_per_multiprocessor"] == 1
    assert (block["occupancy"], block["limiter"]) == (0.5, "registers")
    row = one(code, "buffered_row")
    assert row["dynamic_shared_bytes"] == 4096, "at N = 1024"
    assert (row["occupancy"], row["limiter"]) == (1.0, "warps")
    tile = one(code, "register_tile")
    assert tile["occupancy"] == 0.25
    block = one(code, "block")
    assert (block["loop_instructions"], block["instructions"]) == (100, 120)
    assert (block["loop_fmas"], block["loop_fma_share"]) == (32, 0.32)
    assert block["unrolling"] == 32, "one element of C per thread"
    assert (block["widest_shared_loads_bits"], block["widest_global_loads_bits"]) == (128, 32)
    assert block["loop_barriers"] == 2
    assert one(code, "register_tile")["unrolling"] == 8, "512 FMAs for 64 elements of C"
    assert one(code, "mm_tile", "int32")["loop_fmas"] == 32, "IMAD"


def test_flop_per_byte_accessed_counts_every_load_of_a_thread(code, counts):
    expected = {"naive": 0.25, "naive_coalesced": 0.25, "block": 8}  # a quarter of the tile edge
    expected["register_tile"] = 32  # loads of four words: 1/128 + 1/128 words per FMA
    for name, flop_per_byte in expected.items():
        assert one(code, name)["flop_per_byte_accessed"] == flop_per_byte, name
    assert one(code, "mm_tile", "int32")["flop_per_byte_accessed"] == 8
    naive = one(code, "naive_coalesced")
    assert naive["n"] == 1024
    sectors = 2 * 1024**3 / (32 * (1024**3 // 32 * 5 + 1024**2 // 32 * 4))
    assert naive["flop_per_byte_of_sectors"] == pytest.approx(sectors)
    assert one(code, "naive")["flop_per_byte_of_sectors"] < sectors / 3, "uncoalesced"
    assert one(code, "block")["shared_load_conflicts_per_request"] == 0
    assert pd.isna(one(code, "naive")["shared_load_conflicts_per_request"]), "no shared memory"
    tree = made({}, counts, [built("tile_transposed_b")])
    # b_tile[x][k] has 31 conflicts, a_tile[y][k] none: a mean of 15.5
    assert one(tree, "tile_transposed_b")["shared_load_conflicts_per_request"] == 15.5
    read_back = pd.read_csv(io.StringIO(code.to_csv(index=False)))
    builds = (("sm_90", "block", 32), ("sm_90", "buffered_row", None), ("sm_80", "block", 32))
    keys = [("card", arch, name, "float32", block, "exact") for arch, name, block in builds]
    for frame in (code, read_back):
        rows = rows_of(frame, keys)
        assert list(frame.loc[rows[:2], "variant"]) == ["block", "buffered_row"]
        assert pd.isna(rows[2])
