"""Figures of trust: agreement of medians, and the overhead of timing a single launch."""

import pytest

from analysis.domain import IN_RUN
from analysis.trust.figures import FIGURES
from tests.support.figures import device, drawn, stored

PAIR = {"recording_a": "of a", "gpu_a": "a", "recording_b": "of b", "gpu_b": "b"}


def counted(kind, quantity, **more):
    """Return a row of agreement.csv; the figure counts cells itself."""
    return PAIR | {"kind": kind, "quantity": quantity} | more


def cell(gpu, n, time_s, memory="pinned", **more):
    row = {"recording": f"of {gpu}", "gpu": gpu, "device": "gpu0", "variant": "naive"}
    row |= {"dtype": "float32", "batch": 1, "m": n, "n": n, "k": n, "host_memory": memory}
    row |= {"kernel_s": time_s, "kernel_timing": IN_RUN, "total_s": 2 * time_s}
    return row | more


@pytest.mark.slow
def test_agreement_counts_the_cells_that_both_have(tmp_path):
    rows = [cell("a", n, 1.0) for n in (64, 128, 256, 512)] + [cell("a", 1024, 1.0)]
    rows += [cell("b", 64, 0.5), cell("b", 128, 0.99), cell("b", 256, 1.0), cell("b", 512, 1.01)]
    rows += [cell("b", 64, 9.0, memory="pageable"), cell("b", 64, 9.0, block_size=16)]
    kinds = [counted("GPU, pinned", "kernel"), counted("GPU, pageable", "kernel")]
    store = stored(tmp_path, recordings=[device("a"), device("b")], summary=rows, agreement=kinds)
    shown = drawn(FIGURES["agreement"], store)
    assert len(shown.tooltips) == 5  # percentiles of the one kind that both have
    within = "75 % of 4 configurations within 2 %"
    assert all(within in text for text in shown.tooltips)
    assert f"kernel, pinned memory: 50 % at 0.995 or less; {within}" in shown.tooltips
    assert "b / a" in shown.texts
    cpu = {"gpu": None, "device": "cpu", "host_memory": None, "threads": 1}
    rows = [cell(host, 64, 1.0) | cpu for host in "ab"]
    launched = [back_to_back(gpu, "naive", 64, 1.0, 1.5) for gpu in "ab"]
    kinds = [counted("GPU, back to back", "kernel_batch")]
    kinds += [counted("CPU", "total", gpu_a=None, gpu_b=None)]
    listed = [device("a"), device("b")]
    tables = {"summary": rows, "back_to_back": launched, "agreement": kinds}
    store = stored(tmp_path, recordings=listed, **tables)
    shown = drawn(FIGURES["agreement"], store)
    assert {text.split(":")[0] for text in shown.tooltips} == {"kernel, back to back", "CPU"}


def back_to_back(gpu, variant, n, batch_s, ratio, **more):
    row = {"recording": f"of {gpu}", "gpu": gpu, "variant": variant, "dtype": "float32"}
    row |= {"batch": 1, "m": n, "n": n, "k": n, "kernel_batch_s": batch_s, "ratio": ratio}
    return row | more


def test_launches_of_the_fastest_block_of_square_products(tmp_path):
    rows = [
        back_to_back("a", "block", 256, 2e-5, 1.2, block_size=16, ratio_low=1.1, ratio_high=1.3),
        back_to_back("a", "block", 256, 4e-5, 1.1, block_size=32),
        back_to_back("a", "mm_tile", 256, 1e-5, 5.0, dtype="float64"),
        back_to_back("a", "mm_tile", 256, 1e-5, 5.0, m=255),
        back_to_back("b", "naive", 256, 1e-5, 2.0),
    ]
    listed = [device("a"), device("b", simulated=True)]
    shown = drawn(FIGURES["launches"], stored(tmp_path, recordings=listed, back_to_back=rows))
    assert shown.tooltips == [
        "SIMULATED b, naive, N = 256: 2×",
        "a, block, B = 16, N = 256: 1.2× (1.1 to 1.3)",
    ]
    assert shown.hollow == ["SIMULATED b, naive, N = 256: 2×"]


def test_the_factor_of_each_kind_of_time_extends_to_that_of_a_new_session(tmp_path):
    kernel = {"gpu": "a", "quantity": "kernel", "host_memory": "pinned", "matrices_in": "L2"}
    factors = {"mean_interval_factor": 1.1, "new_session_interval_factor": 1.2}
    total = {"gpu": "a", "quantity": "total", "host_memory": "pageable", "length": "over 1 ms"}
    rows = [
        kernel | factors,
        kernel | factors | {"gpu": "b", "mean_interval_factor": 1.05},
        kernel | factors | {"quantity": "h2d"},
        *(total | {"host_work": work, **factors} for work in (False, True)),
    ]
    store = stored(tmp_path, recordings=[device("a"), device("b")], sessions=rows)
    assert drawn(FIGURES["sessions"], store).tooltips == [
        "a, kernel-only, data in L2: 1.1× (1.1 to 1.2)",
        "a, pageable, over 1 ms: 1.1× (1.1 to 1.2)",
        "b, kernel-only, data in L2: 1.05× (1.05 to 1.2)",
    ]
