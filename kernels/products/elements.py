"""The types of matrix elements, as numpy and C++ name them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Element:
    """A type of elements: what numpy and C++ call it.

    32-bit integers are computed as ``unsigned``, whose overflow wraps around by the standard of
    C++; the bits of the product are the same.
    """

    dtype: type[np.generic]
    c_type: str

    @property
    def bytes(self) -> int:
        """Size of an element."""
        return np.dtype(self.dtype).itemsize


ELEMENTS = {
    "float32": Element(np.float32, "float"),
    "float64": Element(np.float64, "double"),
    "int32": Element(np.int32, "unsigned"),
}
