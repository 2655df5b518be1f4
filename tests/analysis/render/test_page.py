"""The page for several kinds of study: numbers, links, scripts, notices, errors."""

import base64
import hashlib
import io
import re
import shutil
import tarfile

import pytest

from analysis.data.store import Store
from analysis.render import embedded
from analysis.render.check import check
from analysis.render.page import render
from analysis.schema import TABLES
from base.errors import StudyError
from tests.support import ROOT, reports
from tests.support.page import Page
from tests.support.report_data import MAKER, TEMPLATE, report
from tests.support.simulated import FEW, recorded

DATA = ("application/json", "text/plain")  # types of scripts that are data
STALE = {"stale</mark>", "kernels/block.cu</td>"}
# Addresses of works that the page names.
WORKS = ("http://www.es.ele.tue.nl/", "https://zhuanlan.zhihu.com/p/", "https://doi.org/")
WORKS += ("https://leimao.github.io/",)
pytestmark = pytest.mark.slow  # pages must be rendered
KINDS = pytest.mark.parametrize(  # the kind several contains the recordings of card
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.exhaustive] if kind == "card" else [])
        for kind in reports.KINDS
    ],
)


@pytest.fixture
def text(kind):
    return (reports.made(kind) / "report.html").read_text()


@KINDS
def test_every_number_and_name_equals_its_table_cell(kind, text):
    assert check(text, reports.made(kind) / "tables", None if kind == "hostile" else TEMPLATE) == []


@KINDS
def test_links_and_labels_have_targets_and_the_page_allows_only_its_own_scripts(text):
    page = Page(text)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[\w.-]+", each) for each in ids)
    targets = {link[1:] for link in page.attributes("href") if link.startswith("#")}
    assert len(targets) > 8
    assert targets <= set(ids)
    for name in ("aria-labelledby", "aria-describedby"):
        for value in page.attributes(name):
            assert set(value.split()) <= set(ids), value
    # Nothing is fetched.
    (policy,) = (a["content"] for _, a in page.elements if "http-equiv" in a)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    allowed = set(rules["script-src"].split())
    run = [a.get("type", "") for tag, a in page.elements if tag == "script"]
    for script, kind in zip(page.scripts, run, strict=True):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert kind in DATA or f"'sha256-{digest}'" in allowed
    fetching = {"src", "srcset", "poster", "action", "formaction", "background", "manifest"}
    names = {name for _, a in page.elements for name in a}
    assert not any(name.startswith("on") or name in fetching for name in names)
    links = [a["href"] for _, a in page.elements if "href" in a]
    of_tree = [link.removeprefix("../") for link in links if link.startswith("../")]
    assert all((ROOT / path).exists() for path in of_tree)
    assert {"README.md", "kernels"} <= set(of_tree)
    assert all(f"<code>{path}</code>" in text for path in of_tree), "the path, if it is elsewhere"
    assert all(link.startswith(("#", "data:", "../", *WORKS)) for link in links)
    assert "@import" not in text
    assert "og:image" not in text, "the page has no address, and so no image for other sites"


def test_rendering_the_same_input_gives_the_same_bytes(tmp_path):
    folder = reports.made("several")
    places = (folder / "tables", folder / "figures", reports.recordings("several"), TEMPLATE)
    render(*places, tmp_path / "again.html", "card", MAKER)
    assert (tmp_path / "again.html").read_bytes() == (folder / "report.html").read_bytes()
    links = Page((folder / "report.html").read_text()).attributes("href")
    (link,) = (link for link in links if link.startswith("data:application"))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(link.split(",")[1]))) as archive:
        packed = {entry.name: archive.extractfile(entry).read() for entry in archive}
    files = (folder / "tables").iterdir()
    assert packed == {f"tables/{path.name}": path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nothing", {"Nothing was measured"}),
        ("host", {"No GPU was measured."}),
        pytest.param("card", STALE, marks=pytest.mark.exhaustive),
        ("several", STALE | {"SIMULATED</mark>"}),
    ],
)
def test_notices_on_the_page_describe_its_content(text, said):
    notices = STALE | {"Nothing was measured", "No GPU was measured.", "SIMULATED</mark>"}
    assert {words for words in notices if words in text} == said


@pytest.mark.exhaustive
def test_a_page_about_a_single_matrix_size_agrees_with_its_tables():
    made = recorded(sizes=(7,), holdout=(), samples=6, variants=FEW, complete=True)
    folder = report({"card": made})
    assert check((folder / "report.html").read_text(), folder / "tables") == []


def test_simulated_gpus_are_marked_everywhere_and_hostile_names_stay_text():
    text = (reports.made("several") / "report.html").read_text()
    badge = '<code>two-gpu0</code> <mark class="badge simulated">SIMULATED</mark>'
    for figure in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert "SIMULATED" in figure or "two-gpu0" not in figure
    for row in re.findall(r"<tr data-row.*?</tr>", text, re.DOTALL):
        assert badge in row or "<code>two-gpu0</code>" not in row
    text = (reports.made("hostile") / "report.html").read_text()
    page = Page(text)
    assert not any("alert(" in script for script in page.scripts if not script.startswith("{"))
    assert not any(tag == "b" for tag, _ in page.elements)
    assert "{{ 7*7 }}" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text), "nothing turns the text around it"
    assert text.count("[U+202E]") > 20


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("tables/speedups.csv", r"speedups\.csv is missing; make it with `make report`"),
        ("figures/figures.json", "gemm-study figures"),
        ("template/page.html.j2", "page.html.j2 is missing"),
        ("template/style.css", "style.css is missing"),
        ("template/glossary.yaml", "glossary.yaml is missing"),
        ("recordings/host/provenance.json", "recordings/host: provenance.json is missing"),
        ("recordings/host/MANIFEST.sha256", "MANIFEST.sha256 is missing"),
    ],
)
def test_a_missing_input_of_the_page_is_an_error_and_leaves_no_page(tmp_path, missing, words):
    for name in ("tables", "figures"):
        shutil.copytree(reports.made("host") / name, tmp_path / name)
    shutil.copytree(TEMPLATE, tmp_path / "template")
    shutil.copytree(reports.recordings("host")["host"], tmp_path / "recordings" / "host")
    (tmp_path / missing).unlink()
    tables, figures, template = (tmp_path / name for name in ("tables", "figures", "template"))
    out = tmp_path / "report.html"
    with pytest.raises(StudyError, match=words) as error:
        render(tables, figures, {"host": tmp_path / "recordings/host"}, template, out)
    assert "\n" not in str(error.value)
    assert not out.exists()


def test_a_page_embeds_the_tables_and_vendored_files_of_the_licence_list(computed, monkeypatch):
    text = (reports.made("nothing") / "report.html").read_text()
    vendor = TEMPLATE / "vendor"
    for path in vendor.glob("*.min.*"):
        assert f"`{path.name}`" in (vendor / "README.md").read_text(), path.name
        if "sortable" in path.name or "pico" in path.name:
            assert path.read_text() in text
    store = Store(computed)
    assert embedded.archived(store) == list(TABLES)
    sizes = {name: len(store.bytes(name)) for name in TABLES}
    largest = max(sizes, key=sizes.get)
    monkeypatch.setattr(embedded, "MOST_BYTES", sum(sizes.values()) - 1)
    assert embedded.archived(store) == [name for name in TABLES if name != largest]
