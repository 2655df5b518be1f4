"""Rendering the report: one self-contained HTML file from tables, figures and templates.

All values come from a CSV file or the provenance of a recording. The page does not depend on the
time or place of rendering: the same input gives the same bytes.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jinja2
import yaml
from markupsafe import Markup

from analysis import schema
from analysis.archive.citation import UNKNOWN, Maker, citation
from analysis.data.devices import devices
from analysis.data.store import Store, StoreError
from analysis.domain import CEILINGS
from analysis.render import embedded, numbers, query, tables, words
from analysis.render.accesses import access_svg
from analysis.render.calculator_data import calculator_data
from analysis.render.explorer_data import LIBRARIES, explorer_data, packed
from analysis.render.lesson import lesson
from analysis.render.meanings import meanings
from analysis.render.sections import context, dossier
from base.files import write_atomic
from base.paths import ROOT
from kernels.catalog.baselines import BASELINES, FASTEST_NAIVE
from kernels.catalog.locations import LOCATIONS
from kernels.catalog.walk import drawings
from measurement.recording.files import read_provenance

_TEMPLATE = "page.html.j2"
_STYLES: tuple[str, ...] = ("vendor/pico.fluid.classless.min.css", "style.css", "lesson.css")
_STYLES += ("calculator.css", "explorer.css")
_SCRIPTS: tuple[str, ...] = ("vendor/sortable.min.js", "vendor/sortable.a11y.min.js")
_SCRIPTS += ("shared.js", "context.js", "shapes.js", "calculator.js", "explorer.js")
_SCRIPTS += ("meanings.js",)
# Quantities of the explorer, for links to it.
_QUANTITIES = {
    "total throughput": "end-to-end throughput",
    "kernel throughput": "kernel-only throughput",
    "total time": "end-to-end times",
    "kernel time": "kernel-only times",
    "h2d time": "times of copies to the GPU",
}
_UNITS = ("s", "ms", "us", "mib", "gib", "tflops", "gb_per_s", "times", "plain")


def render(
    tables_dir: Path | str,
    figures_dir: Path | str,
    recordings: Mapping[str, Path],
    template_dir: Path | str,
    out: Path | str,
    focus: str | None = None,
    maker: Maker = UNKNOWN,
    baseline: str = FASTEST_NAIVE,
) -> None:
    """Write the report to `out` atomically.

    `recordings` are the folders by id; only provenance and manifest are read. `focus` is the GPU in
    focus. `maker` describes the command that renders the page. `baseline` is the baseline shown
    first. Raise StoreError for a missing table, figure, recording or template.
    """
    store = Store(tables_dir)
    t = partial(query.rows, store)
    measured = devices(store, focus)
    template_dir = Path(template_dir)
    environment = environment_of(template_dir, baseline)
    marks = {d.label: d.mark for d in measured.all if d.mark}
    marks |= {d.recording: "SIMULATED" for d in measured.all if d.simulated}
    frame = environment.get_template("table.html.j2")
    made = tables.Tables(frame, marks, measured.focus, partial(words.switched, chosen=baseline))
    provenances = {name: read_provenance(Path(path)) for name, path in recordings.items()}
    ended_utc = [provenance["finished_utc"] for provenance in provenances.values()]
    cited = citation(recordings, ended_utc)
    address_of = partial(cited.address_of, maker.commit)
    names = embedded.archived(store)
    environment.globals |= {
        "t": t,
        "table": made.table,
        "pivot": made.pivot,
        "figure": partial(_figure, Path(figures_dir), _read_yaml(template_dir, "views.yaml")),
        "devices": measured,
        "folders": {name: str(path) for name, path in recordings.items()},
        "citation": cited,
        "maker": maker,
        "state": maker.state,
        "version": "-".join([(maker.commit or "unknown")[:8], max(ended_utc, default="")[:10]]),
        "link": partial(cited.link, maker.commit),
        "archived": {name: "yes" if name in names else "no" for name in schema.TABLES},
        "archive": embedded.archive(store, names),
        "drawings": drawings,
        "lesson": partial(lesson, environment, t, measured, recordings),
        "access_svg": access_svg,
        "ceilings": CEILINGS,
        "calculator_data": packed(calculator_data(store, measured.gpus)),
        "locations": LOCATIONS.values(),
        "explorer_data": packed(explorer_data(store, measured)),
        "context": context(t, measured),
        "meanings": packed(meanings(_read_yaml(template_dir, "glossary.yaml"), address_of)),
        **dossier(t, measured),
        **_assets(template_dir),
    }
    write_atomic(out, environment.get_template(_TEMPLATE).render())


def environment_of(template_dir: Path, baseline: str = FASTEST_NAIVE) -> jinja2.Environment:
    """Return the Jinja environment of the page's templates, still without tables."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_dir),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=[words.Unbroken],
        # Names are user input.
        finalize=lambda part: (
            numbers.visible(part)
            if isinstance(part, str) and not isinstance(part, Markup)
            else part
        ),
    )
    environment.globals |= {
        "n": numbers.number,
        "ci": numbers.interval,
        "ratio": numbers.ratio,
        "share": numbers.share,
        "count": numbers.count,
        "name": numbers.name,
        "word": numbers.word,
        "verdict": numbers.verdict,
        "words": words,
        "switched": partial(words.switched, chosen=baseline),
        "selected": lambda value, chosen: Markup(" selected" if value == chosen else ""),
        "schema": schema.TABLES,
        "glossary": _read_yaml(template_dir, "glossary.yaml"),
        "baselines": BASELINES,
        "baseline": baseline,
        "four_digits": schema.FACTOR,
        "whole": schema.COUNT,
        **{name: getattr(schema, name.upper()) for name in _UNITS},
    }
    _read(template_dir, _TEMPLATE)
    return environment


def _read_yaml(template_dir: Path, name: str) -> dict[str, str]:
    texts: dict[str, str] = yaml.safe_load(_read(template_dir, name))
    return texts


def glossary_page() -> str:
    """Return the text of docs/reference/glossary.md."""
    terms = _read_yaml(ROOT / "report", "glossary.yaml")
    entries = (f"- **{term}**: {text}" for term, text in terms.items())
    return "\n".join(["# Glossary", "", *entries]) + "\n"


def _assets(template_dir: Path) -> dict[str, Any]:
    allowed = (*_SCRIPTS, *LIBRARIES)
    texts = {name: _read(template_dir, name) for name in (*_STYLES, *allowed)}
    digests = [hashlib.sha256(texts[name].encode()).digest() for name in allowed]
    return {
        "styles": [Markup(texts[name]) for name in _STYLES],
        "scripts": [Markup(texts[name]) for name in _SCRIPTS],
        "explorer_libraries": [packed(texts[name]) for name in LIBRARIES],
        "script_hashes": [base64.b64encode(digest).decode() for digest in digests],
    }


def _read(template_dir: Path, name: str) -> str:
    path = template_dir / name
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise StoreError(f"{path} is missing; restore it from version control") from None


def _figure(
    figures_dir: Path,
    views: Mapping[str, str],
    figure_name: str,
    title: str,
    gpu: str = "",
    caller: Callable[[], str] | None = None,
) -> Markup:
    """Return a figure with its title and its caption from `caller`; empty if it was not drawn.

    The title names the `gpu` if the figure shows one GPU only.
    """
    index = figures_dir / "figures.json"
    try:
        drawn = json.loads(index.read_text())
    except OSError as error:
        raise StoreError(
            f"{index} cannot be read ({error.strerror}); draw the figures with `gemm-study figures`"
        ) from None
    if figure_name not in drawn:
        return Markup("")
    svg = (figures_dir / f"{figure_name}.svg").read_text()
    caption = Markup(caller()) if caller else Markup("")
    title += f" ({gpu})" if gpu else ""
    return Markup(
        '<figure class="plot" id="figure-{0}">'
        '<div class="scroll" tabindex="0" role="region" aria-label="{1}">{2}</div>\n'
        '<figcaption id="caption-{0}"><strong>{1}.</strong> {3} {4}</figcaption></figure>'
    ).format(
        figure_name, numbers.visible(title), Markup(svg), caption, _explore(views.get(figure_name))
    )


def _explore(view: str | None) -> Markup:
    """Return a link that opens a view of the explorer; empty if `view` is None."""
    if view is None:
        return Markup("")
    query = parse_qs(view)
    shown = "speedups" if "over" in query else _QUANTITIES[query["quantity"][0]]
    link = Markup('<a class="explore" href="#explorer" data-view="{}">Explore {}</a>')
    return link.format(view, shown)
