"""The cost of a kernel's memory accesses, computed from formulas without running the kernel.

An `Access` is one load or store of the source, with its address as a function of the thread
(`kernels.theory.accesses`). `totals` sums accesses over a launch by these rules of GPUs:

- 32 lanes make a request.
- A request to global memory touches sectors of 32 bytes; four sectors make an L1 cache line.
- A request to shared memory is served in phases of 32, 16 or 8 lanes for accesses of 4, 8 or 16
  bytes. Two phases are served together if lanes access the same address in pairs: each lane with
  its neighbour, or with the lane two further.
- A phase needs as many wavefronts as the most distinct words in one of 32 banks.

Matrices begin at multiples of 256 bytes, as CUDA allocates them.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import gcd

import numpy as np
import numpy.typing as npt

WARP = 32
BANKS = 32
WORD_BYTES = 4
SECTOR_BYTES = 32
LINE_BYTES = 128
WIDEST_BYTES = 16  # widest access by one thread
OPERATIONS = ("global_load", "global_store", "shared_load", "shared_store")

Lanes = npt.NDArray[np.int64]
# A number per thread, as a function of its position (x, y) in the block.
OfThread = Callable[[Lanes, Lanes], Lanes | int]


def along_x(x: Lanes, _y: Lanes) -> Lanes:
    """Return the thread's x, which is its coordinate along the matrix."""
    return x


def along_y(_x: Lanes, y: Lanes) -> Lanes:
    """Return the thread's y, which is its coordinate along the matrix."""
    return y


def alike(_x: Lanes, _y: Lanes) -> int:
    """Return 0: all threads of a block have the same coordinate."""
    return 0


@dataclass(frozen=True)
class Axis:
    """One coordinate of a thread's access to a matrix; `weight` is its stride in elements.

    The coordinate is ``start + offset(x, y)``, for each start 0, tile, 2·tile … below `extent`.
    Coordinates below `extent` are inside the matrix. An axis with weight 0 changes no address: it
    only selects threads and repeats the access.
    """

    extent: int
    tile: int
    offset: OfThread
    weight: int


@dataclass(frozen=True)
class GlobalAccess:
    """A load or store of global memory, executed once per combination of the starts of its axes.

    A thread takes part if all its coordinates are inside. It accesses the element at the sum of
    weight·coordinate. Its width does not matter, because an aligned access is within one sector.
    """

    operation: str
    axes: tuple[Axis, ...]
    element_bytes: int


@dataclass(frozen=True)
class SharedAccess:
    """A load or store of shared memory, executed `times` by every thread of every block.

    The thread (x, y) accesses `vector` elements, the first of which is number ``element(x, y)``.
    Shifting all lanes by the same distance does not change the cost. A thread accesses `run`
    consecutive elements one after the other, beginning at a multiple of `run`.
    """

    operation: str
    element: OfThread
    element_bytes: int
    times: int
    vector: int = 1
    run: int = 1

    @property
    def merged(self) -> "SharedAccess":
        """The access after the compiler merged runs of elements into vectors of up to 16 bytes."""
        vector = gcd(self.run, WIDEST_BYTES // self.element_bytes)
        if vector <= self.vector:
            return self
        return replace(self, vector=vector, times=self.times // vector)


Access = GlobalAccess | SharedAccess


@dataclass(frozen=True)
class Total:
    """The accesses of threads, the requests of warps, and the sectors or wavefronts.

    `transactions` is the number of sectors or wavefronts. `ideal` is the minimum number of
    wavefronts for the requests (0 for global memory). `lines` is the number of cache lines that
    requests to global memory touch (0 for shared memory).
    """

    accesses: int = 0
    requests: int = 0
    transactions: int = 0
    ideal: int = 0
    lines: int = 0

    def __add__(self, other: "Total") -> "Total":
        return Total(*map(operator.add, vars(self).values(), vars(other).values()))

    def times(self, count: int) -> "Total":
        """Return the total multiplied by `count`."""
        return Total(*(count * value for value in vars(self).values()))


def totals(
    accesses: Iterable[Access], threads: tuple[int, int], blocks: int, merged: bool = False
) -> dict[str, Total]:
    """Return the totals of a launch of `blocks` for each of `OPERATIONS`.

    `threads` are the threads per block, along x and y. `merged`: up to four loads along a row of
    shared memory are one vector load, as in machine code.
    """
    block = _Block(threads)
    by_operation = dict.fromkeys(OPERATIONS, Total())
    for access in accesses:
        if isinstance(access, GlobalAccess):
            by_operation[access.operation] += _global(access, block)
        else:
            done = access.merged if merged else access
            by_operation[access.operation] += _shared(done, block).times(blocks)
    return by_operation


def first_lanes(access: Access, threads: tuple[int, int]) -> list[tuple[int, ...]]:
    """Return the elements that the lanes of a block's first warp access together.

    Global memory: the sector of each lane. Shared memory: the words of each lane in the first phase
    of the request. Lanes that do not take part are omitted.
    """
    block = _Block(threads)
    if isinstance(access, SharedAccess):
        words = access.element_bytes * access.vector // WORD_BYTES
        first = block.each(access.element)[:1] * access.element_bytes // WORD_BYTES
        lanes, exists = next(
            phase for phase in _phases(first, block.exists[:1], WARP // words) if len(phase[0])
        )
        return [tuple(range(at, at + words)) for at in lanes[0][exists[0]].tolist()]
    active = block.exists[0].copy()
    elements = np.zeros(WARP, np.int64)
    for axis in access.axes:
        offset = block.each(axis.offset)[0]
        active &= offset < axis.extent
        elements += axis.weight * offset
    sectors = elements[active] * access.element_bytes // SECTOR_BYTES
    return [(sector,) for sector in sectors.tolist()]


class _Block:
    """The threads of a block as lanes of warps; arrays have the shape (warps, 32).

    `exists` is False for those lanes of the last warp that have no thread.
    """

    def __init__(self, threads: tuple[int, int]) -> None:
        count = threads[0] * threads[1]
        number = np.arange(-(-count // WARP) * WARP).reshape(-1, WARP)
        self._y, self._x = np.divmod(number, threads[0])
        self.exists = number < count

    def each(self, value: OfThread) -> Lanes:
        """Return the value for each thread, as an array (warps, 32)."""
        return np.broadcast_to(value(self._x, self._y), self.exists.shape)


def _distinct(values: Lanes, active: npt.NDArray[np.bool_]) -> tuple[Lanes, npt.NDArray[np.bool_]]:
    """Return the sorted values along the last axis, and a mask of the distinct active values.

    Values must not be negative.
    """
    ordered = np.sort(np.where(active, values, -1), axis=-1)
    first = ordered >= 0
    first[..., 1:] &= ordered[..., 1:] != ordered[..., :-1]
    return ordered, first


# ---- Global memory

# Numbers of starts, by the position of their element in a cache line.
_Begins = Counter[int]


def _global(access: GlobalAccess, block: _Block) -> Total:
    """Return the total of a global access, summed over its starts.

    Starts with the same threads and the same position in a cache line cost the same.
    """
    per_line = LINE_BYTES // access.element_bytes
    per_sector = SECTOR_BYTES // access.element_bytes
    offsets = [block.each(axis.offset) for axis in access.axes]
    elements = sum(axis.weight * offset for axis, offset in zip(access.axes, offsets, strict=True))
    groups = [
        _starts(axis.extent, axis.tile, axis.weight, int(offset.max()), per_line).items()
        for axis, offset in zip(access.axes, offsets, strict=True)
    ]
    total = Total()
    for group in product(*groups):
        active = block.exists.copy()
        begins = _Begins({0: 1})
        for offset, (inside, more) in zip(offsets, group, strict=True):
            active &= offset < inside
            begins = _sums(begins, more, per_line)
        once = Total(int(active.sum()), int(active.any(axis=-1).sum()))
        shifted = np.array(list(begins), np.int64)[:, None, None] + elements
        counts = np.array(list(begins.values()), np.int64)
        transactions, lines = (
            int(counts @ _distinct(shifted // words, active)[1].sum(axis=(1, 2)))
            for words in (per_sector, per_line)
        )
        total += once.times(begins.total()) + Total(transactions=transactions, lines=lines)
    return total


@cache
def _starts(
    extent: int, tile: int, weight: int, largest: int, per_line: int
) -> Mapping[int, _Begins]:
    """Group the starts by how many of the offsets up to `largest` are inside the matrix.

    A start with all offsets inside is in the group ``largest + 1``.
    """
    starts = np.arange(0, extent, tile)
    inside = np.minimum(extent - starts, largest + 1)
    groups: dict[int, _Begins] = {}
    keys = zip(inside.tolist(), (weight * starts % per_line).tolist(), strict=True)
    for (below, begin), count in Counter(keys).items():
        groups.setdefault(below, _Begins())[begin] = count
    return groups


def _sums(one: _Begins, other: _Begins, per_line: int) -> _Begins:
    """Return the sums of two sets of starts, as counts by position in a cache line."""
    positions = _Begins()
    for (begin, count), (distance, times) in product(one.items(), other.items()):
        positions[(begin + distance) % per_line] += count * times
    return positions


# ---- Shared memory


def _shared(access: SharedAccess, block: _Block) -> Total:
    """Return the total of a shared access in one block."""
    words = access.element_bytes * access.vector // WORD_BYTES
    first = block.each(access.element) * access.element_bytes // WORD_BYTES
    transactions, ideal = 0, 0
    for lanes, exists in _phases(first, block.exists, WARP // words):
        of_lane = lanes[..., None] + np.arange(words)
        row = of_lane.reshape(len(lanes), lanes.shape[1] * words)
        active = np.repeat(exists, words, axis=1)
        transactions += int(_wavefronts(row, active).sum())
        ideal += int(active.any(axis=-1).sum())
    once = Total(int(block.exists.sum()), len(block.exists), transactions, ideal)
    return once.times(access.times)


def _phases(
    first: Lanes, exists: npt.NDArray[np.bool_], width: int
) -> Iterator[tuple[Lanes, npt.NDArray[np.bool_]]]:
    """Yield the accessed words and the existing lanes, as arrays with one phase per row.

    Pairs of phases that are served together come first.
    """
    if width == WARP:
        yield first, exists
        return
    first, exists = first.reshape(-1, 2 * width), exists.reshape(-1, 2 * width)
    lane = np.arange(2 * width)
    together = np.zeros(len(first), bool)
    for partner in (lane ^ 1, lane ^ 2):
        alike = (first == first[:, partner]) | ~exists | ~exists[:, partner]
        together |= alike.all(axis=1)
    yield first[together], exists[together]
    yield first[~together].reshape(-1, width), exists[~together].reshape(-1, width)


def _wavefronts(words: Lanes, active: npt.NDArray[np.bool_]) -> Lanes:
    """Return for each row the largest number of distinct active words in one bank."""
    ordered, counted = _distinct(words, active)
    row, _ = np.nonzero(counted)
    bank = row * BANKS + ordered[counted] % BANKS
    in_bank = np.bincount(bank, minlength=len(words) * BANKS)
    return in_bank.reshape(-1, BANKS).max(axis=-1)
