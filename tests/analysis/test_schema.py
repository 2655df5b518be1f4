"""The schema: computed, declared and documented tables are the same."""

import re
import subprocess
import sys

import pandas as pd
import pytest

from analysis import schema
from analysis.data import store
from analysis.data.store import Store
from analysis.render.page import _read_yaml, glossary_page
from analysis.schema import TABLES, column, interval_columns
from base import dictionary
from base.dictionary import FILES
from kernels.products.elements import ELEMENTS
from tests.support import ROOT

# Texts of digits that are not numbers.
VERSIONS = ("commit", "cubin_sha256", "nvcc", "blas_version", "compute_capability")
EVERY = [(table.name, name) for table in TABLES.values() for name in table.columns]


@pytest.mark.slow
def test_tables_are_read_as_written_and_most_have_rows_and_typed_columns(tmp_path, computed):
    store_of_both = Store(computed)
    store.write({name: store_of_both[name] for name in TABLES}, tmp_path)
    for name in TABLES:
        tables = [pd.read_csv(path / f"{name}.csv") for path in (store_of_both.folder, tmp_path)]
        pd.testing.assert_frame_equal(*tables, check_dtype=False)
    number = re.compile(r"-?[\d.]+(e-?\d+)?")
    for table, name in EVERY:
        if column(table, name).kind == "text" and name not in VERSIONS:
            texts = store_of_both[table][name].dropna()
            assert texts.empty or not texts.map(number.fullmatch).notna().all(), (table, name)
    empty = {name for name in TABLES if store_of_both[name].empty}
    of_several = {"answer_sessions", "interference", "missing", "unseen_sessions"}
    of_several |= {"sessions", "unmeasured_sizes"}
    others = {"accuracy", "counts", "sustained", "end_to_end_modes", "pieces"}
    others |= {"locations", "location_break_even", "throughput"}
    others |= {"surfaces", "surface_nodes", "batches", "ranges"}
    assert empty <= of_several | others


def test_every_column_is_declared_once_and_a_bound_has_the_unit_of_its_value(monkeypatch):
    names = [name for name, _ in dictionary._declarations(dictionary._SECTIONS["Columns"])]
    assert (len(names), len(EVERY)) == (len(set(names)), len(set(EVERY)))
    places = EVERY + [(file.name, name) for file in FILES.values() for name in file.columns]
    used = {name for _, name in places} | {f"{place}.{name}" for place, name in places}
    assert set(dictionary.COLUMNS) <= used, "a declared column is in no table and no file"
    assert dictionary.COLUMNS["dtype"].words == tuple(ELEMENTS)
    for name, declaration in dictionary.COLUMNS.items():
        assert declaration.least <= declaration.most, name
        re.compile(declaration.pattern)
    table = dictionary.Table("checks", "checks", ("recording", "colour"))
    monkeypatch.setitem(TABLES, "checks", table)
    with pytest.raises(KeyError, match=r"checks\.colour is not declared"):
        column("checks", "colour")
    digits = {"audit_cells.time_s": None, "audit_constants.constant_s": 3}  # of seconds
    for name, decimals in digits.items():
        assert column(*name.split(".")).unit == schema.Unit(1.0, "s", decimals)
    assert column("builds", "block_size").unit == schema.BLOCK
    headings = [column("summary", f"total_{end}_s").heading for end in ("low", "high")]
    assert headings == ["end-to-end, lower bound", "end-to-end, upper bound"]
    assert interval_columns("total_s") == ("total_low_s", "total_high_s")
    assert interval_columns("speedup") == ("speedup_low", "speedup_high")
    for table, name in EVERY:
        for bound in interval_columns(name):
            if bound in TABLES[table].columns:
                value, other = column(table, name), column(table, bound)
                assert (value.kind, value.unit) == (other.kind, other.unit)
                assert other.heading.startswith(f"{value.heading}, ")


def test_the_generated_pages_of_tables_and_glossary_are_current():
    terms = _read_yaml(ROOT / "report", "glossary.yaml")
    assert list(terms) == sorted(terms, key=str.casefold)
    assert all(meaning.endswith(".") and len(meaning.split()) <= 30 for meaning in terms.values())
    written = (ROOT / "docs" / "reference" / "glossary.md").read_text()
    assert written == glossary_page(), "gemm-study document glossary > docs/reference/glossary.md"
    written = (ROOT / "docs" / "reference" / "tables.md").read_text()
    command = [sys.executable, "-m", "workflow", "document", "tables"]
    made = subprocess.check_output(command, cwd=ROOT, text=True)
    assert made == written, "renew it: gemm-study document tables > docs/reference/tables.md"
    assert all(f"## {file}\n" in written for file in FILES)
    for table, name in EVERY:
        assert f"## {table}.csv" in written
        assert name in written or any(b in name for b in ("_low", "_high")), (table, name)


def test_former_names_of_columns_are_mapped_to_the_present_ones():
    former = pd.read_csv(ROOT / "docs" / "reference" / "renamed_columns.csv")
    kept = former[~former["new_table"].str.startswith("removed")].dropna(subset="new_column")
    assert len(kept) > 150
    assert not {*zip(kept["new_table"], kept["new_column"], strict=True)} - {*EVERY}
