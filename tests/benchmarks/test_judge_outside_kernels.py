"""The corpus of user-supplied kernels: its size, and the verdicts on a sample."""

import pytest

from benchmarks.judge_outside_kernels import wrong_verdicts
from benchmarks.outside_kernels import CORRECT, KERNELS, MISJUDGED, UNSUPPORTED


@pytest.mark.slow
def test_a_sample_is_judged_as_documented():
    sample = [*list(KERNELS)[::9], *MISJUDGED]
    assert set(wrong_verdicts(sample)) == set(MISJUDGED)


def test_there_are_enough_kernels_of_each_kind():
    verdicts = [verdict for _, verdict in KERNELS.values()]
    assert len({text for text, _ in KERNELS.values()}) == len(KERNELS) >= 60
    assert verdicts.count(CORRECT) >= 25
    assert 0 < verdicts.count(UNSUPPORTED) <= len(KERNELS) / 10
    assert len(set(verdicts)) > 20
    assert MISJUDGED.keys() <= KERNELS.keys()
