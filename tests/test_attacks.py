"""Whatever is put in front of the study does the right thing or says one line: a line an attack."""

import gc
import multiprocessing
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.shape import Shape
from measurement.worker import Opening, serve
from tests.support import ROOT


def refused(process, said):
    """Check that a finished process said this one line, and failed."""
    assert process.returncode != 0
    lines = (process.stdout + process.stderr).strip().splitlines()
    assert len(lines) == 1, lines
    assert re.search(said, lines[0]), lines[0]


def test_without_a_gpu_none_is_listed_and_that_is_said(command, monkeypatch):
    monkeypatch.setattr("measurement.discovery._nvml_finds_gpu", lambda: False)
    refused(command("measurement", "devices"), "error: no NVIDIA GPU: the driver names none; check")


def test_nothing_collects_garbage_while_a_worker_measures(monkeypatch):
    """A collection in the middle of a pass would be timed."""
    here, there = multiprocessing.Pipe()
    monkeypatch.setattr("measurement.worker.signal.signal", lambda *_: None)
    opening = Opening(lambda _: None, (("float32", Shape.square(1)),), 1, Path(), 0.0, 0.0, 0)
    seen = []

    @contextmanager
    def session(_):
        seen.append(gc.isenabled())
        yield

    here.send(("close", []))
    try:
        serve(there, replace(opening, session=session))
    finally:
        gc.enable()
    assert seen == [False]


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


# A page beside the one table `t`, whose column `s` has the rows 1 and 0, and the fault of it.
PAGES = {
    "no report": ("<p>12 numbers, of which none says where it is from", "this is no report"),
    "an empty page": ("", "this is no report"),
    "bytes": (b"\xff\xfe", "page.html cannot be read .is no text in UTF-8.; make it with"),
    "another table": ('<b data-at="u 0 s">1</b>', "1: there is no u 0 s in .*tables"),
    "no row": ('<b data-at="t 2 s">1</b>', "1: there is no t 2 s in .*tables"),
    "a row from the end": ('<b data-at="t -2 s">1</b>', "1: there is no t -2 s in .*tables"),
    "no column": ('<b data-at="t 0 x">1</b>', "1: there is no t 0 x in .*tables"),
    "half a place": ('<b data-at="t">1</b>', "1: there is no t in .*tables"),
    "over nothing": ('<b data-at="t 0 s / t 1 s">1</b>', "1: there is no t 0 s / t 1 s in"),
    "a list for a count": ('<b data-count="t" data-where="[]">1</b>', "1: there is no t where .. "),
    "a cell too many": (
        '<table class="a" data-csv="t"><th data-column="s">s<tr data-row="0"><td>1</td><td>2</td>'
        "</tr></table>",
        "2 cells below 1 headings: there is no t 0  in ",
    ),
}


@pytest.mark.parametrize(("page", "said"), PAGES.values(), ids=PAGES)
def test_no_page_passes_without_having_been_checked(tmp_path, command, page, said):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("s\n1\n0\n")
    (tmp_path / "page.html").write_bytes(page if isinstance(page, bytes) else page.encode())
    done = command("analysis", "check", tmp_path / "page.html", "--tables", tmp_path / "tables")
    assert done.returncode != 0
    assert re.search(said, (done.stdout + done.stderr).splitlines()[0])


@pytest.mark.parametrize("place", [".snakemake", "results"])
def test_a_run_that_cannot_write_says_so(tmp_path, place):
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    (tmp_path / place).write_text("a file")
    script = [sys.executable, "-B", "workflow/run.py"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    refused(done, f"error: {place}.*: (File exists|Not a directory)")
