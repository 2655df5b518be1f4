"""The same recordings give the same report, byte for byte, whoever renders it, where and when."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, reports
from tests.support.report_data import PUBLISHED, STATEMENTS, SYSTEMS, TEMPLATE

pytestmark = pytest.mark.slow
PLACES = {
    "here": {"PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland", "LC_ALL": "C.UTF-8", "USER": "a"},
    "there": {"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LC_ALL": "C", "OMP_NUM_THREADS": "1"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The files of two reports, made of the same recordings in two places."""
    base = tmp_path_factory.mktemp("reports")
    return {name: make(base / name, place) for name, place in PLACES.items()}


def make(base, place):
    """Make a report in `base` as the workflow does, in processes of their own, with its paths."""
    options = []
    for name, path in reports.recordings("card").items():
        shutil.copytree(path, base / name)
        options += ["--recording", f"{name}={name}"]
    published = ["--published", PUBLISHED, "--systems", SYSTEMS, "--statements", STATEMENTS]
    inputs = ["--tables", "tables", "--figures", "figures", "--template", TEMPLATE]
    for command in (
        ["tables", *published, *options, "--out", "tables"],
        ["figures", "--tables", "tables", "--out", "figures"],
        ["report", *inputs, *options, "--out", "report.html"],
    ):
        subprocess.run(
            [sys.executable, "-m", "analysis", *map(str, command)],
            cwd=base,
            env=os.environ | place | {"PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
    return {path.relative_to(base): path.read_bytes() for path in base.rglob("*.*")}


def test_two_makings_give_the_same_bytes(made):
    here, there = made["here"], made["there"]
    assert here.keys() == there.keys()
    assert len(here) > 40
    assert [str(path) for path in here if here[path] != there[path]] == []


def test_the_only_dates_are_those_of_the_recordings(made):
    page = made["here"][Path("report.html")].decode()
    text = re.sub(r'(href="data:[^"]*")|(<script.*?</script>)', "", page, flags=re.DOTALL)
    assert set(re.findall(r"\b20\d\d-\d\d-\d\d", text)) == {"2024-01-01"}
    assert "/here/" not in text, "nor does it say where it was made"
