"""The catalog: sources, launch geometry, builds and their names."""

import csv
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpu_reference.catalog
from base.errors import StudyError
from kernels.catalog import entries as catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN
from kernels.cubins.build import INSTRUMENTS, Build, build_for, parse_build, step_build
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.tiles import number_of
from study.config import load
from tests.support import ROOT
from tests.support.products import product_of

COMPUTED = [name for name, entry in VARIANTS.items() if entry.kernel_name]
KERNELS = [
    (name, b)
    for name in COMPUTED
    if VARIANTS[name].flow == IN_TURN
    for b in VARIANTS[name].block_sizes or (None,)
]
BUILDS = [
    Build(name, b, dtype, guarded)
    for name, b in KERNELS
    if VARIANTS[name].kernel_name == name
    for dtype in VARIANTS[name].dtypes
    for guarded in (False, True)
    if not guarded or max(VARIANTS[name].tile(b)) > 1
]
PARAMETERS = {
    "square": r"const float \*a, const float \*bt?, float \*c, int n",
    "any": r"const ELEMENT \*a, const ELEMENT \*b, ELEMENT \*c, int m, int n, int k",
}


def test_sources_define_their_kernels():
    for name in COMPUTED:
        entry = VARIANTS[name]
        text = " ".join((ROOT / entry.source).read_text().split())
        parameters = PARAMETERS["square" if entry.shapes == "square" else "any"]
        bounds = r"(?:__launch_bounds__\(\w+, \d+\) )?(?:CLUSTER )?"
        signature = rf'extern "C" __global__ void {bounds}{entry.kernel_name}\({parameters}\) \{{'
        assert len(re.findall(signature, text)) == text.count("__global__") == 1, name


def test_every_source_is_in_the_catalog_under_its_name():
    sources = {f"kernels/{path.name}" for path in (ROOT / "kernels").glob("*.cu")}
    instruments = {build.source for build in INSTRUMENTS}
    kernels = [VARIANTS[name] for name in COMPUTED]
    steps = {f"kernels/{entry.device_step.kernel}.cu" for entry in kernels if entry.device_step}
    assert sources == {entry.source for entry in kernels} | instruments | steps
    assert all(name == entry.name for name, entry in VARIANTS.items())
    assert [name for name in VARIANTS if name not in COMPUTED] == ["cublas_sgemm"]
    of_others = [name for name in COMPUTED if VARIANTS[name].kernel_name != name]
    flows = ["sgemm_tensor_pieces", "sgemm_tensor_staged"]
    flows.append("sgemm_tensor_two_gpus")
    assert of_others == ["block_padded", "sgemm_top_pieces", "sgemm_top_graph", *flows]


def test_every_system_of_the_sources_is_studied():
    """Each row of systems.csv is a variant of a catalog and of the project's own study."""
    study = load(ROOT / "config.yaml").study
    in_study = {
        "gpu": {*study.variants, *(v for one in study.series for v in one.variants)},
        "cpu": set(study.cpu.variants),
    }
    known = {"gpu": VARIANTS, "cpu": cpu_reference.catalog.VARIANTS}
    with (ROOT / "data" / "published" / "systems.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        assert row["variant"] in known[row["side"]], row
        assert row["variant"] in in_study[row["side"]], row
        if row["side"] == "gpu":
            assert VARIANTS[row["variant"]].origin.startswith(row["source"]) or row["source"] == "H"
    assert {row["source"] for row in rows} == {*"VTGLH", "reference"}
    of_sources = {name for name, entry in VARIANTS.items() if entry.origin != "own"}
    assert {row["variant"] for row in rows if row["side"] == "gpu"} == of_sources
    assert in_study["gpu"] == set(VARIANTS)


def test_each_step_is_compared_with_an_earlier_one():
    for place, (name, entry) in enumerate(VARIANTS.items()):
        if entry.after is not None:
            assert entry.after in list(VARIANTS)[:place], name
            assert set(entry.dtypes) <= set(VARIANTS[entry.after].dtypes), name
    first = [name for name, entry in VARIANTS.items() if entry.after is None]
    assert first == ["naive", "mm_naive", "bmm_naive"]


def shapes(name):
    edge = st.integers(1, 270)
    if VARIANTS[name].shapes == "square":
        return edge.map(Shape.square)
    batch = st.integers(1, 4) if VARIANTS[name].shapes == "batched" else st.just(1)
    return st.builds(Shape, batch, edge, edge, edge)


@st.composite
def launches(draw):
    name, block = draw(st.sampled_from(KERNELS))
    return name, block, draw(shapes(name))


@given(launches())
@settings(deadline=None, max_examples=200)
def test_a_launch_has_a_block_for_each_tile_of_c(drawn):
    """Host execution shows that each element is stored once."""
    name, block, shape = drawn
    entry, product = VARIANTS[name], Product(name, VARIANTS[name].dtypes[0], shape, block)
    launch, seen, (rows, columns, steps) = product.launch, product.operands, product.tile
    if entry.family == "buffered":
        expected = (shape.n, shape.n, 1)
    else:
        tiles = seen.batch * -(-seen.m // rows) * -(-seen.n // columns)
        expected = (tiles, launch.threads_per_block, rows * columns / launch.threads_per_block)
    assert (launch.blocks, launch.threads_per_block, product.sums_per_thread) == expected
    build = build_for(product)
    assert build.guarded == bool(seen.m % rows or seen.n % columns or seen.k % steps)
    assert build in BUILDS
    assert build.variant == entry.kernel_name
    if not entry.fixed_blocks:
        dynamic = {"buffered": 4 * shape.n, "tensor": 141440}
        assert launch.dynamic_shared_bytes == dynamic.get(entry.family, 0)


def test_arguments_are_the_edges_of_the_operands():
    assert product_of("bmm_tile", "3x17x33x65", 8).arguments == (17, 65, 33)
    assert product_of("mm_naive", "17x33x65", 8).arguments == (17, 65, 33)
    assert product_of("block", 17, 8).arguments == (17,)
    assert product_of("tile_transposed_b", 17, 16).operands == Shape.square(17)
    padded = product_of("block_padded", 17, 8)
    assert padded.operands == Shape.square(24)
    assert padded.arguments == (24,)
    assert padded.launch == product_of("block", 24, 8).launch


def test_variants_take_what_their_signature_can():
    square, single, batched = Shape.square(8), Shape.parse("1x8x8"), Shape.parse("2x8x8x8")
    taken = {
        name: [shape for shape in (square, single, batched) if entry.takes(shape)]
        for name, entry in VARIANTS.items()
    }
    assert taken["block"] == taken["register_tile"] == taken["block_padded"] == [square]
    assert taken["mm_tile"] == taken["cublas_sgemm"] == taken["sgemm_top"] == [square, single]
    assert taken["sgemm_top_pieces"] == []
    assert taken["bmm_tile"] == taken["bmm_naive"] == [square, single, batched]
    every = [square, single, batched]
    assert all(found in [every[:count] for count in range(4)] for found in taken.values())


def test_pieces_and_graphs_take_shapes_within_their_edges():
    pieces, graph = VARIANTS["sgemm_top_pieces"], VARIANTS["sgemm_top_graph"]
    shapes = [Shape.parse(text) for text in ("16", "1023", "17x1024x33", "1025", "2048")]
    large = [str(shape) for shape in shapes if pieces.takes(shape)]
    assert large == ["17x1024x33", "1025", "2048"]
    assert [str(shape) for shape in shapes if graph.takes(shape)] == ["16", "1023", "17x1024x33"]
    for entry in (pieces, graph):
        assert [m for m in ("pinned", "pageable") if entry.takes_memory(m)] == ["pinned"]
    assert VARIANTS["sgemm_top"].takes_memory("pageable")


PIECEWISE = ("sgemm_top_pieces", "sgemm_tensor_pieces", "sgemm_tensor_two_gpus")


@given(
    st.integers(1, 5000),
    st.sampled_from(
        [(name, b) for name in PIECEWISE for b in VARIANTS[name].block_sizes or (None,)]
    ),
)
def test_pieces_are_all_rows_once_in_whole_tiles(m, kernel):
    product = Product(kernel[0], "float32", Shape.parse(f"{m}x7x2000"), kernel[1])
    for count in product.piece_counts:
        pieces = [piece for own in product.pieces(count) for piece in own]
        assert len(pieces) <= count * product.entry.gpus
        rows = [row for first, rows in pieces for row in range(first, first + rows)]
        assert rows == list(range(m))
        assert all(first % product.tile[0] == 0 for first, _ in pieces)


def test_types_of_elements_are_what_they_say():
    for name, element in ELEMENTS.items():
        assert np.dtype(name) == np.dtype(element.dtype)
        assert element.bytes == np.dtype(name).itemsize
    assert {e.c_type for e in ELEMENTS.values()} == {"float", "double", "unsigned"}


@pytest.mark.parametrize(
    ("stem", "exact", "guarded"),
    [
        ("block-b32-float32", [64], [65, 31]),
        ("naive-b1-float32", [7], []),
        ("buffered_row-float32", [1023], []),
        ("outer_product-float32", [64], [80]),
        ("register_tile-float32", [256], [136]),
        ("sgemm_top-b192128-float32", [384], [192]),
        ("mm_tile-b8-int32", ["16x8x24"], ["16x9x24"]),
        ("mm_naive-b8-float64", ["16x9x24"], ["16x9x25"]),
        ("bmm_tile-b8-float32", ["3x8x8x8"], ["3x15x8x8"]),
    ],
)
def test_build_checks_bounds_where_the_tile_does_not_divide(stem, exact, guarded):
    name, *block, dtype = re.split("-b?", stem)
    for kind, shapes in (("exact", exact), ("guarded", guarded)):
        for shape in shapes:
            build = build_for(product_of(name, shape, int(block[0]) if block else None, dtype))
            assert (build.stem, build.kind) == (f"{stem}-{kind}", kind)
    assert build_for(product_of("block_padded", 65, 32)).stem == "block-b32-float32-exact"
    library = product_of("cublas_sgemm", 8)
    assert (build_for(library), library.entry.source, library.sums_per_thread) == (None, None, 0)


def test_the_name_of_a_build_names_it():
    for build in BUILDS:
        assert parse_build(build.stem) == build
        assert build.source == VARIANTS[build.variant].source
        block = {} if build.block_size is None else {"BLOCK": number_of(build.block_size)}
        element = {"float32": "float", "float64": "double", "int32": "unsigned"}[build.dtype]
        assert build.defines == {"GUARDED": int(build.guarded), "ELEMENT": element} | block


def test_instruments_are_builds_but_no_variants():
    assert [build.variant for build in INSTRUMENTS] == ["probes", "tensor_probe", "hold"]
    for build in INSTRUMENTS:
        assert build.stem == f"{build.variant}-float32-exact"
        assert build.source == f"kernels/{build.variant}.cu"
        assert parse_build(build.stem) == build
        with pytest.raises(StudyError, match=f"'{build.variant}': not in the catalog"):
            catalog.variant(build.variant)


@pytest.mark.parametrize(
    "stem",
    [
        *("", "block", "block-b32", "block-exact", "block-b32-exact", "block-float32-exact"),
        *("block-b32-float32", "block-b32-float32-fast", "block-b32-float32-exact.cubin"),
        *("block-b32-float32-exact\n", "BLOCK-b32-float32-exact", "block-b32-half-exact"),
        *("block-b32-float64-exact", "block-b32-int32-guarded", "mm_tile-b8-uint32-exact"),
        *(f"block-b{b}-float32-exact" for b in ("0", "33", "-1", "032", "")),
        *("block-b1-float32-guarded", "naive-b1-float32-guarded", "probes-float32-guarded"),
        *("probes-b32-float32-exact", "probes", "probes-exact", "probes-float64-exact"),
        *("block_unroll4-b6-float32-exact", "block_unroll8-b4-float32-exact"),
        *("mm_tile-b4-int32-exact", "mm_tile-int32-exact", "outer_product-b16-float32-exact"),
        *("buffered_row-b32-float32-exact", "buffered_row-float32-guarded"),
        *("block_padded-b32-float32-exact", "cublas_sgemm-float32-exact"),
        *("cublas-b32-float32-exact", "../naive-b32-float32-exact"),
    ],
)
def test_a_name_of_no_build_is_refused(stem):
    with pytest.raises(StudyError) as refused:
        parse_build(stem)
    assert repr(stem) in str(refused.value)
    assert "block-b32-float32-exact" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_kernels_that_prepare_operands_are_builds_of_their_products():
    guarded = [step_build(product_of("sgemm_tensor_tma", n)) for n in (128, 130)]
    assert [build.stem for build in guarded] == [
        "split_parts-float32-exact",
        "split_parts-float32-guarded",
    ]
    assert [parse_build(build.stem) for build in guarded] == guarded
    assert step_build(product_of("sgemm_tensor", 128)) is None
    for stem in ("split_parts-b32-float32-exact", "split_parts-float64-exact"):
        with pytest.raises(StudyError):
            parse_build(stem)


def test_unknown_variant_is_refused_naming_the_known_ones():
    with pytest.raises(StudyError) as refused:
        catalog.variant("blok")
    assert re.match(r"variant 'blok': not in the catalog; use one of naive, ", str(refused.value))
    assert all(name in str(refused.value) for name in VARIANTS)
