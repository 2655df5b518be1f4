"""Reference products, cached on disk by the content of their matrices."""

import contextlib
import hashlib
from pathlib import Path

import numpy as np

from base.files import atomic_writer
from base.paths import RESULTS
from kernels.products.matrices import Inputs, Problem, Reference, reference
from kernels.products.shape import Shape

CACHE = RESULTS / "references"
# Part of the hash; increase it when `kernels.products.matrices.reference` changes.
_VERSION = b"float64 product and Higham bound, 2"


class References:
    """Reference products for all shapes of `inputs`; the last one stays in memory.

    A damaged cache file is computed again. A cache that cannot be written only costs time.
    """

    def __init__(self, inputs: Inputs, folder: Path = CACHE) -> None:
        self._inputs = inputs
        self._folder = folder
        self._problem: Problem | None = None
        self._last: tuple[Reference, Reference] | None = None

    def of(self, dtype: str, shape: Shape) -> tuple[Reference, Reference]:
        """Return A·B in float64 and the error bound of a product, both (batch, m, n)."""
        if self._last is None or self._problem != (dtype, shape):
            self._last = None  # frees its memory before the next one is computed
            self._last = self._load_or_compute(dtype, shape)
            self._problem = (dtype, shape)
        return self._last

    def _load_or_compute(self, dtype: str, shape: Shape) -> tuple[Reference, Reference]:
        a, b = self._inputs.pair(dtype, shape)
        digest = hashlib.sha256(_VERSION)
        digest.update(a.data)
        digest.update(b.data)
        path = self._folder / f"{dtype}-{shape}-{digest.hexdigest()[:32]}.npy"
        with contextlib.suppress(OSError, ValueError, EOFError), path.open("rb") as stream:
            expected, bound = np.load(stream), np.load(stream)
            if expected.shape == bound.shape == (shape.batch, shape.m, shape.n):
                return expected, bound
        expected, bound = reference(a, b)
        with contextlib.suppress(OSError), atomic_writer(path) as stream:
            np.save(stream, expected)
            np.save(stream, bound)
        return expected, bound
