"""Render the report: one self-contained HTML file from tables, figures and a template.

Nothing is computed here that is not in a CSV file or a recording's provenance, and nothing depends
on the time or place of rendering: the same input gives the same bytes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from analysis import (
    audit_views,
    cards_report,
    code_views,
    decision_views,
    kernel_views,
    recording_views,
    trust_views,
    views,
)
from analysis.archive.citation import Maker, citation
from analysis.audit_findings import audit_sentences
from analysis.counts_findings import accesses_table, counter_findings, counts_findings
from analysis.cpu_section import cpu_section
from analysis.data.recordings import CPU
from analysis.decision_findings import decision_findings
from analysis.downloads import download
from analysis.figures import INDEX
from analysis.findings import findings
from analysis.headline import answers
from analysis.kernel_findings import claim_sentences, kernel_findings
from analysis.model_section import model_section
from analysis.results import (
    Number,
    Results,
    ResultsError,
    Subject,
    Text,
    anchors,
    comparison_order,
    hosts_of,
    order_cells,
    subjects,
)
from analysis.source_tables import SOURCE_TABLES, source_table
from analysis.table_names import TABLES
from analysis.traces import is_plain, ranges, sentence, trace
from analysis.trust_findings import agreement_sentences, trust_findings
from analysis.widths import is_long, width
from analysis.wording import Code, visible
from measurement.files import write_atomic

_TEMPLATE = "report.html.j2"
_STYLES = ("vendor/pico.fluid.classless.min.css", "style.css", "cards.css")
_SCRIPTS = ("vendor/sortable.min.js", "vendor/sortable.a11y.min.js")
_TOPICS = {
    "way": "Fastest way",
    "gain": "Gain over the CPU",
    "worth": "Worth it from",
    "fastest": "Kernels of this study",
    "cpu": "Against the CPU",
    "sizes": "By size",
    "kernel": "Kernel alone",
    "transfers": "Copies",
    "host": "CPU",
    "model": "Models",
    "gate": "Correctness",
    "throttling": "Throttling",
    "clock": "Clock and events",
    "busy": "Time of measuring",
    "batches": "Short kernels",
    "cold": "Cold start",
    "neighbours_pinned": "Neighbours, pinned",
    "neighbours_pageable": "Neighbours, pageable",
    "counted": "Run on the host",
    "sectors": "Sectors a load",
    "counters": "Hardware counters",
    "wide": "Wide loads",
    "arbitration": "Arbitration",
    "unexplained": "Not explained",
    "steps": "Step by step",
    "library": "Against cuBLAS",
    "balance": "Balance",
    "nearest": "Nearest to its bound",
    "claims": "Claims",
    "yardsticks": "Four yardsticks",
    "split_naive": "Over the naive loop",
    "split_source": "Over the source's better program",
    "machine": "Machine",
    "cpu_clock": "Clock",
    "cpu_rates": "Rates",
    "cpu_library": "Against the BLAS",
    "cores": "All cores",
    "cache_gain": "Cache optimisation",
    "block_size": "Block size",
    "cpu_ceiling": "Ceiling",
    "audit_rates": "Printed rates",
    "audit_constant": "A start-up constant",
    "audit_limit": "Above its own limit",
    "audit_headline": "The best rate",
    "audit_cpu": "Which CPU version",
    "audit_pairs": "Pairs that do not fit",
    "worth_pinned": "Faster from, pinned",
    "worth_pageable": "Faster from, pageable",
    "copies_pinned": "Copies, pinned",
    "copies_pageable": "Copies, pageable",
    "predicted": "Held-out orders",
    "m0": "The source's model",
    "effects": "What it leaves out",
    "predicts": "Best prediction",
    "counted_models": "One set of constants",
    "constants": "The constants",
    "held_out": "Held-out orders",
    "unseen": "Other sources' kernels",
    "ratios": "Ratios measured apart",
}


@dataclass(frozen=True)
class Drawing:
    """A figure as the template needs it."""

    name: str
    kind: str
    source: str
    title: str
    caption: str
    svg: Markup


def render(
    tables_dir: Path | str,
    figures_dir: Path | str,
    recordings: Mapping[str, Path],
    template_dir: Path | str,
    out: Path | str,
    maker: Maker | None = None,
) -> None:
    """Write the report to `out`, whole or not at all.

    `recordings` are the folders by id; only provenance and manifest are read. `maker` is what the
    page says of its own making, where a command makes it. Raises ResultsError naming the table,
    figure, recording or template file that is missing.
    """
    results = Results(tables_dir)
    template_dir = Path(template_dir)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_dir),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Names come from outside.
        finalize=lambda part: (
            visible(part) if isinstance(part, str) and not isinstance(part, Markup) else part
        ),
    )
    environment.tests["number"] = lambda part: isinstance(part, Number)
    environment.tests["code"] = lambda part: isinstance(part, Code)
    environment.tests["traced"] = lambda part: isinstance(part, Text)
    environment.globals |= {"trace": trace, "ranges": ranges, "width": width}
    environment.globals |= {"sentence": sentence}
    environment.globals |= {"is_long": is_long, "is_plain": is_plain}
    try:
        template = environment.get_template(_TEMPLATE)
    except jinja2.TemplateNotFound:
        raise ResultsError(
            f"{template_dir / _TEMPLATE} is missing; restore it from version control"
        ) from None
    page = template.render(
        **_assets(template_dir),
        **_content(results, Path(figures_dir), recordings),
        maker=maker,
    )
    write_atomic(out, page)


def _assets(template_dir: Path) -> dict[str, Any]:
    """Return styles and scripts, and the hashes by which the page allows its own scripts only."""
    texts = {}
    for name in (*_STYLES, *_SCRIPTS):
        try:
            texts[name] = (template_dir / name).read_text()
        except OSError:
            raise ResultsError(
                f"{template_dir / name} is missing; restore it from version control"
            ) from None
    digests = [hashlib.sha256(texts[name].encode()).digest() for name in _SCRIPTS]
    return {
        "styles": [Markup(texts[name]) for name in _STYLES],
        "scripts": [Markup(texts[name]) for name in _SCRIPTS],
        "script_hashes": [base64.b64encode(digest).decode() for digest in digests],
    }


def _content(results: Results, figures_dir: Path, recordings: Mapping[str, Path]) -> dict[str, Any]:
    measured = subjects(results)
    gpus = [subject for subject in measured if subject.is_gpu]
    names = anchors([subject.label for subject in measured])
    figures = read_figures(figures_dir)
    provenances = {name: _provenance(name, path) for name, path in recordings.items()}
    hosts = hosts_of(measured)
    return {
        "topics": _TOPICS,
        "subjects": measured,
        "gpus": gpus,
        "chosen": next(iter([*gpus, *measured]), None),
        "names": names,
        "host_cards": _host_cards(measured, names),
        "answers": [(subject, answers(results, subject)) for subject in measured],
        "findings": findings(results),
        "figures": figures,
        "source_tables": _source_tables(results, measured, names),
        "variant_tables": _variant_tables(results, gpus, names),
        **cpu_section(results, [host for host in measured if host is hosts[host.recording]], names),
        **model_section(results, gpus, names),
        "accesses": counts_findings(results),
        "counters": counter_findings(results),
        "accesses_table": accesses_table(results, "table-accesses"),
        "threats": trust_views.threats_table(results, "table-threats"),
        "compared": cards_report.cards_sentences(results, gpus),
        "compared_table": cards_report.cards_table(results, gpus, "table-cards"),
        **_kernels(results, measured, names),
        "decisions": decision_findings(results),
        "decision_tables": decision_views.decision_tables(results, names),
        "audit": audit_sentences(results),
        "audit_tables": audit_views.audit_tables(results),
        **_trust(results, measured),
        "environment": views.environment_table(results, "table-environment"),
        "recordings": recording_views.recordings_table(results),
        "checks": recording_views.checks_table(results),
        "builds": recording_views.builds_tables(results),
        "compilers": _compilers(provenances),
        "citation": citation(recordings, [p["finished_utc"] for p in provenances.values()]),
        "confidence": _confidence(provenances),
        "folders": {name: str(path) for name, path in recordings.items()},
        "downloads": [download(results, name) for name in TABLES],
    }


def _kernels(results: Results, measured: list[Subject], names: Mapping[str, str]) -> dict[str, Any]:
    """Return what the parts on systems, kernels and claims show."""
    gpus = [subject for subject in measured if subject.is_gpu]
    makers = {
        "ladder": code_views.ladder_table,
        "machine_code": code_views.machine_code_table,
        "roofline": code_views.roofline_table,
        "shapes": kernel_views.shapes_table,
    }
    return {
        "systems": kernel_views.systems_table(results, measured, "table-systems"),
        "kernel_findings": kernel_findings(results),
        "kernel_tables": {
            gpu.label: {
                name: make(results, gpu, f"table-{name.replace('_', '-')}-{names[gpu.label]}")
                for name, make in makers.items()
            }
            for gpu in gpus
        },
        "claim_findings": claim_sentences(results),
        "claims": kernel_views.claims_table(results, "table-claims"),
        "limits": kernel_views.limits_table(results, gpus, "table-limits"),
    }


def _trust(results: Results, measured: list[Subject]) -> dict[str, Any]:
    """Return what the part on trust shows."""
    return {
        "trust_findings": trust_findings(results),
        "agreements": agreement_sentences(results),
        "trust": {
            "agreement": trust_views.agreement_table(results, "table-agreement"),
            "agreement_cells": trust_views.apart_table(results, "table-apart"),
            "neighbours": trust_views.neighbours_table(results, "table-neighbours"),
            "cold_starts": trust_views.cold_starts_table(results, "table-cold-starts"),
            "ceilings": trust_views.ceilings_table(results, measured, "table-ceilings"),
            "phases": trust_views.phases_table(results, "table-phases"),
            "telemetry": trust_views.telemetry_table(results, "table-telemetry"),
        },
    }


def _source_tables(
    results: Results, measured: list[Subject], names: Mapping[str, str]
) -> list[tuple[int, str, list[tuple[Subject | None, views.Table]]]]:
    """Return the source's tables: number, title, and one twin for each card that was measured.

    A host without GPU has a twin where it has rows (Tables 1 and 2, its CPU); with no twin at all
    the published rows stand alone.
    """
    found = []
    for which, title in SOURCE_TABLES:
        has_rows = set(results.frame(f"table{which}")["source"])
        twins: list[tuple[Subject | None, views.Table]] = [
            (s, source_table(results, which, s, f"table-{which}-{names[s.label]}"))
            for s in measured
            if s.is_gpu or s.label in has_rows
        ]
        alone = (None, source_table(results, which, None, f"table-{which}-published"))
        found.append((which, title, twins or [alone]))
    return found


def _variant_tables(
    results: Results, gpus: list[Subject], names: Mapping[str, str]
) -> list[tuple[Subject, list[tuple[int, views.Table]]]]:
    """Return for each GPU the tables of all variants at the source's order and at the largest."""
    summary = order_cells(results)
    found = []
    for gpu in gpus:
        cells = summary[(summary["gpu"] == gpu.label) & (summary["device"] != CPU)]
        orders = [] if cells.empty else sorted({comparison_order(cells), int(cells["n"].max())})
        tables = [
            (n, views.variants_table(results, gpu, n, f"table-variants-{names[gpu.label]}-{n}"))
            for n in orders
        ]
        found.append((gpu, tables))
    return found


def _provenance(name: str, path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((Path(path) / "provenance.json").read_text()))
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"recording {name}: {path}/provenance.json cannot be read ({error}); "
            "restore the folder from version control or record it again"
        ) from None


def _host_cards(measured: list[Subject], names: Mapping[str, str]) -> dict[str, str]:
    """Return by label the names of all subjects of the same host, with a space between them."""
    return {
        subject.label: " ".join(
            names[other.label] for other in measured if other.recording == subject.recording
        )
        for subject in measured
    }


def _compilers(provenances: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return each compiler with its flags, and the recordings that were built so."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, provenance in provenances.items():
        for compiler in ("gcc", "nvcc") if provenance["devices"] else ("gcc",):
            flags = " ".join(provenance["compile"].get(f"{compiler}_flags") or [])
            found.setdefault((compiler, flags), []).append(name)
    return [(*built, names) for built, names in found.items()]


def _confidence(provenances: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the level of the medians' intervals, "95 %"; several if the recordings differ."""
    protocols = [p["configuration"].get("protocol", {}) for p in provenances.values()]
    levels = sorted({p["confidence"] for p in protocols if "confidence" in p})
    return " or ".join(f"{100 * level:g}\u00a0%" for level in levels)


def read_figures(figures_dir: Path) -> list[Drawing]:
    """Return the figures that ``figures.json`` lists, in its order."""
    try:
        entries = json.loads((figures_dir / INDEX).read_text())
        return [
            Drawing(**entry, svg=Markup((figures_dir / f"{entry['name']}.svg").read_text()))
            for entry in entries
        ]
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"figures in {figures_dir} cannot be read ({error}); make them with "
            "`python -m analysis figures`"
        ) from None
