"""No command replaces a finished recording, or a file of one, without being asked."""

import shutil
import sys

import pytest

import analysis.__main__
import kernels.__main__
import measurement.__main__
import study.__main__
from base.errors import exit_status
from measurement.recorder import bundle
from tests.support import ROOT
from workflow import command

PACKAGES = (analysis.__main__, kernels.__main__, measurement.__main__, study.__main__, command)
RECORDING = ROOT / "data" / "recordings" / "h100-sxm"


def _outputs():
    """Yield module and arguments, without the path, of every option that names an output."""
    for package in PACKAGES:
        (group,) = package._parser()._subparsers._group_actions
        for name, parser in group.choices.items():
            for option in parser._actions:
                if {"--out", "--csv"} & {*option.option_strings}:
                    yield package, [name, *_required(parser, option), option.option_strings[0]]
    yield bundle, ["--out"]


def _required(parser, output):
    """Return values for the other required options of a command."""
    given = []
    for option in parser._actions:
        if option.required and option is not output:
            value = next(iter(option.choices or []), "1")
            given += [*option.option_strings[:1], value]
    return given


OUTPUTS = [pytest.param(*each, id=f"{each[0].__name__} {' '.join(each[1])}") for each in _outputs()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "h100"
    shutil.copytree(RECORDING, folder)
    return folder


def test_the_parsers_name_at_least_the_outputs_of_these_commands():
    names = {case.values[1][0] for case in OUTPUTS}
    assert {"record", "compare", "tables", "figures", "report", "crate", "sanitize"} <= names
    assert {"build", "count"} <= names


@pytest.mark.parametrize("inside", ["", "samples.csv.gz", "new/file"])
@pytest.mark.parametrize(("module", "arguments"), OUTPUTS)
def test_an_output_never_replaces_a_finished_recording(
    module, arguments, inside, finished, monkeypatch, capsys
):
    if arguments[0] == "record" and inside:
        return  # the folder of a recording is tested in test_target.py
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    monkeypatch.setattr(sys, "argv", ["m", *arguments, str(finished / inside)])
    try:
        status = exit_status(module.main)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    errors = capsys.readouterr().err
    assert errors.splitlines()[-1].count(f"{finished}: contains a finished recording; name ") == 1
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
