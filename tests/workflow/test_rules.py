"""Rules depend on all code that they run, and messages do not measure again."""

import ast
import re
from contextlib import chdir
from pathlib import Path

import pytest

from base.files import code_digest, files_below, python_files_below
from tests.support import ROOT

RULES = ROOT / "workflow" / "rules"


def constants(name):
    """Return the constants at the start of a file of rules."""
    found = {"sources": python_files_below, "files_below": files_below, "Path": Path}
    text = (RULES / name).read_text()
    with chdir(ROOT):
        exec(re.split(r"^(?:rule|FOCUS)\b", text, maxsplit=1, flags=re.MULTILINE)[0], found)
    return found


def imported(path):
    """Return the files of the analysis that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        files = (ROOT / f"{name.replace('.', '/')}.py" for name in names if "analysis" in name)
        found |= {file for file in files if file.is_file()}
    return found


def reached(*starts):
    """Return the files of the analysis imported by these, directly or not, and themselves."""
    found, left = set(), {path for start in starts for path in ROOT.glob(start)}
    while left:
        found |= left
        left = {file for path in left for file in imported(path)} - found
    return {str(path.relative_to(ROOT)) for path in found}


FIGURES = ("analysis/render/figures.py", "analysis/*/figures.py")


@pytest.mark.parametrize(
    ("starts", "code"),
    [
        (["analysis/tables.py"], ["TABLE_CODE"]),
        (FIGURES, ["TABLE_CODE", "FIGURE_CODE"]),
        (["analysis/render/page.py"], ["TABLE_CODE", "FIGURE_CODE", "PAGE_CODE"]),
    ],
    ids=["tables", "figures", "render"],
)
def test_a_rule_depends_on_all_code_that_it_imports(starts, code):
    known = constants("analyse.smk")
    files = reached(*starts)
    assert len(files) > 10
    assert files <= {file for name in code for file in known[name]}


def test_figures_are_drawn_without_the_page():
    assert not {f for f in reached(*FIGURES) if f.startswith("analysis/render/")} - {FIGURES[0]}


def test_an_edit_of_an_error_message_measures_nothing_again(tmp_path):
    rule = (RULES / "measure.smk").read_text()
    assert "code=lambda wildcards: code_digest(MEASURING)" in rule
    assert "code=sources" not in rule
    files = constants("measure.smk")["MEASURING"]
    assert len(files) > 15
    assert not [file for file in files if file.startswith(("measurement/recorder/", "base/"))]
    edited = 0
    for number, path in enumerate(ROOT / file for file in files):
        text = path.read_text()
        other = re.sub(r'(raise \w*Error\(\s*f?")', r"\1Edited: ", text)
        copy = tmp_path / f"{number}.py"
        copy.write_text(other)
        edited += other != text
        assert code_digest([copy]) == code_digest([path]), path
    assert edited > 5
    copy.write_text(text + "\nx = 1\n")
    assert code_digest([copy]) != code_digest([path])
