"""The main line of the ladder: code and accesses of each step, for the report."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from base.errors import StudyError
from base.paths import ROOT
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import CatalogKernel
from kernels.products.shape import Shape
from kernels.theory.cost import GlobalAccess, first_request

SELECTING = ("#if", "#else", "#endif")
_SIZE = 4096  # of the matrices in the drawings


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source that contain a step: from the first line with `begin`, `lines` long."""

    variant: str
    block_size: int | None
    begin: str
    lines: int


@dataclass(frozen=True)
class Drawing:
    """The simultaneous accesses of the first warp of a launch; for `cells` see `first_request`."""

    label: str
    is_shared: bool
    cells: tuple[int, ...]

    @property
    def transactions(self) -> int:
        """Sectors of the request, or wavefronts of its first phase."""
        return max(self.cells) if self.is_shared else len(self.cells)


EXCERPTS = (
    Excerpt("naive", 32, "const int row = ", 2),
    Excerpt("naive_coalesced", 32, "const int column = ", 2),
    Excerpt("block", 32, "a_tile[y][x] = a[row", 7),
    Excerpt("block_unroll4", 32, "for (int k = 0; k < BLOCK", 7),
    Excerpt("register_tile", None, "float a_fragment[EDGE]", 10),
    Excerpt("register_tile_async", None, "copy<1>(&a_tile", 2),
    Excerpt("sgemm_top", 128256, "for (int k = 0; k < SLICE_STEPS", 9),
    Excerpt("sgemm_tensor", None, "for (int k = 0; k < STEP / 16", 9),
)


def code(excerpt: Excerpt) -> dict[str, object]:
    """Return source, sha256, number of the first line and text; raise StudyError if it moved.

    The text has no directives that select a build: an excerpt can contain half of a pair.
    """
    entry = VARIANTS[excerpt.variant]
    assert isinstance(entry, CatalogKernel)
    data = (ROOT / entry.source).read_bytes()
    lines = data.decode().splitlines()
    first = next((at for at, line in enumerate(lines) if excerpt.begin in line), None)
    if first is None:
        raise StudyError(f"{entry.source} has no line with {excerpt.begin!r}; correct {__name__}")
    passage = lines[first : first + excerpt.lines]
    chosen = [line for line in passage if not line.startswith(SELECTING)]
    directives = [line.startswith("#") for line in chosen]
    indent = min(
        len(line) - len(line.lstrip())
        for line, is_directive in zip(chosen, directives, strict=True)
        if not is_directive
    )
    return {
        "source": entry.source,
        "sha256": hashlib.sha256(data).hexdigest(),
        "first_line": first + 1,
        "text": "\n".join(
            line if is_directive else line[indent:]
            for line, is_directive in zip(chosen, directives, strict=True)
        ),
    }


def walk() -> list[dict[str, object]]:
    """Return the steps: variant, block size, `code` and `drawings`."""
    return [
        {"variant": each.variant, "block_size": each.block_size}
        | {"code": code(each), "drawings": drawings(each)}
        for each in EXCERPTS
    ]


def drawings(excerpt: Excerpt) -> list[Drawing]:
    """Return different loads of the first warp from A, from B and from shared memory."""
    entry = VARIANTS[excerpt.variant]
    block = entry.block_size(excerpt.block_size)
    product = Product(excerpt.variant, "float32", Shape.square(_SIZE), block)
    return list(dict.fromkeys(_loads(product))) if product.has_theory else []


def _loads(product: Product) -> Iterator[Drawing]:
    threads = product.launch.threads
    seen = set()
    for access in product.accesses():
        label = "shared memory"
        if isinstance(access, GlobalAccess):
            label = "A" if access.axes[1].weight else "B"
        if access.operation.endswith("load") and (label not in seen or label == "shared memory"):
            seen.add(label)
            cells = tuple(first_request(access, threads))
            yield Drawing(label, label == "shared memory", cells)
