"""What the answers depend on: kind of arithmetic, host memory, and CPU code compared with.

Kinds of arithmetic: kernels of this study that compute in FP32 throughout, those that compute a
float32 product from 16-bit products on tensor cores, and the library in its mode of the study.
"""

from collections.abc import Iterator

import pandas as pd

from analysis.cpu.cells import ONE, with_threads
from analysis.data.best import fastest
from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide import break_even
from analysis.decide.break_even import CpuBaselines
from analysis.decide.curves import run_cells
from analysis.decide.questions import ON_TENSOR_CORES
from analysis.domain import CPU
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import quotients
from kernels.catalog.baselines import BEST
from kernels.catalog.entries import LIBRARIES, VARIANTS

STRICT, TENSOR, LIBRARY = KINDS = ("strict FP32", ON_TENSOR_CORES, "cuBLAS, pedantic FP32")
ONE_CORE = "one thread"
_SIZE = 4096  # size of the speedups; if not measured, the largest common size
_LABELS = ("recording", "gpu", "kernels", "host_memory", "cpu_baseline")
_EVEN = ("location", "least_n", "largest_n", *with_bounds("n"))


def choices_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU, kernels, host memory and CPU baseline, with both answers.

    speedup: that of the fastest implementation with these kernels over the fastest one on the CPU
    (`BEST`: with any threads and library; `ONE_CORE`: with one thread), both at size n, copies
    included. break_even_n and its columns are those of break_even.csv.
    """
    return from_rows("choices", [row for source in with_gpu(sources) for row in _choices(source)])


def _choices(source: MeasuredSource) -> Iterator[dict[str, object]]:
    """Yield the rows of one GPU."""
    cells, draws, runs = source.square_cells, source.draws["total"], run_cells(source)
    on_cpu = cells[(cells["device"] == CPU) & cells["total_s"].notna()]
    compared = {BEST: on_cpu, ONE_CORE: on_cpu[with_threads(on_cpu, ONE)]}
    cpu = CpuBaselines.of(compared, draws)
    kinds = pd.Categorical(runs["variant"].map(_kind), KINDS)
    for (kernels, memory), rows in runs.groupby([kinds, "host_memory"], observed=True):
        names = {"kernels": kernels, "host_memory": memory}
        seed = f"{memory}, {break_even.LIBRARY if kernels == LIBRARY else break_even.STUDY}"
        for even in break_even.break_even_rows(source, names, rows, draws, cpu, seed):
            labels = {name: even[name] for name in _LABELS}
            speedup = _speedup(rows, compared[str(even["cpu_baseline"])])
            yield labels | speedup | {f"break_even_{name}": even[name] for name in _EVEN}


def _kind(variant: str) -> str:
    if variant in LIBRARIES:
        return LIBRARY
    return TENSOR if VARIANTS[variant].tensor_cores else STRICT


def _speedup(gpu: pd.DataFrame, cpu: pd.DataFrame) -> dict[str, object]:
    """Return the fastest cell of a GPU and that of a CPU at one size, and the speedup."""
    sizes = {*gpu["n"]} & {*cpu["n"]}
    n = _SIZE if _SIZE in sizes else max(sizes)
    best, other = (fastest(side[side["n"] == n], "total_s").iloc[0] for side in (gpu, cpu))
    times = [side[with_bounds("total_s")].to_numpy(float) for side in (other, best)]
    return {
        **best[["sessions", "n", "variant", "block_size", *with_bounds("total_s")]],
        **{f"cpu_{name}": other[name] for name in ("variant", "threads")},
        **bounded("speedup", *map(float, quotients(*times))),
    }
