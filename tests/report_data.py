"""Tables for the tests of the report: by the true chain, or a few rows by hand."""

import csv
import functools
import io
import re
import tempfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

from analysis.__main__ import write_audit, write_decisions, write_fits, write_tables
from analysis.figures import write_figures
from analysis.report import render
from analysis.results import Results, evaluate
from analysis.study import ROOT
from measurement.recording import OPTIONAL, TABLES, Recording, write

PUBLISHED = ROOT / "data" / "published" / "times.csv"
SYSTEMS = ROOT / "data" / "published" / "systems.csv"
STATEMENTS = ROOT / "data" / "published" / "statements.csv"
TEMPLATE = ROOT / "report"
UNITS = {"": 1.0, "s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9, "ps": 1e12, "cycles": 1.0}
UNITS |= {
    "GFLOP/s": 1e-9,
    "Gop/s": 1e-9,
    "GB/s": 1e-9,
    "MB": 1e-6,
    "MHz": 1e-6,
    "×": 1.0,
    "%": 100.0,
    "KiB": 1 / 1024,
    "MiB": 1 / 1024**2,
    "GiB": 1 / 1024**3,
    "GHz": 1e-9,
    "W": 1.0,
    "°C": 1.0,
}


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
    render(tables_dir, base / "figures", recordings, TEMPLATE, base / "report.html")
    return (base / "report.html").read_text()


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
    """A parsed page: elements in order, and every number with the CSV cells it names."""

    _VOID = ("input", "meta", "link", "br", "hr", "img", "mspace")

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.numbers: list[dict[str, str]] = []
        # The texts outside of numbers, code and badges inside of each of these elements, in order.
        self.texts: dict[str, list[str]] = {"td": [], "dd": [], "title": [], "script": []}
        self.plain: dict[str, list[str]] = {"td": [], "dd": []}
        self._stack: list[tuple[str, dict[str, str]]] = []
        self.feed(html)
        self.close()
        assert not self._stack, self._stack[-1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.elements.append((tag, named))
        if tag == "data":
            row = next((a for t, a in reversed(self._stack) if t == "tr"), {})
            origin = {name: row[name] for name in ("data-csv", "data-row") if name in row}
            if "data-csv" in named:
                origin = {}
            self.numbers.append(origin | named | {"text": "", "parents": " ".join(self._open())})
        for texts in (self.texts, self.plain):
            if tag in texts:
                texts[tag].append("")
        if tag not in self._VOID:
            self._stack.append((tag, named))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._stack.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        tags = self._open()
        if "data" in tags:
            self.numbers[-1]["text"] += data
        for tag in set(tags) & set(self.texts):
            self.texts[tag][-1] += data
        if not {"data", "code", "mark", "small"} & set(tags):
            for tag in set(tags) & set(self.plain):
                self.plain[tag][-1] += data

    def _open(self) -> list[str]:
        return [tag for tag, _ in self._stack]

    def attributes(self, name: str) -> list[str]:
        """Return the values of an attribute wherever it stands."""
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def traced_tables(page: Page, results: Results) -> set[str]:
    """Assert that every number is what its CSV cells say; return the tables they are from."""
    seen = set()
    for number in page.numbers:
        table = number["data-csv"].removesuffix(".csv")
        if "data-column" in number:
            row, column = int(number["data-row"]), number["data-column"]
            assert number["value"] == results.text(table, row, column), number
        else:
            rows = [int(row) for row in number["data-rows"].split(",")]
            computed = evaluate(results.frame(table), rows, number["data-expression"])
            assert float(number["value"]) == computed, number
        seen.add(table)
    return seen


def assert_shown_as_valued(page: Page) -> None:
    """Assert that each shown text is its value times its unit's factor, right to its last digit."""
    for number in page.numbers:
        shown, _, unit = number["text"].partition("\u00a0")
        digits = shown.replace("\u202f", "").replace("−", "-")
        value = float(number["value"])
        if digits in ("∞", "-∞"):
            assert value in (float("inf"), -float("inf"))
            continue
        mantissa, _, raised = digits.partition("×10")
        power = int(raised.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
        last = 10.0 ** (power - len(mantissa.partition(".")[2]))
        factors = [UNITS[unit]] if unit else _factors(number)
        error = min(abs(float(mantissa) * 10.0**power - value * factor) for factor in factors)
        # published values are rounded to what they were printed with: three digits at least
        assert error <= max(0.501 * last, 0 if unit else 0.005 * abs(float(mantissa))), number


def _factors(number: dict[str, str]) -> list[float]:
    """Return the factors that a number whose unit stands elsewhere can have."""
    column = number.get("data-column", "")
    if column.startswith("t_"):
        return [1e12]
    if re.search(r"(flop|bytes)_per(_low|_high)?_s$", column):
        return [1e-9]
    if number["data-csv"] == "ceilings.csv":
        return [1e-9, 1e6, 1e9]
    if column.endswith("_bytes"):
        return [1e-6, 1.0]
    if column.endswith("_hz"):
        return [1e-6, 1e-9]
    if "share" in column.split("_") or column.startswith(("occupancy", "efficiency")):
        return [100.0]
    return [1e3, 1.0, 1e6] if column.endswith("_s") else [1.0]


def assert_no_stray_digit(page: Page, text: str) -> None:
    """Assert that in cells of numbers and in sentences no digit stands outside of a number."""
    tables = text[: text.index('id="table-downloads"')]
    for cell in re.findall(r'<td class="number">(.*?)</td>', tables, re.DOTALL):
        left = re.sub(r"<(data|mark)\b.*?</\1>", "", cell)
        assert not re.search(r"\d", re.sub(r"<[^>]*>", "", left)), cell
    for sentence in page.plain["dd"]:
        assert not re.search(r"\d", re.sub(r"\bM\d\b", "", sentence)), sentence
