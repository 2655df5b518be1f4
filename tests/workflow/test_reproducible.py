"""The same recordings give the same report, byte for byte, in any environment."""

import os
import re
import subprocess
import sys

import pytest

from tests.support import ROOT, reports

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]
ELSEWHERE = {"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
# As the commands do, except that the page does not show the command.
MAKE = """
import sys
from pathlib import Path
from analysis.tables import write
from analysis.data.sessions import folders_by_session
from analysis.render.figures import write_figures
from analysis.render.page import render
from tests.support.report_data import MAKER, PUBLISHED, STATEMENTS, SYSTEMS, TEMPLATE, sessions
named = sessions({"card": Path(sys.argv[1])})
tables, figures = Path("tables"), Path("figures")
write(named, (PUBLISHED, SYSTEMS, STATEMENTS), [], [], tables)
write_figures(tables, figures, None)
render(tables, figures, folders_by_session(named), TEMPLATE, Path("report.html"), None, MAKER)
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The folder of a report from a process in another environment."""
    base = tmp_path_factory.mktemp("there")
    subprocess.run(
        [sys.executable, "-c", MAKE, reports.recordings("card")["card"]],
        cwd=base,
        env=os.environ | ELSEWHERE | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    return base


def test_building_the_report_twice_gives_the_same_bytes(elsewhere):
    """The other report is the one that all tests of the page use."""
    here = reports.made("card", drawn=True)
    made = [path.relative_to(elsewhere) for path in elsewhere.rglob("*.*") if path.is_file()]
    made = [path for path in made if path.parts[0] in ("tables", "figures", "report.html")]
    assert len(made) > 40
    different = [p for p in made if (elsewhere / p).read_bytes() != (here / p).read_bytes()]
    assert [str(path) for path in different] == []


def test_the_report_contains_no_dates_except_those_of_the_recordings(elsewhere):
    page = (elsewhere / "report.html").read_text()
    text = re.sub(r'(href="data:[^"]*")|(<script.*?</script>)', "", page, flags=re.DOTALL)
    assert set(re.findall(r"\b20\d\d-\d\d-\d\d", text)) == {"2024-01-01"}
    assert str(elsewhere) not in text, "contains no path"
