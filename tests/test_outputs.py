"""No command replaces a finished recording, or a file of one, without being asked."""

import shutil

import pytest

from tests.support import ROOT
from workflow.__main__ import parser

RECORDING = ROOT / "data" / "recordings" / "h100-sxm-5"


def _required(command, output):
    """Return values for the other required arguments of a command."""
    given = []
    for option in command._actions:
        if option.required and option is not output:
            value = next(iter(option.choices or []), "1")
            given += [*option.option_strings[:1], value]
    return given


OUTPUTS = [
    [name, *_required(command, option), option.option_strings[0]]
    for name, command in parser().commands.items()
    for option in command._actions
    if {"--out", "--csv"} & {*option.option_strings}
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "h100"
    shutil.copytree(RECORDING, folder)
    return folder


def test_outputs_are_found_for_all_commands_that_write_files():
    names = {arguments[0] for arguments in OUTPUTS}
    assert {"record", "compare", "tables", "figures", "page", "crate", "sanitize"} <= names
    assert {"build", "count", "bundle"} <= names


@pytest.mark.parametrize("inside", ["", "samples.csv.gz", "new/file"])
@pytest.mark.parametrize("arguments", OUTPUTS, ids=lambda arguments: arguments[0])
def test_an_output_never_replaces_a_finished_recording(arguments, inside, finished, command):
    if arguments[0] == "record" and inside:
        return  # the folder of a recording is tested in test_target.py
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    done = command(*arguments, finished / inside)
    assert done.returncode == 2
    message = f"{finished}: contains a finished recording; name "
    assert done.stderr.splitlines()[-1].count(message) == 1
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
