"""The lesson: its claims hold in the published tables, and it argues in connected sentences."""

import html
import re
import zipfile
from functools import partial

import pandas as pd
import pytest
import yaml
from markupsafe import Markup

from analysis.data import recordings as data
from analysis.data.ceilings import pieces_table, with_floors
from analysis.data.devices import devices, slug
from analysis.data.frames import stacked
from analysis.data.sessions import folders_by_session
from analysis.data.store import Store, StoreError
from analysis.decide.locations import locations_table
from analysis.overview.speedups import speedups_table
from analysis.render import query
from analysis.render.accesses import access_svg
from analysis.render.documents import PUBLISHED
from analysis.render.lesson import lesson
from analysis.render.page import environment_of
from analysis.render.tables import Tables
from kernels.catalog.walk import STEPS, drawings
from tests.support import ROOT

pytestmark = pytest.mark.slow
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
FOCUS = next(gpu for gpu in CONFIG["gpus"] if gpu["id"] == CONFIG["report"]["focus"])
RECORDINGS = [ROOT / path for path in FOCUS.get("recordings") or [FOCUS["recording"]]]
CONNECTIVES = re.compile(r"\b(because|so|but|therefore|since|until)\b", re.IGNORECASE)
MOST_WORDS, LEAST_CONNECTED, MOST_SHORT = 2400, 0.25, 0.15


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return the folder of the published tables, with all rows of those published in part."""
    folder = tmp_path_factory.mktemp("tables")
    with zipfile.ZipFile(PUBLISHED) as archive:
        archive.extractall(folder)
    sources = data.sources(data.load({"h100": RECORDINGS}))
    whole = {"locations": locations_table(sources), "speedups": speedups_table(sources)}
    whole["summary"] = with_floors(data.summary_table(sources), pieces_table(sources))
    for name, frame in whole.items():
        stacked(name, [frame]).to_csv(folder / f"{name}.csv", index=False)
    return folder


def article(tables, folders=RECORDINGS, **frames):
    """Return the lesson on a page about the recordings in `folders`; `frames` replace tables."""
    store = Store(tables)
    store._frames |= frames
    measured, t = devices(store, "h100"), partial(query.rows, store)
    environment = environment_of(ROOT / "report")
    made = Tables(environment.get_template("table.html.j2"), {}, measured.focus)
    link = Markup("{1} (<code>{0}</code>)").format
    environment.globals |= {"t": t, "table": made.table, "link": link}
    environment.globals |= {"access_svg": access_svg, "drawings": drawings}
    return lesson(environment, t, measured, folders_by_session({"h100": folders}))


@pytest.fixture(scope="module")
def text(published):
    return str(article(published))


def sentences(markup):
    """Return the sentences of paragraphs, without tables, drawings, code and headings."""
    prose = re.sub(r"<(table|svg|pre|h[23]|small)\b.*?</\1>", "", markup, flags=re.DOTALL)
    blocks = re.split(r"</(?:p|li|figure)>", prose)
    texts = [html.unescape(re.sub(r"<[^>]*>", "", block)).strip() for block in blocks]
    split = [re.split(r"(?<=[.?!:])\s+(?=[A-Z“(])", text) for text in texts if text]
    return [" ".join(one.split()) for each in split for one in each]


def words(sentence):
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def test_the_article_is_short_and_its_sentences_are_connected(text):
    said = sentences(text)
    assert sum(map(words, said)) <= MOST_WORDS
    assert sum(bool(CONNECTIVES.search(one)) for one in said) >= LEAST_CONNECTED * len(said)
    assert sum(words(one) <= 8 for one in said) <= MOST_SHORT * len(said)


def test_each_step_of_the_article_names_the_bottleneck_before_and_after_and_its_source(text):
    steps = re.findall(r'<li id="step-(\w+)">(.*?)</li>', text, re.DOTALL)
    assert [variant for variant, _ in steps] == [*STEPS[1:]]
    for variant, step in steps:
        before, after = re.findall(r"<b>(?:Before|After):</b>(.*?)</p>", step, re.DOTALL)
        assert min(words(before), words(after)) > 5, variant
        (source,) = re.findall(r"<code>(kernels/\w+\.cu)</code>", step)
        assert (ROOT / source).is_file()


def test_links_of_the_article_have_targets_on_the_page(text):
    templates = "".join(path.read_text() for path in (ROOT / "report").glob("*.j2"))
    named = re.findall(r'(?="([^"\n]+)")', templates)
    ids = {*named, *(f"table-{slug(title)}" for title in named)}
    targets = re.findall(r'href="#([^"]+)"', text)
    assert len(targets) > 2
    assert [one for one in targets if one not in ids] == []


def test_every_paragraph_of_the_article_with_a_number_has_a_tested_claim():
    template = (ROOT / "report" / "lesson.html.j2").read_text()
    claims = yaml.safe_load((ROOT / "report" / "lesson.yaml").read_text())["claims"]
    calls = re.findall(
        r'\{% call (?:p|step\(\w+, |p)\(?"(.*?)".*?%\}(.*?)\{% endcall %\}', template, re.DOTALL
    )
    numbered = {name for name, body in calls if re.search(r"\b(n|ci|ratio)\(", body)}
    assert len(numbered) > 20
    assert numbered <= set(claims) <= {name for name, _ in calls}
    loose = re.sub(r"\{% call (p|step)\(.*?\{% endcall %\}", "", template, flags=re.DOTALL)
    assert not re.search(r"<p>[^<]*\{\{", loose.partition("{% endmacro %}\n\n")[2])


def changed(tables, name, column, value, **where):
    frame = Store(tables)[name].copy()
    rows = pd.Series(True, frame.index)
    for each, wanted in where.items():
        rows &= (frame[each] == wanted).fillna(False)
    assert rows.any()
    frame.loc[rows, column] = value
    return {name: frame}


@pytest.mark.parametrize(
    ("name", "column", "value", "where", "words"),
    [
        (
            "speedups",
            "speedup_low",
            7.9,
            {"source": "h100", "variant": "block", "block_size": 8, "n": 4096},
            "\"refuted\" is stale: 'eta_8.speedup_low > 8' does not hold",
        ),
        (
            "ladder_summary",
            "bound",
            "dram",
            {"gpu": "h100", "variant": "block_unroll4"},
            '"Compute four elements per thread" is stale: "four.bound == \'pipe\'',
        ),
        (
            "sustained",
            "energy_j",
            None,
            {"gpu": "h100", "variant": "sgemm_top"},
            '"power" is stale',
        ),
        (
            "modes",
            "mode",
            "TF33",
            {"gpu": "h100", "mode": "TF32"},
            "\"accuracy\" is stale: 'tf32' is undefined",
        ),
        ("cold_starts", "part", "total", {"gpu": "h100"}, None),
    ],
)
def test_a_false_claim_of_the_article_ends_the_build_and_names_the_paragraph(
    published, name, column, value, where, words
):
    frames = changed(published, name, column, value, **where)
    if words is None:  # a table that the article does not cite
        assert 'class="lesson"' in article(published, **frames)
        return
    with pytest.raises(StoreError) as raised:
        article(published, **frames)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


NAMES = [folder.name for folder in RECORDINGS]


@pytest.mark.parametrize(
    ("names", "model"),
    [(["my-h100", *NAMES[1:]], None), (NAMES, "NVIDIA H200"), (NAMES[:1], None)],
    ids=["another session", "another GPU model", "one session"],
)
def test_a_page_about_other_recordings_only_links_to_the_article(published, tmp_path, names, model):
    gpus = Store(published)["recordings"].copy()
    if model:
        gpus["gpu_name"] = model
    shown = article(published, [tmp_path / name for name in names], recordings=gpus)
    assert 'class="lesson"' not in shown
    assert "report/lesson.html.j2" in shown
