"""The catalog: sources, launch geometry, builds and their names."""

import csv
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpu_reference.catalog
from base.errors import StudyError
from kernels.catalog.entries import REFERENCE, VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN
from kernels.cubins.build import INSTRUMENTS, Build, parse_build, step_build
from kernels.products.shape import Shape
from kernels.theory.tiles import number_of
from study.config import load
from tests.support import ROOT
from tests.support.products import product_of

MODES = [f"cublas_{mode}" for mode in ("default", "tf32", "bf16", "fp16")]
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


def test_every_source_is_in_the_catalog_under_its_name():
    sources = {f"kernels/{path.name}" for path in (ROOT / "kernels").glob("*.cu")}
    instruments = {build.source for build in INSTRUMENTS}
    kernels = [VARIANTS[name] for name in COMPUTED]
    steps = {f"kernels/{entry.device_step.kernel}.cu" for entry in kernels if entry.device_step}
    assert sources == {entry.source for entry in kernels} | instruments | steps
    assert all(name == entry.name for name, entry in VARIANTS.items())
    assert [name for name in VARIANTS if name not in COMPUTED] == [REFERENCE, *MODES]
    of_others = [name for name in COMPUTED if VARIANTS[name].kernel_name != name]
    flows = ["sgemm_tensor_pieces", "sgemm_tensor_staged"]
    flows.append("sgemm_tensor_two_gpus")
    assert of_others == ["block_padded", "sgemm_top_pieces", "sgemm_top_graph", *flows]


def test_every_system_described_by_the_sources_is_in_the_study():
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


def test_variants_in_pieces_or_graphs_take_only_shapes_within_their_edges():
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
def test_the_pieces_of_a_run_cover_all_rows_once_in_whole_tiles(m, kernel):
    product = Product(kernel[0], "float32", Shape.parse(f"{m}x7x2000"), kernel[1])
    for count in product.piece_counts:
        pieces = [piece for own in product.pieces(count) for piece in own]
        assert len(pieces) <= count * product.entry.gpus
        rows = [row for first, rows in pieces for row in range(first, first + rows)]
        assert rows == list(range(m))
        assert all(first % product.tile[0] == 0 for first, _ in pieces)


def test_a_build_is_parsed_from_its_name():
    for build in BUILDS:
        assert parse_build(build.stem) == build
        assert build.source == VARIANTS[build.variant].source
        block = {} if build.block_size is None else {"BLOCK": number_of(build.block_size)}
        element = {"float32": "float", "float64": "double", "int32": "unsigned"}[build.dtype]
        assert build.defines == {"GUARDED": int(build.guarded), "ELEMENT": element} | block


# Not the name of a build: too short or long, another type, block size, guard or case, no kernel.
NO_BUILDS = """
    block block-b32 block-b32-float32 block-b32-float32-fast block-b32-float32-exact.cubin
    BLOCK-b32-float32-exact block-b32-half-exact block-b32-int32-guarded mm_tile-b8-uint32-exact
    block-b0-float32-exact block-b33-float32-exact block-b032-float32-exact block-b-float32-exact
    block-b1-float32-guarded probes-float32-guarded probes-b32-float32-exact probes
    block_unroll4-b6-float32-exact mm_tile-int32-exact outer_product-b16-float32-exact
    buffered_row-float32-guarded block_padded-b32-float32-exact cublas_sgemm-float32-exact
    ../naive-b32-float32-exact
"""


@pytest.mark.parametrize("stem", ["", "block-b32-float32-exact\n", *NO_BUILDS.split()])
def test_an_unknown_name_of_a_build_is_refused(stem):
    with pytest.raises(StudyError) as refused:
        parse_build(stem)
    assert repr(stem) in str(refused.value)
    assert "block-b32-float32-exact" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_kernel_that_prepares_operands_is_built_with_the_kernel_that_uses_them():
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


def test_the_catalog_launches_stream_k_with_the_threads_defined_in_its_source():
    """On the host its threads that copy are not needed."""
    entry = VARIANTS["sgemm_stream_k"]
    (copying,) = re.findall(r"PRODUCERS = (\d+);", (ROOT / entry.source).read_text())
    for tile in entry.block_sizes:
        launch = Product(entry.name, "float32", Shape.square(300), tile).launch
        assert launch.threads_per_block == tile.threads + int(copying)
