"""Building the CPU variants into one shared library, and calling them."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from base.errors import StudyError
from base.paths import ROOT
from cpu_reference.blas import LIBRARIES, Blas
from cpu_reference.catalog import VARIANTS

# For this machine; `build_library` takes others.
MACHINE_FLAGS = ["-O3", "-march=native"]
# Loops stay in the order in which they are written: interchanging them would turn one variant into
# another. Multiply-adds are fused where the machine can, which every machine of today can, and nvcc
# does too; gcc does so by itself except where it is held to the standard. No -ffast-math: sums keep
# their order, as they do on the GPU.
OWN_FLAGS = ["-std=c11", "-fno-loop-interchange", "-ffp-contract=fast", "-fopenmp"]
OWN_FLAGS += ["-fPIC", "-shared"]
FLAGS = [*MACHINE_FLAGS, *OWN_FLAGS]
CEILINGS = "cpu_reference/ceilings.c"
_FMA_ROUNDS = 1_000_000  # about 2 ms
_CLOCK_ROUNDS = 1000  # about 20 µs

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


def build_library(gcc: Path, folder: Path, machine_flags: Sequence[str] = MACHINE_FLAGS) -> Path:
    """Compile all variants and the ceilings to ``folder/cpu_reference.so``; raises StudyError.

    Returns its path. With `-march=native` it is to be built on the machine that measures.
    """
    out = folder / "cpu_reference.so"
    sources = [str(ROOT / variant.source) for variant in VARIANTS.values() if variant.source]
    sources.append(str(ROOT / CEILINGS))
    done = subprocess.run(
        [str(gcc), *machine_flags, *OWN_FLAGS, "-o", str(out), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise StudyError(f"cpu_reference: gcc failed: {(lines or ['without a message'])[0]}")
    return out


class Library:
    """The compiled CPU variants, and the BLAS libraries."""

    def __init__(self, path: Path) -> None:
        """Load what `build_library` made."""
        self._library = ctypes.CDLL(str(path))
        self._blas: dict[str, Blas] = {}
        for name in ("fma_rate", "triad_rate", "clock_rate"):
            getattr(self._library, name).restype = ctypes.c_double

    def blas(self, name: str) -> Blas:
        """Return a BLAS library; raises StudyError where it is not installed, or not of use."""
        if name not in self._blas:
            self._blas[name] = LIBRARIES[name]()
        return self._blas[name]

    def multiply(
        self,
        name: str,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        block_size: int | None = None,
        threads: int = 1,
    ) -> None:
        """Compute ``c = a·b`` with the variant `name`; all are (n, n), C-contiguous float32.

        Raises what `prepare` does, and what the function that it returns does.
        """
        self.prepare(name, a, b, c, block_size, threads)()

    def prepare(
        self,
        name: str,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        block_size: int | None = None,
        threads: int = 1,
    ) -> Callable[[], None]:
        """Return a function that computes ``c = a·b`` as `multiply` does, as often as it is called.

        It is what to time: checking and converting the arguments takes longer than a small product.
        It raises MemoryError where the variant cannot get its buffer, and StudyError where it
        cannot get its threads. Raises ValueError for matrices, block sizes or threads that the
        variant does not take.
        """
        for matrix in (a, b, c):
            if (
                matrix.shape != (len(a), len(a))
                or not matrix.flags.c_contiguous
                or matrix.dtype != np.float32
            ):
                raise ValueError("matrices must be square, of one order, contiguous and float32")
        entry = VARIANTS[name]
        if entry.blocked and (block_size is None or block_size < 1):
            raise ValueError(f"CPU variant {name}: needs a block size of 1 or more")
        if threads < 1 or (threads > 1 and not entry.parallel):
            raise ValueError(f"CPU variant {name}: cannot run on {threads} threads")
        if not entry.compiled:
            return self.blas(name).prepare(a, b, c, threads)
        function = self._library[name]
        # These keep their matrices alive.
        pointers = [matrix.ctypes.data_as(ctypes.c_void_p) for matrix in (a, b, c)]
        arguments = (*pointers, a.shape[0], block_size or 0, threads)

        def run() -> None:
            status = function(*arguments)
            if status == 1:
                raise MemoryError(f"CPU variant {name}: no memory for its buffer")
            if status == 2:
                raise StudyError(
                    f"CPU variant {name}: OpenMP gives fewer than {threads} threads; unset "
                    "OMP_THREAD_LIMIT and OMP_DYNAMIC"
                )

        return run

    def fma_flop_per_s(self, threads: int = 1) -> float:
        """Measure once, in 2 ms, the rate of fused FMAs in registers."""
        return float(self._call("fma_rate", ctypes.c_long(_FMA_ROUNDS), threads))

    def clock_hz(self) -> float:
        """Measure once, in some 20 µs, the clock of the core on which this thread runs.

        From the time of operations that wait for one another, a cycle each: what Linux tells of the
        clock is nominal on many virtual machines.
        """
        return float(self._call("clock_rate", ctypes.c_long(_CLOCK_ROUNDS)))

    def touch(self, array: Matrix, threads: int) -> None:
        """Write contiguous float32 with the threads that `triad_bytes_per_s` will read it with."""
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        self._call("touch", pointer, ctypes.c_long(array.size), threads)

    def triad_bytes_per_s(
        self, out: Matrix, p: Matrix, q: Matrix, repeats: int = 1, threads: int = 1
    ) -> float:
        """Measure once the rate of ``out = p + 3·q``, done `repeats` times on `threads` threads.

        The three are contiguous float32 of one length: much longer than the caches for the rate of
        memory, and so short that they fit in a cache for its own. Raises ValueError otherwise.
        """
        if any(x.dtype != np.float32 or not x.flags.c_contiguous for x in (out, p, q)) or not (
            out.size == p.size == q.size
        ):
            raise ValueError("arrays must be contiguous float32 of one length")
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (out, p, q)]
        counts = (ctypes.c_long(out.size), ctypes.c_long(repeats), threads)
        return float(self._call("triad_rate", *pointers, *counts))

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library, name)(*arguments)
