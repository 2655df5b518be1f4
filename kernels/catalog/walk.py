"""The main line of the ladder, and what the first warp of each step accesses, for the report."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.shape import Shape
from kernels.theory.cost import BANKS, GlobalAccess, first_lanes

# The main line of the ladder; steps between these are omitted.
STEPS = (
    *("naive", "naive_coalesced", "block", "block_unroll4", "register_tile"),
    *("register_tile_conflict_free", "register_tile_async", "sgemm_top", "sgemm_tensor_tma"),
)
_SIZE = 4096  # size of the matrices in the drawings


@dataclass(frozen=True)
class Drawing:
    """One simultaneous access by the lanes of the first warp of a launch, to be drawn.

    `cells`: for global memory, the number of lanes in each sector that the request touches; for
    shared memory, the number of distinct words in each of the 32 banks. `is_joined`: whether the
    sector after a cell is the next in memory. `lanes`: the cell (or mean of several) that each lane
    accesses.
    """

    label: str
    is_shared: bool
    cells: tuple[int, ...]
    is_joined: tuple[bool, ...] = field(compare=False)
    lanes: tuple[float, ...] = field(compare=False)

    @property
    def transactions(self) -> int:
        """The sectors of the request, or the wavefronts of its first phase."""
        return max(self.cells) if self.is_shared else len(self.cells)


def drawings(variant: str, number: int | None = None) -> list[Drawing]:
    """Return the different loads by the first warp from A, from B and from shared memory.

    `number` is the block size in a recording; None for kernels with a single one.
    """
    block = VARIANTS[variant].block_size(number)
    product = Product(variant, "float32", Shape.square(_SIZE), block)
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
