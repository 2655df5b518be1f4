"""The schema: what is computed is what it declares, and what it declares is what is documented."""

import re
import subprocess
import sys

import pytest

from analysis import schema, tables
from analysis.data import published, published_claims, store
from analysis.data.store import Store
from analysis.published import systems
from analysis.schema import TABLES, column, interval_columns
from benchmarks.compare_tables import compare, read
from tests.support import ROOT
from tests.support.report_data import PUBLISHED, STATEMENTS, SYSTEMS

# Digits alone, but no numbers.
VERSIONS = ("commit", "cubin_sha256", "nvcc", "blas_version", "compute_capability")
EVERY = [(table.name, name) for table in TABLES.values() for name in table.columns]


@pytest.fixture(scope="module")
def store_of_both(computed):
    """The tables of a simulated GPU and of a host, as they are read."""
    return Store(computed)


@pytest.mark.slow
def test_a_study_of_nothing_has_every_table_with_its_columns():
    sources = tables.Published(
        published.read(PUBLISHED), systems.read(SYSTEMS), published_claims.read(STATEMENTS)
    )
    frames = tables.compute({}, sources, [], [], lambda line: None)
    assert {name: tuple(frame) for name, frame in frames.items()} == {
        name: table.columns for name, table in TABLES.items()
    }


@pytest.mark.slow
def test_what_is_computed_is_read_with_the_types_declared_and_written_again_alike(
    store_of_both, tmp_path
):
    store.write({name: store_of_both[name] for name in TABLES}, tmp_path)
    found = compare(read(store_of_both.folder), read(tmp_path))
    assert [(each.table, each.lines[:3]) for each in found if each.lines] == []


def test_no_column_of_text_holds_numbers_alone(store_of_both):
    number = re.compile(r"-?[\d.]+(e-?\d+)?")
    for table, name in EVERY:
        if column(table, name).kind == "text" and name not in VERSIONS:
            texts = store_of_both[table][name].dropna()
            assert texts.empty or not texts.map(number.fullmatch).notna().all(), (table, name)


def test_most_tables_of_a_study_have_rows(store_of_both):
    empty = {name for name in TABLES if store_of_both[name].empty}
    of_several = {"agreement", "agreement_cells", "interference", "sessions", "missing"}
    assert empty <= of_several | {
        "accuracy",
        "counts",
        "counts_by_line",
        "energy",
        "end_to_end_modes",
    }


def test_nothing_is_said_of_columns_that_no_table_has():
    known = {name for _, name in EVERY} | {f"{table}.{name}" for table, name in EVERY}
    for said in ("_TEXT", "_FLAG", "_COUNT", "_NOT_TEXT", "_NUMBER", "_UNITS", "_HEADINGS"):
        assert set(getattr(schema, said)) <= known, said


def test_no_column_is_declared_twice_with_another_meaning():
    kinds = (schema._TEXT, schema._FLAG, schema._COUNT)
    assert not set.intersection(*map(set, kinds[:2]))
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not kinds[first] & kinds[second]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("total_s", "total_low_s", "total_high_s"), ("speedup", "speedup_low", "speedup_high")],
)
def test_bounds_are_named_after_their_value(name, low, high):
    assert interval_columns(name) == (low, high)


def test_bounds_are_shown_as_their_value_is():
    for table, name in EVERY:
        for bound in interval_columns(name):
            if bound in TABLES[table].columns:
                value, other = column(table, name), column(table, bound)
                assert (value.kind, value.unit) == (other.kind, other.unit)
                assert other.heading.startswith(f"{value.heading}, at ")


@pytest.mark.parametrize(
    ("table", "name", "kind", "unit", "heading"),
    [
        ("summary", "total_low_s", "number", schema.MS, "total, at least"),
        ("summary", "n", "count", schema.COUNT, "N"),
        ("break_even", "n", "number", schema.PLAIN, "N"),
        ("model_predictions", "kernels", "text", schema.PLAIN, "kernels"),
        ("audit_constants", "kernels", "count", schema.COUNT, "kernels"),
        ("builds", "static_shared_bytes", "count", schema.BYTES, "shared memory"),
        ("cpu_hosts", "l1_bytes", "number", schema.KIB, "l1"),
        ("recordings", "stale", "flag", schema.PLAIN, "stale"),
        ("transfers", "bytes_per_s", "number", schema.GB_PER_S, "bandwidth"),
    ],
)
def test_kind_unit_and_heading_of_a_column(table, name, kind, unit, heading):
    found = column(table, name)
    assert (found.kind, found.unit, found.heading) == (kind, unit, heading)


def test_the_page_of_tables_is_that_of_the_schema():
    written = (ROOT / "docs" / "reference" / "tables.md").read_text()
    command = [sys.executable, "-m", "analysis", "schema"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == (
        written
    ), "renew it: python -m analysis schema > docs/reference/tables.md"
    for table, name in EVERY:
        assert f"## {table}.csv" in written
        assert name in written or any(b in name for b in ("_low", "_high")), (table, name)
