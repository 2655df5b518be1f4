"""The documents name what exists: files, modules, commands, headings, keys."""

import importlib.util
import re
import shlex

import pytest
from pydantic import BaseModel

from analysis.render.documents import _environment, documents, with_numbers
from base.command_line import reference
from study import config
from tests.support import ROOT, for_make_test
from workflow.__main__ import parser
from workflow.tutorials import tutorials, with_output

PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("kernels/*.md")]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
PACKAGES = "analysis|base|benchmarks|cpu_reference|kernels|measurement"
FOLDERS = f"{PACKAGES}|data|docs|report|study|tests|workflow"
NAME = rf"`((?:{PACKAGES})(?:\.(?!md|csv|py|cu)[a-zA-Z_]\w*)+)`"
# Generated or optional, so absent from a fresh checkout.
ABSENT = ("data/recordings/", "kernels/NAME.cu")


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_numbers_in_documents_equal_the_published_tables(path):
    text = path.read_text(encoding="utf-8")
    marks = text.count("<!--= "), text.count("<!--/-->")
    assert with_numbers(text) == text, "run: gemm-study document numbers"
    assert marks[0] == marks[1]
    assert marks[0] > 8 or path.name != "README.md"
    assert not re.search(r"^ {0,3}<!--=", text, re.M), "Markdown reads this line as HTML"
    assert "`<!--=" not in text, "Markdown reads this mark as code"


def test_in_the_readme_memory_and_baseline_change_more_than_the_kernel():
    rows = _environment().globals
    slowest = rows["cublas"]["total_s"]
    assert slowest / rows["cublas_pinned"]["total_s"] > 2 * slowest / rows["strict"]["total_s"]
    assert rows["cublas_one_thread"]["speedup"] > 2 * rows["strict"]["speedup"]


TUTORIALS = {path.name: (path,) for path in tutorials()}


@pytest.mark.slow
@pytest.mark.parametrize("path", for_make_test(TUTORIALS, "README.md"))
def test_commands_of_tutorials_print_what_the_tutorial_shows(path):
    text = path.read_text(encoding="utf-8")
    current, shown = (re.sub(r"nvcc [\d.]+", "nvcc", each) for each in (with_output(text), text))
    assert current == shown, "run: gemm-study document tutorials"


def sections(page):
    """Return the anchors of a page, as GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("name", TEXTS)
def test_links_modules_and_files_named_in_documents_exist(name):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", TEXTS[name]):
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), target
        assert not anchor or anchor in sections(path.read_text()), f"{target}#{anchor}"
    for dotted in set(re.findall(NAME, TEXTS[name])):
        try:
            importlib.import_module(dotted)
        except ModuleNotFoundError:
            module, _, attribute = dotted.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), dotted
    for path in set(re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", TEXTS[name])):
        assert path.startswith(ABSENT) or (ROOT / path).exists(), path


@pytest.mark.parametrize("name", TEXTS)
def test_commands_and_make_targets_named_in_documents_exist(name):
    rules = re.findall(r"^([a-z-]+(?: [a-z-]+)*):(?!=)", (ROOT / "Makefile").read_text(), re.M)
    for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", TEXTS[name], re.M):
        assert target in " ".join(rules).split(), target
    commands = re.findall(r"^## (.*)", reference(parser()), re.M)
    for command in re.findall(r"gemm-study [a-z]+(?= |`|$)", TEXTS[name]):
        assert command in commands, command
    for module in re.findall(r"python -m ([a-z]+\.\w+)", TEXTS[name]):
        assert importlib.util.find_spec(module), module


def test_documents_named_in_code_and_templates_exist():
    files = [*ROOT.glob("*.yaml"), *ROOT.glob("report/**/*.j2"), *ROOT.glob("workflow/**/*.yaml")]
    for folder in FOLDERS.split("|"):
        files += (ROOT / folder).rglob("*.py")
    for path in files:
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path}: {name}"


def test_the_generated_reference_of_commands_is_current():
    written = TEXTS["docs/reference/cli.md"]
    assert written == reference(parser()), (
        "run: gemm-study document commands > docs/reference/cli.md"
    )


@pytest.mark.slow
def test_snakemake_accepts_the_commands_shown_in_documents():
    from snakemake.cli import get_argument_parser

    commands = re.findall(r"`snakemake ([^`|]*[^`|\\ ])", TEXTS["docs/how-to/snakemake.md"])
    assert len(commands) == 10
    for command in commands:
        targets = get_argument_parser().parse_args(shlex.split(command)).targets
        assert [*targets] == ["report"] * (command != "--lint"), command


def test_every_key_of_the_configuration_is_documented():
    sections = [each for each in vars(config).values() if isinstance(each, type)]
    keys = {key for each in sections if issubclass(each, BaseModel) for key in each.model_fields}
    assert [key for key in keys if key not in TEXTS["docs/reference/config.md"]] == []
