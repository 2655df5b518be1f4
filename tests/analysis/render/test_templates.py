"""Templates and scripts can be read: short lines, and every template is valid."""

import json
import re
from shutil import which
from subprocess import run

import jinja2
import pytest

from base.paths import ROOT

TEMPLATES = sorted((ROOT / "report").rglob("*.j2"))
SCRIPTS = sorted((ROOT / "report").glob("*.js"))


@pytest.mark.parametrize("path", [*TEMPLATES, *SCRIPTS], ids=lambda path: path.name)
def test_lines_of_templates_and_scripts_are_short(path):
    long = [n for n, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120]
    assert long == []
    assert not re.search(r"<\w+$", path.read_text(), re.M), "the check of the page reads <table …>"


def test_templates_contain_no_nested_choices_in_an_expression():
    parser = jinja2.Environment()
    for path in TEMPLATES:
        for choice in parser.parse(path.read_text()).find_all(jinja2.nodes.CondExpr):
            nested = next(choice.find_all(jinja2.nodes.CondExpr), None)
            assert nested is None, f"{path}:{choice.lineno}"


@pytest.mark.skipif(not which("node"), reason="needs Node.js")
def test_the_explorer_compares_gpus_only_in_configurations_that_both_measured():
    script = ROOT / "tests" / "analysis" / "render" / "explorer_rows.mjs"
    made = run(["node", script, ROOT / "report" / "explorer.js"], capture_output=True, check=True)
    kernels, totals, all_rows = json.loads(made.stdout)
    assert kernels == totals == ["both"]
    assert all_rows == ["both", "one", "older", "block"]
