"""Ceilings of the CPU: FMA throughput and bandwidth of memory and caches, on 1 or all threads."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cpu_reference.library import Library, Matrix
from measurement.devices.ceilings import Ceiling, CeilingRow, Measurement, in_rounds

# Each of the three arrays is twice the largest cache, within these bounds.
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30
# Bytes per measurement of a cache's bandwidth: some milliseconds.
_CACHE_TRAFFIC_BYTES = 64 << 20
# Arrays offset by a multiple of a page would evict each other from a cache.
_OFFSET_BYTES = 17 * 64
_LINE_BYTES = 64


def cpu_ceilings(library: Library, caches: list[dict[str, int]], threads: int) -> list[Ceiling]:
    """Measure the ceilings of the CPU with `threads` threads together; each needs its own core.

    fp32_flop_per_s: FMAs in registers. memory_bytes_per_s: STREAM's triad on arrays much larger
    than the caches. For one thread also l1_bytes_per_s, l2_bytes_per_s ...: the triad on arrays
    that together fill half of the cache. `caches` comes from `cpu_reference.cores.caches`.
    `size_bytes` is the sum over the three arrays.
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


def _fma(library: Library, threads: int) -> list[CeilingRow]:
    return [("fp32_flop_per_s", None, None, library.fma_flop_per_s(threads))]


def _triad(library: Library, level: str, arrays: list[Matrix], threads: int) -> list[CeilingRow]:
    size_bytes = sum(array.nbytes for array in arrays)
    repeats = 1 if level == "memory" else max(1, _CACHE_TRAFFIC_BYTES // size_bytes)
    rate = library.triad_bytes_per_s(arrays[0], arrays[1], arrays[2], repeats, threads)
    return [(f"{level}_bytes_per_s", None, size_bytes, rate)]


def _arrays(total_bytes: int) -> list[Matrix]:
    """Return three float32 arrays that are aligned to cache lines and not yet written."""
    each = total_bytes // 3 // _LINE_BYTES * _LINE_BYTES
    buffer: Any = np.empty(3 * (each + _OFFSET_BYTES) + _LINE_BYTES, np.uint8)
    first = -buffer.ctypes.data % _LINE_BYTES
    starts = [first + number * (each + _OFFSET_BYTES) for number in range(3)]
    return [buffer[start : start + each].view(np.float32) for start in starts]
