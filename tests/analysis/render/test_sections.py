"""What the page shows first: answers of each device, choices of the context bar."""

import re
from functools import partial

import pytest

from analysis.data.devices import devices
from analysis.render import sections
from analysis.render.query import rows
from tests.support.report_data import break_even_row, recording, tables


def said(folder, function, focus=None, **added):
    store = tables(folder, **({"recordings": [recording("card")]} | added))
    return function(partial(rows, store), devices(store, focus))


def texts(answer):
    """Return the values of an answer and their texts, without markup."""
    lines = ((re.sub("<[^>]*>|\u2060", "", str(part)) for part in line) for line in answer.lines)
    return [
        tuple(text.replace("\xa0", " ").replace("&nbsp;", " ") for text in line) for line in lines
    ]


@pytest.mark.parametrize("recordings", [[recording("host", gpu=False)], [recording("card")]])
def test_without_times_every_answer_says_why_it_is_missing(tmp_path, recordings):
    (one,) = said(tmp_path, sections.answers, recordings=recordings)
    lines = [line for answer in one.answers for line in texts(answer)]
    assert [value for value, _ in lines] == ["–"] * 3
    assert all(text for _, text in lines)


def test_the_answers_name_both_sides_of_each_comparison(tmp_path):
    run = {"n": 64, "host_memory": "pinned", "total_s": 0.5, "verdict": "undecided"}
    library = {"gpu": "card", "recording": "card", "variant": "cublas_sgemm", "is_library": True}
    fastest = [library | run | {"role": "fastest"}]
    fastest += [library | run | {"variant": "block", "role": "own", "verdict": None}]
    speedup = {"source": "card", "variant": "block", "n": 64, "host_memory": "pinned"}
    speedup |= {"baseline_variant": "packed", "baseline_threads": 2, "verdict": "faster"}
    speedup |= {"speedup": 4.0, "speedup_low": 3.0, "speedup_high": 5.0, "is_answer": True}
    even = break_even_row("card", 300, 200, 400) | {"is_answer": True}
    data = {"answers": fastest, "speedups": [speedup], "break_even": [even]}
    (one,) = said(tmp_path, sections.answers, **data)
    least, over_cpu, sizes = map(texts, one.answers)
    assert [value for value, _ in least] == ["500.0 ms", "500.0 ms"]
    assert least[0][1].endswith("undecided")
    assert least[1][1] == "block, N = 64, pinned memory"
    assert over_cpu == [
        ("4.00× (3.00–5.00)", "best choice, pinned memory, block, N = 64, over packed on 2 threads")
    ]
    assert sizes == [("N = 300 (200 to 400)", "any kernel, pinned memory")]


def test_the_answers_say_from_how_many_cpu_cells_the_fastest_was_chosen(tmp_path):
    times = [{"recording": "card", "variant": name} for name in ("mkl", "naive", "packed", "mkl")]
    hosts = [{"recording": "card", "usable_threads": 16}]
    (one,) = said(tmp_path, sections.answers, cpu_times=times, cpu_hosts=hosts)
    text = re.sub("<[^>]*>", "", str(one.cpu))
    assert text.endswith(" with 16 threads; baseline: the fastest of packed, mkl")


def test_the_page_shows_the_gpu_in_focus_first_and_hides_the_others(tmp_path):
    recordings = [recording("card"), recording("other")]
    shown = said(tmp_path, sections.answers, "other", recordings=recordings)
    assert [one.device.label for one in shown] == ["other", "card"]
    values = said(tmp_path / "again", sections.dossier, "other", recordings=recordings)
    hidden = [values["of_gpu"](one.device) for one in values["answers"]]
    assert hidden == [' data-gpu="other"', ' data-gpu="card" hidden']


def test_the_top_bar_offers_the_measured_baselines_and_the_matrix_size_of_the_answer(tmp_path):
    step = {"gpu": "card", "variant": "block", "baseline": "cublas", "speedup": 0.5}
    choice = {"gpu": "card", "n": 512, **sections.STRICTEST}
    context = said(tmp_path, sections.context, ladder_speedups=[step], choices=[choice])
    assert context["n"] == 512
    kernels, cpus = (list(options) for options in context["baselines"].values())
    assert kernels == ["cublas"]
    assert cpus == [
        "fastest-cpu",
        "cpu-naive",
        "cpu-own",
        "cpu-own_all",
        "cpu-blas",
        "cpu-blas_all",
    ]


def test_without_a_gpu_the_page_says_so_and_models_published_times(tmp_path):
    values = said(tmp_path, sections.dossier, recordings=[recording("host", gpu=False)])
    assert values["nothing"].startswith("No GPU was measured.")
    assert values["modelled_source"] == "published"
    nothing = said(tmp_path / "nothing", sections.dossier, recordings=[])
    assert nothing["nothing"].startswith("Nothing was measured.")
    assert not nothing["answers"]
