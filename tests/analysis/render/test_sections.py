"""What the sections say, without the page: chosen rows, and answers that choose a sentence."""

from functools import partial

import pytest

from analysis.data.devices import devices
from analysis.render.query import rows
from analysis.render.sections import SECTIONS
from tests.support.report_data import break_even_row, cpu_cell, gpu_cell, recording, tables


def said(folder, section, **added):
    added = {"recordings": [recording("card")]} | added
    store = tables(folder, **added)
    return SECTIONS[section](partial(rows, store), devices(store))


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("recordings", [[], [recording("host", gpu=False)], [recording("card")]])
def test_a_section_without_numbers_is_empty(tmp_path, section, recordings):
    values = said(tmp_path, section, recordings=recordings)
    names = ("fastest", "best", "speedup", "naive", "over_naive", "pair", "even")
    assert not any(values.get(name) for name in names)


@pytest.mark.parametrize("sessions", [0, 3, 8])
def test_the_answer_lists_few_sessions(tmp_path, sessions):
    even = [break_even_row("card", 300, 200, 400) | {"is_answer": True}]
    by_session = [{"gpu": "card", "speedup": float(n)} for n in range(1, sessions + 1)]
    values = said(tmp_path, "overview", break_even=even, answer_sessions=by_session)
    assert len(values["by_session"]) == (sessions if sessions < 8 else 0)
    assert values["even"]["n"] == 300


@pytest.mark.parametrize("kernels", ["strict FP32", "tensor cores"])
def test_a_speedup_of_tensor_cores_is_called_so(tmp_path, kernels):
    answer = {"source": "card", "variant": "sgemm_tensor", "n": 64, "is_answer": True}
    choice = {"gpu": "card", "kernels": kernels, "variant": "sgemm_tensor", "n": 64}
    values = said(tmp_path, "overview", speedups=[answer], choices=[choice])
    assert values["needs_tensor_cores"] is (kernels == "tensor cores")


@pytest.mark.parametrize(("over_fastest", "is_mostly_untuned"), [(9.0, True), (11.0, False)])
def test_a_speedup_is_mostly_untuned_if_tuning_the_cpu_takes_more_than_half_of_it(
    tmp_path, over_fastest, is_mostly_untuned
):
    same = {"source": "card", "variant": "block", "n": 512, "host_memory": "pinned"}
    speedups = [
        same | {"baseline": "cpu_naive", "speedup": 100.0},
        same | {"baseline": "cpu_best", "speedup": over_fastest},
        same | {"baseline": "cpu_naive", "speedup": 400.0, "n": 256},
    ]
    cells = [cpu_cell("card", "naive", 512, 2.0), cpu_cell("card", "blocked", 512, 1.0)]
    values = said(tmp_path, "cpu", speedups=speedups, summary=cells)
    assert values["over_naive"]["speedup"] == 100.0, "at the largest size"
    assert values["is_mostly_untuned"] is is_mostly_untuned
    assert (values["blocked"]["total_s"], values["on_all_cores"]) == (1.0, None)


@pytest.mark.parametrize(("pageable_s", "matters"), [(0.4, False), (0.6, True)])
def test_pinned_memory_matters_more_than_a_kernel_that_takes_less(tmp_path, pageable_s, matters):
    kernel = {"recording": "card", "gpu": "card", "variant": "block", "block_size": 32, "n": 512}
    ladder = [kernel | {"is_fastest": True, "kernel_flop_per_s": 1e9}]
    cells = [
        gpu_cell("card", "block", 512, 0.4, memory="pinned"),
        gpu_cell("card", "block", 512, pageable_s),
    ]
    values = said(tmp_path, "decide", ladder_summary=ladder, summary=cells)
    assert values["memory_matters_more"] is matters


@pytest.mark.parametrize(("over_floor", "limits"), [(1.2, True), (1.25, True), (1.3, False)])
def test_the_link_limits_runs_that_take_little_more_than_their_copies(tmp_path, over_floor, limits):
    kernel = {"recording": "card", "gpu": "card", "variant": "block", "block_size": 32, "n": 512}
    mode = kernel | {"variant": "sgemm_tensor_pieces", "over_floor": over_floor}
    values = said(tmp_path, "kernels", ladder_summary=[kernel], end_to_end_modes=[mode])
    assert values["link_limits"] is limits


@pytest.mark.parametrize(("speedup", "helped"), [(0.9, False), (1.4, True), (33.0, False)])
def test_caches_helped_if_tiles_give_a_speedup_between_1_and_b(tmp_path, speedup, helped):
    kernel = {"recording": "card", "gpu": "card", "variant": "block", "block_size": 32, "n": 512}
    step = kernel | {"baseline": "previous", "baseline_variant": "naive_coalesced"}
    tables = {"ladder_summary": [kernel], "ladder_speedups": [step | {"speedup": speedup}]}
    values = said(tmp_path, "kernels", **tables)
    assert values["caches_helped"] is helped
    assert values["block"]["previous_speedup"] == speedup


@pytest.mark.parametrize(("last", "depends"), [("latency", False), ("caches", True)])
def test_the_effect_depends_on_the_size_if_the_largest_one_changes(tmp_path, last, depends):
    effect = {"source": "card", "kernels": "modelled"}
    effects = [
        effect | {"from_n": 1, "adds": "latency", "share": 0.5},
        effect | {"from_n": 1, "adds": "overhead", "share": 0.4},
        effect | {"from_n": 256, "adds": last, "share": 0.7},
    ]
    values = said(tmp_path, "models", model_effects=effects)
    assert values["effect_depends_on_size"] is depends
