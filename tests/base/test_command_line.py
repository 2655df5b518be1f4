"""Commands are functions: parameters become arguments, docstrings help."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import pytest

from base.command_line import CommandParser, annotation, whole_number

SHARED = "--config FILE  the study\n--jobs N  not used here"


def make_(
    files: list[Path],
    *,
    size: Sequence[Annotated[int, whole_number]] = (),
    define: Sequence[str] = (),
    counts: Sequence[Path] = (),
    form: Literal["text", "json"] = "text",
    config: Path | None = None,
    name: str,
    is_quiet: bool = False,
) -> dict[str, object]:
    """Make files.

    More words.

    FILE ...           to make
    --size N ...       only
                       these
    -D --define NAME   may be repeated
    --counts [FILE ...]  may be empty
    --form             100 % text
    --name TEXT        of it
    --is-quiet         print nothing

    made make a b
    """
    return locals()


def parsed(monkeypatch, *arguments):
    parser = CommandParser("made", "Make.")
    parser.add_commands([make_], SHARED, {"make": ("form", "is_quiet")})
    monkeypatch.setattr("sys.argv", ["made", "make", *arguments])
    return parser, parser.run


def test_arguments_are_converted_to_the_types_of_the_parameters(monkeypatch):
    defaults = {"size": [], "define": [], "counts": [], "form": "text", "config": None}
    defaults |= {"is_quiet": False, "name": "x", "files": [Path("a")]}
    assert parsed(monkeypatch, "a", "--name", "x")[1]() == defaults
    more = ["-D", "p", "--define", "q", "--size", "3", "4", "--counts", "--form", "json"]
    changes = {"define": ["p", "q"], "size": [3, 4], "form": "json", "files": [Path("a")] * 2}
    assert parsed(monkeypatch, "a", "a", "--name", "x", *more)[1]() == defaults | changes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "x"], "the following arguments are required: FILE"),
        (["a"], "the following arguments are required: --name"),
        (["", "--name", "x"], "argument FILE: is empty; name a file or folder"),
        (["a", "--name", "x", "--size"], "argument --size: expected at least one argument"),
        (["a", "--name", "x", "--size", "0"], "argument --size: '0' is not a whole number"),
        (["a", "--name", "x", "--form", "xml"], "argument --form: invalid choice: 'xml'"),
        (["a", "--form", "json", "--is-quiet"], "argument --is-quiet: not allowed with"),
    ],
)
def test_a_wrong_command_line_argument_is_a_one_line_error(monkeypatch, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        parsed(monkeypatch, *arguments)[1]()
    error = capsys.readouterr().err
    assert error.startswith(f"error: made make: {message}")
    assert error.endswith("; see `made make --help`\n")


def test_a_github_annotation_escapes_characters_that_separate_its_parts():
    line = "::error file=a%2C%3A%25,line=1,title=gemm-study::b:, %25%0A%0D"
    assert annotation("error", "b:, %\n\r", file="a,:%", line=1) == line


def test_the_help_of_a_command_is_its_docstring(monkeypatch):
    text = parsed(monkeypatch)[0].commands["make"].format_help()
    for part in (
        "Make files. More words.",
        "only these",
        "100 % text",
        "examples:\n  made make a b",
    ):
        assert part in text
    assert "not used here" not in text
