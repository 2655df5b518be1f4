"""Whether kernel times follow the host: recordings of one kind of card, in pairs.

    python -m benchmarks.kernels_and_hosts DIR DIR ...

For every pair it prints how many medians of kernels timed alone are within 2 %, how many of the
others take less than 5 µs, and Spearman's rank correlation, across cells, of the ratio of the two
kernel times with the ratio of what the same passes take beside their kernels, by host memory.
Chance is judged three times: as if cells had nothing in common (±1.96/√(n − 1)); with what cells of
one shape have in common, which copy the same bytes: beside each correlation stands what 95 % of
random assignments of the shapes' hosts to the shapes' kernels stay within; and by a control, the
kernels of a pair with the hosts of another that shares no recording with it: what these have in
common is not the host.
"""

import argparse
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata, spearmanr

from analysis.stats.estimates import seeded
from analysis.stats.significance import within
from measurement import recording
from measurement.errors import StudyError, exit_status
from measurement.recording import KERNEL, Recording

TOLERANCE = 0.02
SHORT_S = 5e-6
_PRODUCT = [name for name in KERNEL if name != "device"]
_NOT_SHAPE = ["variant", "dtype", "block_size"]
_MEMORY = ("pinned", "pageable")
_ASSIGNMENTS = 999


def kernels_s(recorded: Recording) -> pd.Series:
    """Return the median times of the kernels timed alone, by what they are."""
    own = recorded.kernels[recorded.kernels["device"] == "gpu0"]
    return own.groupby(_PRODUCT, dropna=False)["kernel_s"].median()


def beside_s(recorded: Recording, host_memory: str) -> pd.Series:
    """Return the median of what passes take beside their kernels, by the kernel."""
    samples = recorded.samples
    own = samples[(samples["device"] == "gpu0") & (samples["host_memory"] == host_memory)]
    rest = own.assign(rest_s=own["total_s"] - own["kernel_s"]).dropna(subset="rest_s")
    return rest.groupby(_PRODUCT, dropna=False)["rest_s"].median()


def correlation(one: pd.Series, other: pd.Series) -> float:
    """Return the rank correlation of two ratios, over what both have."""
    common = one.index.intersection(other.index)
    return float(spearmanr(one.loc[common], other.loc[common]).statistic)


def chance(one: pd.Series, other: pd.Series) -> float:
    """Return what |`correlation`| is at most, 95 times of 100, where shapes are assigned at random.

    Each cell gets the ratio of some cell of the shape that its own shape is assigned to.
    """
    common = one.index.intersection(other.index)
    shape, shapes = pd.factorize(common.droplevel(_NOT_SHAPE))
    cells = [np.flatnonzero(shape == row) for row in range(len(shapes))]
    ranks, hosts = one.loc[common].rank().to_numpy(), other.loc[common].to_numpy()
    rng = seeded("kernels and hosts")
    found = []
    for _ in range(_ASSIGNMENTS):
        drawn = np.empty(len(hosts))
        for own, row in zip(cells, rng.permutation(len(cells)), strict=True):
            drawn[own] = rng.choice(hosts[cells[row]], len(own))
        found.append(abs(np.corrcoef(ranks, rankdata(drawn))[0, 1]))
    return float(np.quantile(found, 0.95))


def lines(recordings: dict[str, Recording]) -> Iterator[str]:
    """Yield what the command prints; raises StudyError where there is nothing to compare."""
    kernels = {name: kernels_s(one) for name, one in recordings.items()}
    if not all(map(len, kernels.values())) or len(kernels) < 2:
        raise StudyError("kernels: name two recordings or more whose kernels were timed alone")
    pairs = list(combinations(recordings, 2))
    ratios = {pair: (kernels[pair[1]] / kernels[pair[0]]).dropna() for pair in pairs}
    rests = {
        memory: {name: beside_s(one, memory) for name, one in recordings.items()}
        for memory in _MEMORY
    }
    hosts = {
        (pair, memory): (rests[memory][pair[1]] / rests[memory][pair[0]]).dropna()
        for pair, memory in product(pairs, _MEMORY)
    }
    yield (
        f"{'pair':<28} {'kernels':>7} {'within':>7} {'apart':>5} {'short':>5} {'chance':>7}"
        + "".join(f" {memory:>8} {'chance':>7}" for memory in _MEMORY)
    )
    for pair, ratio in ratios.items():
        apart = ~within(ratio, TOLERANCE)
        short = apart & (kernels[pair[0]].reindex(ratio.index) < SHORT_S)
        found = [
            (correlation(ratio, hosts[pair, memory]), chance(ratio, hosts[pair, memory]))
            for memory in _MEMORY
        ]
        yield (
            f"{' and '.join(pair):<28} {len(ratio):>7} {1 - apart.mean():>7.1%} {apart.sum():>5} "
            f"{short.sum():>5} {1.96 / np.sqrt(len(ratio) - 1):>7.3f}"
        ) + "".join(f" {value:>8.3f} {bound:>7.3f}" for value, bound in found)
    for memory in _MEMORY:
        control = [
            correlation(ratios[one], hosts[other, memory])
            for one, other in product(pairs, pairs)
            if not set(one) & set(other)
        ]
        if control:
            yield f"control, {memory}: {min(control):.3f} to {max(control):.3f}"


def main() -> None:
    """Run the command; raises StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels_and_hosts")
    parser.add_argument("recordings", nargs="+", type=Path, help="folders of recordings")
    folders = parser.parse_args().recordings
    for line in lines({folder.name: recording.read(folder) for folder in folders}):
        print(line)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
