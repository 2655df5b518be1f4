"""Time all CPU libraries and thread counts at random sizes, to rate `packed` and the study.

    python -m benchmarks.compare_cpu_libraries [--sizes N] [--rounds N] [--out FILE]

Candidates are `packed` and the installed libraries, each on several numbers of threads. They
multiply the same matrices in interleaved rounds, in an order that is reversed each round, so other
load of the host affects all equally. Each timed product follows an untimed one, which starts when
the threads of other libraries are idle. All products must pass the gate.

The study has times only at its own sizes and thread counts, which a first part of this run
measures. Its choice at another size is the candidate with the least interpolated time. The table
gives, for each size:

- best: the fastest candidate, and its throughput from medians
- choice: the study's choice, and its time over that of the best (median over rounds)
- packed: the fastest number of threads of `packed`, and the best library's time over its time
- steps: the largest time of `packed` on a thread count of the study over that on a smaller one

The exit status is 1 if a choice is more than 5 % slower than the best, `packed` is below 0.9 of a
library at N ≥ 128 or below 0.8 of the FMAs of all threads at N = 4096, or a step is above 1.05.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

import study.config
from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.paths import ROOT
from cpu_reference.blas import LIBRARIES, shorten_idle_time
from cpu_reference.catalog import VARIANTS
from cpu_reference.cores import all_cores, keep_to_core, usable_threads, wait_until_alone
from cpu_reference.library import Library, build_library, find_gcc
from kernels.products.gate import evaluate
from kernels.products.matrices import Inputs, reference
from kernels.products.shape import Shape
from measurement.recorder.provenance import host, packages, utc_now

PACKED = "packed"
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_LARGEST = 4096
_WARM_UP_S = 0.001
_SEED = 1
_CEILING_RUNS = 25
_HOPELESS = 4  # a thread count so many times slower than another is not measured further

_TITLES = "    N       best GFLOP/s     choice  ratio     packed  ratio p90/p10  steps  share"

Candidate = tuple[str, int]  # (variant, number of threads)
Times = dict[Candidate, list[float]]  # seconds by round


@dataclass(frozen=True)
class Comparison:
    """The result at one size; candidates are (variant, threads); `share` is of the FMA ceiling."""

    n: int
    rounds: int
    best: Candidate
    best_flop_per_s: float
    choice: Candidate
    choice_ratio: float
    packed: Candidate
    packed_p10_s: float
    packed_p90_s: float
    packed_ratio: float
    step: float
    share: float

    @property
    def faults(self) -> list[str]:
        """Return the criteria that the result at this size misses."""
        checks = {
            "choice": self.choice_ratio > 1.05,
            "packed": self.n >= 128 and self.packed_ratio < 0.9,
            "share": self.n == _LARGEST and self.share < 0.8,
            "step": self.step > 1.05,
        }
        return [name for name, missed in checks.items() if missed]

    @property
    def line(self) -> str:
        """Return the result as a line of the table, with the criteria that it misses."""
        best, choice, packed = (f"{v} {t}" for v, t in (self.best, self.choice, self.packed))
        return (
            f"{self.n:>5} {best:>10} {self.best_flop_per_s / 1e9:>7.1f} {choice:>10} "
            f"{self.choice_ratio:>6.3f} {packed:>10} {self.packed_ratio:>6.3f} "
            f"{self.packed_p90_s / self.packed_p10_s:>7.2f} {self.step:>6.3f} {self.share:>6.3f} "
            f"{' '.join(self.faults)}"
        ).rstrip()


def choose(known_s: Mapping[Candidate, Mapping[int, float]], n: int) -> Candidate:
    """Return the candidate with the least time at `n`, interpolated between its measured sizes."""

    def time_s(candidate: Candidate) -> float:
        sizes = sorted(known_s[candidate])
        if n > sizes[-1]:
            return math.inf
        logs = [math.log(known_s[candidate][size]) for size in sizes]
        return float(np.interp(math.log(n), np.log(sizes), logs))

    return min(known_s, key=time_s)


def compare(
    n: int, times: Times, choice: Candidate, steps: Sequence[int], fma: float
) -> Comparison:
    """Return the comparison at one size; `steps` are the thread counts of the study."""
    median_s = {candidate: float(np.median(seconds)) for candidate, seconds in times.items()}
    best = min(median_s, key=lambda candidate: median_s[candidate])

    def fastest(own: bool) -> Candidate:
        return min((c for c in times if (c[0] == PACKED) == own), key=lambda c: median_s[c])

    def ratio(above: Candidate, below: Candidate) -> float:
        if above not in times:
            return float(_HOPELESS)
        return float(np.median(np.array(times[above]) / np.array(times[below])))

    packed, library = fastest(own=True), fastest(own=False)
    pairs = combinations([(PACKED, count) for count in steps if (PACKED, count) in times], 2)
    flop = Shape.square(n).flop
    low_s, high_s = np.percentile(times[packed], [10, 90])
    return Comparison(
        n=n,
        rounds=len(times[best]),
        best=best,
        best_flop_per_s=flop / median_s[best],
        choice=choice,
        choice_ratio=ratio(choice, best),
        packed=packed,
        packed_p10_s=float(low_s),
        packed_p90_s=float(high_s),
        packed_ratio=ratio(library, packed),
        step=max((ratio(more, fewer) for fewer, more in pairs), default=1.0),
        share=flop / median_s[packed] / fma,
    )


def candidates(library: Library, counts: Iterable[int]) -> list[Candidate]:
    """Return (variant, threads) for the installed fast variants, for each count they support."""
    names = [PACKED, *LIBRARIES]
    for name in LIBRARIES:
        try:
            library.blas(name)
        except StudyError as error:
            print(error, file=sys.stderr)
            names.remove(name)
    return [(name, t) for name in names for t in counts if t == 1 or VARIANTS[name].parallel]


def measure(
    library: Library, inputs: Inputs, n: int, tried: Sequence[Candidate], rounds: int
) -> Times:
    """Time all candidates at one size in interleaved rounds; raise StudyError if one is wrong."""
    a, b = inputs.pair("float32", Shape.square(n))
    expected, allowed = reference(a, b)
    c = np.empty_like(a)
    products: dict[Candidate, Callable[[], None]] = {}
    for name, threads in tried:
        c.fill(np.nan)
        products[name, threads] = library.prepare(name, a[0], b[0], c[0], threads=threads)
        with all_cores():  # new threads inherit the cores
            products[name, threads]()
        verdict = evaluate(c, expected, allowed)
        if not verdict.passed:
            raise StudyError(
                f"{name}, N={n}, {threads} threads: {verdict.reason}; install another version"
            )
    first_s = {candidate: _run(products[candidate], candidate[1]) for candidate in tried}
    best_s = {name: min(s for c, s in first_s.items() if c[0] == name) for name, _ in tried}
    able = [one for one in tried if first_s[one] < _HOPELESS * best_s[one[0]]]
    times: Times = {candidate: [] for candidate in able}
    for number in range(rounds):
        for candidate in able if number % 2 else reversed(able):
            times[candidate].append(_run(products[candidate], candidate[1]))
    return times


def _run(product: Callable[[], None], threads: int) -> float:
    """Return how many seconds one product took; a single thread stays on its core."""
    wait_until_alone()
    with all_cores() if threads > 1 else nullcontext():
        until = time.perf_counter() + _WARM_UP_S
        product()
        while time.perf_counter() < until:
            product()
        begin = time.perf_counter()
        product()
        return time.perf_counter() - begin


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Try all CPU libraries and thread counts.")
    add = parser.add_argument
    add("--sizes", type=int, default=20, help="number of random sizes (default: 20)")
    add("--rounds", type=int, default=11, help="products per candidate and size (default: 11)")
    add("--out", type=Path, help="also write the result to this JSON file")
    return parser.parse_args()


def main() -> int:
    """Build, measure and print; raise StudyError."""
    arguments = _arguments()
    cpu = study.config.load(ROOT / "config.yaml").study.cpu
    most = usable_threads()
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as folder:
        library = Library(build_library(find_gcc(), Path(folder)))
    steps = sorted({most if t == "all" else t for t in cpu.threads if t == "all" or t <= most})
    tried = candidates(library, sorted({most, *(t for t in COUNTS if t <= most)}))
    random = np.random.default_rng(_SEED)
    exponents = random.uniform(np.log(32), np.log(_LARGEST), arguments.sizes)
    sizes = sorted({*(int(n) for n in np.exp(exponents)), _LARGEST})
    inputs = Inputs([("float32", Shape.square(_LARGEST))], _SEED)
    keep_to_core(0)
    with all_cores():
        fma = max(library.fma_flop_per_s(most) for _ in range(_CEILING_RUNS))
    print(f"{most} threads: {fma / 1e9:.0f} GFLOP/s of FMAs in registers", flush=True)
    known: dict[Candidate, dict[int, float]] = {}
    at_steps = [candidate for candidate in tried if candidate[1] in steps]
    for n in cpu.sizes:
        for candidate, seconds in measure(library, inputs, n, at_steps, 3).items():
            known.setdefault(candidate, {})[n] = float(np.median(seconds))
    comparisons = []
    print(_TITLES)
    for n in sizes:
        times = measure(library, inputs, n, tried, arguments.rounds)
        comparisons.append(compare(n, times, choose(known, n), steps, fma))
        print(comparisons[-1].line, flush=True)
    if arguments.out:
        facts: dict[str, object] = {"date_utc": utc_now(), "host": host(), "packages": packages()}
        rows = [asdict(comparison) for comparison in comparisons]
        facts |= {"fma_flop_per_s": fma, "comparisons": rows}
        write_atomic(arguments.out, json.dumps(facts, indent=2) + "\n")
    return int(any(comparison.faults for comparison in comparisons))


if __name__ == "__main__":
    if "OPENBLAS_THREAD_TIMEOUT" not in os.environ:  # read only when the BLAS is loaded
        shorten_idle_time()
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]])
    sys.exit(exit_status(main))
