"""Element types, as numpy and C++ represent them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Stored:
    """How a 16-bit or rounded number is stored. numpy has no bfloat16, so its bits are stored."""

    name: str
    dtype: type[np.generic]
    digits: int  # significant binary digits; 0: integers

    @property
    def is_short(self) -> bool:
        """Whether the type is a floating-point type of 16 bits."""
        return 0 < self.digits < 24

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the type; 0 for integers, which are exact."""
        return 2.0**-self.digits if self.digits else 0.0

    def encoded(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values as they are stored, rounded to nearest even."""
        if self.name != "bfloat16":
            return values.astype(self.dtype)
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def decoded(self, stored: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the values of stored numbers."""
        if self.name == "bfloat16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(np.float64)


FLOAT = Stored("float", np.float32, 24)
# Types by the letter that `host_element` in launch.h gives them.
STORED = {
    "f": FLOAT,
    "d": Stored("double", np.float64, 53),
    "h": Stored("half", np.float16, 11),
    "b": Stored("bfloat16", np.uint16, 8),
    "i": Stored("int", np.int32, 0),
    "u": Stored("unsigned", np.uint32, 0),
    "c": Stored("int8", np.int8, 0),
    "C": Stored("uint8", np.uint8, 0),
}


@dataclass(frozen=True)
class Element:
    """An element type in numpy and C++.

    32-bit integers are ``unsigned`` in C++, where only unsigned overflow is defined. The bits of
    the product are the same. `rounded` is the form to which float32 elements of A and B are
    rounded; C is then float32.
    """

    dtype: type[np.generic]
    c_type: str
    rounded: Stored | None = None

    @property
    def bytes(self) -> int:
        """Bytes per element."""
        return np.dtype(self.dtype).itemsize


ELEMENTS = {
    "float32": Element(np.float32, "float"),
    "float64": Element(np.float64, "double"),
    "int32": Element(np.int32, "unsigned"),
    "float16": Element(np.float16, "__half", STORED["h"]),
    "bfloat16": Element(np.uint16, "__nv_bfloat16", STORED["b"]),
}


def exact(dtype: str) -> str:
    """Return the element type of C, which is also that of A and B before rounding."""
    return "float32" if ELEMENTS[dtype].rounded else dtype
