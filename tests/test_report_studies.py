"""The report of other studies: of no GPU, of two, of none at all; with bad input."""

import html
import re
import shutil
from dataclasses import replace

import pytest
from report_data import (
    EVIL,
    TEMPLATE,
    Page,
    evil_tables,
    report,
    rewritten,
    tables,
    traced_tables,
)

from analysis.check import Reader
from analysis.report import render
from analysis.results import Results, ResultsError
from analysis.wording import visible


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    """Two cards of one host."""
    folder = tmp_path_factory.mktemp("recorded") / "two"
    return {"two": make_recording(folder, gpus=2, sizes=(256, 512), holdout=(), samples=6).path}


@pytest.fixture(scope="module")
def base(recordings, tmp_path_factory):
    """The folder of their report."""
    base = tmp_path_factory.mktemp("report")
    report(base, recordings)
    return base


def test_host_without_gpu_gives_a_page_of_its_own(make_recording, tmp_path):
    sizes = {"sizes": (256, 512), "holdout": (), "samples": 6}
    host = make_recording(tmp_path / "host", gpus=0, simulated=False, **sizes)
    page = report(tmp_path, {"host": host.path})
    assert "No GPU was measured: the measured rows are those of the CPU alone." in page
    assert 'id="figure-cpu-host"' in page
    assert 'id="table-1-host"' in page
    assert "SIMULATED" not in page
    assert Reader(page).shown


def test_no_recording_gives_the_published_numbers(tmp_path):
    tables(tmp_path / "tables")
    page = report(tmp_path, {}, tmp_path / "tables")
    assert "Nothing was measured: what follows are the published numbers alone." in page
    assert "Measured: nothing." in page
    assert 'id="figure-model-published"' in page
    assert "No CPU was measured." in page
    assert len(Reader(page).shown) > 100


def test_what_is_of_one_card_is_marked_as_such(base):
    page = (base / "report.html").read_text()
    for k in range(1, 7):
        section = re.search(rf'<section id="table-{k}">.*?</section>', page, re.DOTALL).group()
        marks = re.findall(r'<div data-cards="([^"]*)">', section)
        assert marks == ["two-gpu0", "two-gpu1"]
        for label in marks:
            assert f'id="table-{k}-{label}"' in section
    ids = Page(page).attributes("id")
    assert len(ids) == len(set(ids))
    assert 'id="figure-figure1-two-gpu1" data-cards="two-gpu1"' in page
    assert 'id="figure-cpu-two-gpu0" data-cards="two-gpu0 two-gpu1"' in page
    assert 'id="figure-cpu-two-gpu1"' not in page, "both cards have one host"


def test_names_from_outside_render_as_text(make_recording, tmp_path):
    changes = {"started_utc": "2024-01-01T00:00:00Z"}
    folder = tmp_path / EVIL[:-100] / ("x" * 200)  # as long as a name may be, and longer in all
    made = make_recording(folder, sizes=(256,), holdout=(), samples=6, **changes)
    devices = [made.provenance["devices"][0] | {"name": EVIL}]
    host = made.provenance["host"] | {"cpu_model": EVIL}
    flags = {"gcc_flags": [EVIL], "nvcc_flags": [EVIL]}
    evil = {"devices": devices, "host": host, "compile": flags, "sources": {EVIL: "0" * 64}}
    rewritten(replace(made, provenance=made.provenance | evil))
    assert_inert(report(tmp_path, {EVIL: made.path}), Results(tmp_path / "tables"))


def test_hostile_text_in_every_table_renders_as_text(tmp_path):
    results = evil_tables(tmp_path / "tables")
    assert_inert(report(tmp_path, {}, tmp_path / "tables"), results)


def assert_inert(text, results):
    """Assert that hostile names are texts of a page whose every number is still traced."""
    page = Page(text)
    assert len(page.texts["script"]) == 2
    assert not any("alert" in script for script in page.texts["script"])
    assert not any(tag in ("b", "img") for tag, _ in page.elements)
    assert not any(name.startswith("on") for _, named in page.elements for name in named)
    assert "{{ 7*7 }}" in text
    assert "49" not in re.search(r"<h3>.*?</h3>", text, re.DOTALL).group()
    assert html.unescape(text).count(visible(EVIL)) > 20
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text), "nothing turns the text around it"
    ids = page.attributes("id")
    assert all(re.fullmatch(r"[\w.-]+", anchor) for anchor in ids)
    assert len(ids) == len(set(ids))
    assert traced_tables(page, results) >= {"summary", "recordings", "environment"}


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("tables/gains.csv", "gains.csv is missing"),
        ("figures/figures.json", "python -m analysis figures"),
        ("figures/figure2.svg", "python -m analysis figures"),
        ("template/report.html.j2", "report.html.j2 is missing"),
        ("template/style.css", "style.css is missing"),
        ("recordings/two/provenance.json", "recording two"),
    ],
)
def test_what_is_missing_is_one_line_and_leaves_no_page(base, recordings, tmp_path, missing, words):
    for name in ("tables", "figures"):
        shutil.copytree(base / name, tmp_path / name)
    shutil.copytree(TEMPLATE, tmp_path / "template")
    shutil.copytree(recordings["two"], tmp_path / "recordings" / "two")
    (tmp_path / missing).unlink()
    folders = [tmp_path / "tables", tmp_path / "figures"]
    out = tmp_path / "report.html"
    with pytest.raises(ResultsError) as error:
        render(*folders, {"two": tmp_path / "recordings" / "two"}, tmp_path / "template", out)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not out.exists()
