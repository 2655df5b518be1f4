"""Building the CPU variants as one shared library, and calling it from Python."""

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from base.errors import StudyError
from base.paths import ROOT, program
from cpu_reference.blas import LIBRARIES, Blas
from cpu_reference.catalog import VARIANTS, Variant

# Default flags; `build_library` accepts others.
MACHINE_FLAGS = ["-O3", "-march=native"]
# gcc must not interchange loops: that would turn one variant into another. It contracts to FMAs,
# as nvcc does; -std=c11 would disable that. No -ffast-math: sums keep their order, as on the GPU.
OWN_FLAGS = ["-std=c11", "-fno-loop-interchange", "-ffp-contract=fast", "-fopenmp"]
OWN_FLAGS += ["-fPIC", "-shared"]
FLAGS = [*MACHINE_FLAGS, *OWN_FLAGS]
CEILINGS = "cpu_reference/ceilings.c"
_FMA_ROUNDS = 1_000_000  # takes about 2 ms
_CLOCK_ROUNDS = 1000  # takes about 20 µs

Matrix = npt.NDArray[np.float32]


def find_gcc() -> Path:
    """Return the gcc on PATH; raise StudyError if there is none."""
    return program("gcc", "it (Debian, Ubuntu: apt install gcc)")


def gcc_version(gcc: Path) -> str:
    """Return gcc's version, for example ``12.2.0``."""
    done = subprocess.run([gcc, "-dumpfullversion"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def build_library(gcc: Path, folder: Path, machine_flags: Sequence[str] = MACHINE_FLAGS) -> Path:
    """Compile all variants and ceilings to ``folder/cpu_reference.so``; return its path.

    The default flags include `-march=native`, so build the library on the machine that measures.
    Raise StudyError if gcc fails.
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


def _check_matrices(entry: Variant, a: Matrix, b: Matrix, c: Matrix) -> None:
    """Raise ValueError for matrices that the variant would access out of bounds."""
    are_plain = all(
        matrix.ndim == 2 and matrix.flags.c_contiguous and matrix.dtype == np.float32
        for matrix in (a, b, c)
    )
    if not are_plain or (len(a), *b.shape) != (len(c), a.shape[1], c.shape[1]):
        raise ValueError("matrices must be contiguous float32: (m, k) times (k, n) is (m, n)")
    if entry.compiled and not a.shape == b.shape == (len(a), len(a)):
        raise ValueError(f"CPU variant {entry.name}: multiplies square matrices only")


class Library:
    """The compiled CPU variants, and the BLAS libraries."""

    def __init__(self, path: Path) -> None:
        """Load the library that `build_library` compiled."""
        self._library = ctypes.CDLL(str(path))
        self._blas: dict[str, Blas] = {}
        for name in ("fma_rate", "triad_rate", "clock_rate"):
            getattr(self._library, name).restype = ctypes.c_double

    def blas(self, name: str) -> Blas:
        """Return a BLAS library; raise StudyError if it is not installed or not usable."""
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
        """Compute ``c = a·b`` with the variant `name`; see `prepare`."""
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
        """Return a function that computes ``c = a·b``, as `multiply` does.

        Time the returned function, not `multiply`, because checking and converting the arguments
        takes longer than a small product. It raises MemoryError if the variant cannot allocate its
        buffer, StudyError if it gets too few threads. A (m, k), B (k, n) and C (m, n) are
        C-contiguous float32; for compiled variants they are square. Raise ValueError for matrices,
        block sizes or threads that the variant rejects.
        """
        entry = VARIANTS[name]
        _check_matrices(entry, a, b, c)
        if entry.blocked and (block_size is None or block_size < 1):
            raise ValueError(f"CPU variant {name}: needs a block size of 1 or more")
        if threads < 1 or (threads > 1 and not entry.parallel):
            raise ValueError(f"CPU variant {name}: cannot run on {threads} threads")
        if not entry.compiled:
            return self.blas(name).prepare(a, b, c, threads)
        function = self._library[name]
        # The pointers keep their matrices alive.
        pointers = [matrix.ctypes.data_as(ctypes.c_void_p) for matrix in (a, b, c)]
        arguments = (*pointers, a.shape[0], block_size or 0, threads)

        def run() -> None:
            status = function(*arguments)
            if status == 1:
                raise MemoryError(f"CPU variant {name}: not enough memory for its buffer")
            if status == 2:
                raise StudyError(
                    f"CPU variant {name}: cannot start {threads} threads; raise the limit of "
                    "processes (ulimit -u)"
                )

        return run

    def fma_flop_per_s(self, threads: int = 1) -> float:
        """Return the throughput of FMAs in registers, measured once (about 2 ms)."""
        return float(self._call("fma_rate", ctypes.c_long(_FMA_ROUNDS), threads))

    def clock_hz(self) -> float:
        """Return the clock of the core of this thread, measured once (about 20 µs).

        The method times a chain of dependent operations that take one cycle each. It is needed
        because Linux reports only the nominal clock on many virtual machines.
        """
        return float(self._call("clock_rate", ctypes.c_long(_CLOCK_ROUNDS)))

    def touch(self, array: Matrix, threads: int) -> None:
        """Write a contiguous float32 array with the threads that read it in `triad_bytes_per_s`."""
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        self._call("touch", pointer, ctypes.c_long(array.size), threads)

    def triad_bytes_per_s(
        self, out: Matrix, p: Matrix, q: Matrix, repeats: int = 1, threads: int = 1
    ) -> float:
        """Return the bandwidth of ``out = p + 3·q``, repeated `repeats` times on `threads` threads.

        The arrays are contiguous float32 of one length; ValueError otherwise. To measure memory,
        use arrays much larger than the caches; to measure a cache, arrays that fit.
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
