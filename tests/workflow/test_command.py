"""gemm-study: help for every argument, fast help, one-line errors."""

import os
import re
import subprocess
import sys
import tomllib
from typing import get_args

import pytest

from kernels.catalog.locations import LOCATIONS
from tests.support import ROOT
from workflow.__main__ import Place, parser

COMMON = {"report", "record", "validate", "doctor", "try", "guard", "compare", "advise", "check"}


def test_every_argument_has_help_and_common_commands_have_examples():
    commands = parser().commands
    assert {*commands} > COMMON
    for name, command in commands.items():
        text = command.format_help()
        assert f"\nexamples:\n  gemm-study {name}" in text or name not in COMMON
        for option in command._actions:
            assert option.help, f"{name} {option.option_strings or option.dest}"


def test_printing_help_imports_no_slow_library():
    script = "import sys; from workflow.__main__ import parser; parser().format_help()\n"
    script += "print(*{name.split('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "argparse" in loaded
    assert not {"numpy", "pandas", "scipy", "pydantic", "snakemake", "argcomplete"} & loaded


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gemm-study d", {"doctor", "devices", "document"}),
        ("gemm-study com", {"compare"}),
        ("gemm-study report --q", {"--quick"}),
        ("gemm-study advise --host-memory p", {"pageable", "pinned", "prefetched"}),
    ],
)
def test_a_shell_completes_commands_and_options(line, expected):
    pytest.importorskip("argcomplete")
    told = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}
    environment = os.environ | told | {"_ARGCOMPLETE_IFS": "\n"}
    code = "import os; os.dup2(1, 8); from workflow.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert {*done.stdout.decode().split()} - {"-h", "--help", "--version"} == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"gemm-study: the following arguments are required: COMMAND; see `gemm-study --help`"),
        (
            ["report", "--cores", "1" * 22],
            r"gemm-study report: .* is not a whole number from 1 to 46340; .*",
        ),
        (["try", "x.cu", "-D", "1X=2"], r".* argument -D/--define: '1X=2' defines no macro; .*"),
        (["compare", "a", "b", "--threshold", "x"], r".*: 'x' is not a number above 0, such as .*"),
        (["advise", "--gpu", "x", "--n", "1.5"], r".* --n: not a whole number: '1\.5'; see .*"),
        (["recrod"], r"gemm-study: argument COMMAND: invalid choice: 'recrod' .*"),
        (["report", "--quick", "--full"], r"gemm-study report: argument --full: not allowed .*"),
        (["report", "--cores", "0"], r"gemm-study report: argument --cores: '0' is not a whole .*"),
        (["advise", "--gpu", "x"], r"gemm-study advise: .*: --n; see `gemm-study advise --help`"),
        (["compare", "a", "b", "--json", "--format", "junit"], r".* --format: not allowed with .*"),
        (["compare", "no/a", "no/b"], r"recording no/a: .*"),
        (["check", "no/report.html"], r"no/report\.html: No such file .*"),
        (["advise", "--gpu", "x", "--n", "3", "--tables", "no"], r"no/\w+\.csv is missing.*"),
        (["record", "--config", "no.yaml", "--out", "x"], r"no\.yaml: No such file .*"),
        (
            ["check", __file__, "--templates", "no"],
            r"--templates no: no such folder; correct the path",
        ),
        (["check", __file__, "--tables", "docs"], r"--tables docs: contains no tables; .*"),
        (
            ["build", "--architecture", "sm_90", "--out", "x", "--one", "y", "--config", "no.yaml"],
            r"no\.yaml: No such file .*",
        ),
        (["record", "--out", ""], r".* argument --out: is empty; name a file or folder; see .*"),
        (["validate", ""], r".* argument DIR: is empty; name a file or folder; see .*"),
        (["record", "--quick"], r"--out: is missing; .*"),
        (["try", "no.cu"], r"no\.cu: No such file .*"),
        (["record", "--device", "²"], r"gemm-study record: argument --device: '²' .*"),
        (["record", "--device", "-1"], r"gemm-study record: argument --device: '-1' .*"),
        (["record", "--commit", "a\nb"], r"gemm-study record: .* 'a\\nb' is not a hash; use .*"),
    ],
)
def test_a_user_error_is_reported_in_one_line(command, arguments, message):
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"error: {message}\n", done.stderr), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["", ">&-", "2>&-", "<&- >&- 2>&-", "| true"])
def test_an_output_that_is_ascii_or_closed_causes_no_error(closed):
    command = f'"$0" -m workflow list {closed}; exit ${{PIPESTATUS[0]}}'
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    shell = ["bash", "-c", command, sys.executable]
    done = subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"B 1?32" in done.stdout or ">&-" in closed or closed == "| true"


@pytest.mark.slow
def test_files_are_utf_8_in_every_locale():
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "workflow", "list"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "B 1…32".encode() in done.stdout


def test_the_version_is_that_of_the_project(command):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert command("--version").stdout == f"gemm-study {project['version']}\n"


@pytest.mark.slow
def test_a_full_disk_is_a_one_line_error():
    for argument in ("list", "--help"):
        arguments = [sys.executable, "-m", "workflow", argument]
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                arguments, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
            )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("(TMPDIR), and rerun the same command\n")


def test_the_command_line_offers_every_location_of_the_matrices():
    assert sorted(get_args(Place)) == sorted(LOCATIONS)
