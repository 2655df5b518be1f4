"""Each sentence of the report that names an extreme is listed with its proof, and is true."""

import importlib
import shutil

import pandas as pd
import pytest

from benchmarks import sentences
from tests.support import ROOT
from tests.support.reports import made

TEMPLATES = sorted((ROOT / "report").rglob("*.j2"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_extreme_of_a_template_is_listed(path):
    assert sentences.unlisted(sentences.of_template(path.read_text())) == []


def test_an_unlisted_sentence_is_found():
    two = "Fastest implementation, measured on all cores, and always right."
    assert sentences.unlisted([two, two.replace("always", "mostly")]) == [two]
    template = "<p>{% if a %}It is {{ name(a) }}.{% endif %} The {{ n(a) }} is best.</p>"
    assert sentences.unlisted(sentences.of_template(template)) == ["The … is best.."]
    assert sentences.unlisted(["A kernel-only time.", "It is slow."]) == []


def test_every_proof_exists():
    for text, proof in sentences.LISTED.items():
        if isinstance(proof, str):
            module, _, name = proof.partition(":")
            found = importlib.import_module(module)
            assert not name or hasattr(found, name), text


def test_every_entry_is_in_a_template_or_a_text_of_the_analysis():
    shown = [one for path in TEMPLATES for one in sentences.of_template(path.read_text())]
    code = [p.read_text() for p in (ROOT / "analysis").rglob("*.*") if p.suffix in (".py", ".txt")]
    written = "\n".join([*shown, *code])
    assert [t for t in sentences.LISTED if t.removeprefix("=") not in written] == []


_SUMMARY = {"gpu": "g", "device": "gpu0", "recording": "g", "variant": "v", "dtype": "float32"}
_PIECES = {"gpu": "g", "variant": "sgemm_tensor_pieces", "total_s": "1.2", "copies_s": "1"}
_SIZE = {"gpu": "g", "host_memory": "pinned", "n": "8", "is_library": "False"}
_MODEL = {"source": "g", "kernels": "all"}
_STEP = {"gpu": "g", "is_library": "False", "units": "FP32"}


@pytest.mark.parametrize(
    ("query", "table", "rows", "change"),
    [
        ("nothing_measured", "summary", [], _SUMMARY),
        ("no_gpu_measured", "summary", [{"device": "cpu"}], {"device": "gpu0"}),
        ("slower_step", "ladder_summary", [{"verdict": "slower"}], {"verdict": "faster"}),
        ("crossing_measured", "answers", [{"break_even_location": "measured"}],
         {"break_even_location": "below"}),
        ("link_limits", "end_to_end_modes", [_PIECES], {"total_s": "1.3"}),
        ("pinned_matters", "summary",
         [{"host_memory": "pinned", "total_s": "2", "kernel_s": "1"},
          {"host_memory": "pageable", "total_s": "4", "kernel_s": "1"}], {"total_s": "2.5"}),
        ("untuned_cpu", "speedups", [{"cpu_naive_speedup": "101", "cpu_best_speedup": "10"}],
         {"cpu_best_speedup": "11"}),
        ("largest_effect", "model_effects", [_MODEL | {"from_n": "16", "share": "0.9"}],
         _MODEL | {"from_n": "16", "share": "0.91"}),
        ("best_model", "model_comparison",
         [_MODEL | {"left_out_log_rms": "1", "over_best": "1"},
          _MODEL | {"left_out_log_rms": "2", "over_best": "2"}], {"over_best": "1.5"}),
        ("throughputs_follow", "audit_cells",
         [{"printed_flop_per_s": "250000000.0", "n": "256", "time_s": "0.135",
           "rounding_s": "0.0005", "rate_agrees": "True"}], {"printed_flop_per_s": "2.7e8"}),
        ("fastest_as_measured", "predictions",
         [_SIZE | {"is_fastest": "True", "is_predicted_fastest": "True", "time_s": "1",
                   "predicted_s": "1"}],
         _SIZE | {"is_fastest": "", "is_predicted_fastest": "", "time_s": "0.9",
                  "predicted_s": "2"}),
        ("fastest_kernel", "ladder_summary",
         [_STEP | {"is_fastest": "True", "kernel_flop_per_s": "9"}],
         _STEP | {"is_fastest": "False", "kernel_flop_per_s": "10"}),
        ("fastest_on_one_thread", "summary",
         [_SUMMARY | {"device": "cpu", "batch": "1", "m": "8", "n": "8", "k": "8",
                      "threads": "1", "total_s": "2"}],
         _SUMMARY | {"device": "cpu", "batch": "1", "m": "8", "n": "8", "k": "8",
                     "threads": "1", "total_s": "1"}),
    ],
)  # fmt: skip
def test_a_query_is_true_until_a_row_changes(tmp_path, query, table, rows, change):
    proof = getattr(sentences, query)
    tables = sentences.Tables(tmp_path)
    tables.rows[table] = rows
    tables.cited = [(table, number, "n") for number in range(len(rows))]
    assert proof(tables)
    added = not rows or {"gpu", "source"} & change.keys()
    tables.rows[table] = [*rows, change] if added else [*rows[:-1], rows[-1] | change]
    assert not proof(tables)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nothing", "host", "card", "several", "measured"])
def test_every_listed_sentence_of_a_page_is_true(kind):
    folder = made(kind)
    assert sentences.faults((folder / "report.html").read_text(), folder / "tables") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column", "query"),
    [
        ("answers", "total_s", "fastest_run"),
        ("answers", "next_total_s", "next_fastest"),
        ("ladder_summary", "kernel_flop_per_s", "fastest_block"),
        ("systems", "best_flop_per_s", "best_throughput"),
        ("ladder_summary", "speedup_low", "recomputed"),
    ],
)
def test_a_changed_table_makes_a_sentence_false(tmp_path, table, column, query):
    folder = made("card")
    path = shutil.copytree(folder / "tables", tmp_path / "tables") / f"{table}.csv"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    halves = [str(float(value) / 2) if value else "" for value in rows[column]]
    rows.assign(**{column: halves}).to_csv(path, index=False)
    faults = sentences.faults((folder / "report.html").read_text(), tmp_path / "tables")
    assert any(query in fault for fault in faults), faults
