"""Synthetic times from known parameters, for kernels and sizes like those of the study."""

from functools import cache

import numpy as np
import pandas as pd

from analysis.kernels.machine_code import EXACT
from analysis.models.definitions import MODELS, SOURCE_V, is_modelled
from analysis.models.work import GpuFacts, with_work
from analysis.stats.estimates import DRAWS
from analysis.stats.fitting import Data
from kernels.catalog.entries import VARIANTS

SIZES = (256, 512, 1024, 2048, 4096)
BLOCKS = (1, 2, 4, 8, 16, 32)
LARGEST = {1: 1024, 2: 2048}  # size N of a block size
SAMPLES = 15
# Parameters of the order of an H100's, for every model.
TRUTH = {"tau0": 1e-5, "t_G": 1e-12, "t_N": 2.5e-12, "t_S": 2e-13, "t_B": 1e-7}
TRUTH |= {"c_G": 4e-12, "c_L": 4e-12, "c_S": 3.5e-12, "c_I": 1.5e-12}
_CODE = ["variant", "dtype", "block_size", "build", "registers_per_thread", "static_shared_bytes"]
_CODE += ["instructions", "loop_instructions", "loop_fmas"]
_NO_COUNTERS = ["variant", "dtype", "batch", "m", "n", "k", "block_size", "ncu_metric", "counter"]


@cache
def cells(every: bool = False) -> pd.DataFrame:
    """Return the cells that M0 models, or those of all kernels of source V, with their work."""
    rows, code = [], []
    for name in SOURCE_V:
        for block in (VARIANTS[name].block_sizes and BLOCKS) or (None,):
            if not VARIANTS[name].takes_block(block):
                continue
            # A loop around eight FMAs, of which every kernel has some more of its own.
            around = 12 + 3 * len(code) % 17
            code.append((name, "float32", block, EXACT, 32, 0, 60 + around, 8 + around, 8))
            most = 1024 if block is None else LARGEST.get(block, max(SIZES))
            rows += [(name, block, n) for n in SIZES if n <= most]
    frame = pd.DataFrame(rows, columns=["variant", "block_size", "n"])
    frame = frame.astype({"block_size": "Int64"})
    codes = pd.DataFrame(code, columns=_CODE).astype({"block_size": "Int64"})
    card = GpuFacts(132, "9.0", codes, pd.DataFrame(columns=_NO_COUNTERS))
    chosen = frame if every else frame[is_modelled(frame)]
    return with_work(chosen.reset_index(drop=True), card)


def truth(model: str, **changes: float) -> np.ndarray:
    return np.array([(TRUTH | changes)[name] for name in MODELS[model].parameters])


def times(
    model: str,
    seed: int,
    noise: tuple[float, float, float, float],
    frame: pd.DataFrame | None = None,
    **changes: float,
) -> Data:
    """Return times with lognormal errors of kernels, of sizes, of cells, of samples (`noise`).

    `changes` are true parameters other than `TRUTH`; `frame` is `cells()` unless given.
    """
    design, kernels, sizes = _usual(model) if frame is None else _layout(model, frame)
    rng = np.random.default_rng(seed)
    of_kernels, of_sizes, of_cells, of_samples = noise
    median = of_samples * np.sqrt(np.pi / 2 / SAMPLES)  # of the median of so many samples
    error = of_kernels * rng.standard_normal(kernels.max() + 1)[kernels]
    error += of_sizes * rng.standard_normal(sizes.max() + 1)[sizes]
    error += np.hypot(of_cells, median) * rng.standard_normal(len(design))
    logs, variances = (
        np.log(design @ truth(model, **changes)) + error,
        np.full(len(design), median**2),
    )
    draws = median * rng.standard_normal((DRAWS, len(design)))
    return Data(design, logs, variances, kernels, sizes, draws)


def _layout(model: str, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    kernels = frame.groupby(["variant", "block_size"], dropna=False).ngroup().to_numpy()
    return MODELS[model].design(frame), kernels, frame.groupby("n").ngroup().to_numpy()


_usual = cache(lambda model: _layout(model, cells()))
