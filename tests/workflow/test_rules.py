"""The rules name the code that they run: what a rule imports is among its inputs."""

import ast
import re
from fnmatch import fnmatch

import pytest

from base.files import code_digest
from tests.support import ROOT

RULES = (ROOT / "workflow" / "rules" / "analyse.smk").read_text()


def patterns(name):
    """Return the patterns of files that a constant of the rules is made from."""
    return re.findall(
        r'"([^"]+)"', re.search(rf"^{name} = matching\((.*)\)$", RULES, re.MULTILINE)[1]
    )


def imported(path):
    """Return the files of the analysis that a file imports, wherever in it."""
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
    """Return all files of the analysis that these import, directly or not, and themselves."""
    found, left = set(), {path for start in starts for path in ROOT.glob(start)}
    while left:
        found |= left
        left = {file for path in left for file in imported(path)} - found
    return {str(path.relative_to(ROOT)) for path in found}


FIGURES, PAGE = patterns("FIGURE_CODE"), patterns("PAGE_CODE")


@pytest.mark.parametrize(
    ("starts", "others"),
    [
        (["analysis/tables.py"], [*FIGURES, *PAGE, "analysis/archive/*"]),
        (["analysis/render/figures.py", "analysis/*/figures.py"], ["analysis/archive/*"]),
        (["analysis/render/page.py"], ["analysis/archive/crate.py"]),
    ],
    ids=["tables", "figures", "render"],
)
def test_code_that_a_rule_does_not_name_is_not_imported(starts, others):
    files = reached(*starts)
    assert len(files) > 10
    assert [f for f in sorted(files) if any(fnmatch(f, pattern) for pattern in others)] == []


def test_figures_are_drawn_without_the_page():
    own = {"analysis/render/figures.py"}
    files = reached("analysis/render/figures.py", "analysis/*/figures.py") - own
    assert [f for f in sorted(files) if fnmatch(f, "analysis/render/*")] == []


def measuring(text):
    """Return the Python files of the folders that the rule names."""
    (folders,) = re.findall(r"for folder in \[([^]]*)\]", text)
    names = re.findall(r'"([^"]+)"', folders)
    assert all((ROOT / name).is_dir() for name in names)
    return [path for name in names for path in (ROOT / name).rglob("*.py")]


def test_an_edit_of_an_error_message_measures_nothing_again(tmp_path):
    rule = (ROOT / "workflow" / "rules" / "measure.smk").read_text()
    assert "code=lambda wildcards: code_digest(MEASURING)" in rule
    assert "code=sources" not in rule
    files = measuring(rule)
    assert len(files) > 15
    recorder = {*(ROOT / "measurement" / "recorder").rglob("*.py"), *(ROOT / "base").rglob("*.py")}
    assert not recorder & set(files)
    edited = 0
    for number, path in enumerate(files):
        text = path.read_text()
        other = re.sub(r'(raise \w*Error\(\s*f?")', r"\1Edited: ", text)
        copy = tmp_path / f"{number}.py"
        copy.write_text(other)
        edited += other != text
        assert code_digest([copy]) == code_digest([path]), path
    assert edited > 5
    copy.write_text(text + "\nx = 1\n")
    assert code_digest([copy]) != code_digest([path])
