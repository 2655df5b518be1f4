"""The report in a real Chromium: by keyboard, on a phone, in the dark, on paper, by axe-core."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.report_data import evil_tables, report

MISSING = "no Playwright here; `make test` installs it where there is a Chromium"
playwright = pytest.importorskip("playwright.sync_api", reason=MISSING)
axe = pytest.importorskip("axe_playwright_python", reason=MISSING)

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install it")
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PHONE, DESK = 360, 1440
# A4 across, less the margins of the style sheet, in the 96ths of an inch of CSS.
PAPER = {"width": round(273 / 25.4 * 96), "height": round(186 / 25.4 * 96)}
LARGEST_BYTES = 3_000_000
FIRST_PAINT_MS = 1000

ALL_CARDS = "document.querySelectorAll('#card-').forEach(choice => choice.click())"
OPEN_FOLDS = f"""{ALL_CARDS};
document.querySelectorAll('details').forEach(fold => fold.open = true)
"""
# Rows of a table are alike: axe-core looks at the first ones of each.
SHORTEN_TABLES = """
document.querySelectorAll("tbody").forEach(body =>
  [...body.rows].slice(5).forEach(row => row.remove()))
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


@pytest.fixture(scope="module")
def simulated(make_recording, tmp_path_factory):
    """The report of two cards of one host and of a host without card."""
    base = tmp_path_factory.mktemp("simulated")
    sizes = {"sizes": (256, 512), "holdout": (), "samples": 6}
    two = make_recording(base / "two", gpus=2, throttled=2, **sizes)
    host = make_recording(base / "host", gpus=0, simulated=False, **sizes)
    report(base, {"two": two.path, "host": host.path})
    return base / "report.html"


@pytest.fixture(scope="module")
def measured(measured_report):
    """The report of three recorded GPUs."""
    return measured_report / "report.html"


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """The report of a study in which every name is hostile."""
    base = tmp_path_factory.mktemp("evil")
    evil_tables(base / "tables")
    report(base, {}, base / "tables")
    return base / "report.html"


@pytest.fixture
def visit(browser):
    """Open a page in a window of its own; return it with what it logged and asked for."""
    contexts = []

    def open_page(path: Path, width: int = DESK, scheme: str = "light", **options):
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
        page.goto(path.as_uri(), wait_until="load")
        return page, said

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("which", ["simulated", "measured", "evil"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(visit, request, which, width, scheme):
    # The page's own policy would keep axe-core out.
    page, _ = visit(request.getfixturevalue(which), width, scheme, bypass_csp=True)
    page.evaluate(OPEN_FOLDS)
    page.evaluate(SHORTEN_TABLES)
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert found["passes"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []


@pytest.mark.parametrize("which", ["simulated", "measured", "evil"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_only_tables_and_figures_scroll_sideways(visit, request, which, width):
    page, _ = visit(request.getfixturevalue(which), width)
    page.evaluate(OPEN_FOLDS)
    wanted, given = page.evaluate(WIDTHS)
    assert wanted <= given == width


@pytest.mark.parametrize("which", ["simulated", "measured", "evil"])
def test_it_asks_for_nothing_and_says_nothing(visit, request, which):
    path = request.getfixturevalue(which)
    page, said = visit(path)
    page.evaluate(OPEN_FOLDS)
    page.keyboard.press("End")
    page.wait_for_timeout(200)
    assert said == [f"request: {path.as_uri()[:100]}"]
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page.evaluate("document.querySelectorAll('th[tabindex]').length") > 50, "scripts ran"


def test_a_table_is_sorted_by_keyboard(visit, simulated):
    page, _ = visit(simulated)
    table = page.locator("#table-5-two-gpu0 table")
    heads = table.locator("th")
    column = """table => [...table.tBodies[0].rows].map(row => row.cells[2].firstChild)
      .map(node => +(node.value ?? node.textContent))"""
    before = table.evaluate(column)
    table.locator("xpath=..").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    assert heads.nth(2).evaluate("head => head === document.activeElement")
    assert heads.nth(2).evaluate("head => getComputedStyle(head).outlineStyle") != "none"
    orders = []
    for wanted in ("ascending", "descending"):
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        assert heads.nth(2).get_attribute("aria-sort") == wanted
        orders.append(table.evaluate(column))
    assert orders[0] == sorted(before) != before
    assert orders[1] == sorted(before, reverse=True)


@pytest.mark.parametrize("which", ["simulated", "measured"])
def test_every_column_of_numbers_is_sorted_by_value(visit, request, which):
    """What is read in a cell and what it is sorted by have to agree, whatever the unit."""
    page, _ = visit(request.getfixturevalue(which))
    tables = page.evaluate("""() => [...document.querySelectorAll("table.sortable")].map(table => [
      table.closest("figure").id,
      table.dataset.numbers.split(" ").filter(Boolean).map(position =>
        [...table.tBodies[0].rows].map(row => row.cells[position - 1]).map(cell => [
          cell.firstChild.value ?? cell.textContent.trim(),
          cell.firstChild.textContent.trim(),
        ])),
    ])""")
    assert len(tables) > 20
    for name, columns in tables:
        for cells in columns:
            pairs = [(float(key), shown) for key, shown in cells if re.fullmatch(r"[\d.e+-]+", key)]
            plain = [(key, float(shown)) for key, shown in pairs if re.fullmatch(r"[\d.]+", shown)]
            plain.sort()
            shown = [number for _, number in plain]
            if name not in MIXED_UNITS:
                assert shown == sorted(shown), (name, plain)


# Each row has a unit of its own.
MIXED_UNITS = ("table-ceilings",)


@pytest.mark.parametrize("which", ["simulated", "measured", "evil"])
def test_nothing_is_cut_on_paper(visit, request, which):
    page, _ = visit(request.getfixturevalue(which))
    page.set_viewport_size(PAPER)
    page.emulate_media(media="print")
    page.evaluate(ALL_CARDS)
    assert page.evaluate(CUT, PAPER["height"]) == []
    wanted, given = page.evaluate(WIDTHS)
    assert wanted <= given


def test_it_is_printed_whole_and_dark_on_light(visit, simulated):
    page, _ = visit(simulated, scheme="dark")
    page.evaluate(ALL_CARDS)
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="print")
    body, paper = page.evaluate("""[document.body, document.documentElement].map(
      (e, i) => getComputedStyle(e)[["color", "backgroundColor"][i]])""")
    assert paper == "rgb(255, 255, 255)"
    assert max(int(part) for part in re.findall(r"\d+", body)) < 100, "dark on light"
    folds = page.locator("details:not([open]) table")
    assert folds.count() > 10
    assert all(folds.nth(i).bounding_box()["height"] > 20 for i in range(folds.count()))


def test_the_report_of_three_gpus_is_small_and_soon_seen(visit, measured):
    gpus = len(set(re.findall(r'<section id="kernels-([\w-]+)"', measured.read_text())))
    assert gpus == 3
    assert measured.stat().st_size <= LARGEST_BYTES
    page, _ = visit(measured)
    paints = page.evaluate("performance.getEntriesByType('paint').map(p => [p.name, p.startTime])")
    assert dict(paints)["first-contentful-paint"] < FIRST_PAINT_MS


def test_hostile_names_stay_text(visit, evil):
    page, said = visit(evil)
    assert not [line for line in said if line.startswith(("dialog", "error", "console"))]
    assert page.locator("script").count() == 2
    assert page.locator("b, img, iframe, object").count() == 0
    heading = page.locator("h3", has_text="alert").first
    assert "<script>alert('x')</script>" in heading.inner_text()
    assert "[U+202E]" in heading.inner_text(), "what turns the direction of text is written out"


SHOWN = """selector => [...document.querySelectorAll(selector)]
  .filter(e => e.getClientRects().length > 0).map(e => e.id || e.dataset.cards)"""
BOTTOMS = """selector => [...document.querySelectorAll(selector)]
  .map(e => e.getBoundingClientRect().bottom)"""


@pytest.mark.parametrize("which", ["simulated", "measured"])
def test_answers_and_figure_stand_above_the_fold(visit, request, which):
    page, _ = visit(request.getfixturevalue(which))
    first = ".answers:first-of-type"
    assert page.viewport_size == {"width": DESK, "height": 900}
    answers = page.evaluate(BOTTOMS, f"{first} dd")[:6]
    assert len(answers) == 6
    figure = page.evaluate(BOTTOMS, ".answers svg")[0]
    assert 0 < max(answers) < figure <= 900


def test_the_page_shows_the_first_card_until_another_is_chosen(visit, simulated):
    page, _ = visit(simulated)
    assert page.evaluate(SHOWN, ".answers") == ["found-two-gpu0"]
    cards = set(page.evaluate(SHOWN, "[data-cards]:not([id])"))
    assert cards <= {"two-gpu0", "two-gpu0 two-gpu1"}
    page.focus("#card-two-gpu0")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(SHOWN, ".answers") == ["found-two-gpu1"]
    tables = page.evaluate(SHOWN, "#tables figure")
    assert tables == [f"table-{k}-two-gpu1" for k in range(1, 7)]
    assert page.evaluate(SHOWN, "#figure-cpu-two-gpu0"), "the CPU is that of both cards' host"
    page.check("#card-", force=True)
    every = ["found-two-gpu0", "found-two-gpu1", "found-host"]
    assert page.evaluate(SHOWN, ".answers") == every


def test_a_link_to_what_is_of_another_card_shows_it(visit, simulated):
    page, _ = visit(simulated)
    page.check("#card-two-gpu1", force=True)
    page.evaluate("location.hash = '#table-5-two-gpu0'")
    assert page.evaluate(SHOWN, "#table-5-two-gpu0")
    assert not page.evaluate(SHOWN, "#table-4-two-gpu0")
