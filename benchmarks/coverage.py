"""Coverage of median intervals, by simulation of the protocol.

    python -m benchmarks.coverage [--cells N] [--recording DIR]

For each kind of noise, N cells are simulated: a pilot, the resulting number of samples
(`measurement.sampling.protocol.Protocol.samples`), and these samples, spread evenly over a session.
Noise with memory is a first-order autoregressive process (with two modes: it selects the mode);
drift is linear over the session. The interval is computed as in the tables
(`base.intervals.ranks_of_series`); the truth is the median over the whole session. For comparison,
a sequential rule stops as soon as its interval is narrow enough.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from base.intervals import median_interval, ranks_of_series, sign_correlation
from measurement.recording.files import read_provenance
from measurement.sampling.measure import protocol_of
from measurement.sampling.protocol import Protocol
from study.config import load

FloatArray = npt.NDArray[np.float64]
_MEMORY = 0.3
_TRUTH = 1_000_000  # draws for the true median

Noise = Callable[[np.random.Generator, int, float], FloatArray]


@dataclass(frozen=True)
class Case:
    """A kind of noise: samples around 1, their lag-1 correlation, and the drift."""

    name: str
    noise: Noise
    memory: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The share of intervals that contain the median, and the mean number of samples."""

    covered: float
    samples: float


def one_mode(spread: float) -> Noise:
    """Return lognormal noise."""
    return lambda rng, count, memory: np.exp(spread * _process(rng, count, memory))


def two_modes(gap: float, share: float) -> Noise:
    """Return noise of 0.2 % around two modes; `share` of the samples are in the slower mode."""

    def draw(rng: np.random.Generator, count: int, memory: float) -> FloatArray:
        slower = _process(rng, count, memory) > norm.ppf(1 - share)
        return np.exp(0.002 * rng.standard_normal(count)) * (1 + gap * slower)

    return draw


CASES = (
    Case("one mode, 0.3 %", one_mode(0.003)),
    Case("one mode, 1 %", one_mode(0.01)),
    Case("one mode, 3 %", one_mode(0.03)),
    Case("two modes 3 % apart, half each", two_modes(0.03, 0.5)),
    Case("two modes 3 % apart, 70 to 30", two_modes(0.03, 0.3)),
    Case("two modes 6 % apart, half each", two_modes(0.06, 0.5)),
    Case("two modes 6 % apart, 70 to 30", two_modes(0.06, 0.3)),
    Case("one mode, 1 %, drift 2 %", one_mode(0.01), drift=0.02),
    Case("one mode, 3 %, drift 2 %", one_mode(0.03), drift=0.02),
    Case("one mode, 1 %, memory 0.3", one_mode(0.01), _MEMORY),
    Case("one mode, 3 %, memory 0.3", one_mode(0.03), _MEMORY),
    Case("two modes 3 % apart, half each, memory 0.3", two_modes(0.03, 0.5), _MEMORY),
    Case("two modes 6 % apart, half each, memory 0.3", two_modes(0.06, 0.5), _MEMORY),
)


def _process(rng: np.random.Generator, count: int, memory: float) -> FloatArray:
    """Return a stationary first-order autoregressive process of standard normal values."""
    steps = rng.standard_normal(count)
    if memory:
        for at in range(1, count):
            steps[at] = memory * steps[at - 1] + np.sqrt(1 - memory**2) * steps[at]
    return steps


def planned(rng: np.random.Generator, case: Case, protocol: Protocol) -> FloatArray:
    """Return the samples of one cell by the protocol."""
    pilot = case.noise(rng, protocol.fewest, case.memory) * (1 - case.drift / 2)
    count = protocol.samples(1e-9, list(1e-9 * pilot))
    times = (np.arange(count) + 0.5) / count - 0.5
    return case.noise(rng, count, case.memory) * (1 + case.drift * times)


def sequential(rng: np.random.Generator, case: Case, protocol: Protocol) -> FloatArray:
    """Return the samples of one cell, sampled until its interval is narrow enough."""
    most = protocol.max_samples
    times = np.arange(most) / most - 0.5
    samples = case.noise(rng, most, case.memory) * (1 + case.drift * times)
    for count in range(protocol.fewest, most):
        median, low, high = median_interval(samples[:count], protocol.confidence)
        if max(high - median, median - low) <= protocol.relative_half_width * median:
            return samples[:count]
    return samples


def coverage(case: Case, protocol: Protocol, cells: int) -> tuple[Outcome, Outcome]:
    """Return the outcomes of the protocol and of the sequential rule."""
    rng = np.random.default_rng(1)
    times = rng.random(_TRUTH) - 0.5
    truth = float(np.median(case.noise(rng, _TRUTH, 0.0) * (1 + case.drift * times)))
    found = []
    for rule, series in ((planned, True), (sequential, False)):
        covered, counts = 0, 0
        for _ in range(cells):
            samples = rule(rng, case, protocol)
            low, high = _bounds(samples, protocol.confidence, series)
            covered += low <= truth <= high
            counts += len(samples)
        found.append(Outcome(covered / cells, counts / cells))
    return found[0], found[1]


def _bounds(samples: FloatArray, confidence: float, series: bool) -> tuple[float, float]:
    if not series:
        return median_interval(samples, confidence)[1:]
    correlation = sign_correlation(samples[None])
    lower = int(ranks_of_series(len(samples), confidence, correlation)[0])
    ordered = np.sort(samples)
    return float(ordered[lower]), float(ordered[len(samples) - 1 - lower])


def main() -> None:
    """Print a row of Markdown per case."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description="Simulate the coverage of intervals."
    )
    parser.add_argument("--cells", type=int, default=4000, help="cells per case (default: 4000)")
    parser.add_argument("--recording", type=Path, help="use its protocol (default: config.yaml's)")
    arguments = parser.parse_args()
    cells, protocol = (
        arguments.cells,
        protocol_of(load("config.yaml", "full").study.protocol, "gpu0"),
    )
    if arguments.recording:
        old = read_provenance(arguments.recording)["configuration"]["protocol"]
        names = ("confidence", "relative_half_width", "min_samples", "max_samples")
        protocol = replace(protocol, **{name: old[name] for name in names})
    print("| noise | coverage | samples | sequential rule | samples |")
    print("|---|---|---|---|---|")
    for case in CASES:
        texts = (
            f"{each.covered:.3f} | {each.samples:.0f}" for each in coverage(case, protocol, cells)
        )
        print(f"| {case.name} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main()
