"""Compare the CPU variant `packed` with NumPy's BLAS, in interleaved pairs.

    python -m benchmarks.compare_with_blas [--flags "-O3 -mavx2 -mfma"] [--rounds N] [--out FILE]

Both multiply the same matrices alternately, for each size, on one thread (bound to one CPU) and on
all usable threads. The order is swapped each round, so other load of the host affects both equally.
Each timed product follows an untimed one, because the other product used the caches, and starts
when the other's threads are idle. Both products must pass the gate.

`--flags` replaces `-O3 -march=native`. If only one of compiler and OpenBLAS uses AVX-512, the
benchmark restarts itself with OPENBLAS_CORETYPE set so that both use the same instructions.

The exit status is 1 if a median ratio is below its bound. On one thread at N = 1024 and 2048, the
bound is 0.90 with AVX-512 and 0.80 without. On all threads at N = 2048 it is 0.85, otherwise 0.60.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.intervals import median_interval
from cpu_reference.blas import NumpyBlas
from cpu_reference.catalog import BLAS
from cpu_reference.cores import usable_threads, wait_until_alone
from cpu_reference.library import MACHINE_FLAGS, Library, build_library, find_gcc, gcc_version
from kernels.products.gate import evaluate
from kernels.products.matrices import Inputs, reference
from kernels.products.shape import Shape
from measurement.recorder.provenance import host, utc_now

SIZES = [255, 256, 512, 1000, 1023, 1024, 2048]
PACKED = "packed"
_ROUNDS = 40
_WARM_UP_S = 0.001
_SEED = 1
_CEILING_RUNS = 25
# A macro of the compiler's instructions, and OPENBLAS_CORETYPE for the same instructions.
_CODE = {"__AVX512F__": "SkylakeX", "__AVX2__": "Haswell", "": "Nehalem"}
_WITHOUT_AVX512 = ("Haswell", "Zen")
_CORE_TYPE = "OPENBLAS_CORETYPE"
_COMMAND = [sys.executable, "-m", "benchmarks.compare_with_blas"]


@dataclass(frozen=True)
class Comparison:
    """Both at one size and number of threads: median flop/s, and the ratio over pairs."""

    threads: int
    n: int
    pairs: int
    packed_flop_per_s: float
    blas_flop_per_s: float
    ratio: float
    ratio_low: float
    ratio_high: float
    bound: float

    @property
    def within(self) -> bool:
        """Whether the median ratio reaches its bound."""
        return self.ratio >= self.bound


def bound(threads: int, n: int, wide: bool) -> float:
    """Return the required ratio; `wide`: compiled with AVX-512."""
    if threads == 1 and n in (1024, 2048):
        return 0.90 if wide else 0.80
    return 0.85 if threads > 1 and n == 2048 else 0.60


def compare(
    threads: int, n: int, packed_s: Sequence[float], blas_s: Sequence[float], wide: bool
) -> Comparison:
    """Return the comparison of pairs of times at one size, with a 95 % interval of the ratio."""
    packed, blas = np.array(packed_s), np.array(blas_s)
    flop = Shape.square(n).flop
    ratio, low, high = median_interval(blas / packed)
    ours, theirs = (flop / float(np.median(times)) for times in (packed, blas))
    least = bound(threads, n, wide)
    return Comparison(threads, n, len(packed), ours, theirs, ratio, low, high, least)


def vectors(gcc: Path, flags: Sequence[str]) -> str:
    """Return the macro of `_CODE` that gcc defines with these flags; raise StudyError."""
    command = [str(gcc), *flags, "-dM", "-E", "-x", "c", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["gcc rejects them"])[0]
        raise StudyError(f"--flags: {reason}; use flags of this gcc")
    defined = done.stdout.split()
    return next(macro for macro in _CODE if not macro or macro in defined)


def blas_code(macro: str, chosen: str | None) -> str | None:
    """Return the OPENBLAS_CORETYPE to set, given the chosen type; None if the choice is right."""
    if macro == "__AVX512F__" and chosen not in _WITHOUT_AVX512:
        return None
    return None if chosen == _CODE[macro] else _CODE[macro]


class Pairs:
    """Both products at one size, and their times."""

    def __init__(self, library: Library, inputs: Inputs, threads: int, n: int) -> None:
        """Check the products; raise StudyError if one is wrong."""
        self.threads = threads
        self.n = n
        self.times: dict[str, list[float]] = {PACKED: [], BLAS: []}
        self._products: dict[str, Callable[[], None]] = {}
        a, b = inputs.pair("float32", Shape.square(n))
        expected, allowed = reference(a, b)
        for name in self.times:
            c = np.full_like(a, np.nan)
            self._products[name] = library.prepare(name, a[0], b[0], c[0], threads=threads)
            self._products[name]()
            verdict = evaluate(c, expected, allowed)
            if not verdict.passed:
                raise StudyError(
                    f"{name}, N={n}, {threads} threads: {verdict.reason}; install another BLAS"
                )

    def run(self, number: int) -> None:
        """Time both once, in an order that alternates with the number of the round."""
        names = list(self.times)
        for name in names if number % 2 else reversed(names):
            product = self._products[name]
            wait_until_alone()
            until = time.perf_counter() + _WARM_UP_S
            product()
            while time.perf_counter() < until:
                product()
            begin = time.perf_counter()
            product()
            self.times[name].append(time.perf_counter() - begin)


def measure(library: Library, threads: Sequence[int], rounds: int, wide: bool) -> list[Comparison]:
    """Measure all sizes in rounds, for each number of threads; raise StudyError."""
    inputs = Inputs([("float32", Shape.square(max(SIZES)))], _SEED)
    cpus = os.sched_getaffinity(0)
    try:
        found = []
        for count in threads:
            os.sched_setaffinity(0, {max(cpus)} if count == 1 else cpus)
            found += _measure_on(count, [Pairs(library, inputs, count, n) for n in SIZES], rounds)
    finally:
        os.sched_setaffinity(0, cpus)
    return [compare(p.threads, p.n, p.times[PACKED], p.times[BLAS], wide) for p in found]


def _measure_on(threads: int, pairs: list[Pairs], rounds: int) -> list[Pairs]:
    for number in range(rounds):
        print(f"\r{threads} threads: round {number + 1} of {rounds} ", end="", file=sys.stderr)
        for each in pairs:
            each.run(number)
    print(file=sys.stderr)
    return pairs


def table(comparisons: list[Comparison]) -> str:
    """Return the result as text, in GFLOP/s."""
    lines = [
        f"{'threads':>7} {'N':>5} {'pairs':>5} {'packed':>8} {'BLAS':>8} {'ratio':>6} "
        f"{'95 % interval':>15}  at least"
    ]
    lines += [
        f"{c.threads:>7} {c.n:>5} {c.pairs:>5} {c.packed_flop_per_s / 1e9:>8.1f} "
        f"{c.blas_flop_per_s / 1e9:>8.1f} {c.ratio:>6.3f}  {c.ratio_low:>6.3f} – "
        f"{c.ratio_high:>5.3f}  {c.bound:.2f} {'yes' if c.within else 'NO'}"
        for c in comparisons
    ]
    return "\n".join(lines)


def _facts(
    gcc: Path, flags: list[str], blas: dict[str, Any], clocks: list[float]
) -> dict[str, Any]:
    return {
        "date_utc": utc_now(),
        "host": host(),
        "usable_threads": usable_threads(),
        "clock_before_hz": clocks[0],
        "clock_after_hz": clocks[1],
        "gcc": gcc_version(gcc),
        "flags": flags,
        "numpy": np.__version__,
        **blas,
    }


def main() -> int:
    """Build, measure and print; raise StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_with_blas",
        description="Compare the CPU variant `packed` with NumPy's BLAS on this host.",
    )
    parser.add_argument(
        "--flags",
        type=shlex.split,
        default=MACHINE_FLAGS,
        help=f"compiler flags (default: {shlex.join(MACHINE_FLAGS)})",
    )
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, help=f"pairs per size (default: {_ROUNDS})"
    )
    parser.add_argument("--out", type=Path, help="also write the result to this JSON file")
    arguments = parser.parse_args()
    gcc = find_gcc()
    macro = vectors(gcc, arguments.flags)
    with tempfile.TemporaryDirectory(prefix="matmul-study-") as folder:
        library = Library(build_library(gcc, Path(folder), arguments.flags))
    blas = NumpyBlas().facts()
    code = blas_code(macro, blas["blas_architecture"])
    if code:
        if os.environ.get(_CORE_TYPE) == code:
            raise StudyError(
                f"numpy's BLAS does not support {code} here and uses {blas['blas_architecture']}; "
                "give --flags for that CPU"
            )
        os.environ[_CORE_TYPE] = code  # read only when the BLAS is loaded
        os.execv(sys.executable, [*_COMMAND, *sys.argv[1:]])
    print(
        f"gcc {gcc_version(gcc)} {shlex.join(arguments.flags)}; {blas['blas']} "
        f"{blas['blas_version']} with code for {blas['blas_architecture']} "
        f"({_CORE_TYPE} {os.environ.get(_CORE_TYPE, 'not set')})",
        flush=True,
    )
    ceiling = max(library.fma_flop_per_s() for _ in range(_CEILING_RUNS))
    print(f"one core: {ceiling / 1e9:.1f} GFLOP/s of FMAs in registers", flush=True)
    before = library.clock_hz()
    threads = sorted({1, usable_threads()})
    comparisons = measure(library, threads, arguments.rounds, macro == "__AVX512F__")
    print(table(comparisons))
    if arguments.out:
        facts = _facts(gcc, arguments.flags, blas, [before, library.clock_hz()])
        facts["fma_flop_per_s"] = ceiling
        outcome = facts | {"comparisons": [asdict(comparison) for comparison in comparisons]}
        write_atomic(arguments.out, json.dumps(outcome, indent=2) + "\n")
    return int(not all(comparison.within for comparison in comparisons))


if __name__ == "__main__":
    sys.exit(exit_status(main))
