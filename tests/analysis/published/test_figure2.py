"""Figure 2 of source V: the table, and the figure drawn from it."""

import pytest

from analysis.data import recordings as data
from analysis.data.ceilings import ceilings_table
from analysis.published.figure2 import figure2_table
from analysis.published.figures import FIGURES
from analysis.schema import bounded
from tests.support.figures import device, drawn
from tests.support.report_data import tables


def test_figure_2_lists_the_fastest_kernel_and_properties_of_each_gpu(gpu_recording, cpu_recording):
    sources = data.sources({"gpu": gpu_recording})
    summary = data.summary_table(sources)
    (row,) = figure2_table(sources, summary, ceilings_table(sources)).to_dict("records")
    blocks = ["naive", "block", "block_strided", "block_unroll4", "block_unroll8"]
    own = summary[(summary["gpu"] == "gpu") & (summary["n"] == 2048) & (summary["m"] == 2048)]
    own = own[own["variant"].isin(blocks)]
    best = own.loc[own["kernel_s"].idxmin()]
    assert row["kernel_flop_per_s"] == pytest.approx(2 * 2048**3 / best["kernel_s"])
    assert row["kernel_flop_per_low_s"] == pytest.approx(2 * 2048**3 / best["kernel_high_s"])
    assert (row["kernel_variant"], row["n"]) == (best["variant"], 2048)
    totals = own[own["host_memory"] == "pageable"]["total_s"]
    assert row["pageable_flop_per_s"] == pytest.approx(2 * 2048**3 / totals.min())
    assert row["multiprocessors"] == 100
    assert row["memory_bytes_per_s"] == pytest.approx(2.5e12, rel=0.02)
    assert row["link_bytes_per_s"] == pytest.approx(5e10, rel=0.02), "of the largest copy, pinned"
    assert row["roofline_flop_per_s"] == pytest.approx(8 * row["memory_bytes_per_s"])
    sources = data.sources({"host": cpu_recording})
    summary = data.summary_table(sources)
    assert figure2_table(sources, summary, ceilings_table(sources)).empty


def test_figure_2_shows_every_gpu_with_its_interval(tmp_path):
    rows = []
    for place in range(30):
        names = {"gpu": f"gpu{place}", "gpu_name": f"Model {place}", "recording": f"gpu{place}"}
        kernel = {"n": 2048, "kernel_variant": "block", "kernel_block_size": 32}
        speed = 1e12 * (1 + place)
        bounds = bounded("kernel_flop_per_s", speed, 0.9 * speed, 1.1 * speed)
        rows.append({**names, **kernel, **bounds})
    listed = [device(f"gpu{place}", recording=f"gpu{place}") for place in range(30)]
    found = drawn(FIGURES["figure2"], tables(tmp_path, figure2=rows, recordings=listed))
    assert {f"gpu{place}" for place in range(30)} <= set(found.texts)
    text = ", block, B = 32, N = 2048: 30 000 GFLOP/s (27 000 to 33 000)"
    assert any(said.endswith(text) for said in found.tooltips)
