"""Building the CPU variants into one shared library, and calling them."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cpu_reference.catalog import VARIANTS
from measurement.errors import StudyError

ROOT = Path(__file__).resolve().parent.parent
# Loops stay in the order in which they are written: interchanging them would turn one variant into
# another. No -ffast-math: sums keep their order, as they do on the GPU.
FLAGS = ["-std=c11", "-O3", "-march=native", "-fno-loop-interchange", "-fPIC", "-shared"]

Matrix = npt.NDArray[np.float32]


def find_gcc() -> Path:
    """Return the gcc on PATH; raises StudyError if there is none."""
    found = shutil.which("gcc")
    if not found:
        raise StudyError("gcc: not found on PATH; install it (Debian, Ubuntu: apt install gcc)")
    return Path(found)


def gcc_version(gcc: Path) -> str:
    """Return gcc's version, for example ``12.2.0``."""
    done = subprocess.run([gcc, "-dumpfullversion"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def build_library(gcc: Path, folder: Path) -> Path:
    """Compile all variants to ``folder/cpu_reference.so`` and return it; raises StudyError.

    `-march=native`: to be built on the machine that measures.
    """
    out = folder / "cpu_reference.so"
    sources = [str(ROOT / variant.source) for variant in VARIANTS.values()]
    done = subprocess.run(
        [str(gcc), *FLAGS, "-o", str(out), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise StudyError(f"cpu_reference: gcc failed: {(lines or ['without a message'])[0]}")
    return out


class Library:
    """The compiled CPU variants."""

    def __init__(self, path: Path) -> None:
        """Load what `build_library` made."""
        self._library = ctypes.CDLL(str(path))

    def multiply(self, name: str, a: Matrix, b: Matrix, c: Matrix, block_size: int | None) -> None:
        """Compute ``c = a·b`` with the variant `name`; all are (n, n), C-contiguous float32.

        Raises MemoryError where the variant could not get its buffer.
        """
        for matrix in (a, b, c):
            if (
                matrix.shape != (len(a), len(a))
                or not matrix.flags.c_contiguous
                or matrix.dtype != np.float32
            ):
                raise ValueError("matrices must be square, of one order, contiguous and float32")
        if VARIANTS[name].blocked and (block_size is None or block_size < 1):
            raise ValueError(f"CPU variant {name}: needs a block size of 1 or more")
        pointers = (matrix.ctypes.data_as(ctypes.c_void_p) for matrix in (a, b, c))
        if self._library[name](*pointers, a.shape[0], block_size or 0) != 0:
            raise MemoryError(f"CPU variant {name}: no memory for its buffer")
