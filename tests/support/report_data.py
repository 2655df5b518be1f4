"""Tables for tests of their readers: computed from recordings, or a few rows by hand."""

import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.archive.citation import Maker
from analysis.data.sessions import folders_by_session
from analysis.data.store import Store
from analysis.kernels.counts import counts_table, read
from analysis.render.page import environment_of
from analysis.render.tables import Tables
from analysis.schema import TABLES as SCHEMA
from analysis.schema import column
from kernels.catalog.product import Product
from kernels.host_execution import counts as host_counts
from measurement.recording.recording import CELL, TABLES, Recording, write
from tests.support import ROOT
from tests.support.cache import code, made

_FILES = ("times", "systems", "statements")
PUBLISHED, SYSTEMS, STATEMENTS = (ROOT / "data" / "published" / f"{name}.csv" for name in _FILES)
TEMPLATE = ROOT / "report"
_CODE = ("analysis", "base", "cpu_reference", "kernels", "measurement", "study", "data/published")
MAKER = Maker("gemm-study page" + 9 * " --recording=id=folder/of/it", "0" * 40, True)


def rewritten(original: Recording, path: Path | None = None, **changes: pd.DataFrame) -> Recording:
    """Write a recording with `changes` to its frames to `path`, by default over itself.

    Checks of cells without samples are removed.
    """
    changed = replace(original, **changes)
    cells = changed.samples[CELL].drop_duplicates()
    found = changed.checks[CELL].merge(cells, how="left", on=CELL, indicator=True)["_merge"]
    kept = (found == "both").to_numpy() | (changed.checks["status"] != "passed").to_numpy()
    frames = {name: changed.table(name) for name in TABLES}
    frames["checks.csv"] = changed.checks[kept]
    return write(path or original.path, original.provenance, frames)


Recordings = Mapping[str, Path | list[Path]]


def kept(name: str, inputs: Iterable[object], make: Callable[[], Any]) -> Any:
    """Return what `make` returned, once for the same inputs and the same code."""

    keep = lambda out: (out / "part").write_bytes(pickle.dumps(make()))  # noqa: E731
    return pickle.loads((made(name, [code(*_CODE), *inputs], keep) / "part").read_bytes())


@contextmanager
def published_once() -> Iterator[None]:
    """Compute the tables of the published numbers, a part of every study, only once."""
    from analysis import tables  # a second to import

    compute, audit_tables = tables._part, tables.audit.audit_tables

    def part(loaded, times, built, theory, *others):
        make = partial(compute, loaded, times, built, theory, *others)
        is_published = not len(loaded) + len(built) + len(theory)
        return kept("published", [times.to_csv()], make) if is_published else make()

    def audit(times, statements):
        return kept("audit", [times.to_csv()], partial(audit_tables, times, statements))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_part", part)
        patch.setattr(tables.audit, "audit_tables", audit)
        yield


def _of_recording_once(times, theory, progress, hosts, identifier, folders):
    """Compute the tables of a recording once for all studies with it and such hosts."""
    make = partial(_of_recording_once.compute, times, theory, progress, hosts, identifier, folders)
    return kept("part", [theory.to_csv(), str(hosts), identifier, *folders], make)


def chain(recordings: Recordings, counts: list[Path] | None = None) -> Path:
    """Return the folder of all tables of `recordings`, computed once for their content.

    `recordings` are folders by id, a list for several sessions; `counts` are tables of accesses.
    """
    counts, folders = counts or [], sessions(recordings)

    def make(out: Path) -> None:
        from analysis import tables

        with published_once(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(_of_recording_once, "compute", tables._of_recording, raising=False)
            patch.setattr(tables, "_of_recording", _of_recording_once)
            tables.write(folders, (PUBLISHED, SYSTEMS, STATEMENTS), [], counts, out)

    named = folders_by_session(folders)
    return made("tables", [code(*_CODE), *named, *named.values(), *counts], make)


def theory(folder: Path, products: Iterable[Product]) -> pd.DataFrame:
    """Return the table counts of products by theory only; `folder` gets its file."""
    (folder / "counts.csv").write_text(host_counts.table([], products))
    return counts_table(read([folder / "counts.csv"]), [])


def sessions(recordings: Recordings) -> dict[str, list[Path]]:
    return {name: [at] if isinstance(at, Path) else at for name, at in recordings.items()}


def report(recordings: Recordings, tables_dir: Path | None = None, focus=None, drawn=True) -> Path:
    """Return the folder of a report with its tables and figures, made once for their content.

    Where the page alone matters, figures are not `drawn`, which takes seconds.
    """
    from analysis.render.figures import write_figures  # a second to import
    from analysis.render.page import render

    tables_dir = tables_dir or chain(recordings)
    named = folders_by_session(sessions(recordings))

    def make(out: Path) -> None:
        shutil.copytree(tables_dir, out / "tables")
        if drawn:
            write_figures(out / "tables", out / "figures", focus)
        else:
            (out / "figures").mkdir()
            (out / "figures" / "figures.json").write_text("[]")
        folders = (out / "tables", out / "figures", named, TEMPLATE)
        render(*folders, out / "report.html", focus, MAKER)

    sources = code(*_CODE, "report", "CITATION.cff")
    return made("report", [sources, *named, *named.values(), tables_dir, focus, drawn], make)


def in_page(kind: str, *arguments: Any, marks: Any = None, focus: Any = None, **more: Any) -> str:
    template = environment_of(TEMPLATE).get_template("table.html.j2")
    return str(getattr(Tables(template, marks or {}, focus), kind)(*arguments, **more))


def tables(folder: Path, **rows: list[dict[str, object]]) -> Store:
    """Return a store of all tables, empty except for these rows; columns may be missing."""
    assert set(rows) <= set(SCHEMA), set(rows) - set(SCHEMA)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in SCHEMA.items():
        own, columns = rows.get(name, []), list(table.columns)
        assert all(set(row) <= set(columns) for row in own), name
        pd.DataFrame(own, columns=columns).to_csv(folder / f"{name}.csv", index=False)
    return Store(folder)


def only(table: pd.DataFrame, /, **where: object) -> pd.Series:
    """Return the single row with these values; None stands for an empty value."""
    for name, value in where.items():
        column = table[name]
        table = table[column.isna() if value is None else (column == value).fillna(False)]
    assert len(table) == 1, (where, table)
    return table.iloc[0]


def frame(name: str, rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return rows as a table with the types of the computed one."""
    made_of = pd.DataFrame(rows, columns=list(SCHEMA[name].columns))
    kinds = {each: column(name, each).kind for each in made_of}
    types = {"count": "Int64", "number": "float64"}
    return made_of.astype({c: types[kind] for c, kind in kinds.items() if kind in types})


def recording(label: str, gpu: bool = True, **changes: object) -> dict[str, object]:
    row = {"recording": label, "cpu_model": "Host CPU", "cells_failed": 0}
    row |= dict.fromkeys(("live", "at_once", "simulated", "stale"), False)
    names = (label, "gpu0", "Card") if gpu else (None, "cpu", None)
    return row | dict(zip(("gpu", "device", "gpu_name"), names, strict=True)) | changes


EVIL = "<script>alert('x')</script> \"{{ 7*7 }}\" & <b>$1${`x`}" + "\u202e\u2066" + "x" * 300


def hostile(tables_dir: Path, folder: Path) -> Path:
    """Write tables with a hostile text for "tile_conflict_free", "0.3.30" and "failed"."""
    for name in SCHEMA:
        frame = pd.read_csv(tables_dir / f"{name}.csv", dtype=str, keep_default_na=False)
        frame = frame.replace({"tile_conflict_free": EVIL, "0.3.30": EVIL, "failed": EVIL})
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def interval(name: str, value: float, spread: float | None) -> dict[str, float]:
    """Return a value and its bounds, `spread` of the value on each side; None: no bounds."""
    stem, unit = (name[:-2], "_s") if name.endswith("_s") else (name, "")
    bounds = {} if spread is None else {"low": 1 - spread, "high": 1 + spread}
    return {name: value} | {f"{stem}_{end}{unit}": value * b for end, b in bounds.items()}


def square(n: int) -> dict[str, object]:
    return {"batch": 1, "m": n, "n": n, "k": n}


def gpu_cell(label, variant, n, total_s, block_size=32, memory="pageable", spread=0.01):
    """Return a row of summary.csv: copies take half of the total, the kernel a quarter."""
    row = _cell(label, variant, n, total_s, block_size, spread) | {"gpu": label, "device": "gpu0"}
    row |= {"host_memory": memory, "overhead_s": total_s / 4}
    row["kernel_flop_per_s"] = 2 * n**3 / (total_s / 4)
    for name in ("h2d_s", "kernel_s", "in_run_kernel_s", "d2h_s"):
        row |= interval(name, total_s / 4, spread)
    return row


def cpu_cell(label, variant, n, total_s, block_size=None, spread=0.01, threads=1):
    row = _cell(label, variant, n, total_s, block_size, spread)
    return row | {"device": "cpu", "threads": threads}


def _cell(label, variant, n, total_s, block_size, spread):
    row = {"recording": label, "variant": variant, "dtype": "float32"}
    row |= {**square(n), "series": "sizes", "block_size": block_size}
    row |= {"samples": 1 if spread is None else 20, "flop_per_s": 2 * n**3 / total_s}
    return row | interval("total_s", total_s, spread)


def speedup_row(label, variant, n, speedup, spread, block_size=32) -> dict[str, object]:
    """Return a row of speedups.csv, over BLAS on 16 threads."""
    row = {"source": label, "n": n, "variant": variant, "block_size": block_size}
    row |= {"host_memory": "pageable", "baseline": "cpu_best", "quantity": "total"}
    row |= {"baseline_variant": "blas", "baseline_threads": 16}
    return row | interval("speedup", speedup, spread)


def break_even_row(label, n, low, high, location="measured", memory="pinned", **more):
    """Return a row of break_even.csv: slower at 256, faster at 512, measured from 128 to 1024."""
    named = {"gpu": label, "host_memory": memory, "kernels": "study", "cpu_baseline": "best"}
    bounds = {"n": n, "n_low": low, "n_high": high, "slower_at": 256, "faster_at": 512}
    return named | {"location": location, "least_n": 128, "largest_n": 1024} | bounds | more
