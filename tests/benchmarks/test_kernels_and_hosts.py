"""Whether kernel times follow the host: what is planted is found."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from base.errors import StudyError
from benchmarks.kernels_and_hosts import lines, unrelated
from measurement.recording import recording
from tests.support.simulated import recorded

VARIANTS = ("naive", "naive_coalesced", "block", "block_unroll4", "tile_conflict_free")
FACTORS = {name: 1 + 0.1 * place for place, name in enumerate(VARIANTS)}


pytestmark = pytest.mark.slow


def made(seed):
    sizes = {"sizes": (256, 512), "holdout": (), "samples": 6}
    return recording.read(recorded(held=True, variants=VARIANTS, seed=seed, **sizes))


@pytest.fixture(scope="module")
def one():
    return made(0)


def slowed(one, kernels, hosts):
    """Return the recording with each variant's kernels, and what is beside them, slower."""
    factor = one.kernels["variant"].map(FACTORS).fillna(1).astype(float) if kernels else 1.0
    alone = one.kernels.assign(kernel_s=one.kernels["kernel_s"] * factor)
    factor = one.samples["variant"].map(FACTORS).fillna(1).astype(float) if hosts else 1.0
    rest = one.samples["total_s"] - one.samples["in_run_kernel_s"]
    total_s = one.samples["in_run_kernel_s"] + rest * factor
    samples = one.samples.assign(total_s=total_s.fillna(one.samples["total_s"]))
    return replace(one, kernels=alone, samples=samples)


def rows(recordings):
    """Return what is printed of each pair of recordings: its words by the words of the head."""
    head, *found = (line.replace("as large", "as_large").split() for line in lines(recordings))
    assert head[:5] == ["pair", "kernels", "within", "apart", "short"]
    assert head[5:] == [*("pinned", "chance", "as_large"), *("pageable", "chance", "as_large")]
    return {(words[0], words[2]): words[3:] for words in found}


def test_kernels_that_follow_the_host_are_correlated_with_it_and_no_other(one):
    others = {"c": made(1), "d": made(2)}
    found = rows({"a": one, "b": slowed(one, True, True)} | others)
    assert len(found) == 6
    kernels, within, apart, _, *of_hosts = found["a", "b"]
    assert 0 < int(apart) <= len(one.kernels[one.kernels["variant"].isin(VARIANTS[1:])])
    assert float(within.rstrip("%")) < 100
    for own, bound, as_large in (of_hosts[:3], of_hosts[3:]):
        assert float(own) > 0.9
        assert float(bound) < 0.7
        assert as_large == "0/1", "the hosts of c and d"
    assert int(kernels) >= 50


def test_hosts_of_recordings_without_kernels_alone_are_compared_with_too(one):
    without = {
        name: replace(made(seed), kernels=one.kernels[:0]) for seed, name in ((1, "c"), (2, "d"))
    }
    found = rows({"a": one, "b": slowed(one, True, True)} | without)
    assert list(found) == [("a", "b")]
    assert found["a", "b"][6].endswith("/1")


def test_what_near_orders_have_in_common_is_not_the_host():
    """Kernels and hosts depend on the order, all hosts alike: the own one says no more."""
    rng = np.random.default_rng(1)
    orders = np.repeat(np.arange(10), 40)
    names = ["variant", "dtype", "batch", "m", "n", "k", "block_size"]
    index = pd.MultiIndex.from_tuples(
        [(f"v{place}", "float32", 1, n, n, n, 32) for place, n in enumerate(orders)], names=names
    )

    def ratios(slope):
        return pd.Series(slope * orders + rng.normal(size=400), index)

    bound, as_large = unrelated(ratios(1), ratios(1), [ratios(1) for _ in range(9)])
    assert bound > 0.8
    assert 0 < int(as_large.removesuffix("/9")) < 9
    bound, as_large = unrelated(ratios(1), ratios(1), [ratios(0) for _ in range(9)])
    assert bound < 0.15
    assert as_large == "0/9"
    few = [ratios(1)[:49]]
    assert unrelated(ratios(1), ratios(1), few)[1] == "0/0", "too few cells to say anything"


def test_one_recording_or_none_of_kernels_alone_is_refused(one):
    for named in ({"a": one}, {"a": one, "b": replace(one, kernels=one.kernels[:0])}):
        with pytest.raises(StudyError, match="name two recordings or more"):
            list(lines(named))
