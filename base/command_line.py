"""Command-line helpers: one-line errors, help with examples, text tables."""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_WIDTH = 88
ABSENT = "–"  # in a table
# The subcommands of a parser; `add_command` adds one.
Commands = Any


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all errors of the study."""

    def __init__(self, **options: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=layout, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Exit with status 2; the message names the fault and the help command."""
        self.exit(2, f"error: {self.prog}: {message}; see `{self.prog} --help`\n")


def whole_number(text: str) -> int:
    """Parse a positive integer."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; use 1 or more")
    return int(text)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as indented lines with aligned columns."""
    return [f"  {line}" for line in aligned(rows)]


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
