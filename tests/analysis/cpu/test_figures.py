"""Figures of the CPU: parts of a speedup, throughput, ceilings."""

from analysis.cpu.figures import FIGURES
from tests.support.figures import device, drawn, nothing
from tests.support.report_data import tables


def part(gpu, name, factor, memory="pageable", **more):
    """Return a row of cpu_split.csv of a GPU, or of the published times if `gpu` is None."""
    row = {"recording": f"of {gpu}" if gpu else "published", "gpu": gpu, "n": 2048}
    row |= {"start": "naive", "part": name, "factor": factor, "variant": name}
    return row | {"host_memory": memory if gpu else None} | more


def split_of(folder, rows):
    return FIGURES["cpu-split"], tables(folder, recordings=[device("a")], cpu_split=rows)


def test_the_split_figure_has_a_bar_per_gpu_and_a_part_for_pinned_memory(tmp_path):
    rows = [
        part(None, "source", 35.0, variant=None),
        part(None, "gpu", 50.0),
        part("a", "source", 10.0, factor_low=9.0, factor_high=11.0),
        part("a", "gpu", 4.0),
        part("a", "whole", 40.0),
        part("a", "source", 10.0, "pinned"),
        part("a", "gpu", 20.0, "pinned", variant="block"),
        part("a", "gpu", 4.0, start="source"),
    ]
    shown = drawn(*split_of(tmp_path, rows))
    assert shown.tooltips == [
        "a, GPU, copies included (gpu): about 4×",
        "a, cache optimisation, one thread (source): 10× (9 to 11)",
        "a, pinned instead of pageable memory (block): 5×",
        "published, GPU, copies included (gpu): 50×",
        "published, cache optimisation, one thread: 35×",
    ]
    assert {"≈ 200×", "1750×"} <= set(shown.texts)
    for pinned in (2.0, 1.0):
        rows = [part("a", "gpu", 2.0), part("a", "gpu", pinned, "pinned")]
        shown = drawn(*split_of(tmp_path, rows))
        assert shown.tooltips == ["a, GPU, copies included (gpu): about 2×"]
    # A split of one kind of memory names it and may be slower.
    rows = [part("a", "source", 10.0, "pinned"), part("a", "gpu", 0.01, "pinned")]
    assert {"N = 2048, pinned", "≈ 0.1×"} <= set(drawn(*split_of(tmp_path, rows)).texts)
    published = [part(None, "source", 35.0)]
    assert nothing(*split_of(tmp_path, published)), "not drawn without a measured split"


def cell(host, variant, n, gflops, threads=1, **more):
    """Return a row of summary.csv of the CPU in the recording of the GPU `host`."""
    row = {"recording": f"of {host}", "device": "cpu", "variant": variant, "series": "sizes"}
    row |= {"batch": 1, "m": n, "n": n, "k": n, "threads": threads, "dtype": "float32"}
    return row | {"total_s": 2e-9 * n**3 / gflops} | more


def peak(host, threads, gflops):
    row = {"recording": f"of {host}", "device": "cpu", "quantity": "fp32_flop_per_s"}
    return row | {"threads": threads, "value": gflops * 1e9}


def test_the_throughput_figure_has_a_panel_per_host_with_the_best_block_size(tmp_path):
    rows = [
        cell("a", "blocked", 512, 20.0, block_size=64),
        cell("a", "blocked", 512, 10.0, block_size=32),
        cell("a", "blas", 512, 400.0, threads=16),
        cell("b", "naive", 256, 2.0),
        cell("b", "naive", 128, 9.0, series="shapes"),
        cell("b", "naive", 512, 9.0, device="gpu0"),
    ]
    hosts = [device("a"), device("b", simulated=True)]
    peaks = [peak("a", 16, 2500.0), peak("b", 16, 1.0)]
    store = tables(tmp_path, recordings=hosts, summary=rows, ceilings=peaks)
    shown = drawn(FIGURES["cpu-rate"], store, focus="b")
    assert shown.tooltips == [
        "FMAs, 16 threads: 2500 GFLOP/s",  # not of b: no cell of that host has 16 threads
        "blas, 16 threads, N = 512: 400 GFLOP/s",
        "blocked, one thread, N = 512: 20 GFLOP/s",
        "naive, one thread, N = 256: 2 GFLOP/s",
    ]
    titles = [text for text in shown.texts if "of " in text]
    assert titles == ["SIMULATED of b", "of a"]  # the host in focus first
