"""The three answers for each GPU follow from the tables."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.data.devices import devices as devices_of
from analysis.overview.answers import answers_table, with_answers
from analysis.overview.figures import headline
from tests.support.report_data import break_even_row as size_row
from tests.support.report_data import cpu_cell, frame, gpu_cell, recording, speedup_row, tables


def answers(cells=(), devices=None):
    """Return the answers for the first device from rows of summary.csv, by role."""
    devices = devices or [recording("card")]
    tables = {"recordings": devices, "summary": cells}
    made = answers_table({name: frame(name, list(rows)) for name, rows in tables.items()}, drawn)
    return made[made["recording"] == devices[0]["recording"]].set_index("role")


def drawn(label, cells):
    """Return shuffled times spread evenly over a little more than their intervals."""
    bounds = cells[["total_low_s", "total_high_s"]].to_numpy(dtype=float)
    spread = np.linspace(*(bounds.T * np.array([[0.999], [1.001]])), 2000)
    return np.random.default_rng(1).permuted(spread.T, axis=1)


def pinned(variant, n, total_s, **more):
    return gpu_cell("card", variant, n, total_s, memory="pinned", **more)


def test_the_fastest_implementation_is_chosen_at_the_largest_size_over_all_host_memories():
    assert answers(devices=(recording("card"), recording("host", gpu=False))).empty
    roles = answers([pinned("block", 512, 0.004)])
    assert list(roles.index) == ["fastest"]
    assert pd.isna(roles.at["fastest", "verdict"])
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
    roles = answers(cells)
    row = roles.loc["fastest"]
    assert list(row[["n", "variant", "block_size", "host_memory"]]) == [1024, "block", 16, "pinned"]
    assert list(row[["total_s", "total_low_s", "total_high_s"]]) == [0.004, 0.00396, 0.00404]
    assert list(row[["verdict", "is_library", "candidates"]]) == ["faster", False, 4]
    assert list(roles.loc["next", ["variant", "total_s"]]) == ["naive", 0.006], "another variant"
    assert list(roles.loc["other", ["host_memory", "total_s"]]) == ["pageable", 0.010]
    assert "own" not in roles.index
    own = [pinned("naive", 1024, 0.008), pinned("block", 1024, 0.005)]
    roles = answers([pinned("cublas_sgemm", 1024, 0.004, block_size=None), *own])
    assert list(roles.loc["fastest", ["variant", "is_library"]]) == ["cublas_sgemm", True]
    assert list(roles.loc["own", ["variant", "total_s"]]) == ["block", 0.005]
    cells = [cpu_cell("host", "naive", 512, 0.2), cpu_cell("host", "blocked", 512, 0.1, 64)]
    cells.append(cpu_cell("other", "blocked", 512, 0.01, 64))
    roles = answers(cells, devices=(recording("host", gpu=False),))
    assert list(roles.loc["fastest", ["variant", "threads", "total_s"]]) == ["blocked", 1, 0.1]
    assert list(roles.index) == ["fastest", "next"]


@pytest.mark.parametrize(
    ("spread", "word"), [(0.001, "faster"), (0.2, "undecided"), (None, "no interval")]
)
def test_the_fastest_is_called_faster_only_if_significantly_faster_than_the_next(spread, word):
    cells = [
        pinned(n, 512, time_s, spread=spread) for n, time_s in (("block", 4e-3), ("naive", 4.1e-3))
    ]
    assert answers(cells).at["fastest", "verdict"] == word


def test_the_break_even_answer_compares_the_best_gpu_implementation_with_the_fastest_cpu():
    rows = [
        size_row("card", 500.0, 450.0, 550.0, memory="pageable"),
        size_row("card", 400.0, 350.0, 450.0),
        size_row("card", 300.0, 250.0, 350.0, kernels="library"),
        size_row("card", 20.0, 10.0, 30.0, cpu_baseline="naive"),
        size_row("other", math.nan, 900.0, math.inf, "above"),
    ]
    below = size_row("card", math.nan, 0, 140, "below", "pageable")
    above = size_row("card", math.nan, 900, math.inf, "above", "pageable")
    for some, chosen in ((rows, [2, 4]), ([above, rows[1]], [1]), ([rows[1], below], [1])):
        made = with_answers(frame("break_even", some))
        assert list(made.index[made["is_answer"]]) == chosen
    assert list(with_answers(frame("break_even", [*rows, below]))["verdict"]) == (
        ["faster"] * 4 + ["slower", "faster"]
    )


def test_the_speedup_is_written_inside_the_headline_figure(tmp_path):
    rows = [pinned("block", n, n * 1e-6) for n in (64, 128)] + [cpu_cell("card", "blas", 64, 1e-3)]
    answer = speedup_row("card", "block", 64, 15.6, 0.01) | {"is_answer": True}
    store = tables(tmp_path, recordings=[recording("card")], summary=rows, speedups=[answer])
    figure = headline(store, devices_of(store, None))
    (text,) = (each for each in figure.axes[0].texts if "×" in each.get_text())
    figure.draw_without_rendering()
    assert text.get_window_extent().y0 > figure.axes[0].get_window_extent().y0
