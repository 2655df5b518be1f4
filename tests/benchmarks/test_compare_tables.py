"""Comparison of tables by former and present names; the list of renames in the changelog."""

import importlib
import re

import pandas as pd
import pytest

from analysis.schema import TABLES, interval_columns
from benchmarks.compare_tables import CHANGELOG, Renames, compare

RENAMES = Renames(
    (
        ("table", "gains", "speedups"),
        ("table", "ranks", "removed: too few GPUs"),
        ("column", "chance", "removed: not computed"),
        ("column", "table.place", "location"),
        ("column", "*_gain", "*_speedup"),
        ("value", "speedups.verdict: pays", "faster"),
        ("text", "speedups.idea", "reworded"),
    )
)


def tables(**frames):
    return {name: pd.DataFrame(rows, dtype=str) for name, rows in frames.items()}


def found(before, after, renames=RENAMES):
    (one,) = compare(tables(**before), tables(**after), renames)
    return one


def test_equal_numbers_and_renamed_values_are_equal_cells():
    before = {"gains": {"n": ["64", "8"], "verdict": ["pays", "none"], "a_gain_low": ["1.50", ""]}}
    after = {"speedups": {"n": ["64", "8"], "verdict": ["faster", "none"]}}
    after["speedups"]["a_speedup_low"] = ["1.5", ""]
    one = found(before, after)
    assert (one.table, one.equal, one.different, one.removed) == ("speedups", 6, [], [])


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        *(("n", "1.50", "1.51"), ("n", "1", ""), ("verdict", "pays", "slower")),
        *(("kind", "pays", "faster"), ("idea", "", "a tile")),
    ],
)
def test_a_cell_of_another_value_differs(column, before, after):
    one = found({"gains": {column: [before]}}, {"speedups": {column: [after]}})
    assert (one.equal, one.different) == (0, [f"row 0, {column}: {before!r}, now {after!r}"])


def test_reworded_texts_correspond_one_to_one():
    for before, after, different in (("aba", "cdc", 0), ("aba", "cdd", 1), ("ab", "cc", 1)):
        one = found({"gains": {"idea": [*before]}}, {"speedups": {"idea": [*after]}})
        assert (len(one.different), one.equal) == (different, len(before) - different)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({"speedups": {"n": ["1"]}}, {"speedups": {"m": ["1"]}}, "1 rows of n, now 1 rows of m"),
        ({"speedups": {"n": ["1"]}}, {"speedups": {"n": []}}, "1 rows of n, now 0 rows of n"),
        ({"speedups": {"n": []}}, {"speedups": {"m": []}}, "0 rows of n, now 0 rows of m"),
        ({"speedups": {"place": []}}, {"speedups": {"location": []}}, "0 rows of place, now"),
        ({"other": {"n": ["1"]}}, {}, "only before"),
        ({}, {"other": {"n": ["1"]}}, "only now"),
    ],
)
def test_tables_columns_and_rows_that_no_rename_accounts_for_are_differences(before, after, line):
    one = found(before, after)
    assert one.equal == 0
    assert [text[: len(line)] for text in one.different] == [line]


def test_removed_and_changed_tables_and_columns_are_listed_with_the_reason():
    before = tables(ranks={"p": ["1"]}, table={"chance": ["1"], "place": ["below"]})
    removed, kept = compare(before, tables(table={"location": ["below"]}), RENAMES)
    assert (removed.table, removed.removed) == ("ranks", ["removed: too few GPUs"])
    assert (kept.equal, kept.different) == (1, [])
    assert kept.removed == ["chance: removed: not computed"]
    renames = Renames((("changed", "whole", "another model"), ("changed", "part.n*", "new sizes")))
    whole = found({"whole": {"n": ["1"]}}, {"whole": {"m": ["2", "3"]}}, renames)
    assert (whole.different, whole.removed) == ([], ["changed: another model"])
    after = {"part": {"n": ["2"], "k": ["1"], "n_low": ["0"]}}
    part = found({"part": {"n": ["1"], "k": ["1"]}}, after, renames)
    assert (part.equal, part.different) == (1, [])
    assert part.removed == ["n: changed: new sizes", "n_low: changed: new sizes"]


def test_the_changelog_renames_to_present_tables_and_columns():
    changed = [before for kind, before, _ in Renames.read(CHANGELOG).rows if kind == "changed"]
    assert len(changed) > 20
    assert [name for name in changed if name.startswith("*")] == []
    rows = [row for row in Renames.read(CHANGELOG).rows if "removed: " not in row[2]]
    assert len(rows) > 100
    assert {len(row) for row in rows} == {3}
    columns = {name for table in TABLES.values() for name in table.columns}
    present = columns | {f"{t.name}.{name}" for t in TABLES.values() for name in t.columns}
    for kind, before, now in rows:
        if kind == "table":
            assert now in TABLES, now
            assert before not in TABLES, before
        elif kind == "column":
            assert now in columns or "*" in now, now
            assert before not in present, before


def expanded(name, words=()):
    """Return the names that a name with {a,b} or * stands for."""
    braces = re.search(r"\{(.*)\}", name)
    if braces:
        return [name.replace(braces[0], word) for word in braces[1].split(",")]
    return [name.replace("*", word) for word in words] or [name]


def test_the_changelog_renames_to_present_modules_and_classes():
    rows = [row for row in Renames.read(CHANGELOG).rows if "removed: " not in row[2]]
    for before, now in (row[1:] for row in rows if row[0] == "module"):
        for module in expanded(now, [each.rpartition(".")[2] for each in expanded(before)]):
            importlib.import_module(module)
    for now in (row[2] for row in rows if row[0] == "class" and "." in row[2]):
        module, _, name = now.rpartition(".")
        assert hasattr(importlib.import_module(module), name), now


def test_columns_keep_their_table_and_their_bounds(tmp_path):
    renames = Renames.read(CHANGELOG)
    for table, before, now in (
        ("cold_starts", "kernel_low_s", "in_run_kernel_low_s"),
        ("summary", "kernel_low_s", "kernel_low_s"),
        ("speedups", "cpu_best_gain_high", "cpu_best_speedup_high"),
        ("audit_cells", "warm_gain", "speedup_without_constant"),
    ):
        assert renames.column(table, before) == now
    for bound in interval_columns("total_s"):
        assert renames.column("telemetry", f"unmarked_{bound}") == f"unthrottled_{bound}"
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n| kind | before | now |\n")
    assert Renames.read(tmp_path / "CHANGELOG.md") == Renames()
