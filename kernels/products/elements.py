"""Element types in numpy and C++."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Element:
    """An element type in numpy and C++.

    32-bit integers are ``unsigned`` in C++, where only unsigned overflow is defined. The bits of
    the product are the same.
    """

    dtype: type[np.generic]
    c_type: str

    @property
    def bytes(self) -> int:
        """Bytes per element."""
        return np.dtype(self.dtype).itemsize


ELEMENTS = {
    "float32": Element(np.float32, "float"),
    "float64": Element(np.float64, "double"),
    "int32": Element(np.int32, "unsigned"),
}
