"""The schema: tables as computed, as declared and as documented are the same."""

import re
import subprocess
import sys

import pytest

from analysis import schema
from analysis.data import store
from analysis.data.store import Store
from analysis.schema import TABLES, column, interval_columns
from benchmarks.compare_tables import Renames, compare, read
from tests.support import ROOT

# Texts of digits that are not numbers.
VERSIONS = ("commit", "cubin_sha256", "nvcc", "blas_version", "compute_capability")
EVERY = [(table.name, name) for table in TABLES.values() for name in table.columns]


@pytest.fixture(scope="module")
def store_of_both(computed):
    return Store(computed)


@pytest.mark.slow
def test_a_table_read_with_the_declared_types_is_written_alike(store_of_both, tmp_path):
    store.write({name: store_of_both[name] for name in TABLES}, tmp_path)
    found = compare(read(store_of_both.folder), read(tmp_path), Renames())
    assert [(each.table, each.different[:3]) for each in found if each.different] == []
    assert sum(each.equal for each in found) > 1000


def test_most_tables_have_rows_and_no_column_of_text_holds_only_numbers(store_of_both):
    number = re.compile(r"-?[\d.]+(e-?\d+)?")
    for table, name in EVERY:
        if column(table, name).kind == "text" and name not in VERSIONS:
            texts = store_of_both[table][name].dropna()
            assert texts.empty or not texts.map(number.fullmatch).notna().all(), (table, name)
    empty = {name for name in TABLES if store_of_both[name].empty}
    of_several = {"agreement", "agreement_cells", "answer_sessions", "interference", "missing"}
    of_several |= {"session_effects", "sessions", "unmeasured_sizes"}
    others = {"accuracy", "counts", "counts_by_line", "energy", "end_to_end_modes", "pieces"}
    assert empty <= of_several | others


def test_every_column_is_declared_once_and_bounds_like_their_value(monkeypatch):
    entries = [entry.split() for entry in schema._entries()[0]]
    declared = [name for e in entries for name in (e[1:] if e[0].endswith(":") else e[:1])]
    assert (len(declared), len(EVERY)) == (len(set(declared)), len(set(EVERY)))
    own = {f"{table}.{name}" for table, name in EVERY}
    names = {name for _, name in EVERY}
    free = names - set(declared)
    for name in schema._DECLARED:
        pattern = re.compile(name.replace("*", ".+"))
        assert name in names | own or any(pattern.fullmatch(each) for each in free), name
    monkeypatch.setitem(TABLES, "checks", schema.Table("checks", "checks", ("recording", "colour")))
    with pytest.raises(KeyError, match=r"checks\.colour is not declared"):
        column("checks", "colour")
    assert interval_columns("total_s") == ("total_low_s", "total_high_s")
    assert interval_columns("speedup") == ("speedup_low", "speedup_high")
    for table, name in EVERY:
        for bound in interval_columns(name):
            if bound in TABLES[table].columns:
                value, other = column(table, name), column(table, bound)
                assert (value.kind, value.unit) == (other.kind, other.unit)
                assert other.heading.startswith(f"{value.heading}, ")


@pytest.mark.parametrize(
    ("table", "name", "kind", "unit", "heading"),
    [
        ("summary", "total_low_s", "number", schema.MS, "end-to-end, lower bound"),
        ("summary", "total_high_s", "number", schema.MS, "end-to-end, upper bound"),
        ("summary", "n", "count", schema.COUNT, "N"),
        ("break_even", "n", "number", schema.PLAIN, "break-even size N"),
        ("model_predictions", "kernels", "text", schema.PLAIN, "kernels"),
        ("audit_constants", "kernels", "count", schema.COUNT, "kernels"),
        ("audit_cells", "time_s", "number", schema.Unit(1.0, "s", None), "time"),
        ("audit_constants", "constant_s", "number", schema.Unit(1.0, "s", 3), "start-up time"),
        ("builds", "static_shared_bytes", "count", schema.BYTES, "shared memory, static"),
        ("builds", "block_size", "count", schema.BLOCK, "B"),
        ("answers", "cpu_best_variant", "text", schema.PLAIN, "variant, CPU best"),
        ("table6", "block_unroll4_16_time_s", "number", schema.MS, "time, B = 16"),
        ("cpu_hosts", "l1_bytes", "number", schema.KIB, "L1 cache"),
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
    made = subprocess.check_output(command, cwd=ROOT, text=True)
    assert made == written, "renew it: python -m analysis schema > docs/reference/tables.md"
    for table, name in EVERY:
        assert f"## {table}.csv" in written
        assert name in written or any(b in name for b in ("_low", "_high")), (table, name)
