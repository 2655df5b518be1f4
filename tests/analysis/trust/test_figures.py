"""Figures of trust: agreement of medians, sessions."""

import pytest

from analysis.trust.figures import FIGURES
from tests.support.figures import device, drawn
from tests.support.report_data import tables

PAIR = {"recording_a": "of a", "gpu_a": "a", "recording_b": "of b", "gpu_b": "b"}


def counted(kind, quantity, **more):
    """Return a row of agreement.csv; the figure counts cells itself."""
    return PAIR | {"kind": kind, "quantity": quantity} | more


def cell(gpu, n, time_s, memory="pinned", **more):
    row = {"recording": f"of {gpu}", "gpu": gpu, "device": "gpu0", "variant": "naive"}
    row |= {"dtype": "float32", "batch": 1, "m": n, "n": n, "k": n, "host_memory": memory}
    row |= {"kernel_s": time_s, "total_s": 2 * time_s}
    return row | more


@pytest.mark.slow
def test_the_figure_of_agreement_counts_only_cells_of_both_recordings(tmp_path):
    rows = [cell("a", n, 1.0) for n in (64, 128, 256, 512)] + [cell("a", 1024, 1.0)]
    rows += [cell("b", 64, 0.5), cell("b", 128, 0.99), cell("b", 256, 1.0), cell("b", 512, 1.01)]
    rows += [cell("b", 64, 9.0, memory="pageable"), cell("b", 64, 9.0, block_size=16)]
    kinds = [counted("GPU, pinned", "total"), counted("GPU, pageable", "total")]
    store = tables(tmp_path, recordings=[device("a"), device("b")], summary=rows, agreement=kinds)
    shown = drawn(FIGURES["agreement"], store)
    assert len(shown.tooltips) == 5  # percentiles of the one kind that both have
    within = "75 % of 4 configurations within 2 %"
    assert all(within in text for text in shown.tooltips)
    assert f"end-to-end, pinned memory: 50 % at 0.995 or less; {within}" in shown.tooltips
    assert "b / a" in shown.texts
    cpu = {"gpu": None, "device": "cpu", "host_memory": None, "threads": 1}
    rows = [cell(host, 64, 1.0) | cpu for host in "ab"]
    kinds = [counted("CPU", "total", gpu_a=None, gpu_b=None)]
    kinds += [counted("GPU, kernel-only", "kernel")]
    rows += [cell(gpu, 64, 1.0) for gpu in "ab"]
    store = tables(tmp_path, recordings=[device("a"), device("b")], summary=rows, agreement=kinds)
    shown = drawn(FIGURES["agreement"], store)
    assert {text.split(":")[0] for text in shown.tooltips} == {"kernel-only", "CPU"}


def test_the_figure_of_sessions_shows_the_interval_for_a_new_session(tmp_path):
    kernel = {"gpu": "a", "quantity": "kernel", "host_memory": "pinned", "matrices_in": "L2"}
    factors = {"mean_interval_factor": 1.1, "new_session_interval_factor": 1.2}
    total = {"gpu": "a", "quantity": "total", "host_memory": "pageable", "length": "over 1 ms"}
    rows = [
        kernel | factors,
        kernel | factors | {"gpu": "b", "mean_interval_factor": 1.05},
        kernel | factors | {"quantity": "h2d"},
        *(total | {"host_work": work, **factors} for work in (False, True)),
    ]
    store = tables(tmp_path, recordings=[device("a"), device("b")], sessions=rows)
    assert drawn(FIGURES["sessions"], store).tooltips == [
        "a, kernel-only, data in L2: 1.1× (1.1 to 1.2)",
        "a, pageable, over 1 ms: 1.1× (1.1 to 1.2)",
        "b, kernel-only, data in L2: 1.05× (1.05 to 1.2)",
    ]
