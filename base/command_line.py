"""What all command lines have in common: complaints in one line, help with examples, tables."""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_WIDTH = 88
# The commands of a parser, to which `add_command` adds one.
Commands = Any


class CommandParser(argparse.ArgumentParser):
    """A parser that complains in one line, as every error of the study is told."""

    def __init__(self, **options: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=layout, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """End with what is wrong, and where it says what would be right."""
        self.exit(2, f"error: {self.prog}: {message}; see `{self.prog} --help`\n")


def whole_number(text: str) -> int:
    """Parse a whole number from 1."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines, in columns that are as wide as they need be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def commands_of(parser: CommandParser) -> Commands:
    """Return the commands of a parser, none yet; one has to be given."""
    return parser.add_subparsers(metavar="COMMAND", required=True)


def add_command(
    commands: Commands,
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int | None],
    more: str = "",
    examples: Sequence[str] = (),
) -> CommandParser:
    """Return the parser of a new command, which `run` does (its result: see `exit_status`).

    `text` says in a few words what it does, `more` what else there is to know.
    """
    told = f"{text[0].upper()}{text[1:]}.{f' {more}' if more else ''}"
    shown = "".join(f"\n  {example}" for example in examples)
    parser: CommandParser = commands.add_parser(
        name,
        help=text,
        description=textwrap.fill(told, _WIDTH),
        epilog=f"examples:{shown}" if examples else None,
    )
    parser.set_defaults(run=run)
    return parser
