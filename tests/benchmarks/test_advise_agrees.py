"""`advise` and the tables of the page agree at random sizes."""

import shutil
import sys

import pandas as pd
import pytest

from benchmarks import advise_agrees
from tests.support.reports import made


@pytest.mark.slow
def test_advise_agrees_with_the_page_until_a_break_even_size_is_changed(tmp_path, patch, capsys):
    tables = shutil.copytree(made("measured") / "tables", tmp_path / "tables")
    patch(sys, argv=["advise_agrees", "--tables", str(tables)])
    assert advise_agrees.main() == 0
    assert ", 0 disagreements" in capsys.readouterr().out
    changed = pd.read_csv(tables / "break_even.csv")
    changed.assign(n=2 * changed["n"]).to_csv(tables / "break_even.csv", index=False)
    assert advise_agrees.main() == 1
