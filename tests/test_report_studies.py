"""The report of other studies: of no GPU, of two, of none at all; with bad input; in a browser."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from report_data import TEMPLATE, Page, report, rewritten, tables

from analysis.report import render
from analysis.results import ResultsError

EVIL = "<script>alert('x')</script> \"{{ 7*7 }}\" & <b>" + "\u202e" + "x" * 300


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
    assert Page(page).numbers


def test_no_recording_gives_the_published_numbers(tmp_path):
    tables(tmp_path / "tables")
    page = report(tmp_path, {}, tmp_path / "tables")
    assert "Nothing was measured: what follows are the published numbers alone." in page
    assert "Measured: nothing." in page
    assert 'id="figure-model-published"' in page
    assert "No CPU was measured." in page
    assert len(Page(page).numbers) > 100


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
    made = make_recording(tmp_path / "plain", sizes=(256,), holdout=(), samples=6, **changes)
    devices = [made.provenance["devices"][0] | {"name": EVIL}]
    host = made.provenance["host"] | {"cpu_model": EVIL}
    evil = made.provenance | {"devices": devices, "host": host}
    rewritten(replace(made, provenance=evil))
    text = report(tmp_path, {EVIL[:60]: made.path})
    page = Page(text)
    assert len(page.texts["script"]) == 2
    assert not any("alert" in script for script in page.texts["script"])
    assert not any(tag == "b" for tag, _ in page.elements)
    assert "{{ 7*7 }}" in text
    assert "49" not in re.search(r"<h3>.*?</h3>", text, re.DOTALL).group()
    assert html.unescape(text).count(EVIL) > 5
    assert all(re.fullmatch(r"[\w.-]+", anchor) for anchor in page.attributes("id"))


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


# ---- in a browser


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
PROBE = """
addEventListener("load", () => setTimeout(() => {
  const table = document.querySelector("#table-5-two-gpu0 table");
  const head = table.tHead.rows[0].cells[2];
  const column = () => [...table.tBodies[0].rows].map(row => +row.cells[2].firstChild.value);
  head.focus();
  head.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  document.querySelectorAll("details").forEach(fold => fold.open = true);
  setTimeout(() => {
    const page = document.documentElement;
    parent.postMessage(JSON.stringify({
      focused: document.activeElement === head, sorted: column(),
      page: page.scrollWidth, window: page.clientWidth,
      fetched: performance.getEntriesByType("resource").map(entry => entry.name),
    }), "*");
  }, 200);
}, 100));
"""
# A window cannot be as narrow as a phone, a frame can.
FRAME = """<!doctype html>
<iframe src="probed.html" width="{width}" height="800" style="border: 0"></iframe>
<script>onmessage = event => document.body.dataset.probe = event.data</script>
"""


def browse(path, profile):
    """Open a page in headless Chromium; return its document when loaded, and what it logged."""
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
            *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
            *(
                "--disable-sync",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={profile}",
            ),
            *("--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"),
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


@needs_chromium
def test_browser_opens_it_without_message(base, tmp_path):
    """By its policy the browser reports every request, and every script but the page's own."""
    dom, log = browse(base / "report.html", tmp_path / "profile")
    messages = [line for line in log.splitlines() if ":CONSOLE:" in line]
    # Chromium's own pages complain where the machine has no network at all.
    assert [line for line in messages if "source: chrome://" not in line] == []
    assert 'tabindex="0" aria-label="Click to sort' in dom, "the page's own scripts ran"


@needs_chromium
@pytest.mark.parametrize("width", [1440, 360])
def test_browser_sorts_by_key_fetches_nothing_and_never_scrolls_sideways(base, tmp_path, width):
    text = (base / "report.html").read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    text = text.replace("</body>", f"<script>{PROBE}</script></body>")
    (tmp_path / "probed.html").write_text(text)
    (tmp_path / "frame.html").write_text(FRAME.format(width=width))
    dom, _ = browse(tmp_path / "frame.html", tmp_path / "profile")
    probe = json.loads(html.unescape(re.search(r'data-probe="([^"]*)"', dom).group(1)))
    assert probe["focused"]
    assert probe["sorted"] == sorted(probe["sorted"])
    assert len(probe["sorted"]) > 5
    assert probe["fetched"] == [], "without the policy nothing is fetched either"
    assert probe["page"] <= probe["window"] <= width
    assert probe["window"] > width - 20, "no more than a scroll bar is missing"
