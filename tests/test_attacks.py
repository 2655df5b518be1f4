"""Whatever is put in front of the study does the right thing or says one line: a line an attack."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.support import ROOT


def refused(process, said):
    """Check that a finished process said this one line, and failed."""
    assert process.returncode != 0
    lines = (process.stdout + process.stderr).strip().splitlines()
    assert len(lines) == 1, lines
    assert re.search(said, lines[0]), lines[0]


# What stands in the place of the environment, by what makes it of somebody's folder.
ENVIRONMENTS = {
    "a link to somebody's": (lambda venv, own: venv.symlink_to(own), "is a link to .*; remove"),
    "a link to nothing": (lambda venv, own: venv.symlink_to(own / "no"), "is a link to .*; remove"),
    "somebody's folder": (lambda venv, own: own.rename(venv), "was not made by this set-up; move"),
    "somebody's file": (lambda venv, own: venv.write_text("x"), "was not made by this set-up; mo"),
}


@pytest.mark.parametrize(("make", "said"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_set_up_removes_nothing_that_it_did_not_make(tmp_path, make, said):
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    (tmp_path / "requirements.lock").write_text("")
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work")
    make(tmp_path / ".venv", own)
    before = sorted(path for path in tmp_path.rglob("*") if "workflow" not in path.parts)
    script = [sys.executable, "-B", "workflow/environment.py"]
    refused(subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False), said)
    assert sorted(p for p in tmp_path.rglob("*") if "workflow" not in p.parts) == before
