"""The main line of the ladder: code and accesses of each step, for the report."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from base.errors import StudyError
from base.paths import ROOT
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import CatalogKernel
from kernels.products.shape import Shape
from kernels.theory.cost import BANKS, GlobalAccess, first_lanes

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
    """The simultaneous accesses of the first warp of a launch.

    `cells`: the lanes in each sector that the request touches, or the distinct words in each of the
    32 banks. `is_joined`: whether the sector after a cell is the next in memory. `lanes`: the place
    of each lane's accesses among the cells, the mean of several words.
    """

    label: str
    is_shared: bool
    cells: tuple[int, ...]
    is_joined: tuple[bool, ...] = field(compare=False)
    lanes: tuple[float, ...] = field(compare=False)

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
    indents = [len(line) - len(line.lstrip()) for line in chosen if not line.startswith("#")]
    texts = [line if line.startswith("#") else line[min(indents) :] for line in chosen]
    return {
        "source": entry.source,
        "sha256": hashlib.sha256(data).hexdigest(),
        "first_line": first + 1,
        "text": "\n".join(texts),
    }


def walk() -> list[dict[str, object]]:
    """Return the steps: variant, block size, `code`, and a function for `drawings`."""
    return [
        {"variant": excerpt.variant, "block_size": excerpt.block_size}
        | {"code": code(excerpt), "drawings": partial(drawings, excerpt)}
        for excerpt in EXCERPTS
    ]


def drawings(excerpt: Excerpt, number: int | None = None) -> list[Drawing]:
    """Return different loads of the first warp from A, from B and from shared memory.

    `number` is the block size in a recording; the default is the block size of the excerpt.
    """
    entry = VARIANTS[excerpt.variant]
    block = entry.block_size(number or excerpt.block_size)
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
            yield _drawing(label, label == "shared memory", first_lanes(access, threads))


def _drawing(label: str, is_shared: bool, lanes: list[tuple[int, ...]]) -> Drawing:
    if is_shared:
        banks = Counter(word % BANKS for word in {word for words in lanes for word in words})
        cells = tuple(banks[bank] for bank in range(BANKS))
        places = tuple(words[0] % BANKS + (len(words) - 1) / 2 for words in lanes)
        return Drawing(label, is_shared, cells, (True,) * BANKS, places)
    counts = Counter(sector for (sector,) in lanes)
    sectors = sorted(counts)
    is_joined = tuple(sector + 1 in counts for sector in sectors)
    places = tuple(float(sectors.index(sector)) for (sector,) in lanes)
    return Drawing(label, is_shared, tuple(counts[s] for s in sectors), is_joined, places)
