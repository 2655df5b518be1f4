"""Errors in the list of statements are one line."""

import pytest

from analysis.data import published
from base.errors import StudyError


@pytest.mark.parametrize(
    ("row", "then"),
    [
        ("best_flop_per_s,2048,fast,1,x", "row 2: n, value and factor must be numbers above 0"),
        ("best_flop_per_s,2048,-1,1,x", "row 2: n, value and factor must be numbers above 0"),
        ("best_flop_per_s,2048,1", "row 2: has 3 values; it must have 5"),
        ("best_flop_per_s,2048,1,1,x", "row 'speedup_over_cpu' is missing"),
    ],
)
def test_wrong_statements_are_one_line(tmp_path, row, then):
    path = tmp_path / "statements.csv"
    path.write_text(f"statement,n,value,factor,said\n{row}\n")
    with pytest.raises(StudyError, match=r"statements\.csv") as error:
        published.read_statements(path)
    assert then in str(error.value)
    with pytest.raises(StudyError, match=r"none\.csv"):
        published.read_statements(tmp_path / "none.csv")
