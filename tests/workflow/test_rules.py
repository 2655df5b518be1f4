"""Rules depend on all code that they run, and messages do not measure again."""

import re
from contextlib import chdir
from pathlib import Path

import pytest

from base.files import code_digest, files_below, python_files_below
from tests.support import ROOT
from tests.support.imports import reached

RULES = ROOT / "workflow" / "rules"


def constants(name):
    found = {"sources": python_files_below, "files_below": files_below, "Path": Path}
    text = (RULES / name).read_text()
    with chdir(ROOT):
        exec(re.split(r"^(?:rule|FOCUS)\b", text, maxsplit=1, flags=re.MULTILINE)[0], found)
    return found


def of_analysis(*starts):
    files = reached(*(path for start in starts for path in ROOT.glob(start)))
    return {str(f.relative_to(ROOT)) for f in files if f.is_relative_to(ROOT / "analysis")}


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
def test_a_rule_depends_on_all_code_it_imports_but_figures_not_on_the_page(starts, code):
    known = constants("analyse.smk")
    files = of_analysis(*starts)
    assert len(files) > 10
    assert files <= {file for name in code for file in known[name]}
    if starts == FIGURES:
        assert {file for file in files if file.startswith("analysis/render/")} == {FIGURES[0]}


def test_editing_a_message_triggers_no_remeasurement(tmp_path):
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
