"""The report in Chromium: keyboard, phone, dark mode, print, axe-core."""

import math
import random
import re
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, which

import numpy as np
import pandas as pd
import pytest

from analysis.decide.advise import advise
from analysis.decide.questions import Question
from analysis.decide.surfaces import Run
from analysis.render.page import render
from base.paths import ROOT
from kernels.catalog.baselines import BASELINES, BEST, CPU_BASELINES, FASTEST_CPU, FASTEST_NAIVE
from kernels.products.shape import Shape
from tests.support import for_test_all
from tests.support.report_data import MAKER, TEMPLATE
from tests.support.reports import made, recordings
from tests.support.text_boxes import FAULTS

pytestmark = pytest.mark.slow
MISSING = "no Playwright here; `make test` installs it where there is a Chromium"
if not find_spec("playwright") or (axe := find_spec("axe_playwright_python")) is None:
    pytest.skip(MISSING, allow_module_level=True)
AXE = Path(str(axe.origin)).parent / "axe.min.js"

CHROMIUM = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no Chromium here; install it", allow_module_level=True)
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PHONE, DESK, PAPER = 360, 1440, 680  # PAPER: A4 within its margins
SCHEMES = ("light", "dark")
LARGEST_BYTES = 3_200_000
MOST_SHEETS = 25

OPEN_FOLDS = "document.querySelectorAll('details').forEach(fold => fold.open = true)"
# Rows of a table are similar: axe-core checks only the first one.
SHORTEN_TABLES = """
document.querySelectorAll("tbody").forEach(body =>
  [...body.rows].slice(1).forEach(row => row.remove()))
"""
# Earlier timers (a click sorts by one of 1 ms) run before a later one, on a busy machine too.
SETTLED = "() => new Promise(done => setTimeout(done, 20))"
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
# The study's own measurements, of which tables and figures take long.
MEASURED = pytest.param("measured", marks=pytest.mark.exhaustive)
KINDS = pytest.mark.parametrize("kind", ["several", MEASURED, "hostile"])


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright  # half a second to import

    with sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)


@pytest.fixture(scope="module")
def open_page(browser):
    """Open a report in its own window; return it with its log and its requests."""

    def opened(kind, width: int = DESK, scheme: str = "light", query: str = "", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",  # a colour on its way to another may have little contrast
            **options,
        )
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda box: (said.append(f"dialog: {box.message}"), box.accept()))
        page.on("request", lambda request: said.append(f"request: {request.url[:100]}"))
        page.goto(path_of(kind).as_uri() + query, wait_until="load")
        return page, said

    return opened


@pytest.fixture
def visit(open_page):
    """Open a report for one test."""
    pages = []

    def visited(*arguments, **options):
        page, said = open_page(*arguments, **options)
        pages.append(page)
        return page, said

    yield visited
    for page in pages:
        page.context.close()


@pytest.fixture(scope="module")
def shared(open_page):
    """Return the page of a study, opened once for all tests that do not change its contents."""
    return cache(open_page)


def path_of(kind: str | Path) -> Path:
    return (kind if isinstance(kind, Path) else made(kind)) / "report.html"


def draw_explorer(page) -> None:
    page.locator("#explorer").scroll_into_view_if_needed()
    page.wait_for_selector("#explorer-chart svg[aria-hidden]")


@contextmanager
def redrawing(page):
    """Wait for the new chart of the explorer after the actions in the block."""
    page.locator("#explorer-chart svg").evaluate("svg => svg.dataset.old = 'yes'")
    yield
    page.wait_for_selector("#explorer-chart svg[aria-hidden]:not([data-old])")


def set_look(page, width, scheme, media="screen") -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media=media, color_scheme=scheme)


@pytest.mark.exhaustive
def test_the_page_is_small_shows_its_answers_without_scrolling_and_has_tooltips(shared):
    assert path_of("measured").stat().st_size <= LARGEST_BYTES
    page, _ = shared("measured")
    paints = page.evaluate("performance.getEntriesByType('paint').map(p => [p.name, p.startTime])")
    assert dict(paints)["first-contentful-paint"] > 0
    page.wait_for_selector(".calculator[data-ready]")
    box = "getBoundingClientRect()"
    answers = page.locator("#answers .measured:not([hidden]) dd strong")
    bottoms = answers.evaluate_all(f"all => all.map(e => e.{box}.bottom)")
    assert len(bottoms) == 5
    calculator = page.locator("#calculator-answer").evaluate(f"e => e.{box}.bottom")
    assert 0 < calculator < max(bottoms) < 900
    assert page.locator("#calculator-verdict").inner_text() == "Yes, the GPU is faster"
    titles = page.locator("#figure-headline title").all_text_contents()
    assert len(titles) > 20
    assert any(re.search(r"N = 4096: \d+\.\d+ ms \(\d.* to \d.*\)", text) for text in titles)


def violations(page, *parts: str) -> list[tuple[str, str]]:
    """Return the rules that parts of a page, by default all of it, break, each with an element.

    The page's content security policy would block axe-core: a window needs `bypass_csp`.
    """
    page.evaluate("'axe' in window") or page.evaluate(AXE.read_text())
    page.evaluate(SHORTEN_TABLES)
    options = "{resultTypes: ['violations']}"
    found = page.evaluate(f"parts => axe.run({{include: parts}}, {options})", parts or ["html"])
    assert found["passes"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]


@KINDS
def test_only_tables_and_figures_scroll_sideways_and_the_page_makes_no_request(visit, kind):
    page, said = visit(kind, PHONE)
    draw_explorer(page)
    page.evaluate(OPEN_FOLDS)
    for width in (PHONE, DESK):
        page.set_viewport_size({"width": width, "height": 900})
        wanted, given = page.evaluate(WIDTHS)
        assert wanted <= given == width
    page.keyboard.press("End")
    page.wait_for_timeout(200)
    assert said == [f"request: {path_of(kind).as_uri()[:100]}"]
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page.evaluate("document.querySelectorAll('th[tabindex]').length") > 50, "scripts ran"


def test_clicking_a_heading_sorts_a_column_of_numbers_by_value(shared):
    page, _ = shared("several")
    check = """async () => {
      const shown = cell => parseFloat((cell.firstChild?.textContent ?? "")
        .replaceAll("\u202f", "").replace("−", "-").replace("∞", "Infinity")
        .replace(/.*×10.*/, "none"));
      const wrong = [];
      const tables = [...document.querySelectorAll("table.sortable")];
      const columns = Math.max(...tables.map(table => table.tHead.rows[0].cells.length));
      for (let place = 0; place < columns; ++place) {  // of all tables at once
        const heads = tables.map(table => table.tHead.rows[0].cells[place])
          .filter(head => head?.classList.contains("n"));
        heads.forEach(head => head.click());
        await (SETTLED)();
        for (const head of heads) {
          const table = head.closest("table");
          const values = [...table.tBodies[0].rows].map(row => shown(row.cells[place]))
            .filter(value => !isNaN(value));
          const sign = head.getAttribute("aria-sort") === "ascending" ? 1 : -1;
          if (values.some((value, row) => row && sign * (value - values[row - 1]) < 0))
            wrong.push([table.closest("figure").id, head.textContent, values.slice(0, 6)]);
        }
      }
      return wrong;
    }"""
    assert page.evaluate(check.replace("SETTLED", SETTLED)) == []


@pytest.mark.exhaustive
def test_the_printed_page_is_dark_on_light_and_needs_few_sheets(visit):
    page, _ = visit("measured", scheme="dark")
    page.emulate_media(media="print")
    body, paper = page.evaluate("""[document.body, document.documentElement].map(
      (e, i) => getComputedStyle(e)[["color", "backgroundColor"][i]])""")
    assert paper == "rgb(255, 255, 255)"
    assert max(int(part) for part in re.findall(r"\d+", body)) < 100, "dark on light"
    page.evaluate("document.getElementById('appendix').remove()")
    page.set_viewport_size({"width": PAPER, "height": 900})
    wanted, given = page.evaluate(WIDTHS)
    assert wanted <= given == PAPER, "a wide part would shrink the whole print"
    sheets = page.pdf(prefer_css_page_size=True)
    assert 3 < len(re.findall(rb"/Type\s*/Page\b", sheets)) <= MOST_SHEETS


EACH_LOOK = [(PHONE, "dark", "screen"), (DESK, "light", "screen"), (PAPER, "light", "print")]
LOOKS = {
    "measured": [
        *((width, scheme, "screen") for width in (PHONE, DESK) for scheme in SCHEMES),
        (DESK, "dark", "print"),
    ],
    "hostile": [(PHONE, "light", "print")],
    **dict.fromkeys(("several", "card", "host", "five", "tried"), EACH_LOOK),
}


AXE_LOOKS = {"several": (PHONE, "dark"), "measured": (DESK, "light"), "hostile": (PHONE, "light")}
AXE_LOOKS |= {"card": (DESK, "dark"), "host": (PHONE, "dark"), "five": (DESK, "light")}
AXE_LOOKS |= {"tried": (PHONE, "light")}


def kinds(*often):
    """Return the kinds of pages, of which `make test` opens only some."""
    exhaustive = pytest.mark.exhaustive
    return [pytest.param(kind, marks=[] if kind in often else exhaustive) for kind in LOOKS]


@pytest.mark.parametrize("kind", kinds("several"))
def test_texts_of_figures_do_not_overlap_and_axe_finds_no_violation(visit, kind):
    page, _ = visit(made(kind, drawn=True), bypass_csp=True)
    draw_explorer(page)
    page.evaluate(OPEN_FOLDS)
    for look in LOOKS[kind]:
        set_look(page, *look)
        assert page.evaluate(FAULTS) == [], look
    page.evaluate("""() => {
      const texts = document.querySelectorAll("#figure-errors text");
      for (const axis of ["x", "y"]) texts[1].setAttribute(axis, texts[0].getAttribute(axis));
      document.querySelector("#figure-model text").setAttribute("transform", "translate(-4000 0)");
    }""")
    found = {line.split(":")[0] for line in page.evaluate(FAULTS)}
    assert found == {"figure-errors", "figure-model"}, "faults are found"
    set_look(page, *AXE_LOOKS[kind])
    if kind != "several":
        page.evaluate("document.getElementById('appendix').remove()")
    page.evaluate("document.querySelectorAll('.plot svg :is(path, use)').forEach(e => e.remove())")
    assert violations(page) == []


# Fill in the calculator; return what it prints, each text as a row of `advise` has it.
CALCULATE = """inputs => {
  const forms = ["context", "calculator-form"].map(id => document.getElementById(id));
  for (const [name, value] of Object.entries(inputs)) {
    const control = forms.map(form => form.elements[name]).find(Boolean);
    control.value = value;
    control.dispatchEvent(new Event("input", {bubbles: true}));
  }
  const text = id => document.getElementById(`calculator-${id}`).textContent;
  const texts = id => [...document.getElementById(id).querySelectorAll("li")];
  if (document.getElementById("calculator-answer").hidden) return [text("notes")];
  const parts = document.getElementById("calculator-key").hidden ? []
    : texts("calculator-key").map(part => part.textContent.trim());
  return [
    text("cpu-time"), text("speedup"), text("break-even"), parts.join(", "),
    ...texts("calculator-times").map(line => line.textContent), text("verdict"),
  ];
}"""


def check_calculator(page, tables):
    """Ask the calculator and `advise` the same questions; return all answers."""
    page.wait_for_selector(".calculator[data-ready]")
    rng = random.Random(32)
    answers = []
    for _ in range(40):
        memory, baseline = rng.choice(("pinned", "pageable")), rng.choice([*CPU_BASELINES])
        n = round(20000 ** rng.random())
        products = rng.choice((1, 1, 1, 7))
        asked = {"gpu": rng.choice(("two-gpu0", "card")), "location": memory, "products": products}
        over = FASTEST_CPU if baseline == BEST else f"cpu-{baseline}"
        *texts, verdict = page.evaluate(CALCULATE, asked | {"baseline": over, "n": n})
        run = Run(memory, products)
        printed = advise(tables, Question(asked["gpu"], Shape.square(n), run))
        row = re.search(f"^{re.escape(CPU_BASELINES[baseline])}  .*", printed, re.MULTILINE)[0]
        if "not predicted" in row:
            assert verdict.startswith("The CPU time is not predicted"), (asked, n)
            continue
        for text, there in zip(texts, [row] * 3 + [printed] * 3, strict=False):
            assert text in there, (asked, n, baseline)
        said = page.locator("#calculator-notes li").all_inner_texts()
        shared = [
            one.split(" In a new")[0] for one in said if re.match("N is|Starting|Several", one)
        ]
        assert shared, "notes of advise"
        assert all(f"note: {one}" in printed for one in shared), (asked, n)
        answers.append(texts[:3])
        ends = re.search(r"\(([\d.,]+) to ([\d.,]+)\)", texts[1])
        low, high = (
            (float(end.replace(",", "")) for end in ends.groups()) if ends else (0, math.inf)
        )
        expected = "Yes" if low > 1 else "No" if high < 1 else "Undecided"
        assert verdict.startswith(expected) or 1 in (low, high), (verdict, texts[1])
    return answers


def sparse(predicted):
    """Return predicted times at few sizes, with intervals that vary and break-even sizes inside."""
    keys = ["recording", "gpu", "cpu_baseline", "host_memory", "variant", "block_size"]
    sizes = pd.Series([1, 40, 300, 900, 5000, 46340], name="n")
    rows = predicted.drop(columns="n").drop_duplicates(keys).merge(sizes, "cross")
    n, is_cpu = rows["n"], rows["cpu_baseline"].notna()
    slower = 1.01 + rows.groupby(keys, dropna=False).ngroup() % 53 / 90
    cubes, width = slower * n**3.0, np.exp(0.1 + n % 7 / 10)
    gpu = {"h2d": 3e-7 * slower * n, "kernel": 6e-8 * n + 4e-13 * cubes, "d2h": 1.52e-7 * n}
    times = {name: time_s.mask(is_cpu) for name, time_s in (gpu | {"overhead": 3.1e-8 * n}).items()}
    times["time"] = (1e-6 + 2e-12 * cubes).where(is_cpu, sum(times.values()))
    times |= {"time_low": times["time"] / width, "time_high": times["time"] * width}
    rows = rows.assign(**{f"{name}_s": time_s for name, time_s in times.items()})
    return rows.sort_values(["gpu", "n"])[list(predicted)]


def test_the_calculator_interpolates_times_and_their_intervals(visit, tmp_path):
    tables = Path(copytree(made("several") / "tables", tmp_path / "tables"))
    path = tables / "predicted_times.csv"
    predicted = pd.read_csv(path, dtype={"block_size": "Int64", "candidates": "Int64"})
    sparse(predicted).to_csv(path, index=False)
    gpus = pd.read_csv(tables / "predictors.csv")
    gpus = gpus.assign(unaligned_sizes="97 127", unaligned_half_width=0.4)
    gpus.to_csv(tables / "predictors.csv", index=False)
    places = (tables, made("several") / "figures", recordings("several"), TEMPLATE)
    render(*places, tmp_path / "report.html", "card", MAKER, FASTEST_NAIVE)
    answers = check_calculator(visit(tmp_path)[0], tables)
    assert sum(" to " in speedup for _, speedup, _ in answers) > 30


@pytest.mark.exhaustive  # simulated recordings have no transfers of their own
def test_a_slower_link_prolongs_copies_from_pinned_memory(visit):
    page, _ = visit("measured")
    page.wait_for_selector(".calculator[data-ready]")

    def gpu_ms(percent):
        page.evaluate(CALCULATE, {"location": "pinned", "n": 4096, "link": percent})
        (time,) = re.findall(
            r": ([\d.]+) ms", page.locator("#calculator-times li").first.inner_text()
        )
        return float(time)

    whole, half, quarter = map(gpu_ms, (100, 50, 25))
    assert 1.3 * whole < half < 2.01 * whole
    assert quarter - half == pytest.approx(2 * (half - whole), rel=0.05)
    (fault,) = page.evaluate(CALCULATE, {"location": "pageable"})
    assert "in pinned memory only" in fault


# Without the explorer, and without the links to it, which need scripts.
TEXT = """[...document.querySelectorAll("main > section:not(#explorer, #answers)")]
  .map(part => part.innerText.replace(/ ?Explore .*$/gm, "")).join("\\n")"""


@pytest.mark.exhaustive
def test_choosing_a_baseline_on_the_page_equals_rendering_with_that_baseline(visit, tmp_path):
    folder = made("several")
    places = (folder / "tables", folder / "figures", recordings("several"), TEMPLATE)
    page, said = visit("several", bypass_csp=True)
    for baseline in BASELINES:
        render(*places, tmp_path / "report.html", "card", MAKER, baseline)
        wanted, _ = visit(tmp_path, java_script_enabled=False)
        text = wanted.evaluate(TEXT)
        assert (page.evaluate(TEXT) == text) == (baseline == BASELINES[0] == FASTEST_NAIVE)
        page.locator("#context [name=baseline]").focus()
        page.keyboard.press("Home")
        for _ in range(BASELINES.index(baseline)):
            page.keyboard.press("ArrowDown")
        assert page.evaluate(TEXT) == text
        query = "" if baseline == FASTEST_NAIVE else f"?baseline={baseline}"
        assert page.url.endswith(f"report.html{query}")
        if query:
            again, _ = visit("several", query=query)
            assert again.evaluate(TEXT) == text
    assert len(said) == 1, said
    for size in ("16", "700", "40000"):  # outside and inside of the measured range
        page.locator("#context [name=n]").fill(size)
        assert violations(page, "nav", "#calculator") == [], size


def test_the_page_explains_kernels_terms_and_numbers_by_pointer_and_keyboard(shared):
    page, said = shared("several")
    page.wait_for_selector("[data-meanings]")
    meaning = page.locator("#meaning")
    page.locator(".answers code[data-at]", has_text="register_tile").first.hover()
    source = meaning.locator("a", has_text="kernels/register_tile")
    source.wait_for()
    assert meaning.inner_text().startswith("register tile")
    assert source.get_attribute("href") == f"../{source.inner_text()}", "from results/"
    assert (ROOT / source.inner_text()).is_file()
    page.locator("#calculator .term", has_text="prediction interval").focus()
    assert "not measured, or of a new session" in meaning.inner_text()
    page.locator(".term", has_text=re.compile("^interval")).first.focus()
    assert "A 95 % confidence interval" in meaning.inner_text()
    assert page.locator(".csv .term").count() == 0, "a name of a table is no text"
    page.keyboard.press("Escape")
    assert not meaning.is_visible()
    page.locator("#answers strong data").first.focus()
    texts = meaning.locator("a").all_inner_texts()
    assert texts[0] == "answers.csv"
    table = page.locator("#table-speedup-of-each-kernel-over-the-previous-step")
    table.locator(".scroll").focus()
    for key in ("Enter", "ArrowDown", *["ArrowRight"] * 3):
        page.keyboard.press(key)
    assert re.match("N\\b", meaning.inner_text()), "the heading of the column"
    name, row, column = meaning.locator("a").all_inner_texts()
    assert (name, column) == ("ladder_summary.csv", "n")
    page.keyboard.press("Enter")
    page.locator(".answers code[data-at]").first.dispatch_event("pointerover")
    page.wait_for_timeout(300)  # A pointer at rest takes nothing away.
    for key in ("Tab", "Enter"):
        page.keyboard.press(key)
    number = row.removeprefix("row ")
    page.wait_for_url(re.compile(f"#row-ladder_summary-{number}$"))
    assert table.locator("tr.shown").get_attribute("data-row") == number
    assert len(said) == 1, said


def test_a_link_into_a_folded_section_of_the_page_opens_it(shared):
    page, _ = shared("several")
    page.wait_for_selector("[data-meanings]")  # scripts that set the address have run
    assert not page.locator("#fold-audit").is_visible()
    page.locator("a[href='#fold-audit']").first.click()
    page.locator("#fold-audit").wait_for()


def texts_of(page) -> list[str]:
    """Return the texts of the explorer's chart."""
    return page.locator("#explorer-chart svg text").all_text_contents()


def test_the_chart_of_the_explorer_follows_its_controls(shared):
    page, said = shared("several")
    from playwright.sync_api import expect

    draw_explorer(page)
    before = page.locator("#explorer-status").inner_text()
    assert re.search(r"\d+ points of \d+ kernels", before)
    page.locator("#explorer-form details summary").click()
    with redrawing(page):
        page.locator("#explorer-form [name=group][value='Source V']").check()
    with redrawing(page):
        page.select_option("#explorer-form [name=x]", "block_size")
    after = page.locator("#explorer-status").inner_text()
    assert re.search(r"\d+ points", after)
    assert after != before
    assert "block size B" in page.locator("#explorer-chart svg").text_content()
    page.locator("#explorer-list summary").click()
    rows = page.locator("#explorer-list tbody tr")
    points = int(re.search(r"(\d+) points", after)[1])
    expect(rows).to_have_count(points)
    blocks = page.locator("#explorer-list td:nth-child(4)").all_text_contents()
    assert all(int(block) <= 32 for block in blocks)
    page.locator("#explorer-chart svg").scroll_into_view_if_needed()
    box = page.locator("#explorer-chart svg").bounding_box()
    page.mouse.move(box["x"] + 0.15 * box["width"], box["y"] + 0.15 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.8 * box["height"], steps=5)
    page.mouse.up()
    expect(rows).not_to_have_count(points)
    page.evaluate(SETTLED)
    selected = rows.count()
    assert 0 < selected < points
    for _ in range(2):  # close and open
        page.locator("#explorer-list summary").click()
    expect(rows).to_have_count(selected)
    assert len(said) == 1, said


VIEW = "quantity=kernel+time&over=block&x=block_size&lines=both"


@pytest.mark.parametrize(("width", "scheme"), [for_test_all(PHONE, "dark"), (DESK, "light")])
def test_the_address_restores_an_explorer_view_that_was_set_by_keyboard(visit, width, scheme):
    page, said = visit("several", width, scheme)
    draw_explorer(page)
    page.locator("#explorer-list summary").press("Enter")
    for name, value in (pair.split("=") for pair in VIEW.split("&")):
        control = page.locator(f"#explorer-form [name={name}]")
        control.focus()
        options = control.evaluate("each => [...each.options].map(one => one.value)")
        page.keyboard.press("Home")
        for _ in range(options.index(value.replace("+", " "))):
            page.keyboard.press("ArrowDown")
        assert control.input_value() == value.replace("+", " ")
    with redrawing(page):
        page.locator("#explorer-others input").last.press("Space")
    assert f"?{VIEW}" in page.url
    assert page.url.endswith("#explorer")
    box = "getBoundingClientRect()"
    place = page.evaluate(f"document.querySelector('#explorer-chart svg').{box}")
    assert -100 < place["top"] < 500, "the chart is in view beside the last control"
    again, _ = visit("several", width, scheme, query=page.url.partition("report.html")[2])
    draw_explorer(again)
    again.locator("#explorer-list summary").press("Enter")
    again.locator("#explorer-list td").first.wait_for()
    for part in ("#explorer-status", "#explorer-list table"):
        assert again.locator(part).inner_text() == page.locator(part).inner_text()
    assert texts_of(again) == texts_of(page)
    assert len(said) == 1, said


PINNED = "?quantity=kernel+time&kernel=*&location=pinned"


def test_a_view_of_the_explorer_is_saved_as_picture_and_as_table(shared, tmp_path):
    page, said = shared("several", query=PINNED)
    draw_explorer(page)
    points = int(page.locator("#explorer-status").inner_text().split()[0])
    for name in ("png", "csv"):
        with page.expect_download() as saving:
            page.locator(f"#explorer-{name}").press("Enter")
        assert re.fullmatch(
            rf"explorer-0{{8}}-2\d{{3}}-\d\d-\d\d\.{name}", saving.value.suggested_filename
        )
        saving.value.save_as(tmp_path / f"explorer.{name}")
    assert (tmp_path / "explorer.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "explorer.png").stat().st_size > 20_000
    saved = pd.read_csv(tmp_path / "explorer.csv")
    assert len(saved) == points > 10
    cells = pd.read_csv(made("several") / "tables" / "summary.csv")
    cells = cells[(cells["gpu"] == "card") & (cells["series"] == "sizes")]
    cells = cells[cells["host_memory"] == "pinned"]
    keys = ["variant", "n", "block_size"]
    both = saved.rename(columns={"kernel": "variant", "shape": "n"}).merge(cells, on=keys)
    assert len(both) == points
    assert both["value"].to_numpy() == pytest.approx(both["kernel_s"].to_numpy(), rel=1e-5)
    assert len(said) == 1, [line for line in said if "blob:" not in line]


def test_a_ratio_in_the_explorer_equals_the_speedup_in_the_table(shared):
    page, _ = shared("several", query=PINNED)
    draw_explorer(page)
    page.locator("#explorer-list summary").click()
    for name, value in (("quantity", "kernel throughput"), ("over", "baseline")):
        with redrawing(page):
            page.select_option(f"#explorer-form [name={name}]", value)
    for baseline in reversed(BASELINES):
        with redrawing(page):
            page.select_option("#context [name=baseline]", baseline)
        listed = {
            (row[0], row[2]): row[5]
            for row in page.locator("#explorer-list tbody tr").evaluate_all(
                "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
            )
        }
        cells = page.locator("#kernels table[data-csv=ladder_summary] tbody tr").evaluate_all(
            """(rows, name) => rows.map(row => [
              ...["variant", "n"].map(column => `[data-column=${column}]`),
              `[data-column=""][data-baseline=${name}]`].map(head =>
              row.cells[row.closest("table").querySelector(head).cellIndex]
                .firstChild.textContent))""",
            baseline,
        )
        compared = [(listed.get((name, n)), text) for name, n, text in cells[2:] if text != "–"]
        assert len(compared) > 5
        for shown, text in compared:
            value = float(shown.rstrip("×").replace("\u202f", ""))
            digits = text.replace("\u202f", "")
            step = 10.0 ** -len(digits.partition(".")[2])
            assert abs(value - float(digits)) <= 0.5001 * step + 0.0006 * value, (shown, text)


def test_a_link_below_a_figure_opens_its_quantity_in_the_explorer(shared):
    page, said = shared("several")
    draw_explorer(page)
    links, status = page.locator("figure.plot a.explore"), page.locator("#explorer-status")
    assert links.count() > 8
    for place in range(links.count()):
        status.evaluate("status => status.textContent = ''")
        links.nth(place).evaluate("link => link.click()")
        status.filter(has_text=" point").wait_for()  # drawn again
        points = int(status.inner_text().split()[0])
        assert points > 0, links.nth(place).get_attribute("data-view")
        quantity = page.locator("#explorer-form [name=quantity] option:checked").inner_text()
        named = links.nth(place).text_content().removeprefix("Explore ").lower()
        kind, _, part = quantity.lower().partition(", ")
        assert named == "speedups" or kind.split()[0] in named, (named, quantity)
        assert part in named or named == "speedups", (named, quantity)
    assert page.url.endswith("#explorer")
    assert len(said) == 1, said


CLIPPED = """() => {
  const svg = document.querySelector("#explorer-chart svg");
  const paper = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.width && (box.left < paper.left - 1 || box.right > paper.right + 1 ||
      box.top < paper.top - 1 || box.bottom > paper.bottom + 1);
  }).map(text => text.textContent);
}"""
ROOFLINE = "kernel=*&quantity=kernel+throughput&x=intensity"
STATES = [  # several: of three GPUs
    ("several", "kernel=*&compare=*&memory=both&lines=both&quantity=total+time&predicted=yes"),
    ("several", "over=baseline&lines=fastest&kernel=*"),
    ("several", "kernel=*&compare=*&memory=both"),
    ("several", "compare=*&quantity=kernel+time&log=y&block_size=all"),
    ("measured", "kernel=*&quantity=kernel+throughput&matrices=float64"),
    ("five", ROOFLINE),
]
STATES[1:] = [for_test_all(*state) for state in STATES[1:]]


# Parts besides the explorer: axe-core takes seconds to read them.
ONLY_EXPLORER = """document.querySelectorAll("main > :not(#explorer)")
  .forEach(part => part.contains(document.getElementById("explorer")) || part.remove())"""


@pytest.mark.parametrize(("kind", "state"), STATES)
def test_every_state_of_the_explorer_fits_its_window_and_is_accessible(visit, kind, state):
    page, said = visit(kind, PHONE, "dark", query=f"?{state}", bypass_csp=True)
    draw_explorer(page)
    page.evaluate(ONLY_EXPLORER)
    page.evaluate(OPEN_FOLDS)
    for width, scheme in ((PHONE, "dark"), (DESK, "light")):
        if width != PHONE:
            with redrawing(page):
                set_look(page, width, scheme)
        assert page.evaluate(CLIPPED) == []
        wanted, given = page.evaluate(WIDTHS)
        assert wanted <= given == width
        assert len(said) == 1, said
        assert state != ROOFLINE or {"FMA throughput", "L1", "device memory"} <= set(texts_of(page))
        assert violations(page, "#explorer") == []


def test_names_with_markup_are_shown_as_text(visit):
    page, said = visit("hostile")
    draw_explorer(page)
    assert not [line for line in said if line.startswith(("dialog", "error", "console"))]
    assert page.locator("b, img, iframe, object").count() == 0
    shown = page.locator("#answers").inner_text()
    assert "<script>alert('x')</script>" in shown
    assert "[U+202E]" in shown, "what turns the direction of text is written out"
