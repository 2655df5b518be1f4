"""Figures of decisions: break-even sizes, copies."""

import pytest

from analysis.decide.figures import FIGURES
from tests.support.figures import device, drawn
from tests.support.report_data import tables


def crossing(gpu, location, n, low=None, high=None, **more):
    """Return a row of break_even.csv: pinned memory, libraries on several threads."""
    row = {"gpu": gpu, "host_memory": "pinned", "kernels": "study", "cpu_baseline": "blas_all"}
    row |= {"least_n": 256, "largest_n": 4096, "location": location}
    return row | {"n": n, "n_low": low, "n_high": high} | more


@pytest.mark.slow
def test_the_figure_shows_break_even_sizes_as_dots_or_beyond_the_range_as_arrows(tmp_path):
    rows = [
        crossing("a", "measured", 400.0, 300.0, 500.0),
        crossing("a", "below", None, 0.0, 300.0, cpu_baseline="naive"),
        crossing("a", "measured", 600.0, host_memory="pageable"),
        crossing("a", "measured", 700.0, kernels="library"),
        crossing("b", "above", None, 4000.0, float("inf")),
        crossing("b", "measured", 300.0, 0.0, 500.0, cpu_baseline="naive"),
    ]
    store = tables(tmp_path, recordings=[device("a"), device("b")], break_even=rows)
    shown = drawn(FIGURES["break-even"], store)
    assert shown.tooltips == [
        "a, pageable, library, several threads: 600",
        "a, pinned, library, several threads: 400 (300 to 500)",
        "a, pinned, naive loop, one thread: below 256",
        "b, pinned, library, several threads: above 4096",
        "b, pinned, naive loop, one thread: 300 (256 to 500)",
    ]
    assert shown.hollow == ["a, pageable, library, several threads: 600"]


def copy(memory, direction, size_bytes, copy_s, **more):
    row = {"gpu": "a", "host_memory": memory, "direction": direction, "data": "end-to-end runs"}
    row |= {"size_bytes": size_bytes, "copy_s": copy_s, "holdout": False, "copies": 2, "n": 512}
    return row | more


def test_the_figure_of_copies_shows_bandwidth_by_size_and_direction(tmp_path):
    bounds = {"copy_low_s": 2**20 / 6e10, "copy_high_s": 2**20 / 4e10}
    rows = [
        copy("pinned", "h2d", 2**20, 2**20 / 5e10, **bounds),
        copy("pinned", "h2d", 2**24, 2**24 / 5e10, holdout=True),
        copy("pageable", "d2h", 2**20, 2**20 / 1e10),
        copy("pageable", "overhead", 2**20, 1.0),
        copy("pinned", "h2d", 2**12, 1.0, data="single copies"),
    ]
    line = {"gpu": "a", "host_memory": "pinned", "direction": "h2d", "used": True}
    fits = [line | {"latency_s": 1e-5, "bytes_per_s": 5e10}]
    store = tables(tmp_path, recordings=[device("a")], transfer_points=rows, transfers=fits)
    shown = drawn(FIGURES["copies"], store)
    assert shown.tooltips == [
        "a, pageable, 1 MiB: 10 GB/s",
        "a, pinned, 1 MiB: 50 GB/s (40 to 60)",
        "a, pinned, 16 MiB: 50 GB/s",
    ]
    assert shown.hollow == ["a, pinned, 16 MiB: 50 GB/s"]
    assert {"to the GPU", "to the host", "pageable, fitted model"} <= set(shown.texts)
    rows = [copy("pinned", "h2d", 500_000, 1e-5)]  # of one size
    store = tables(tmp_path, recordings=[device("a")], transfer_points=rows)
    assert len(drawn(FIGURES["copies"], store).tooltips) == 1
