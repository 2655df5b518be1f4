"""Curves of time over N: through the measured times, monotone, and bounded beyond them."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from analysis.decide import curves as model
from analysis.decide.curves import curve, half_widths, leave_one_out
from analysis.decide.predictors import Kernel, Predictor, fill
from tests.support.products import product_of

SIZES = np.array([256.0, 512.0, 1024.0, 2048.0, 4096.0])
times = st.lists(st.floats(1e-6, 1e2), min_size=5, max_size=5).map(np.array)


@given(times)
def test_a_curve_goes_through_the_measured_times_and_is_monotone_between_them(time_s):
    found = curve(SIZES, time_s)
    assert np.exp(found.at(SIZES)) == pytest.approx(time_s)
    for left in range(4):
        between = np.exp(found.at(np.linspace(SIZES[left], SIZES[left + 1], 9)))
        low, high = sorted(time_s[left : left + 2])
        assert ((low * (1 - 1e-9) <= between) & (between <= high * (1 + 1e-9))).all()


def test_the_noise_of_neighbouring_sizes_does_not_bend_the_curve_to_the_next_size():
    sizes = np.array([256.0, 500.0, 512.0, 1000.0, 1024.0])
    time_s = sizes**2 * np.array([1.0, 1.03, 0.97, 1.03, 0.97])
    between = np.exp(curve(sizes, time_s).at([600.0, 700.0, 850.0]))
    assert between == pytest.approx(np.array([600.0, 700.0, 850.0]) ** 2, rel=0.03)


@given(times, st.floats(1.1, 30))
def test_beyond_the_measured_sizes_the_slope_stays_within_physical_limits(time_s, factor):
    found = curve(SIZES, time_s)
    for end, edge, far in ((0, 256.0, 256.0 / factor), (-1, 4096.0, 4096.0 * factor)):
        near_s, far_s = np.exp(found.at([edge, far]))
        exponent = math.log(far_s / near_s) / math.log(far / edge)
        low, high = model.EXPONENTS[end]
        assert low - 1e-6 <= exponent <= high + 1e-6


@given(st.floats(1e-12, 1e-6), st.floats(2.0, 3.0), st.floats(20, 50_000))
def test_times_that_are_a_power_of_n_are_extrapolated_exactly(cost, exponent, n):
    found = curve(SIZES, cost * SIZES**exponent)
    assert float(np.exp(found.at(n)[0])) == pytest.approx(cost * n**exponent, rel=1e-6)


def test_an_extrapolated_overlapped_run_takes_at_least_as_long_as_its_kernel():
    """Up to N = 4096 their copies take longer than the product, so their curve grows as N²."""
    kernels = {"sgemm_top": 128256, "sgemm_tensor_tma": None, "block": 32}
    costs = {"sgemm_top": 1e-13, "sgemm_tensor_tma": 1e-15, "block": 1e-12}
    others = [
        Kernel(name, block, None, again=curve(SIZES, costs[name] * SIZES**3))
        for name, block in kernels.items()
    ]
    runs = curve(SIZES, 1e-9 * SIZES**2)
    pieces = Kernel("sgemm_top_pieces", 128128, None, runs)
    at = np.array([1024, 4096, 4097, 2**14, 2**15])
    predicted = Predictor(1, 0.0, {}, [pieces, *others]).predict(pieces, at)
    least_s = 1e-13 * at.astype(float) ** 3
    assert predicted.time_s == pytest.approx(
        np.where(at > 10_000, least_s, 1e-9 * at**2.0), rel=0.01
    )
    assert predicted.time_s[-1] > 1.5 * 1e-9 * 2.0**30
    assert predicted.half_width.tolist() == runs.predict(at).half_width.tolist()


def test_no_kernel_is_extrapolated_above_the_highest_measured_throughput():
    rising = Kernel("sgemm_top", 128256, None, again=curve(SIZES, 1e-11 * SIZES**2.5))
    largest, beyond = SIZES[-1], 32768
    measured_s = 1e-11 * largest**2.5
    highest = 2 * largest**3 / measured_s
    for limits, exponent in (((highest, math.inf), 3.0), ((math.inf, highest), 2.5)):
        (time_s,) = Predictor(1, 0.0, {}, [rising], limits).further(rising, beyond).time_s
        assert time_s == pytest.approx(measured_s * (beyond / largest) ** exponent, rel=1e-2)


def test_errors_at_sizes_that_are_not_multiples_of_4_are_those_of_curves_through_multiples(patch):
    n = np.array([64, 127, 128, 256])
    time_s = np.where(n == 127, 1.5, 1.0) * n**3
    cells = pd.DataFrame({"variant": "naive", "block_size": 32, "threads": None, "n": n})
    patch(
        model, kernel_cells=lambda source: source.cells.assign(time_s=time_s[: len(source.cells)])
    )
    source = SimpleNamespace(cells=cells, gpu_square_cells=cells)
    found = model.unaligned(source)
    assert found["unaligned_sizes"] == "127"
    width = student_t.ppf(0.975, 1) * math.log(1.5)
    assert found["unaligned_half_width"] == pytest.approx(width, rel=1e-6)
    whole = cells[cells["n"] % 4 == 0]
    assert model.unaligned(SimpleNamespace(cells=whole, gpu_square_cells=whole)) == {}


def test_several_draws_are_interpolated_as_separate_curves():
    draws = np.array([1e-3, 2e-3, 9e-3, 6e-2, 0.5])[:, None] * np.array([1.0, 1.2, 0.7])
    draws[2, 1] *= 1.3
    at = np.array([200.0, 700.0, 2048.0, 5000.0])
    together = curve(SIZES, draws).at(at)
    assert together.shape == (4, 3)
    for column in range(3):
        assert together[:, column] == pytest.approx(curve(SIZES, draws[:, column]).at(at))
    found = curve(SIZES, SIZES**3)  # the reach is 1 an octave beyond
    assert found.reach(SIZES) == pytest.approx(np.zeros(5), abs=1e-6)
    assert found.reach([128, 8192]) == pytest.approx([1, 1])
    assert found.reach(64)[0] == pytest.approx(math.sqrt(2))
    assert found.reach(256 * math.sqrt(2))[0] == pytest.approx(0.5)
    assert found.reach(np.geomspace(256, 512, 101)).argmax() == 50
    assert list(found.covers([255, 256, 4096, 4097])) == [False, True, True, False]
    found = replace(curve(SIZES, SIZES**3), between=0.2, beyond=0.7, half_width=0.05)
    assert found.predict(512).half_width[0] == pytest.approx(0.05)
    assert found.predict(512 * math.sqrt(2)).half_width[0] == pytest.approx(math.hypot(0.1, 0.05))
    assert found.predict(8192).half_width[0] == pytest.approx(math.hypot(0.7, 0.05))
    nothing = replace(found, between=math.inf, beyond=math.inf)
    assert nothing.predict(256).half_width[0] == pytest.approx(0.05)
    assert math.isinf(nothing.predict(300).half_width[0])


def test_leave_one_out_errors_are_scaled_by_the_distance_from_other_sizes():
    time_s = 1e-12 * SIZES**3
    between, beyond = leave_one_out(SIZES, time_s)
    assert between == pytest.approx(np.zeros(3), abs=1e-6)
    assert beyond == pytest.approx(np.zeros(2), abs=1e-6)
    middle, largest = time_s.copy(), time_s.copy()
    middle[2] *= 2
    # one octave on either side: reach √½
    assert leave_one_out(SIZES, middle)[0][1] == pytest.approx(-math.log(2) / math.sqrt(0.5))
    largest[4] *= 2
    assert leave_one_out(SIZES, largest)[1][1] == pytest.approx(-math.log(2))
    assert half_widths([np.empty(0)]) == [math.inf]
    assert half_widths([np.zeros(3), np.empty(0)]) == [0, 0]
    (one,) = half_widths([np.array([-0.2])])
    assert one == pytest.approx(student_t.ppf(0.975, 1) * 0.2)
    first, second, without = half_widths([np.array([0.1, 0.1]), np.array([0.4]), np.empty(0)])
    spread = math.sqrt((0.01 + 0.01 + 0.16) / 3)
    scales = [math.sqrt((own**2 + spread**2) / 2) for own in (0.1, 0.4, spread)]
    assert [first / scales[0], second / scales[1]] == pytest.approx(2 * [without / scales[2]])
    scores = [0.1 / scales[0], 0.1 / scales[0], 0.4 / spread]
    quantile = student_t.ppf(0.975, 3) * math.sqrt(np.mean(np.square(scores)))
    assert without == pytest.approx(quantile * spread)


@pytest.mark.exhaustive
def test_intervals_of_curves_of_different_scale_contain_95_percent_of_new_errors():
    rng = np.random.default_rng(5)
    inside = []
    for _ in range(100):
        sizes = np.exp(rng.normal(-3, 0.7, 40))
        curves_of = sizes[:, None] * rng.standard_t(4, (40, 7))
        widths = np.array(half_widths(list(curves_of)))
        inside.append(np.abs(sizes[:, None] * rng.standard_t(4, (40, 50))) <= widths[:, None])
    assert 0.94 <= np.mean(inside) <= 0.97


def test_fill_is_the_largest_over_the_mean_number_of_blocks_per_multiprocessor():
    for variant, block, n, expected in (
        ("register_tile", None, 1536, 2 / (144 / 132)),  # 144 tiles of 128 on 132 multiprocessors
        ("register_tile", None, 1024, 1 / (64 / 132)),
        ("register_tile", None, 4224, 9 / (1089 / 132)),
        ("block", 32, 2048, math.ceil(4096 / 132) / (4096 / 132)),
        *(("buffered_row", None, 132, 1.0), ("cublas_sgemm", None, 1000, 1.0)),  # a block per row
    ):
        assert fill(product_of(variant, n, block), 132) == pytest.approx(expected)


@given(st.sampled_from(["naive", "block", "block_unroll4"]), st.integers(1, 5000))
def test_a_partly_filled_wave_of_blocks_never_shortens_a_launch(variant, n):
    assert 1 <= fill(product_of(variant, n, 16), 132) <= 132
