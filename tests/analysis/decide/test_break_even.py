"""Break-even sizes: known sizes are recovered, sizes outside the measured range located."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from analysis.decide import break_even
from analysis.decide.break_even import ABOVE, BELOW, MEASURED, crossings, side
from analysis.stats.estimates import DRAWS, drawn_medians

SIZES = (256, 512, 1024, 2048, 4096)
NAME = {"variant": "naive", "block_size": None, "threads": None}
CPU_S = 7.65e-12  # per FMA


def gpu_s(n):
    return 2e-3 + 1.2e-9 * n**2 + 1e-13 * n**3


def cpu_s(n):
    return CPU_S * n**3


TRUTH = brentq(lambda n: gpu_s(n) - cpu_s(n), 300, 3000)  # 700, between two sizes


def made(time_s, rng, sizes=SIZES, count=15, noise=0.03, variant="block"):
    """Return a side of simulated cells: medians of log-normal samples, and their draws."""
    cells, draws = [], []
    for n in sizes:
        samples = time_s(float(n)) * np.exp(noise * rng.standard_normal(count))
        cells.append({"n": n, "total_s": float(np.median(samples)), **NAME, "variant": variant})
        draws.append(drawn_medians(samples, rng))
    return side(pd.DataFrame(cells), np.array(draws))


def found(gpu, cpu):
    (row,) = break_even.between(gpu, break_even.CpuBaselines({"cpu": cpu}), "test")
    return row


def measured(seed, time_s=gpu_s, noise=0.03, sizes=SIZES):
    """Return the row of a GPU with these times and of the CPU measured at these sizes."""
    rng = np.random.default_rng(seed)
    return found(made(time_s, rng, noise=noise), made(cpu_s, rng, sizes, noise=noise))


@pytest.mark.exhaustive
def test_intervals_cover_a_known_break_even_size():
    inside = near = 0
    for seed in range(60):
        row = measured(seed)
        assert (row["location"], row["slower_at"], row["faster_at"]) == (MEASURED, 512, 1024)
        assert row["n_low"] <= row["n"] <= row["n_high"]
        inside += row["n_low"] <= TRUTH <= row["n_high"]
        near += abs(row["n"] / TRUTH - 1) < 0.03
    assert min(inside, near) >= 54


def test_break_even_sizes_are_located_inside_below_or_above_the_measured_range():
    names = ("location", "slower_at", "faster_at", "n_low", "n_high")
    for time_s, expected in (
        (lambda n: gpu_s(n) / 50, [BELOW, None, 256, 0, 0]),
        (lambda n: 5e-11 * n**3, [ABOVE, 4096, None, np.inf, np.inf]),
    ):
        row = measured(1, time_s)
        assert [row[name] for name in names] == expected
        assert math.isnan(row["n"])
    grid = np.array([256.0, 512, 1024, 2048])
    (n,) = crossings(grid, np.array([-1.0, 1.0, -3.0, -1.0])[:, None])
    assert n == pytest.approx(512 * 2**0.25)
    assert crossings(grid, np.array([-1.0, -1.0, -1.0, 0.0])[:, None]) == np.inf, "equal times"
    row = measured(6, sizes=(256, 512, 1024))
    assert (row["least_n"], row["largest_n"], row["location"]) == (256, 1024, MEASURED)
    low, high = (measured(5, noise=noise) for noise in (0.003, 0.1))
    assert 1 < low["n_high"] / low["n_low"] < high["n_high"] / high["n_low"] < 2
    # A GPU hardly faster at the smallest size may be slower there.
    ratio = 0.97 * cpu_s(256.0) / gpu_s(256.0)
    row = measured(2, lambda n: ratio * gpu_s(n), noise=0.2)
    assert row["n_low"] == 0
    assert 256 < row["n_high"] < 512
    rng = np.random.default_rng(7)
    cells = pd.DataFrame({"n": SIZES, "total_s": [cpu_s(n) for n in SIZES], **NAME})
    known = side(cells, np.full((len(SIZES), DRAWS), np.nan))
    row = found(made(gpu_s, rng, noise=0.001), known)
    assert (row["cells_without_interval"], row["n"]) == (len(SIZES), pytest.approx(TRUTH, rel=0.02))
    assert row["n_low"] <= TRUTH <= row["n_high"]
    rng = np.random.default_rng(8)
    cells = pd.DataFrame({"n": (256, 1024), "total_s": [cpu_s(n) for n in (256, 1024)], **NAME})
    row = found(made(gpu_s, rng), side(cells, np.full((2, DRAWS), np.nan)))
    assert row["n"] == pytest.approx(TRUTH, rel=0.05)
    assert np.isnan([row["n_low"], row["n_high"]]).all()
    assert side(cells[:1], np.ones((1, DRAWS))) is None


@given(st.lists(st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3), min_size=4, max_size=4))
def test_the_gpu_is_faster_at_all_sizes_above_the_break_even_size(log_ratio):
    sizes = np.array([256.0, 512, 1024, 2048])
    (n,) = crossings(sizes, np.array(log_ratio)[:, None])
    assert all(value < 0 for value in np.array(log_ratio)[sizes > n])
    if 256 < n < 2048:
        assert log_ratio[int(np.sum(sizes <= n)) - 1] > 0


def test_the_time_of_a_side_is_its_lowest_curve_within_measured_sizes():
    cells = [{"n": n, "total_s": 1e-9 * n, "variant": "short"} for n in (256, 512)]
    cells += [{"n": n, "total_s": 1e-7 * n, "variant": "long"} for n in (256, 512, 1024)]
    cells = pd.DataFrame([NAME | cell for cell in cells])
    cells.loc[2, "total_s"] = 2e-9 * 256  # both are near the fastest somewhere
    both = side(cells, np.full((5, DRAWS), np.nan))
    at = np.exp(both.log_s(np.array([512.0, 1024.0]))[:, 0])
    assert (at[0], at[1]) == (pytest.approx(512e-9), pytest.approx(1024e-7))
    assert [both.fastest_at(n)["variant"] for n in (512.0, 1024.0)] == ["short", "long"]
    # The CPU, too, is the least of the curves of its programs, not one curve through the minima.
    time_s = {"a": lambda n: 1e-12 * n**3, "b": lambda n: 1e-10 * n**2 * 4.5}
    sizes = [{"variant": name, "n": n} for name in time_s for n in SIZES]
    cells = [NAME | c | {"total_s": time_s[c["variant"]](float(c["n"]))} for c in sizes]
    both = side(pd.DataFrame(cells), np.full((len(cells), DRAWS), np.nan))
    least = [min(own(n) for own in time_s.values()) for n in (300.0, 450.0, 600.0)]
    assert np.exp(both.log_s(np.array([300.0, 450.0, 600.0]))[:, 0]) == pytest.approx(least)
