"""Whether kernel times follow the host: what is planted is found."""

from dataclasses import replace

import pytest

from benchmarks.kernels_and_hosts import lines
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
        *("pair", "kernels", "within", "apart", "short", "chance", "pinned", "pageable")
    ]
    *_, within, apart, _, _, pinned, pageable = found[1].split()
    kernels = len(one.kernels[one.kernels["variant"].isin(VARIANTS[1:])])
    assert 0 < int(apart) <= kernels
    assert float(within.rstrip("%")) < 100
    assert float(pinned) > 0.9
    assert float(pageable) > 0.9
    assert len(found) == 2, "no pair is without both"


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
