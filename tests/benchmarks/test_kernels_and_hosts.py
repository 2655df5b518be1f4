"""Whether kernel times follow the host: what is planted is found."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.kernels_and_hosts import chance, lines
from measurement import recording
from measurement.errors import StudyError
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
    rest = one.samples["total_s"] - one.samples["kernel_s"]
    total_s = one.samples["kernel_s"] + rest * factor
    samples = one.samples.assign(total_s=total_s.fillna(one.samples["total_s"]))
    return replace(one, kernels=alone, samples=samples)


def test_kernels_that_follow_the_host_are_correlated_with_it(one):
    found = list(lines({"a": one, "b": slowed(one, True, True)}))
    assert found[0].split() == [
        *("pair", "kernels", "within", "apart", "short", "chance"),
        *("pinned", "chance", "pageable", "chance"),
    ]
    *_, within, apart, _, _, pinned, _, pageable, _ = found[1].split()
    kernels = len(one.kernels[one.kernels["variant"].isin(VARIANTS[1:])])
    assert 0 < int(apart) <= kernels
    assert float(within.rstrip("%")) < 100
    assert float(pinned) > 0.9
    assert float(pageable) > 0.9
    assert len(found) == 2, "no pair is without both"


def test_what_cells_of_a_shape_have_in_common_is_chance():
    """Ten shapes, on which hosts and kernels both depend, tell as much as ten cells."""
    rng = np.random.default_rng(1)
    orders = np.repeat(np.arange(10), 40)
    names = ["variant", "dtype", "batch", "m", "n", "k", "block_size"]
    index = pd.MultiIndex.from_tuples(
        [(f"v{place}", "float32", 1, n, n, n, 32) for place, n in enumerate(orders)], names=names
    )
    alone = pd.Series(rng.normal(size=400), index)
    assert chance(alone, pd.Series(rng.normal(size=400), index)) == pytest.approx(0.098, abs=0.02)
    shared, other = (pd.Series(rng.normal(size=10)[orders], index) for _ in range(2))
    assert chance(shared, other) > 0.5


def test_recordings_without_a_common_one_are_the_control(one):
    other = made(1)
    four = {"a": one, "b": slowed(one, True, True), "c": other, "d": slowed(other, True, True)}
    found = list(lines(four))
    assert len(found) == 1 + 6 + 2
    assert found[-1].startswith("control, pageable: ")


def test_one_recording_or_none_of_kernels_alone_is_refused(one):
    for named in ({"a": one}, {"a": one, "b": replace(one, kernels=one.kernels[:0])}):
        with pytest.raises(StudyError, match="name two recordings or more"):
            list(lines(named))
