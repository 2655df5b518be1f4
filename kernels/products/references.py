"""Reference products kept on disk, found again by the content of the matrices."""

import contextlib
import hashlib
from pathlib import Path

import numpy as np

from base.files import atomic_writer
from base.paths import RESULTS
from kernels.products.matrices import Inputs, Problem, Reference, reference
from kernels.products.shape import Shape

CACHE = RESULTS / "references"
# Part of the hash: to be raised when `kernels.products.matrices.reference` computes something else.
_VERSION = b"float64 product and Higham bound, 2"


class References:
    """References of the problems of `inputs`; the last one asked for stays in memory.

    A file of the cache that is damaged is computed anew, and a cache that cannot be written costs
    time only.
    """

    def __init__(self, inputs: Inputs, folder: Path = CACHE) -> None:
        self._inputs = inputs
        self._folder = folder
        self._problem: Problem | None = None
        self._last: tuple[Reference, Reference] | None = None

    def of(self, dtype: str, shape: Shape) -> tuple[Reference, Reference]:
        """Return A·B in float64 and the bound on a product's error, both (batch, m, n)."""
        if self._last is None or self._problem != (dtype, shape):
            self._last = None  # before the next is made: both at once may be more than there is
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
