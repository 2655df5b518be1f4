"""Tables for the tests of the report: by the true chain, or a few rows by hand."""

import csv
import functools
import io
import tempfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
from analysis.check import check
from analysis.figures import write_figures
from analysis.report import render
from analysis.results import Results

from analysis.__main__ import write_audit, write_decisions, write_fits, write_tables
from analysis.archive.citation import Maker
from analysis.data.recordings import ROOT
from measurement.recording import OPTIONAL, TABLES, Recording, write

PUBLISHED = ROOT / "data" / "published" / "times.csv"
SYSTEMS = ROOT / "data" / "published" / "systems.csv"
STATEMENTS = ROOT / "data" / "published" / "statements.csv"
TEMPLATE = ROOT / "report"
MAKER = Maker("python -m analysis report" + 9 * " --recording=id=folder/of/it", "0" * 40, True)


def rewritten(original: Recording, path: Path | None = None, **changes: pd.DataFrame) -> Recording:
    """Write a recording with `changes` to its frames, to `path` or in its own place."""
    changed = replace(original, **changes)
    frames = {name: getattr(changed, name.split(".")[0]) for name in (*TABLES, *OPTIONAL)}
    frames = {name: frame for name, frame in frames.items() if name in TABLES or len(frame)}
    return write(path or original.path, original.provenance, frames)


def chain(recordings: dict[str, Path], folder: Path, counts: list[Path] | None = None) -> Path:
    """Write the tables and fits of `recordings` to `folder`, as the workflow does; return it.

    `counts` are the tables of memory accesses.
    """
    write_tables(recordings, PUBLISHED, SYSTEMS, [], counts or [], folder)
    write_fits(recordings, PUBLISHED, folder)
    write_audit(PUBLISHED, STATEMENTS, folder)
    write_decisions(recordings, folder)
    return folder


def report(base: Path, recordings: dict[str, Path], tables_dir: Path | None = None) -> str:
    """Draw the figures and render the report below `base`; return the page's text."""
    tables_dir = tables_dir or chain(recordings, base / "tables")
    write_figures(tables_dir, base / "figures")
    page = base / "report.html"
    render(tables_dir, base / "figures", recordings, TEMPLATE, page, MAKER)
    return page.read_text()


@functools.cache
def _published_tables() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return {path.name: path.read_bytes() for path in chain({}, Path(folder)).iterdir()}


def tables(folder: Path, **rows: list[dict[str, object]]) -> Results:
    """Write the tables of a study without recordings to `folder`, with `rows` added to them."""
    folder.mkdir(exist_ok=True)
    for name, data in _published_tables().items():
        stem = name.removesuffix(".csv")
        if stem in rows:
            columns = next(csv.reader(io.StringIO(data.decode())))
            assert all(set(row) <= set(columns) for row in rows[stem]), (stem, columns)
            added = pd.DataFrame(rows[stem], columns=columns).to_csv(index=False, header=False)
            data += added.encode()
        (folder / name).write_bytes(data)
    return Results(folder)


def recording(label: str, gpu: bool = True, **changes: object) -> dict[str, object]:
    """Return a row of recordings.csv."""
    return {
        "recording": label,
        "gpu": label if gpu else None,
        "device": "gpu0" if gpu else "cpu",
        "gpu_name": "Card" if gpu else None,
        "cpu_model": "Host CPU",
        "live": False,
        "simulated": False,
        "cells_failed": 0,
        "stale": False,
    } | changes


EVIL = "<script>alert('x')</script> \"{{ 7*7 }}\" & <b>$1${`x`}" + "\u202e\u2066" + "x" * 300


def evil_tables(folder: Path) -> Results:
    """Write the tables of a card and a host of which every name and text is hostile."""
    card, cells = f"card {EVIL}", []
    for n in (512, 2048):
        for memory in ("pageable", "pinned"):
            for variant, scale in (("naive", 4), ("block", 2), (EVIL, 1)):
                cells.append(gpu_cell(card, variant, n, n**3 * scale * 1e-12, memory=memory))
    cells += [cpu_cell(card, variant, 512, 0.02, 64) for variant in ("naive", "blocked", EVIL)]
    names = {"gpu_name": EVIL, "cpu_model": EVIL, "stale": True, "stale_sources": f"{EVIL};b.cu"}
    check = {"recording": card, "device": "gpu0", "variant": EVIL, "dtype": EVIL, **square(512)}
    return tables(
        folder,
        recordings=[recording(card, **names, commit=EVIL, started_utc=EVIL)],
        summary=cells,
        gains=[gain_row(card, variant, 512, 150.0, 0.02) for variant in ("block", EVIL)],
        checks=[check | {"status": "failed", "reason": EVIL, "host_memory": EVIL}],
        environment=[{"recording": card, "item": EVIL, "value": EVIL}],
        builds=[{"recording": card, "variant": EVIL, "dtype": EVIL, "build": EVIL, "nvcc": EVIL}],
        claims=[{"claim": EVIL, "source": EVIL, "verdict": EVIL, "rule": EVIL, "gpu": card}],
    )


def interval(name: str, value: float, spread: float | None) -> dict[str, float]:
    """Return a value and its bounds, `spread` of the value on each side; None: no bounds."""
    stem, unit = (name[:-2], "_s") if name.endswith("_s") else (name, "")
    if spread is None:
        return {name: value}
    return {
        name: value,
        f"{stem}_low{unit}": value * (1 - spread),
        f"{stem}_high{unit}": value * (1 + spread),
    }


def square(n: int) -> dict[str, object]:
    """Return the columns of the shape of one product of square matrices."""
    return {"batch": 1, "m": n, "n": n, "k": n}


def gpu_cell(
    label: str,
    variant: str,
    n: int,
    total_s: float,
    block_size: int | None = 32,
    memory: str = "pageable",
    spread: float | None = 0.01,
) -> dict[str, object]:
    """Return a row of summary.csv: a kernel that takes a quarter of the total, copies a half."""
    parts = {
        "total_s": total_s,
        "h2d_s": total_s / 4,
        "kernel_s": total_s / 4,
        "d2h_s": total_s / 4,
    }
    row: dict[str, object] = {
        "recording": label,
        "gpu": label,
        "device": "gpu0",
        "variant": variant,
        "dtype": "float32",
        **square(n),
        "series": "orders",
        "block_size": block_size,
        "host_memory": memory,
        "samples": 1 if spread is None else 20,
        "overhead_s": total_s / 4,
        "flop_per_s": 2 * n**3 / total_s,
        "kernel_flop_per_s": 2 * n**3 / (total_s / 4),
    }
    for name, value in parts.items():
        row |= interval(name, value, spread)
    return row


def cpu_cell(
    label: str,
    variant: str,
    n: int,
    total_s: float,
    block_size: int | None = None,
    spread: float | None = 0.01,
    threads: int = 1,
) -> dict[str, object]:
    """Return a row of summary.csv of a CPU."""
    return {
        "recording": label,
        "device": "cpu",
        "variant": variant,
        "dtype": "float32",
        **square(n),
        "series": "orders",
        "block_size": block_size,
        "threads": threads,
        "samples": 1 if spread is None else 20,
        "flop_per_s": 2 * n**3 / total_s,
        **interval("total_s", total_s, spread),
    }


def gain_row(
    label: str,
    variant: str,
    n: int,
    best: float,
    spread: float | None,
    block_size: int | None = 32,
) -> dict[str, object]:
    """Return a row of gains.csv with a gain over the best CPU version, BLAS on 16 threads."""
    return {
        "source": label,
        "n": n,
        "variant": variant,
        "block_size": block_size,
        "host_memory": "pageable",
        "cpu_best_variant": "blas",
        "cpu_best_threads": 16,
        **interval("cpu_best_gain", best, spread),
        **interval("cpu_blas_all_gain", best, spread),
    }


class Page(HTMLParser):
    """A parsed page: its elements in order, and the texts of its title, scripts and sentences."""

    _VOID = ("input", "meta", "link", "br", "hr", "img", "mspace")

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {"dd": [], "title": [], "script": []}
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open[-1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag in self.texts:
            self.texts[tag].append("")
        if tag not in self._VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        opened = self._open.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        for tag in set(self._open) & set(self.texts):
            self.texts[tag][-1] += data

    def attributes(self, name: str) -> list[str]:
        """Return the values of an attribute wherever it stands."""
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def traced_tables(page: Page, results: Results) -> set[str]:
    """Assert that every cell and every number is what its CSV cells say; return their tables."""
    shown, faults = check(page.html, results)
    assert not faults, faults[:5]
    return {each.table for each in shown}
