"""The report in a real Chromium: by keyboard, on a phone, in the dark, on paper, by axe-core."""

import re
import shutil
from pathlib import Path

import pytest

from analysis.render.check import check, words
from tests.support import reports
from tests.support.report_data import TEMPLATE

MISSING = "no Playwright here; `make test` installs it where there is a Chromium"
playwright = pytest.importorskip("playwright.sync_api", reason=MISSING)
axe = pytest.importorskip("axe_playwright_python", reason=MISSING)

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install it"),
]
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PHONE, DESK = 360, 1440
# A4 across, less the margins of the style sheet, in the 96ths of an inch of CSS.
PAPER = {"width": round(273 / 25.4 * 96), "height": round(186 / 25.4 * 96)}
MOST_BYTES, MOST_WORDS, MOST_SHEETS = 3_500_000, 4000, 15
FIRST_PAINT_MS = 1000

OPEN_FOLDS = "document.querySelectorAll('details').forEach(fold => fold.open = true)"
# Rows of a table and marks of a figure are alike: axe-core looks at the first rows, and at no mark.
SHORTEN = """
document.querySelectorAll("tbody").forEach(body =>
  [...body.rows].slice(3).forEach(row => row.remove()));
document.querySelectorAll("svg use, svg path").forEach(mark => mark.remove())
"""
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
# What reaches beyond the paper, and what is taller than a sheet and may not be torn.
CUT = """height => {
  const width = document.documentElement.clientWidth;
  const name = e => `${e.tagName} of ${(e.closest("figure, section") || e).id}`;
  const wide = [...document.querySelectorAll("table, td, svg, p, dd, dt, figcaption, h2, h3, math")]
    .filter(e => e.getBoundingClientRect().right > width + 1);
  const tall = [...document.querySelectorAll("figure.plot, tr")]
    .filter(e => e.getBoundingClientRect().height > height);
  const hidden = [...document.querySelectorAll("pre, .scroll")]
    .filter(e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX !== "visible");
  return [...wide, ...tall, ...hidden].map(name);
}"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open the report of a kind of study in a window; return it with what it logged and asked."""
    contexts = []

    def open_page(kind: str, width: int = DESK, scheme: str = "light", **options):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on(
            "dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.accept())
        )
        page.on("request", lambda request: said.append(f"request: {request.url[:100]}"))
        page.goto((reports.made(kind) / "report.html").as_uri(), wait_until="load")
        return page, said

    yield open_page
    for context in contexts:
        context.close()


KINDS = pytest.mark.parametrize("kind", ["several", "measured", "hostile"])
WAYS = [("measured", width, scheme) for width in (PHONE, DESK) for scheme in ("light", "dark")]


@pytest.mark.parametrize(
    ("kind", "width", "scheme"), [*WAYS, ("several", PHONE, "dark"), ("hostile", DESK, "light")]
)
def test_axe_finds_no_violation(visit, kind, width, scheme):
    # The page's own policy would keep axe-core out.
    page, _ = visit(kind, width, scheme, bypass_csp=True)
    page.evaluate(OPEN_FOLDS)
    page.evaluate(SHORTEN)
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert found["passes"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []


@KINDS
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_only_tables_and_figures_scroll_sideways(visit, kind, width):
    page, _ = visit(kind, width)
    page.evaluate(OPEN_FOLDS)
    wanted, given = page.evaluate(WIDTHS)
    assert wanted <= given == width


@KINDS
def test_it_asks_for_nothing_and_says_nothing(visit, kind):
    page, said = visit(kind)
    page.evaluate(OPEN_FOLDS)
    page.keyboard.press("End")
    page.wait_for_timeout(500)
    assert [line for line in said if not line.startswith("request: file:")] == []
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page.evaluate("document.querySelectorAll('th[tabindex]').length") > 50, "scripts ran"


def test_a_table_is_sorted_by_keyboard(visit):
    page, _ = visit("several")
    table = page.locator("#kernels figure.table table").first
    heads = table.locator("th")
    column = "table => [...table.tBodies[0].rows].map(row => +row.cells[2].textContent)"
    before = table.evaluate(column)
    table.locator("xpath=..").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    assert heads.nth(2).evaluate("head => head === document.activeElement")
    assert heads.nth(2).evaluate("head => getComputedStyle(head).outlineStyle") != "none"
    found = {}
    for _ in range(2):
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        found[heads.nth(2).get_attribute("aria-sort")] = table.evaluate(column)
    assert found == {"ascending": sorted(before), "descending": sorted(before, reverse=True)}


def test_every_column_of_numbers_is_sorted_by_value(visit):
    page, _ = visit("several")
    page.evaluate(OPEN_FOLDS)
    wrong = page.evaluate("""async () => {
      const shown = cell => parseFloat((cell.firstChild?.textContent ?? "")
        .replaceAll("\u202f", "").replace("−", "-").replace("∞", "Infinity"));
      const wrong = [];
      for (const table of document.querySelectorAll("table.sortable"))
        for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
          if (!head.classList.contains("number")) continue;
          head.click();
          await new Promise(done => setTimeout(done, 5));
          const values = [...table.tBodies[0].rows].map(row => shown(row.cells[place]))
            .filter(value => !isNaN(value));
          const sign = head.getAttribute("aria-sort") === "ascending" ? 1 : -1;
          if (values.some((value, row) => row && sign * (value - values[row - 1]) < 0))
            wrong.push([table.closest("figure").id, head.textContent, values.slice(0, 6)]);
        }
      return wrong;
    }""")
    assert wrong == []


@KINDS
def test_nothing_is_cut_on_paper(visit, kind):
    page, _ = visit(kind)
    page.set_viewport_size(PAPER)
    page.emulate_media(media="print")
    assert page.evaluate(CUT, PAPER["height"]) == []
    wanted, given = page.evaluate(WIDTHS)
    assert wanted <= given


def test_it_is_printed_dark_on_light(visit):
    page, _ = visit("several", scheme="dark")
    page.emulate_media(media="print")
    body, paper = page.evaluate("""[document.body, document.documentElement].map(
      (e, i) => getComputedStyle(e)[["color", "backgroundColor"][i]])""")
    assert paper == "rgb(255, 255, 255)"
    assert max(int(part) for part in re.findall(r"\d+", body)) < 100, "dark on light"


def test_hostile_names_stay_text(visit):
    page, said = visit("hostile")
    assert not [line for line in said if line.startswith(("dialog", "error", "console"))]
    assert page.locator("b, img, iframe, object").count() == 0
    shown = page.locator("main").inner_text()
    assert "<script>alert('x')</script>" in shown
    assert "[U+202E]" in shown, "what turns the direction of text is written out"


def test_answers_and_figure_stand_above_the_fold(visit):
    page, _ = visit("measured")
    bottoms = """selector => [...document.querySelectorAll(selector)]
      .map(e => e.getBoundingClientRect().bottom)"""
    answers = page.evaluate(bottoms, ".answers dd")
    assert len(answers) == 6
    figure = page.evaluate(bottoms, "#answers svg")[0]
    assert 0 < max(answers) < figure <= 900


# ---- the report of the recordings that travel with the study


def test_every_number_is_that_of_its_table():
    folder = reports.made("measured")
    page = (folder / "report.html").read_text()
    assert check(page, folder / "tables", TEMPLATE) == []


def test_it_is_small_soon_seen_and_soon_read(visit):
    path = reports.made("measured") / "report.html"
    assert path.stat().st_size <= MOST_BYTES
    assert words(path.read_text()) <= MOST_WORDS
    page, _ = visit("measured")
    paints = page.evaluate("performance.getEntriesByType('paint').map(p => [p.name, p.startTime])")
    assert dict(paints)["first-contentful-paint"] < FIRST_PAINT_MS


def test_the_essay_is_printed_on_a_few_sheets(visit):
    page, _ = visit("measured")
    page.evaluate("document.querySelector('#appendix').remove()")
    printed = page.pdf(prefer_css_page_size=True)
    assert 5 < len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_SHEETS
