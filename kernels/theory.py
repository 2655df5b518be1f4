"""What a kernel's accesses cost, predicted from their formulas without running the kernel.

An `Access` says how the address of one load or store of the source depends on the thread; the
catalog has those of each variant. `totals` sums them over a launch, with the rules of a card: 32
lanes make a request; a request to global memory touches sectors of 32 bytes; a request to shared
memory needs as many wavefronts as the most words that one of 32 banks has to give. Elements are 4
bytes, matrices begin at a multiple of 256 bytes, as CUDA allocates them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

WARP = 32
BANKS = 32
SECTOR_WORDS = 8
OPERATIONS = ("global_load", "global_store", "shared_load", "shared_store")

_Lanes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Access:
    """One load or store of a word: how each thread of each block executes it.

    Global memory: the thread (x, y) of the tile number (p, q) of C's grid accesses the word
    ``along_x·X + along_y·Y + step·k`` for each k below `steps`, with X = p·width + x and
    Y = q·height + first_y + y, if X and Y are within the matrix.

    Shared memory: the thread (x, y) of each block accesses the word ``along_x·x + along_y·y``,
    `steps` times; a shift of all lanes by the same distance changes no wavefronts.

    All of it happens `repeats` times.
    """

    operation: str
    along_x: int
    along_y: int
    step: int = 0
    steps: int = 1
    repeats: int = 1
    first_y: int = 0


@dataclass(frozen=True)
class Total:
    """Accesses of threads, requests of warps, and sectors or wavefronts (`transactions`).

    `ideal`: the fewest wavefronts that the requests could have had; 0 for global memory.
    """

    accesses: int = 0
    requests: int = 0
    transactions: int = 0
    ideal: int = 0

    def __add__(self, other: "Total") -> "Total":
        return Total(
            self.accesses + other.accesses,
            self.requests + other.requests,
            self.transactions + other.transactions,
            self.ideal + other.ideal,
        )

    def times(self, count: int) -> "Total":
        """Return the total of `count` such."""
        return Total(*(count * value for value in vars(self).values()))


@dataclass(frozen=True)
class Geometry:
    """A launch as `totals` needs it: threads a block, blocks, and tiles of what extent.

    Tiles are `tile` = (width, height) words of a matrix that ends at `extent`; a block's threads
    cover its tile, or a part of it (`Access.first_y`).
    """

    threads: tuple[int, int]
    blocks: int
    tile: tuple[int, int]
    extent: tuple[int, int]


def totals(accesses: Iterable[Access], geometry: Geometry) -> dict[str, Total]:
    """Return the totals of a launch by operation; each of `OPERATIONS` is there."""
    found = dict.fromkeys(OPERATIONS, Total())
    for access in accesses:
        one = _shared if access.operation.startswith("shared") else _global
        found[access.operation] += one(access, geometry).times(access.repeats)
    return found


def _lanes(threads: tuple[int, int]) -> tuple[_Lanes, _Lanes]:
    """Return x and y of each thread of a block, shape (warps, 32); where there is none, y is −1."""
    count = threads[0] * threads[1]
    number = np.arange(-(-count // WARP) * WARP).reshape(-1, WARP)
    return number % threads[0], np.where(number < count, number // threads[0], -1)


def _distinct(values: _Lanes, active: npt.NDArray[np.bool_]) -> _Lanes:
    """Return how many different values the active lanes have, along the last axis."""
    ordered = np.sort(np.where(active, values, -1), axis=-1)
    first = ordered[..., :1] >= 0
    new = (ordered[..., 1:] != ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    return first.sum(axis=-1) + new.sum(axis=-1)


def _residues(steps: Sequence[int]) -> Counter[int]:
    """Count where in a sector the addresses of a list begin."""
    return Counter(step % SECTOR_WORDS for step in steps)


def _tiles(along: int, tile: int, extent: int, first: int) -> dict[int, Counter[int]]:
    """Return, by how many coordinates of a tile lie inside, where in a sector such tiles begin."""
    tiles: dict[int, list[int]] = {}
    for start in range(0, extent, tile):
        inside = min(tile, extent - start - first)
        tiles.setdefault(inside, []).append(along * (start + first))
    return {inside: _residues(starts) for inside, starts in tiles.items() if inside > 0}


def _global(access: Access, geometry: Geometry) -> Total:
    """Sum over the tiles; those of one shape that begin alike in a sector cost the same."""
    x, y = _lanes(geometry.threads)
    words = access.along_x * x + access.along_y * y
    starts = np.arange(SECTOR_WORDS)[:, None, None]
    steps = _residues([access.step * k for k in range(access.steps)])
    across = _tiles(access.along_x, geometry.tile[0], geometry.extent[0], 0)
    down = _tiles(access.along_y, geometry.tile[1], geometry.extent[1], access.first_y)
    total = Total()
    for (width, by_x), (height, by_y) in product(across.items(), down.items()):
        active = (x < width) & (y >= 0) & (y < height)
        sectors = _distinct((starts + words) // SECTOR_WORDS, active).sum(axis=-1)
        count: Counter[int] = Counter()
        for parts in product(by_x.items(), by_y.items(), steps.items()):
            (begin_x, n_x), (begin_y, n_y), (begin_k, n_k) = parts
            count[(begin_x + begin_y + begin_k) % SECTOR_WORDS] += n_x * n_y * n_k
        times = sum(count.values())
        total += Total(
            int(active.sum()) * times,
            int(active.any(axis=-1).sum()) * times,
            sum(int(sectors[begin]) * number for begin, number in count.items()),
        )
    return total


def _shared(access: Access, geometry: Geometry) -> Total:
    x, y = _lanes(geometry.threads)
    active = y >= 0
    words = np.where(active, access.along_x * x + access.along_y * y, 0)
    of_bank = words[:, None, :] % BANKS == np.arange(BANKS)[:, None]
    wavefronts = _distinct(words[:, None, :], of_bank & active[:, None, :]).max(axis=-1)
    block = Total(int(active.sum()), len(x), int(wavefronts.sum()), len(x))
    return block.times(geometry.blocks * access.steps)
