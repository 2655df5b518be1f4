"""The kernels of `benchmarks.tuner_cells` timed by kernel_tuner, in a separate process.

    python -m benchmarks.tuner_kernels --backend nvrtc|cupy|pycuda

kernel_tuner compiles the project's sources and measures kernel times, 30 launches per cell. The
last line of output is JSON: the number of cells and the seconds from the first call to the last.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from base.errors import StudyError, exit_status
from base.paths import ROOT
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape

# The 44 cells: kernels of very different lengths, with block sizes that each has at all sizes.
SIZES = [256, 512, 1024, 2048]
CELLS = {"naive": [16, 32], "block": [2, 4, 8, 16, 32], "block_unroll4": [4, 8, 16, 32]}
# Version 1.4.0 imports scikit-learn and pymoo only for strategies that are not used here.
REMEDY = "kernel_tuner: not installed; run `pip install kernel_tuner==1.4.0`"
# kernel_tuner's names of the backends.
BACKENDS = {"nvrtc": "NVCUDA", "cupy": "CUPY", "pycuda": "PYCUDA"}
_LAUNCHES = 30
_SEED = 1
_DTYPE = "float32"


def tune(tuner: Any, language: str, name: str, n: int, block_sizes: list[int], data: Inputs) -> int:
    """Time a variant at size `n` with all block sizes; return how many; raise StudyError."""
    shape = Shape.square(n)
    a, b = (matrix[0] for matrix in data.pair(_DTYPE, shape))
    # The threads of each block size: x is B, y is a fixed fraction of B.
    threads = {b: Product(name, _DTYPE, shape, b).launch.threads for b in block_sizes}
    share = block_sizes[0] // threads[block_sizes[0]][1]
    results, _ = tuner.tune_kernel(
        name,
        (ROOT / str(variant(name).source)).read_text(),
        (n, n),
        [a, b, np.zeros((n, n), _DTYPE), np.int32(n)],
        {
            "BLOCK": block_sizes,
            "GUARDED": [0],
            "block_size_x": [x for x, _ in threads.values()],
            "block_size_y": [y for _, y in threads.values()],
        },
        grid_div_x=["BLOCK"],
        grid_div_y=["BLOCK"],
        restrictions=["block_size_x == BLOCK", f"block_size_y * {share} == BLOCK"],
        lang=language,
        compiler_options=["--std=c++17"],
        iterations=_LAUNCHES,
        quiet=True,
    )
    timed = {result["BLOCK"] for result in results if isinstance(result["time"], float)}
    missing = set(block_sizes) - timed
    if missing:
        raise StudyError(f"kernel_tuner: {name} N={n} B={min(missing)}: no time; see its output")
    return len(timed)


def main() -> None:
    """Time all cells; raise StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuner_kernels", description="Time the cells by kernel_tuner."
    )
    parser.add_argument("--backend", required=True, choices=BACKENDS)
    arguments = parser.parse_args()
    try:
        import kernel_tuner
    except ImportError as error:
        if (error.name or "").split(".")[0] != "kernel_tuner":
            raise StudyError(f"kernel_tuner: {error}; install the missing package") from None
        raise StudyError(REMEDY) from None
    inputs = Inputs([(_DTYPE, Shape.square(n)) for n in SIZES], _SEED)
    begin = time.perf_counter()
    try:
        cells = sum(
            tune(kernel_tuner, BACKENDS[arguments.backend], name, n, block_sizes, inputs)
            for name, block_sizes in CELLS.items()
            for n in SIZES
        )
    except (ImportError, RuntimeError) as error:  # a backend's packages are missing
        raise StudyError(" ".join(str(error).split())) from None
    print(json.dumps({"cells": cells, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    sys.exit(exit_status(main))
