"""The corpus of user-supplied kernels: its size, and the verdicts on a sample."""

import pytest

from benchmarks.judge_outside_kernels import wrong_verdicts
from benchmarks.outside_kernels import CORRECT, KERNELS, UNSUPPORTED


@pytest.mark.slow
def test_a_sample_is_judged_rightly():
    assert wrong_verdicts(list(KERNELS)[14::28]) == {}


def test_there_are_enough_kernels_of_each_kind():
    verdicts = [verdict for _, verdict in KERNELS.values()]
    assert len({text for text, _ in KERNELS.values()}) == len(KERNELS) >= 180
    assert verdicts.count(CORRECT) >= 55
    assert 0 < verdicts.count(UNSUPPORTED) <= len(KERNELS) / 20
    assert len(set(verdicts)) > 20
