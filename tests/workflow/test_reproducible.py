"""The same recordings give the same report, byte for byte, whoever renders it, where and when."""

import os
import re
import subprocess
import sys

import pytest

from tests.support import ROOT, reports
from tests.support.report_data import PUBLISHED, STATEMENTS, SYSTEMS

pytestmark = pytest.mark.slow
ELSEWHERE = {"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
# As the command does, but for what the page says of the command itself.
RENDER = """
from pathlib import Path
from analysis.render.page import render
from tests.support.report_data import MAKER, TEMPLATE
from tests.support.reports import recordings
made = Path("tables"), Path("figures"), recordings("card")
render(*made, TEMPLATE, Path("report.html"), None, MAKER)
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Make a report as the workflow does: in processes of their own, in another environment."""
    base = tmp_path_factory.mktemp("there")
    options = []
    for name, path in reports.recordings("card").items():
        options += ["--recording", f"{name}={path}"]
    published = ["--published", PUBLISHED, "--systems", SYSTEMS, "--statements", STATEMENTS]
    for command in (
        ["-m", "analysis", "tables", *published, *options, "--out", "tables"],
        ["-m", "analysis", "figures", "--tables", "tables", "--out", "figures"],
        ["-c", RENDER],
    ):
        subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=base,
            env=os.environ | ELSEWHERE | {"PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
    return base


def test_two_makings_give_the_same_bytes(elsewhere):
    """The other one is that which all tests of the page look at."""
    here = reports.made("card")
    made = [path.relative_to(elsewhere) for path in elsewhere.rglob("*.*") if path.is_file()]
    made = [path for path in made if path.parts[0] in ("tables", "figures", "report.html")]
    assert len(made) > 40
    different = [p for p in made if (elsewhere / p).read_bytes() != (here / p).read_bytes()]
    assert [str(path) for path in different] == []


def test_the_only_dates_are_those_of_the_recordings(elsewhere):
    page = (elsewhere / "report.html").read_text()
    text = re.sub(r'(href="data:[^"]*")|(<script.*?</script>)', "", page, flags=re.DOTALL)
    assert set(re.findall(r"\b20\d\d-\d\d-\d\d", text)) == {"2024-01-01"}
    assert str(elsewhere) not in text, "nor does it say where it was made"
