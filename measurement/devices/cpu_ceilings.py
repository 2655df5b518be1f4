"""What the CPU can do at most: FMAs, memory and caches; on one thread and on all."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cpu_reference.library import Library, Matrix
from measurement.devices.ceilings import Ceiling, Measurement, Row, in_rounds

# Three arrays of which each is twice the largest cache, within these bounds.
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30
# A rate of a cache is that of so many bytes, some milliseconds' work.
_PASSED_BYTES = 64 << 20
# Arrays that lie apart by a multiple of a page would disturb each other in a cache.
_APART_BYTES = 17 * 64
_LINE_BYTES = 64


def cpu_ceilings(library: Library, caches: list[dict[str, int]], threads: int) -> list[Ceiling]:
    """Measure what so many threads can do together; each needs a core to run on.

    fp32_flop_per_s: fused FMAs in registers. memory_bytes_per_s: the triad of STREAM over
    arrays that no cache holds. Of one thread also l1_bytes_per_s and so on: the triad over arrays
    that fill half of that cache. `caches` is what `cpu_reference.cores.caches` returns.
    `size_bytes` is that of the three arrays together.
    """
    largest = max((cache["bytes"] for cache in caches), default=0)
    sizes = {"memory": 3 * min(max(2 * largest, _LEAST_BYTES), _MOST_BYTES)}
    if threads == 1:
        sizes |= {f"l{cache['level']}": cache["bytes"] // 2 for cache in caches}
    measurements: list[Measurement] = [partial(_fma, library, threads)]
    for level, size_bytes in sizes.items():
        arrays = _arrays(size_bytes)
        for array in arrays:
            library.touch(array, threads)
        measurements.append(partial(_triad, library, level, arrays, threads))
    return [replace(ceiling, threads=threads) for ceiling in in_rounds(measurements)]


def _fma(library: Library, threads: int) -> list[Row]:
    return [("fp32_flop_per_s", None, None, library.fma_flop_per_s(threads))]


def _triad(library: Library, level: str, arrays: list[Matrix], threads: int) -> list[Row]:
    size_bytes = sum(array.nbytes for array in arrays)
    repeats = 1 if level == "memory" else max(1, _PASSED_BYTES // size_bytes)
    rate = library.triad_bytes_per_s(arrays[0], arrays[1], arrays[2], repeats, threads)
    return [(f"{level}_bytes_per_s", None, size_bytes, rate)]


def _arrays(total_bytes: int) -> list[Matrix]:
    """Return three arrays of float32 at the begin of a cache line each, not yet written."""
    each = total_bytes // 3 // _LINE_BYTES * _LINE_BYTES
    buffer: Any = np.empty(3 * (each + _APART_BYTES) + _LINE_BYTES, np.uint8)
    first = -buffer.ctypes.data % _LINE_BYTES
    starts = [first + number * (each + _APART_BYTES) for number in range(3)]
    return [buffer[start : start + each].view(np.float32) for start in starts]
