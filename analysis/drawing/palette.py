"""One colour and marker per variant, matrix size and GPU for all figures; without matplotlib."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

_Key = TypeVar("_Key")

# Every colour has a contrast of at least 3:1 on the light and the dark page (WCAG 1.4.11). Marker
# shapes repeat the information for colour-blind readers.
GREY = "#7f7f7f"
BLUE = "#1f7ec2"
BROWN = "#b0673a"
OLIVE = "#8f7b00"
ORANGE = "#d55e00"
PINK = "#c2609a"
GREEN = "#00966c"
PURPLE = "#8a6fd1"
TEAL = "#0090a8"
RED = "#d14a3a"
LEAF = "#5f8a00"
_COLOURS = (GREY, BLUE, BROWN, OLIVE, ORANGE, PINK, GREEN, PURPLE, TEAL, RED, LEAF)
# A ramp for matrix sizes.
_RAMP = ("#9a4fc4", "#6a6ad6", "#2f83c4", "#0091a0", "#22935c", "#6f8b00", "#a87a00", "#c7662a")
_MARKERS = ("o", "s", "v", "^", "D", "X", "P", "<", ">", "p", "h", "*", "d")

# Variants that share a figure: those of source V; the steps of sources T and G with cuBLAS; those
# for any shape.
SOURCE_V = (
    *("naive", "naive_coalesced", "buffered_column", "buffered_row"),
    *("block", "block_strided", "block_unroll4", "block_unroll8"),
)
STEPS = (
    *("naive_coalesced", "tile_uncoalesced", "tile_transposed_b", "tile_conflict_free"),
    *("outer_product", "outer_product_unrolled", "outer_product_prefetch"),
    *("register_tile", "register_tile_double_buffered", "register_tile_conflict_free"),
    *("register_tile_async", "sgemm_top", "sgemm_tensor", "cublas_sgemm", "sgemm_tensor_tma"),
    "sgemm_stream_k",
)
ANY_SHAPE = ("mm_naive", "mm_tile", "bmm_naive", "bmm_tile")
# The order of the palette gives the variants of one figure different colours. `block_padded` takes
# the place of `naive_coalesced` among the steps.
_ORDER = (
    *((False, name) for name in SOURCE_V),
    *((True, name) for name in ("naive", "blas", "packed")),
    *((False, name) for name in (STEPS[1], "block_padded", *STEPS[2:])),
    *((True, name) for name in ("loop_order", "column_buffered", "blocked")),
    *((False, name) for name in ANY_SHAPE),
    *((True, name) for name in ("mkl", "blis")),
)

# Parts of the end-to-end time in order: label, colour, hatch.
PARTS = {
    "host_s": ("host work", OLIVE, ".."),
    "h2d_s": ("copy to the GPU", BLUE, "//"),
    "kernel_s": ("kernel", ORANGE, ""),
    "d2h_s": ("copy to the host", GREEN, "\\\\"),
    "overhead_s": ("overhead", GREY, ""),
}

# Factors of a speedup over the naive CPU loop in order: label, colour, hatch.
SPLIT = {
    "source": ("cache optimisation, one thread", BLUE, "/"),
    "one_thread": ("vectors, registers, packing", GREEN, "\\"),
    "all_threads": ("all cores", OLIVE, "."),
    "gpu": ("GPU, copies included", ORANGE, ""),
    "pinned": ("pinned instead of pageable memory", PINK, "x"),
}


@dataclass(frozen=True)
class Look:
    """Colour, marker and line style of one series in all figures."""

    colour: str
    marker: str
    line: str


def looks(keys: Iterable[tuple[bool, str]]) -> dict[tuple[bool, str], Look]:
    """Return the look of each (is CPU, variant); unknown variants follow the known ones."""
    order = [*_ORDER, *sorted(set(keys) - set(_ORDER))]
    found = _cycled(order, _COLOURS)
    return {key: replace(look, line="--") if key[0] else look for key, look in found.items()}


def size_looks(sizes: Iterable[int]) -> dict[int, Look]:
    """Return a look for each matrix size N."""
    return _cycled(sorted(set(sizes)), _RAMP)


def gpu_looks(labels: Iterable[str]) -> dict[str, Look]:
    """Return a look for each GPU."""
    return _cycled(labels, _COLOURS[1:])


def _cycled(keys: Iterable[_Key], colours: Sequence[str]) -> dict[_Key, Look]:
    """Return a look for each key; colours and markers repeat in order."""
    return {
        key: Look(colours[place % len(colours)], _MARKERS[place % len(_MARKERS)], "-")
        for place, key in enumerate(keys)
    }
