"""The three answers for each GPU follow from the tables."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.data.devices import devices as devices_of
from analysis.overview.answers import answers_table
from analysis.overview.figures import headline
from tests.support.figures import stored
from tests.support.report_data import break_even_row as size_row
from tests.support.report_data import cpu_cell, frame, gpu_cell, recording, speedup_row


def answers(cells=(), speedups=(), sizes=(), devices=None):
    """Return the answers for the first device from these rows of the other tables."""
    devices = devices or [recording("card")]
    tables = {"recordings": devices, "summary": cells, "speedups": speedups, "break_even": sizes}
    found = answers_table({name: frame(name, list(rows)) for name, rows in tables.items()}, drawn)
    assert len(found) == len(devices)
    return found.iloc[0]


def drawn(label, cells):
    """Return shuffled times spread evenly over a little more than their intervals."""
    bounds = cells[["total_low_s", "total_high_s"]].to_numpy(dtype=float)
    spread = np.linspace(*(bounds.T * np.array([[0.999], [1.001]])), 2000)
    return np.random.default_rng(1).permuted(spread.T, axis=1)


def pinned(variant, n, total_s, **more):
    return gpu_cell("card", variant, n, total_s, memory="pinned", **more)


def test_the_fastest_is_that_of_the_largest_size_over_all_host_memories():
    row = answers(devices=(recording("card"), recording("host", gpu=False)))
    assert (row["recording"], row["gpu"]) == ("card", "card")
    assert row.drop(["recording", "gpu"]).isna().all()
    row = answers([pinned("block", 512, 0.004)])
    assert row[["next_variant", "implementation_verdict", "other_host_memory"]].isna().all()
    cells = [
        gpu_cell("card", "block", 512, 0.001),
        gpu_cell("card", "block", 1024, 0.010),
        gpu_cell("other", "block", 4096, 0.010),
        gpu_cell("card", "block", 4001, 0.001) | {"series": "shapes"},
        pinned("naive", 1024, 0.006),
        pinned("block", 1024, 0.004, block_size=16),
        pinned("block", 1024, 0.005, block_size=32),
        cpu_cell("card", "naive", 8192, 0.001),
    ]
    row = answers(cells)
    assert list(row[["n", "variant", "block_size", "host_memory"]]) == [1024, "block", 16, "pinned"]
    assert (row["total_s"], row["total_low_s"], row["total_high_s"]) == (0.004, 0.00396, 0.00404)
    assert (row["next_variant"], row["next_total_s"]) == ("naive", 0.006), "another variant"
    assert (row["other_host_memory"], row["other_total_s"]) == ("pageable", 0.010)
    assert (row["implementation_verdict"], row["is_library"]) == ("faster", False)
    assert pd.isna(row["own_variant"])
    own = [pinned("naive", 1024, 0.008), pinned("block", 1024, 0.005)]
    row = answers([pinned("cublas_sgemm", 1024, 0.004, block_size=None), *own])
    assert (row["variant"], row["is_library"]) == ("cublas_sgemm", True)
    assert pd.isna(row["block_size"])
    assert (row["own_variant"], row["own_total_s"]) == ("block", 0.005)
    cells = [cpu_cell("host", "naive", 512, 0.2), cpu_cell("host", "blocked", 512, 0.1, 64)]
    cells.append(cpu_cell("other", "blocked", 512, 0.01, 64))
    row = answers(cells, devices=(recording("host", gpu=False),))
    assert (row["variant"], row["threads"], row["total_s"]) == ("blocked", 1, 0.1)
    assert row[["gpu", "speedup", "break_even_location"]].isna().all()


def test_speedups_are_the_largest_and_have_verdicts_on_their_intervals():
    """Over the next implementation, and over the CPU."""
    times = {"block": 0.004, "naive": 0.0041}
    for spread, word in ((0.001, "faster"), (0.2, "undecided"), (None, "no interval")):
        cells = [pinned(name, 512, total_s, spread=spread) for name, total_s in times.items()]
        assert answers(cells)["implementation_verdict"] == word
    known = {(40, 0.01): "faster", (0.5, 0.01): "slower", (1, 0.2): "undecided"}
    for (speedup, spread), word in (known | {(40, None): "no interval"}).items():
        row = answers(speedups=[speedup_row("card", "block", 1024, speedup, spread)])
        assert (row["speedup"], row["speedup_verdict"]) == (speedup, word)
        assert (row["cpu_best_variant"], row["cpu_best_threads"]) == ("blas", 16)
    speedups = [
        speedup_row("card", "block", 512, 99.0, 0.01),
        speedup_row("card", "block", 1024, 7.0, 0.01),
        speedup_row("card", "naive", 1024, 2.0, 0.01),
        speedup_row("card", "block", 1024, 9.0, 0.01) | {"host_memory": "pinned"},
        speedup_row("other", "block", 1024, 50.0, 0.01),
        {"source": "card", "n": 2048, "variant": "block", "host_memory": "pinned"},
    ]
    row = answers(speedups=speedups)
    assert (row["speedup_n"], row["speedup"], row["speedup_host_memory"]) == (1024, 9.0, "pinned")
    assert (row["speedup_low"], row["speedup_high"]) == pytest.approx((8.91, 9.09))


def test_break_even_is_the_least_of_all_implementations_over_the_fastest_cpu():
    for n, low, high, location, verdict in (
        (300.2, 280.0, 333.0, "measured", "faster"),
        (math.nan, 0.0, 140.0, "below", "faster"),
        (math.nan, 900.0, math.inf, "above", "slower"),
    ):
        row = answers(sizes=[size_row("card", n, low, high, location)])
        assert (row["break_even_verdict"], row["break_even_location"]) == (verdict, location)
        names = ["n", "n_low", "n_high", "least_n", "largest_n"]
        found = [row[f"break_even_{name}"] for name in names]
        np.testing.assert_equal(found, [n, low, high, 128, 1024])
    rows = [
        size_row("card", 500.0, 450.0, 550.0, memory="pageable"),
        size_row("card", 400.0, 350.0, 450.0),
        size_row("card", 300.0, 250.0, 350.0, kernels="library"),
        size_row("card", 20.0, 10.0, 30.0, cpu_baseline="naive"),
        size_row("other", 10.0, 5.0, 20.0),
    ]
    row = answers(sizes=rows)
    assert (row["break_even_n"], row["break_even_host_memory"]) == (300.0, "pinned")
    above = size_row("card", math.nan, 900, math.inf, "above", "pageable")
    assert answers(sizes=[above, rows[1]])["break_even_n"] == 400
    row = answers(sizes=[rows[1], size_row("card", math.nan, 0, 140, "below", "pageable")])
    assert (row["break_even_location"], row["break_even_host_memory"]) == ("below", "pageable")


def test_the_speedup_is_written_inside_the_headline_figure(tmp_path):
    rows = [pinned("block", n, n * 1e-6) for n in (64, 128)] + [cpu_cell("card", "blas", 64, 1e-3)]
    answer = {"recording": "card", "gpu": "card", "speedup": 15.6, "speedup_n": 64}
    store = stored(tmp_path, recordings=[recording("card")], summary=rows, answers=[answer])
    figure = headline(store, devices_of(store, None))
    (text,) = (each for each in figure.axes[0].texts if "×" in each.get_text())
    figure.draw_without_rendering()
    assert text.get_window_extent().y0 > figure.axes[0].get_window_extent().y0
