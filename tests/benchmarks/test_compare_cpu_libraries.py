"""The benchmark of all CPU libraries and thread counts."""

import pytest

from benchmarks.compare_cpu_libraries import choose, compare


def test_between_its_sizes_the_study_chooses_the_least_interpolated_time():
    known = {
        ("packed", 8): {100: 1.0, 400: 4.0},
        ("mkl", 8): {100: 2.0, 400: 1.0},
        ("blas", 1): {90: 0.1, 105: 0.1},  # was not measured beyond
    }
    assert choose(known, 100) == ("blas", 1)
    assert choose(known, 110) == ("packed", 8)
    assert choose(known, 390) == ("mkl", 8)


def test_the_result_at_a_size_names_the_criteria_that_it_misses():
    times = {("packed", 1): [3.0] * 3, ("packed", 4): [4.0] * 3, ("mkl", 4): [2.0] * 3}
    slow = compare(4096, times, ("packed", 1), [1, 4], fma=1e12)
    assert slow.best == ("mkl", 4)
    assert (slow.choice_ratio, slow.packed_ratio) == pytest.approx((1.5, 2 / 3))
    assert slow.step == pytest.approx(4 / 3)
    assert slow.faults == ["choice", "packed", "share", "step"]
    assert slow.line.endswith("choice packed share step")
    assert compare(100, times, ("mkl", 4), [1], fma=1e12).faults == []
