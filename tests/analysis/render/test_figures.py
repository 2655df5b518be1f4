"""Drawing all figures: the list, the removal of old figures, errors."""

import json

import matplotlib as mpl
import pytest

from analysis.data.store import StoreError
from analysis.render import figures
from analysis.render.figures import write_figures
from tests.support.figures import device, nothing
from tests.support.report_data import gpu_cell, recording, tables


@pytest.fixture
def folder(tmp_path):
    cells = [gpu_cell("card", "block", n, n**3 * 1e-12) for n in (512, 2048)]
    tables(tmp_path / "tables", recordings=[recording("card")], summary=cells)
    return tmp_path


@pytest.mark.slow
def test_drawing_removes_old_figures_and_keeps_the_settings_of_matplotlib(folder):
    out = folder / "out"
    out.mkdir()
    for name in ("older", "of-a-user"):
        (out / f"{name}.svg").write_text("<svg/>")
    (out / "figures.json").write_text('["older"]')
    write_figures(folder / "tables", out)
    (out / "of-a-user.svg").unlink()
    names = json.loads((out / "figures.json").read_text())
    assert (names, {path.stem for path in out.glob("*.svg")}) == (sorted(names), set(names))
    known = figures._names()
    assert set(names) <= {name for _, name in known}
    assert len(known) == len({name for _, name in known})
    before = dict(mpl.rcParams)
    figures._write(folder / "tables", out, None, *next(each for each in known if each[1] in names))
    assert dict(mpl.rcParams) == before


def test_a_missing_table_or_an_unknown_focus_is_an_error_of_figures(folder):
    with pytest.raises(StoreError, match=r"report\.focus: h300 was not measured"):
        write_figures(folder / "tables", folder / "out", "h300")
    (folder / "tables" / "recordings.csv").unlink()
    with pytest.raises(StoreError, match=r"recordings\.csv is missing"):
        write_figures(folder / "tables", folder / "out")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("rows", [[], [device("a")], [device("a", gpu=False)]])
def test_no_figure_is_drawn_from_empty_tables(tmp_path, rows):
    store = tables(tmp_path, recordings=rows)
    names = [(topic, name) for topic, name in figures._names() if topic != "published"]
    drawn = [each for each in names if not nothing(figures._figures(each[0])[each[1]], store)]
    assert (len(names) > 14, drawn) == (True, [])
