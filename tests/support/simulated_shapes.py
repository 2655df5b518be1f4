"""A simulated host with products of many shapes, locations of the data, and streams.

Its times come from a mechanism that no fit of the study contains: a library that chooses a tile for
each shape, efficiencies that differ from shape to shape, pages that are pinned or fault, and queues
of two copy engines and one kernel engine.
"""

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.decide.surface_tables import surface_tables
from analysis.stats import between
from kernels.catalog.locations import LOCATIONS, Location
from kernels.products.shape import Shape
from measurement.recording.recording import TABLES, Recording, read
from study.cells import CPU, Cell, cell
from study.config import load
from tests.support import ROOT
from tests.support.report_data import kept
from tests.support.simulated import recorded

LIBRARY = "cublas_sgemm"
MULTIPROCESSORS = 132
CORES = 16
_TILES = ((256, 128, 1.0), (128, 128, 0.93), (64, 128, 0.8), (64, 64, 0.66), (32, 64, 0.4))
_FMA_PER_S, _BYTES_PER_S = 2.6e13, 2.6e12
_IN, _OUT = 5.5e10, 5.3e10  # bytes/s of the link
_PAGE = 2**16
_CALL_S = 1.8e-6  # of the host, per copy or launch


def unevenness(*key: object, share: float = 0.04) -> float:
    """Return a factor near 1 that depends only on the key."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return math.exp(share * (2 * int.from_bytes(digest[:4], "big") / 2**32 - 1))


def kernel_s(shape: Shape) -> float:
    """Return the time of the library's kernel, in the tile that is fastest."""
    m, n, k = shape.m, shape.n, shape.k
    times_s = []
    for rows, columns, efficiency in _TILES:
        waves = math.ceil(math.ceil(m / rows) * math.ceil(n / columns) / MULTIPROCESSORS)
        fma = waves * MULTIPROCESSORS * rows * columns * (k + 64)
        times_s.append(fma / (_FMA_PER_S * efficiency))
    loads_s = 4 * (m * k + k * n + 2 * m * n) / _BYTES_PER_S
    return (3e-6 + math.hypot(min(times_s), loads_s)) * unevenness("kernel", m, n, k)


def run_s(shape: Shape, name: str) -> float:
    """Return the time of one run with the data at a location."""
    location = LOCATIONS[name]
    sizes = {matrix: 4 * getattr(shape, f"{matrix}_elements") for matrix in "abc"}
    copied = [sizes[matrix] for matrix in location.copied_in]
    out = [sizes["c"]] if location.copies_out else []
    return 6e-6 + kernel_s(shape) + _moves_s(location, copied, out, sum(sizes.values()))


def _moves_s(location: Location, copied: list[int], out: list[int], every: int) -> float:
    if location.memory == "managed":
        faults = sum(math.ceil(size / _PAGE) for size in copied + out)
        rate, wait_s = (0.7 * _IN, 2e-7) if location.prefetched else (0.25 * _IN, 1.5e-6)
        return 2e-5 + sum(copied + out) / rate + faults * wait_s
    pins_s = 3e-5 + every / 1.4e10 if location.registered else 0.0
    if location.memory == "pageable":
        return sum(8e-6 + size / (1.2e10 if size < 2**25 else 9e9) for size in copied + out)
    return pins_s + sum(3e-6 + size / _IN for size in copied) + sum(3e-6 + s / _OUT for s in out)


def batch_s(shape: Shape, products: int, streams: int, same_a: bool, multiplies: bool) -> float:
    """Return the time of a batch: one engine per direction, one for kernels, calls in order."""
    free = {"in": 0.0, "kernel": 0.0, "out": 0.0}
    ready, now = [0.0] * streams, 0.0
    a_s, b_s = (1.5e-6 + 4 * size / _IN for size in (shape.a_elements, shape.b_elements))
    out_s = 1.5e-6 + 4 * shape.c_elements / _OUT
    if same_a:
        free["in"] = a_s
        ready = [a_s] * streams
    work = [("in", b_s if same_a else a_s + b_s), ("kernel", kernel_s(shape)), ("out", out_s)]
    for stream in itertools.islice(itertools.cycle(range(streams)), products):
        for engine, time_s in work if multiplies else [work[0], work[2]]:
            now += _CALL_S
            begin = max(now, ready[stream], free[engine])
            ready[stream] = free[engine] = begin + time_s
    return max(ready) + 5e-6


def cpu_s(shape: Shape, threads: int) -> float:
    """Return the time of the CPU's library."""
    used = min(threads, max(1, shape.flop // 400_000))
    compute_s = shape.flop / (1.4e11 * used**0.95)
    size = 4 * (shape.a_elements + shape.b_elements + shape.c_elements)
    loads_s = size / (min(used * 1.5e10, 2e11) * (3 if size < 5e7 else 1))
    start_s = 4e-7 + (4e-6 if used > 1 else 0)
    named = (str(shape), threads)
    return (start_s + math.hypot(compute_s, loads_s)) * unevenness("cpu", *named)


def cells_of(study_shapes: Sequence[Shape], names: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells of the library at every shape and location, and of the CPU."""
    for shape in study_shapes:
        for name in names:
            yield cell("gpu0", LIBRARY, "float32", shape, None, name)
        for threads in (1, 4, CORES):
            yield cell(CPU, "blas", "float32", shape, threads=threads)


def shapes_of_the_study() -> list[Shape]:
    """Return the shapes that `config.yaml` measures at locations of the data."""
    study = load(ROOT / "config.yaml").study
    texts = [*study.sizes, *study.cpu.shapes]
    return [Shape.parse(text) for text in texts]


def recorded_shapes(base: Recording, seed: int, noise: float = 0.01) -> Recording:
    """Return a recording with the times of this module; others of its parts are those of `base`."""
    rng = np.random.default_rng(seed)
    cells = list(cells_of(shapes_of_the_study(), [*LOCATIONS]))
    rows, kernels, samples = [], [], 9
    for one in cells:
        true_s = _true_s(one)
        for number, factor in enumerate(np.exp(noise * rng.standard_normal(samples))):
            times = {"total_s": true_s * factor, "round": number, "position": 0, "session": 0}
            if one.device != CPU:
                in_run_s = kernel_s(one.shape) * factor
                copies_s = true_s * factor - in_run_s - 5e-6
                times |= {"in_run_kernel_s": in_run_s, "h2d_s": copies_s * 2 / 3}
                times["d2h_s"] = copies_s / 3
                if one.host_memory == "pinned":
                    kernels.append(one.kernel_row() | {"kernel_s": in_run_s, "session": 0})
            rows.append(one.row() | {"time_unix_s": 1.7e9 + number} | times)
    batches = pd.DataFrame(list(_batch_rows(rng, noise)))
    return replace(
        base,
        samples=_typed(pd.DataFrame(rows), base.samples),
        kernels=_typed(pd.DataFrame(kernels), base.kernels),
        throughput=batches.astype(TABLES["throughput.csv"] | {"session": "int64"}),
    )


def csv_of(recording: Recording) -> dict[str, str]:
    """Return the tables of surfaces of a recording called card by name, as text of CSV files."""
    frames = surface_tables(data.sources({"card": recording}))
    return {name: one.to_csv(index=False, float_format="%.6g") for name, one in frames.items()}


def tables() -> dict[str, str]:
    """Return `csv_of` hosts that do not differ in copies from pageable memory, computed once."""

    def compute() -> dict[str, str]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(between, "kind_of", lambda location: between.PINNED)
            return csv_of(recorded_shapes(read(recorded()), seed=0))

    own = (ROOT / "tests" / "support" / "simulated_shapes.py", ROOT / "config.yaml")
    return dict(kept("surfaces", [*own, recorded()], compute))


def _true_s(one: Cell) -> float:
    if one.device == CPU:
        return cpu_s(one.shape, one.threads or 1)
    return run_s(one.shape, str(one.host_memory))


def _typed(frame: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    return frame.reindex(columns=list(like)).astype(like.dtypes.to_dict())


def _batch_rows(rng: np.random.Generator, noise: float) -> Iterator[dict[str, object]]:
    """Yield the batches of `config.yaml`, in three rounds."""
    wanted = load(ROOT / "config.yaml").study.throughput
    settings = [(streams, 64, False) for streams in wanted.streams]
    settings += [(min(count, 4), count, True) for count in wanted.reuse]
    for n, (streams, products, same_a) in itertools.product(wanted.sizes, settings):
        one = cell("gpu0", LIBRARY, "float32", Shape.square(n))
        setting = {"streams": streams, "products": products, "same_a": int(same_a), "session": 0}
        for number in range(3):
            factors = np.exp(noise * rng.standard_normal(2))
            times = [
                factor * batch_s(one.shape, products, streams, same_a, multiplies)
                for factor, multiplies in zip(factors, (False, True), strict=True)
            ]
            named = dict(zip(("copies_s", "run_s"), times, strict=True))
            yield one.kernel_row() | setting | {"round": number} | named
