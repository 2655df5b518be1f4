"""Command-line helpers: one-line errors, help with examples, text tables."""

import argparse
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from base.files import holds_recording
from base.paths import default_config

_WIDTH = 88
_UNITS = ((1, "s"), (1e3, "ms"), (1e6, "µs"))
ABSENT = "–"  # in a table
# The subcommands of a parser; `add_command` adds one.
Commands = Any


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all errors of the study."""

    def __init__(self, **options: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=layout, allow_abbrev=False, **options)
        self.register("type", Path, _path)

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)  # argparse suppresses errors, as of a full disk

    def error(self, message: str) -> NoReturn:
        """Exit with status 2; the message names the fault and the help command."""
        self.exit(2, f"error: {self.prog}: {message}; see `{self.prog} --help`\n")


def whole_number(text: str) -> int:
    """Parse an integer from 1 to a million."""
    if not re.fullmatch("[0-9]{1,7}", text) or not 1 <= int(text) <= 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; use 1 to 1000000")
    return int(text)


def _path(text: str) -> Path:
    if not text:  # as from an unset variable of a shell; Path would be the current folder
        raise argparse.ArgumentTypeError("is empty; name a file or folder")
    return Path(text)


def output_path(text: str) -> Path:
    """Parse the path of an output, which must not be in the folder of a finished recording."""
    path = _path(text)
    for folder in (path, *path.absolute().parents):
        if holds_recording(folder):
            message = f"{folder}: contains a finished recording; name another path"
            raise argparse.ArgumentTypeError(message)
    return path


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as indented lines with aligned columns."""
    return [f"  {line}" for line in aligned(rows)]


def add_config(parser: argparse.ArgumentParser, what: str = "the study") -> None:
    """Add the option that names the configuration of the study."""
    text = f"{what} (default: config.yaml)"
    parser.add_argument("--config", type=Path, default=default_config(), metavar="FILE", help=text)


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add the option with which a command prints its answer for programs."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def print_json(value: object) -> None:
    """Print an answer as JSON; numbers that are not finite become null."""
    print(as_json(value), end="", flush=True)


def as_json(value: object) -> str:
    """Return an answer as JSON text; numbers that are not finite become null."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value  # of NumPy
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def commands_of(parser: CommandParser) -> Commands:
    """Return an empty list of subcommands for a parser; users must give one."""
    return parser.add_subparsers(metavar="COMMAND", required=True)


def add_command(
    commands: Commands,
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int | None],
    more: str = "",
    examples: Sequence[str] = (),
) -> CommandParser:
    """Add a command that calls `run` (for its result see `exit_status`); return its parser.

    `text` is the one-line summary, `more` the rest of the description.
    """
    description = f"{text[0].upper()}{text[1:]}.{f' {more}' if more else ''}"
    example_lines = "".join(f"\n  {example}" for example in examples)
    parser: CommandParser = commands.add_parser(
        name,
        help=text,
        description=textwrap.fill(description, _WIDTH),
        epilog=f"examples:{example_lines}" if examples else None,
    )
    parser.set_defaults(run=run)
    return parser


def run(parser: CommandParser) -> int | None:
    """Run the command in the arguments of this process; return its result, raise StudyError."""
    arguments = parser.parse_args()
    status: int | None = arguments.run(arguments)
    return status


def duration(seconds: float) -> str:
    """Return seconds with four digits in the largest unit in which they are at least 1."""
    factor, unit = next((f, u) for f, u in _UNITS if seconds * f >= 1 or u == "µs")
    return f"{seconds * factor:#.4g} {unit}"


def annotation(level: str, text: str) -> str:
    """Return a line that GitHub Actions shows beside a run; `level` is error, warning or notice."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{level} title=gemm-study::{escaped}"
