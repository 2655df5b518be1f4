"""Colours and markers: one look per kernel family, CPU implementation and GPU in all figures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.catalog.entries import VARIANTS
from kernels.catalog.walk import STEPS

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
# The first GPUs have colours that no kernel family has.
_GPUS = (TEAL, RED, LEAF, OLIVE, PURPLE, BROWN, PINK, BLUE)
# A ramp of colours for matrix sizes.
_RAMP = (
    "#9a4fc4",
    "#6a6ad6",
    "#2f83c4",
    "#128aad",
    "#0091a0",
    "#22935c",
    "#6f8b00",
    "#a87a00",
    "#c7662a",
)
_MARKERS = ("o", "s", "v", "^", "D", "X", "P", "<", ">", "p", "h", "*", "d")
_LINES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Look:
    """The colour, marker and line style that a series has in all figures."""

    colour: str
    marker: str
    line: str


# Kernel families of the catalog: title, colour, marker. Kernels of one family differ in line style.
USER_SUPPLIED = "user-supplied"
FAMILIES = {
    "naive": ("naive", GREY, "o"),
    "buffered": ("buffered row or column", BROWN, "s"),
    "block": ("tiles in shared memory", BLUE, "v"),
    "register": ("tiles in registers", ORANGE, "^"),
    "tensor": ("tensor cores", PURPLE, "D"),
    "library": ("cuBLAS", GREEN, "P"),
    USER_SUPPLIED: ("user-supplied", PINK, "X"),
}
# Implementations on the CPU. The fast ones have no colour of a kernel family, because the explorer
# shows both.
CPU = {
    "naive": Look(GREY, "o", "-"),
    "loop_order": Look(BROWN, "s", "-"),
    "column_buffered": Look(PINK, "<", "-"),
    "blocked": Look(BLUE, "v", "-"),
    "packed": Look(TEAL, "^", "-"),
    "blas": Look(LEAF, "P", "-"),
    "mkl": Look(RED, "D", "-"),
    "blis": Look(PURPLE, "h", "-"),
}
# Kinds of host memory, and kernel-only times.
MEMORY = {
    "pinned": Look(BLUE, "s", "-"),
    "pageable": Look(ORANGE, "o", "-"),
    "kernel": Look(GREEN, "D", "-"),
}

# Parts of the end-to-end time in order: label, colour, hatch; hues as in calculator.css.
PARTS = {
    "host_s": ("host work", OLIVE, ".."),
    "h2d_s": ("copy to the GPU", BLUE, "//"),
    "kernel_s": ("kernel", GREEN, ""),
    "d2h_s": ("copy to the host", PINK, "\\\\"),
    "overhead_s": ("overhead", GREY, ""),
}

# Factors of a speedup over the naive CPU loop in order: label, colour, hatch.
SPLIT = {
    "source": ("cache optimisation, one thread", BLUE, "/"),
    "one_thread": ("vectors, registers, packing", GREEN, "\\"),
    "all_threads": ("several cores", OLIVE, "."),
    "gpu": ("GPU, copies included", ORANGE, ""),
    "pinned": ("pinned instead of pageable memory", PINK, "x"),
}


def family_of(variant: str) -> str:
    """Return the family of a kernel, which determines its colour."""
    return VARIANTS[variant].family if variant in VARIANTS else USER_SUPPLIED


def kernel_look(variant: str) -> Look:
    """Return the look of a kernel: its family's colour and marker, and its own line style."""
    _, colour, marker = FAMILIES[family_of(variant)]
    return Look(colour, marker, _LINES[_member(variant) % len(_LINES)])


def explorer_look(is_cpu: bool, variant: str) -> tuple[str, str]:
    """Return the colour of a series of the explorer, and a marker that is unique in its family.

    The first kernel of a family has the marker of the family.
    """
    if is_cpu:
        return CPU[variant].colour, CPU[variant].marker
    look = kernel_look(variant)
    markers = list(dict.fromkeys([look.marker, *_MARKERS]))
    return look.colour, markers[_member(variant) % len(markers)]


def _member(variant: str) -> int:
    order = dict.fromkeys([*STEPS, *VARIANTS, variant])
    return [name for name in order if family_of(name) == family_of(variant)].index(variant)


def size_looks(sizes: Iterable[int]) -> dict[int, Look]:
    """Return a look for each matrix size N, with colours along a ramp."""
    distinct = sorted(set(sizes))
    steps = max(1, -(-len(distinct) // len(_RAMP)))
    return _cycled(distinct, [colour for colour in _RAMP for _ in range(steps)])


def gpu_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each GPU; `names` are all GPUs of the report, the one in focus first."""
    return _cycled(names, _GPUS)


def _cycled(keys: Iterable[Any], colours: Sequence[str]) -> dict[Any, Look]:
    return {
        key: Look(colours[place % len(colours)], _MARKERS[place % len(_MARKERS)], "-")
        for place, key in enumerate(keys)
    }
