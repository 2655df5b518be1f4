"""The catalog: sources, launch geometry, the limits of a card, builds and their names."""

import re
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import catalog
from kernels.catalog import MAX_ORDER, PROBES, VARIANTS, Build, DeviceLimits
from measurement.cells import gpu_cells
from measurement.errors import StudyError

ROOT = Path(__file__).resolve().parent.parent
CARD = DeviceLimits(
    max_threads_per_block=1024,
    max_shared_bytes_per_block=49152,
    max_registers_per_block=65536,
    max_grid_x=2**31 - 1,
    max_grid_y=65535,
    warp_size=32,
    memory_bytes=80 * 2**30,
)
KERNELS = [(name, b) for name, entry in VARIANTS.items() for b in entry.block_sizes or (None,)]
STUDY = {
    "dtypes": ["float32"],
    "variants": list(VARIANTS),
    "sizes": [64, 100],
    "holdout_sizes": [96],
    "block_sizes": [1, 3, 4, 25, 32],
    "host_memory": ["pinned", "pageable"],
}


@pytest.mark.parametrize("entry", VARIANTS.values(), ids=VARIANTS)
def test_source_defines_the_kernel(entry):
    text = (ROOT / entry.source).read_text()
    signature = f'extern "C" __global__ void {entry.name}(const float *a, const float *b, float *c'
    assert text.count("__global__") == 1
    assert signature in text


def test_every_source_is_in_the_catalog_under_its_name():
    sources = {f"kernels/{path.name}" for path in (ROOT / "kernels").glob("*.cu")}
    assert sources == {entry.source for entry in VARIANTS.values()} | {PROBES.source}
    assert all(name == entry.name for name, entry in VARIANTS.items())


def elements(name, launch, block):
    """Return the rows and columns of C that each block of a launch computes, as the kernels do.

    Both have the shape (blocks, elements of C a block).
    """
    y, x, j, i = np.ogrid[
        : launch.grid[1], : launch.grid[0], : launch.threads[1], : launch.threads[0]
    ]
    if VARIANTS[name].family == "buffered":
        rows, columns = (i, x) if name == "buffered_column" else (x, i)
    elif name == "naive":
        rows, columns = x * block + i, y * block + j
    elif name == "block_unroll4":
        rows = np.concatenate([y * block + j + quarter * (block // 4) for quarter in range(4)], 2)
        columns = x * block + i
    else:
        rows, columns = y * block + j, x * block + i
    blocks = launch.grid[0] * launch.grid[1]
    rows, columns = np.broadcast_arrays(rows + 0 * (x + y), columns + 0 * (x + y))
    return rows.reshape(blocks, -1), columns.reshape(blocks, -1)


@given(kernel=st.sampled_from(KERNELS), n=st.integers(1, 70))
@settings(deadline=None)
def test_a_launch_computes_every_element_once_with_no_block_to_spare(kernel, n):
    name, block = kernel
    launch = VARIANTS[name].launch(n, block or 0)
    rows, columns = elements(name, launch, block)
    inside = (rows < n) & (columns < n)
    assert inside.any(axis=1).all(), "a block without an element of C"
    assert inside.sum() == n * n
    assert len(np.unique(rows[inside] * n + columns[inside])) == n * n
    assert inside.all() or catalog.build_for(name, n, block).guarded
    assert launch.dynamic_shared_bytes == (0 if block else 4 * n)


def test_every_block_size_of_the_catalog_fits_a_card():
    said = {
        (name, block): catalog.not_launchable(name, 100, block, CARD, 32, 2 * 4 * (block or 0) ** 2)
        for name, block in KERNELS
    }
    assert set(said.values()) == {None}, said


# variant, n, B, registers a thread, static shared bytes; the limit it meets, its need in words.
DEMANDS = [
    (
        ("buffered_row", 1025, None, 0, 0),
        "max_threads_per_block",
        "1025 threads a block, {} allowed",
    ),
    (("block", 64, 7, 0, 0), "max_threads_per_block", "49 threads a block, {} allowed"),
    (("block_unroll4", 64, 8, 0, 0), "max_threads_per_block", "16 threads a block, {} allowed"),
    (
        ("buffered_column", 1000, None, 0, 96),
        "max_shared_bytes_per_block",
        "4096 bytes of shared memory a block, {} allowed",
    ),
    (
        ("block", 64, 32, 0, 8192),
        "max_shared_bytes_per_block",
        "8192 bytes of shared memory a block, {} allowed",
    ),
    # 65 registers a thread are 72 of each of 1024 threads; 36 threads take two whole warps.
    (("block", 64, 32, 65, 0), "max_registers_per_block", "73728 registers a block, {} allowed"),
    (("block", 64, 6, 8, 0), "max_registers_per_block", "512 registers a block, {} allowed"),
    (("naive", 100, 3, 0, 0), "max_grid_x", "34 blocks along x, {} allowed"),
    (("naive", 100, 3, 0, 0), "max_grid_y", "34 blocks along y, {} allowed"),
    (("buffered_row", 100, None, 0, 0), "max_grid_x", "100 blocks along x, {} allowed"),
    (
        ("naive", 100, 4, 0, 0),
        "memory_bytes",
        "120000 bytes for three matrices, the card has {}",
    ),
]


@pytest.mark.parametrize(("cell", "limit", "text"), DEMANDS)
def test_a_demand_is_refused_just_above_the_limit_with_both_numbers(cell, limit, text):
    need = int(text.split()[0])
    roomy = replace(CARD, max_threads_per_block=2048, max_registers_per_block=2**20)
    name, n, block, registers, shared = cell
    tight = replace(roomy, **{limit: need - 1})
    said = catalog.not_launchable(name, n, block, tight, registers, shared)
    assert said == "needs " + text.format(need - 1)
    enough = replace(roomy, **{limit: need})
    assert catalog.not_launchable(name, n, block, enough, registers, shared) is None


def test_buffered_kernels_end_at_the_threads_of_a_block():
    for name in ("buffered_row", "buffered_column"):
        assert catalog.not_launchable(name, 1024, None, CARD) is None
        said = catalog.not_launchable(name, 1025, None, CARD)
        assert said == "needs 1025 threads a block, 1024 allowed"


def test_orders_end_where_an_index_overflows():
    assert MAX_ORDER**2 - 1 < 2**31 <= (MAX_ORDER + 1) ** 2 - 1
    assert catalog.not_launchable("block", MAX_ORDER, 32, CARD) is None
    said = catalog.not_launchable("block", MAX_ORDER + 1, 32, CARD)
    assert said == "needs 46341 matrix order, 46340 allowed by 32-bit indices"


def test_an_unknown_register_use_is_no_obstacle():
    assert catalog.not_launchable("block", 64, 32, replace(CARD, max_registers_per_block=1)) is None


@pytest.mark.parametrize(
    ("name", "n", "block", "stem"),
    [
        ("block", 64, 32, "block-b32-exact"),
        ("block", 65, 32, "block-b32-guarded"),
        ("block", 31, 32, "block-b32-guarded"),
        ("naive", 7, 1, "naive-b1-exact"),
        ("buffered_row", 1023, None, "buffered_row-exact"),
    ],
)
def test_build_checks_bounds_where_the_block_size_does_not_divide(name, n, block, stem):
    build = catalog.build_for(name, n, block)
    assert build.stem == stem
    assert build.kind == stem.rsplit("-", 1)[1]


@given(kernel=st.sampled_from(KERNELS), n=st.integers(1, 5000))
@settings(deadline=None)
def test_the_name_of_a_build_names_it(kernel, n):
    build = catalog.build_for(kernel[0], n, kernel[1])
    assert catalog.parse_build(build.stem) == build
    assert build.source == VARIANTS[build.variant].source


def test_probes_are_a_build_but_no_variant():
    assert PROBES.stem == "probes-exact"
    assert PROBES.source == "kernels/probes.cu"
    assert catalog.parse_build("probes-exact") == PROBES
    assert PROBES.variant not in VARIANTS
    with pytest.raises(StudyError, match="'probes' is not in the catalog"):
        catalog.variant("probes")
    with pytest.raises(StudyError, match="'probes' is not in the catalog"):
        _ = Build("probes", 32, False).source


@pytest.mark.parametrize(
    "stem",
    [
        "",
        "block",
        "block-b32",
        "block-exact",
        "block-b32-fast",
        "block-b32-exact.cubin",
        "block-b32-exact\n",
        "BLOCK-b32-exact",
        "block-b0-exact",
        "block-b33-exact",
        "block-b-1-exact",
        "block-b1-guarded",
        "naive-b1-guarded",
        "probes-guarded",
        "probes-b32-exact",
        "probes",
        "block-b032-exact",
        "block_unroll4-b6-exact",
        "buffered_row-b32-exact",
        "buffered_row-guarded",
        "cublas-b32-exact",
        "../naive-b32-exact",
    ],
)
def test_a_name_of_no_build_is_refused(stem):
    with pytest.raises(StudyError) as refused:
        catalog.parse_build(stem)
    assert repr(stem) in str(refused.value)
    assert "block-b32-exact" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_studys_builds_are_those_of_its_cells_without_repeats():
    builds = catalog.builds(STUDY)
    assert max(Counter(builds).values()) == 1
    cells = gpu_cells(STUDY, "gpu0")
    of_cells = {catalog.build_for(c.variant, c.n, c.block_size) for c in cells}
    assert set(builds) == of_cells | {PROBES}
    assert builds[-1] == PROBES


def test_limits_hold_up_to_the_largest_size_of_their_block_size_alone():
    limits = [{"block_size": 1, "largest_size": 1024}, {"block_size": 32, "largest_size": 64}]
    study = {"block_size_limits": limits}
    asked = product((1, 2, 32, None), (64, 65, 1024, 1025))
    outside = {(b, n) for b, n in asked if not catalog.within_limits(study, n, b)}
    assert outside == {(1, 1025), (32, 65), (32, 1024), (32, 1025)}
    assert catalog.within_limits({}, 46340, 1)
    assert catalog.within_limits({"block_size_limits": []}, 46340, 1)


def test_the_lowest_of_several_limits_of_a_block_size_holds():
    limits = [{"block_size": 1, "largest_size": size} for size in (2048, 1024)]
    assert not catalog.within_limits({"block_size_limits": limits}, 1025, 1)
    assert not catalog.within_limits({"block_size_limits": limits[::-1]}, 1025, 1)


def test_a_build_that_only_sizes_above_a_limit_need_is_not_planned():
    study = STUDY | {"block_size_limits": [{"block_size": 32, "largest_size": 64}]}
    gone = set(catalog.builds(STUDY)) - set(catalog.builds(study))
    assert gone == {
        Build(name, 32, True) for name, entry in VARIANTS.items() if 32 in (entry.block_sizes or ())
    }
    assert set(catalog.builds(study)) == {PROBES} | {
        catalog.build_for(c.variant, c.n, c.block_size) for c in gpu_cells(study, "gpu0")
    }


def test_guarded_builds_only_where_an_order_needs_them():
    guarded = {(b.variant, b.block_size) for b in catalog.builds(STUDY) if b.guarded}
    expected = product(("naive", "naive_coalesced", "block", "block_strided"), (3, 25, 32))
    assert guarded == {*expected, ("block_unroll4", 32)}
    assert Build("block", 25, False) in catalog.builds(STUDY)
    assert Build("block", 3, False) in catalog.builds(STUDY), "96 is a multiple of 3"
    without = STUDY | {"holdout_sizes": []}
    assert Build("block", 3, False) not in catalog.builds(without)


def test_a_variant_takes_the_block_sizes_that_it_can():
    wanted = [1, 3, 4, 6, 8, 32]
    assert catalog.block_sizes("block", wanted) == wanted
    assert catalog.block_sizes("block_unroll4", wanted) == [4, 8, 32]
    assert catalog.block_sizes("buffered_row", wanted) == [None]
    assert catalog.block_sizes("block_unroll4", [1, 3]) == []


def test_unknown_variant_is_refused_naming_the_known_ones():
    with pytest.raises(StudyError) as refused:
        catalog.variant("blok")
    assert re.match(r"variant 'blok' is not in the catalog; it has naive, ", str(refused.value))
    assert all(name in str(refused.value) for name in VARIANTS)
    with pytest.raises(StudyError, match="'blok'"):
        catalog.builds(STUDY | {"variants": ["naive", "blok"]})
