"""Whether kernel times follow the host: recordings of one GPU model, in pairs.

    python -m benchmarks.kernels_and_hosts DIR DIR ...

For every pair of those with kernels timed alone it prints how many medians of kernels are within
2 %, how many of the others take less than 5 µs, and Spearman's rank correlation, across cells, of
the ratio of the two kernel times with the ratio of what the same passes take beside their kernels,
by host memory. What is chance is told by hosts that cannot know of the kernels: those of all pairs
of recordings, also of other GPUs, that share none with this pair. Beside each correlation stands
what 95 % of theirs are at most, and how many are at least as large on the cells that both have.
Near orders have both ratios alike, whosever hosts these are; what takes cells for independent, or
shapes for exchangeable, takes that for the host.
"""

import argparse
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from analysis.stats.significance import within
from base.errors import StudyError, exit_status
from measurement.recording import recording
from measurement.recording.recording import KERNEL, Recording

TOLERANCE = 0.02
SHORT_S = 5e-6
_PRODUCT = [name for name in KERNEL if name != "device"]
_MEMORY = ("pinned", "pageable")
_FEWEST = 50  # cells on which a correlation says anything


def kernels_s(recorded: Recording) -> pd.Series:
    """Return the median times of the kernels timed alone, by what they are."""
    own = recorded.kernels[recorded.kernels["device"] == "gpu0"]
    return own.groupby(_PRODUCT, dropna=False)["kernel_s"].median()


def with_traffic_s(recorded: Recording, host_memory: str) -> pd.Series:
    """Return the median of what passes take beside their kernels, by the kernel."""
    samples = recorded.samples
    own = samples[(samples["device"] == "gpu0") & (samples["host_memory"] == host_memory)]
    rest = own.assign(rest_s=own["total_s"] - own["in_run_kernel_s"]).dropna(subset="rest_s")
    return rest.groupby(_PRODUCT, dropna=False)["rest_s"].median()


def correlation(one: pd.Series, other: pd.Series) -> float:
    """Return the rank correlation of two ratios, over what both have."""
    common = one.index.intersection(other.index)
    return float(spearmanr(one.loc[common], other.loc[common]).statistic)


def unrelated(kernels: pd.Series, own: pd.Series, others: list[pd.Series]) -> tuple[float, str]:
    """Return what 95 % of |correlation| with other hosts are at most, and how many are as large.

    As large at least as that with the kernels' `own` host, on the cells that all three have.
    """
    found, as_large = [], 0
    for other in others:
        cells = kernels.index.intersection(own.index).intersection(other.index)
        if len(cells) >= _FEWEST:
            alone = kernels.loc[cells]
            found.append(abs(correlation(alone, other)))
            as_large += found[-1] >= abs(correlation(alone, own))
    return float(np.quantile(found, 0.95)) if found else np.nan, f"{as_large}/{len(found)}"


def lines(recordings: dict[str, Recording]) -> Iterator[str]:
    """Yield what the command prints; raises StudyError where there is nothing to compare."""
    alone = {name: kernels_s(one) for name, one in recordings.items() if len(one.kernels)}
    if len(alone) < 2:
        raise StudyError("kernels: name two recordings or more whose kernels were timed alone")
    rests = {
        memory: {name: with_traffic_s(one, memory) for name, one in recordings.items()}
        for memory in _MEMORY
    }
    hosts = {
        (pair, memory): (rests[memory][pair[1]] / rests[memory][pair[0]]).dropna()
        for pair, memory in product(combinations(recordings, 2), _MEMORY)
    }
    yield f"{'pair':<28} {'kernels':>7} {'within':>7} {'apart':>5} {'short':>5}" + "".join(
        f" {memory:>8} {'chance':>7} {'as large':>8}" for memory in _MEMORY
    )
    for pair in combinations(alone, 2):
        ratio = (alone[pair[1]] / alone[pair[0]]).dropna()
        apart = ~within(ratio, TOLERANCE)
        short = apart & (alone[pair[0]].reindex(ratio.index) < SHORT_S)
        line = (
            f"{' and '.join(pair):<28} {len(ratio):>7} {1 - apart.mean():>7.1%} {apart.sum():>5} "
            f"{short.sum():>5}"
        )
        for memory in _MEMORY:
            own = hosts[pair, memory]
            others = [
                ratios
                for (other, where), ratios in hosts.items()
                if where == memory and not set(other) & set(pair)
            ]
            bound, as_large = unrelated(ratio, own, others)
            line += f" {correlation(ratio, own):>8.3f} {bound:>7.3f} {as_large:>8}"
        yield line


def main() -> None:
    """Run the command; raises StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels_and_hosts")
    parser.add_argument("recordings", nargs="+", type=Path, help="folders of recordings")
    folders = parser.parse_args().recordings
    for line in lines({folder.name: recording.read(folder) for folder in folders}):
        print(line)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
