"""The citation of a report: the study's own file, the data's hash, the commit, the command."""

import hashlib
import html
import os
import re
import shlex
import subprocess
import sys

import pytest
from analysis.figures import write_figures
from analysis.report import render
from analysis.results import ResultsError

from analysis.archive.citation import citation
from analysis.data.recordings import ROOT
from tests.support.report_data import TEMPLATE, chain, report

CFF = """
title: A study
authors:
  - {given-names: Ada, family-names: Lovelace}
  - name: The others
version: 1.2.3
license: MIT
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "CITATION.cff").write_text(CFF)
    return tmp_path


def manifest(folder, text):
    folder.mkdir()
    (folder / "MANIFEST.sha256").write_text(text)
    return folder


def test_citation_is_that_of_the_file_with_the_year_of_the_last_recording(root):
    found = citation({}, ["2024-12-31T23:59:59Z", "2023-01-01T00:00:00Z"], root)
    assert (found.title, found.version, found.licence) == ("A study", "1.2.3", "MIT")
    assert found.authors == "Ada Lovelace, The others"
    assert found.year == "2024"
    assert citation({}, [], root).year == ""


def test_data_hash_is_that_of_the_manifests_one_behind_the_other(root, tmp_path):
    recordings = {"b": manifest(tmp_path / "b", "of b\n"), "a": manifest(tmp_path / "a", "of a\n")}
    found = citation(recordings, [], root)
    assert found.data_hash == hashlib.sha256(b"of b\nof a\n").hexdigest()
    assert found.data == {
        name: hashlib.sha256(f"of {name}\n".encode()).hexdigest() for name in ("b", "a")
    }


@pytest.mark.parametrize("text", ["title: [", "title: only", "- a list"])
def test_a_faulty_citation_file_is_one_line(root, text):
    (root / "CITATION.cff").write_text(text)
    with pytest.raises(ResultsError, match=r"CITATION.cff cannot be read") as error:
        citation({}, [], root)
    assert "\n" not in str(error.value)


def test_what_is_missing_is_one_line(root, tmp_path):
    with pytest.raises(ResultsError, match=r"MANIFEST.sha256 is missing"):
        citation({"gone": tmp_path / "gone"}, [], root)
    (root / "CITATION.cff").unlink()
    with pytest.raises(ResultsError, match=r"CITATION.cff is missing"):
        citation({}, [], root)


def block(text):
    """Return the part of the page on how to cite it, as text."""
    part = re.search(r'<h3 id="citation">.*?</section>', text, re.DOTALL).group()
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", part)).split())


def test_the_command_that_made_the_page_stands_in_it_and_makes_it_again(cpu_recording, tmp_path):
    chain({"host": cpu_recording.path}, tmp_path / "tables")
    write_figures(tmp_path / "tables", tmp_path / "figures")
    out = tmp_path / "report.html"
    command = [
        *("python", "-m", "analysis", "report", "--tables", str(tmp_path / "tables")),
        *("--figures", str(tmp_path / "figures"), "--template", str(TEMPLATE)),
        *("--recording", f"host={cpu_recording.path}", "--out", str(out)),
    ]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {"cwd": ROOT, "env": os.environ | {"PATH": path}, "check": True}
    subprocess.run(command, **environment)
    first = out.read_bytes()
    shown = block(out.read_text())
    assert shlex.join(command) in shown
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if head.returncode == 0:
        assert f"commit {head.stdout.strip()}" in shown
    subprocess.run(shlex.split(shown.split("its last step by ")[1]), **environment)
    assert out.read_bytes() == first


def test_a_page_that_no_command_made_names_neither_command_nor_commit(cpu_recording, tmp_path):
    recordings = {"host": cpu_recording.path}
    report(tmp_path, recordings)
    out = tmp_path / "unmade.html"
    render(tmp_path / "tables", tmp_path / "figures", recordings, TEMPLATE, out)
    shown = block(out.read_text())
    assert "commit" not in shown
    assert "make report" not in shown
    manifest_hash = hashlib.sha256((cpu_recording.path / "MANIFEST.sha256").read_bytes())
    assert shown.count(manifest_hash.hexdigest()) == 2, "the recording's, and that of all"
    assert "Matrix multiplication on GPUs, measured again, version" in shown
