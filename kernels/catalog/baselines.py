"""All baselines: the variants over which speedups are given.

A speedup is the time of the baseline over the time of the other implementation, at the same size.
"""

from typing import Literal, get_args

# The kernel that every GPU speedup starts from, and the block size of its launch in source V.
NAIVE, NAIVE_BLOCK = "naive", 32

# Baselines of the ladder of kernels (key baseline of report in config.yaml).
Baseline = Literal["fastest-naive", "source-naive", "cublas", "fastest-cpu"]
FASTEST_NAIVE, SOURCE_NAIVE, CUBLAS, FASTEST_CPU = BASELINES = get_args(Baseline)

TITLES = {
    FASTEST_NAIVE: "fastest naive kernel",
    SOURCE_NAIVE: f"naive kernel of source V (B = {NAIVE_BLOCK})",
    CUBLAS: "cuBLAS, pedantic FP32",
    FASTEST_CPU: "fastest CPU implementation",
}

# On the host's CPU, from the slowest to the fastest; "own" is the C of this study.
OWN_ALL, BEST = "own_all", "best"
CPU_BASELINES = {
    "naive": "naive loop, one thread",
    "own": "fastest of this study, one thread",
    OWN_ALL: "fastest of this study, several threads",
    "blas": "library, one thread",
    "blas_all": "library, several threads",
    BEST: "fastest of all",
}
ON_ONE_THREAD = ("naive", "own", "blas")
# Without `OWN_ALL`: for break-even sizes only.
SPEEDUP_BASELINES = tuple(name for name in CPU_BASELINES if name != OWN_ALL)
