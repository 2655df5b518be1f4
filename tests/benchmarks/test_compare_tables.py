"""Comparison of tables by former and present names, and the list of renamed columns."""

import pandas as pd
import pytest

from analysis.schema import TABLES
from benchmarks.compare_tables import BLANK, KEY, MAPPING, REMOVED, compare

pytestmark = pytest.mark.exhaustive

COLUMNS = ["old_table", "old_column", "new_table", "new_column", "condition"]
RENAMED = pd.DataFrame(
    [
        ("wide", "n", "long", "size", KEY),
        ("wide", "a_gain", "long", "gain", "baseline=a"),
        ("wide", "b_gain", "long", "gain", "baseline=b"),
        ("wide", "chance", "removed: not read", "", ""),
        ("ranks", "*", "removed: too few GPUs", "", ""),
    ],
    columns=COLUMNS,
)
WIDE = {"n": ["8", "64"], "a_gain": ["1.50", "2"], "a_gain_low": ["1", ""], "b_gain": ["", "3"]}
LONG = {"size": ["64", "8", "64"], "baseline": ["b", "a", "a"], "gain": ["3", "1.5", "2.0"]}
LONG["gain_low"] = ["", "1.0", ""]


def compared(before, after, mapping=RENAMED):
    frames = (
        {name: pd.DataFrame(rows, dtype=str) for name, rows in tables.items()}
        for tables in (before, after)
    )
    return compare(*frames, mapping)


def test_equal_values_are_counted_wherever_they_are_now():
    before = {"wide": WIDE | {"chance": ["1", "2"], "name": ["x", ""]}, "ranks": {"p": ["1"]}}
    wide, ranks = compared(before, {"long": LONG, "wide": {"name": ["x", ""]}})
    assert wide.different[:1] == ["wide, n: 2 rows, not in the table"], "its key is missing"
    wide, ranks = compared(before, {"long": LONG, "wide": {"n": ["8", "64"], "name": ["x", ""]}})
    assert (wide.numbers, wide.texts, wide.different) == (6, 1, [])
    assert wide.removed == ["chance: removed: not read"]
    assert (ranks.removed, ranks.different) == (["*: removed: too few GPUs"], [])


@pytest.mark.parametrize(
    ("column", "values", "line"),
    [
        ("gain", ["3", "1.51", "2"], "long baseline=a, row 0, gain: '1.50', now '1.51'"),
        ("gain_low", ["", "", ""], "long baseline=a, row 0, gain_low: '1', now ''"),
        ("baseline", ["a", "a", "b"], "long baseline=a, row 1, gain: '2', now '3'"),
        ("size", ["8", "8", "64"], "long baseline=b, row 0, gain: '', now '3'"),
        ("size", ["32", "8", "64"], "baseline=b: 1 rows only now"),
    ],
)
def test_another_value_or_row_is_a_difference(column, values, line):
    (wide,) = compared({"wide": WIDE}, {"long": LONG | {column: values}})
    assert line in wide.different


def test_a_table_or_column_that_is_missing_now_is_a_difference():
    (one,) = compared({"plain": {"n": ["1"]}}, {})
    assert one.different == ["plain, n: 1 rows, not in the table"]
    (one,) = compared({"plain": {"n": ["1"]}}, {"plain": {"n": ["1", "2"]}})
    assert one.different == ["plain, n: 1 rows, 2 rows now"]


def test_the_list_names_present_tables_and_columns():
    mapping = pd.read_csv(MAPPING, dtype=str, keep_default_na=False)
    assert list(mapping) == COLUMNS
    assert len(mapping) > 20
    for row in mapping[~mapping["new_table"].str.startswith(REMOVED)].itertuples():
        assert row.new_column in TABLES[row.new_table].columns, row
        if row.condition.startswith(BLANK):
            continue
        for equality in filter(None, row.condition.removeprefix(KEY).split("; ")):
            assert equality.partition("=")[0] in TABLES[row.new_table].columns, row


def test_values_may_be_blank_where_the_list_gives_a_reason():
    blank = pd.DataFrame([("t", "v", "t", "v", "blank: unknown")], columns=COLUMNS)
    for now, different in ((["1", ""], 0), (["1", "3"], 1), (["", ""], 0)):
        (one,) = compared({"t": {"v": ["1", "2"]}}, {"t": {"v": now}}, blank)
        assert len(one.different) == different
