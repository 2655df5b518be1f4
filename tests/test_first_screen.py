"""The first screen in a browser: three answers and a figure above the fold, one card at a time."""

import html
import json
import re

import pytest
from report_data import report
from test_report_studies import browse, needs_chromium

PROBE = """
addEventListener("load", () => setTimeout(() => {
  const shown = element => element.getClientRects().length > 0;
  const cards = () => [...document.querySelectorAll(".answers")].filter(shown).map(e => e.id);
  const bottom = element => element.getBoundingClientRect().bottom;
  const first = document.querySelector(".answers");
  const found = {
    start: cards(),
    answers: [...first.querySelectorAll("dd")].map(bottom),
    figure: bottom(first.querySelector("svg")),
    all: [...document.querySelectorAll("[data-cards]")].filter(shown).map(e => e.dataset.cards),
  };
  document.querySelector("#card-two-gpu1").click();
  found.chosen = cards();
  found.tables = [...document.querySelectorAll("#tables figure")].filter(shown).map(e => e.id);
  found.cpu = shown(document.querySelector("#figure-cpu-two-gpu0"));
  location.hash = "#table-5-two-gpu0";
  found.linked = shown(document.querySelector("#table-5-two-gpu0"));
  found.beside = shown(document.querySelector("#table-4-two-gpu0"));
  document.querySelector("#card-").click();
  found.every = cards();
  parent.postMessage(JSON.stringify(found), "*");
}, 100));
"""
FRAME = """<!doctype html>
<iframe src="probed.html" width="1440" height="900" style="border: 0"></iframe>
<script>onmessage = event => document.body.dataset.probe = event.data</script>
"""


@pytest.fixture(scope="module")
def probe(make_recording, tmp_path_factory):
    """What the browser tells of the report on two cards of one host and a host without card."""
    base = tmp_path_factory.mktemp("screen")
    sizes = {"sizes": (256, 512), "holdout": (), "samples": 6}
    recordings = {
        "two": make_recording(base / "two", gpus=2, **sizes).path,
        "host": make_recording(base / "host", gpus=0, **sizes).path,
    }
    text = report(base, recordings)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (base / "probed.html").write_text(text.replace("</body>", f"<script>{PROBE}</script></body>"))
    (base / "frame.html").write_text(FRAME)
    dom, _ = browse(base / "frame.html", base / "profile")
    return json.loads(html.unescape(re.search(r'data-probe="([^"]*)"', dom).group(1)))


@needs_chromium
def test_answers_and_figure_stand_above_the_fold(probe):
    assert len(probe["answers"]) == 6
    assert 0 < max(probe["answers"]) < probe["figure"] <= 900


@needs_chromium
def test_the_page_shows_the_first_card_until_another_is_chosen(probe):
    assert probe["start"] == ["found-two-gpu0"]
    assert {"two-gpu0", "two-gpu0 two-gpu1"} == set(probe["all"])
    assert probe["chosen"] == ["found-two-gpu1"]
    assert probe["tables"] == [f"table-{k}-two-gpu1" for k in range(1, 7)]
    assert probe["cpu"], "the CPU is that of both cards' host"
    assert probe["every"] == ["found-two-gpu0", "found-two-gpu1", "found-host"]


@needs_chromium
def test_a_link_to_what_is_of_another_card_shows_it(probe):
    assert probe["linked"]
    assert not probe["beside"]
