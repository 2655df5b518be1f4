"""Products of a study within its limits, and their builds."""

from collections import Counter

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product, block_sizes
from kernels.catalog.product import products_of as products_in
from kernels.cubins.build import INSTRUMENTS, build_for, parse_build, step_build
from kernels.products.shape import Shape
from kernels.theory.tiles import number_of
from study.cells import gpu_cells
from study.config import load
from study.plan import builds, products
from tests.support import ROOT
from tests.support.studies import study

SERIES = [
    {
        "variants": ["mm_naive", "bmm_tile", "block"],
        "dtypes": ["int32", "float32"],
        "block_sizes": [8, 32],
        "shapes": [64, "17x33x65", "3x17x33x65"],
    },
    {
        "variants": ["outer_product", "block_padded", "cublas_sgemm"],
        "dtypes": ["float32"],
        "block_sizes": [32],
        "shapes": [100, "64x32x64"],
    },
]
STUDY = {
    "dtypes": ["float32"],
    "variants": [
        name for name, v in VARIANTS.items() if v.shapes == "square" or name == "sgemm_top"
    ],
    "sizes": [64, 100],
    "holdout_sizes": [96],
    "block_sizes": [1, 3, 4, 25, 32],
    "host_memory": ["pinned", "pageable"],
}
WITH_SERIES = STUDY | {"series": SERIES}
OWN = load(ROOT / "config.yaml").study


def product(name, dtype, shape, block=None):
    return Product(name, dtype, Shape.parse(shape), block)


def products_of(series):
    keys = ("variants", "dtypes", "block_sizes")
    shapes = [Shape.parse(text) for text in series["shapes"]]
    return list(products_in(*(series[key] for key in keys), shapes))


def test_a_series_has_the_products_that_each_of_its_variants_supports():
    shapes = [64, "17x33x65", "3x17x33x65"]
    assert products_of(SERIES[0]) == [
        *(
            product(name, dtype, shape, block)
            for name, taken in (("mm_naive", shapes[:2]), ("bmm_tile", shapes))
            for dtype in ("int32", "float32")
            for block in (8, 32)
            for shape in taken
        ),
        *(product("block", "float32", 64, block) for block in (8, 32)),
    ]
    assert products_of(SERIES[1]) == [
        product("outer_product", "float32", 100),
        product("block_padded", "float32", 100, 32),
        product("cublas_sgemm", "float32", 100),
        product("cublas_sgemm", "float32", "64x32x64"),
    ]


def test_products_of_a_study_are_the_square_ones_then_the_series_without_repeats():
    squares, both = products(study(STUDY)), products(study(WITH_SERIES))
    assert both[: len(squares)] == squares
    assert max(Counter(both).values()) == 1
    assert {(one.dtype, one.shape.is_square) for one in squares} == {("float32", True)}
    assert {one.shape.n for one in squares} == {64, 96, 100}
    repeated = {
        product("block", "float32", 64, 32),
        product("outer_product", "float32", 100),
        product("block_padded", "float32", 100, 32),
    }
    assert repeated <= set(squares)
    added = [one for series in SERIES for one in products_of(series)]
    assert both[len(squares) :] == [one for one in added if one not in repeated]


def test_sizes_above_the_limit_of_a_block_size_are_excluded():
    limits = [{"block_size": block, "largest_size": 64} for block in (1, 32)]
    limited = study(WITH_SERIES | {"block_size_limits": limits})
    every = products(study(WITH_SERIES))
    gone = set(every) - set(products(limited))
    assert gone
    assert gone == {one for one in every if one.block_size in (1, 32) and one.shape.largest > 64}
    assert product("mm_naive", "int32", "17x33x65", 32) in gone, "its longest edge counts"
    assert product("mm_naive", "int32", "17x33x65", 8) not in gone
    assert product("outer_product", "float32", 100) not in gone
    limits = [{"block_size": 1, "largest_size": size} for size in (99, 64)]
    for several in (limits, limits[::-1]):  # the lowest counts
        limited = study(STUDY | {"block_size_limits": several})
        assert {one.shape.n for one in products(limited) if one.block_size == 1} == {64}


def test_sizes_below_the_limit_of_a_tile_shape_are_excluded():
    sizes = {"variants": ["naive", "sgemm_top"], "sizes": [64, 100, 128], "holdout_sizes": []}
    limits = [{"block_size": 64128, "smallest_size": 100, "largest_size": 127}]
    limited = products(study(STUDY | sizes | {"block_size_limits": limits}))
    gone = set(products(study(STUDY | sizes))) - set(limited)
    assert {(number_of(one.block_size), one.shape.n) for one in gone} == {(64128, 64), (64128, 128)}


def test_a_variant_is_planned_with_those_block_sizes_that_it_supports():
    wanted = [1, 3, 4, 6, 8, 32]
    taken = {"block": wanted, "block_unroll4": [4, 8, 32], "register_tile": [None]}
    taken["sgemm_top"] = list(VARIANTS["sgemm_top"].block_sizes)
    assert {name: block_sizes(VARIANTS[name], wanted) for name in taken} == taken


@pytest.mark.parametrize(
    "asked", [study(STUDY), study(WITH_SERIES), OWN], ids=["squares", "series", "own"]
)
def test_a_study_builds_each_cubin_that_its_cells_need_once(asked):
    found = builds(asked)
    assert max(Counter(found).values()) == 1
    cells = gpu_cells(asked, "gpu0")
    of_cells = {build for c in cells for build in (build_for(c.product), step_build(c.product))}
    assert set(found) == (of_cells - {None}) | set(INSTRUMENTS)
    assert tuple(found[-3:]) == INSTRUMENTS
    assert len({build.stem for build in found}) == len(found) > 40
    for build in found:
        assert parse_build(build.stem) == build
        assert (ROOT / build.source).is_file()


def test_the_study_of_the_project_contains_every_variant_and_element_type():
    found = products(OWN)
    assert {one.variant for one in found} == set(VARIANTS)
    for name, entry in VARIANTS.items():
        assert {one.dtype for one in found if one.variant == name} == set(entry.dtypes)
    batched = {one.shape.batch for one in found if one.variant == "bmm_tile"}
    assert batched == {1, 3, 16}
    shapes = {str(one.shape) for one in found if one.variant == "mm_tile"}
    assert shapes >= {"17x33x65", "1x512x3", "640x320x1000"}
