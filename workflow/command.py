"""``gemm-study``: what there is to do with the study, in one command.

Each command is that of the package which does it (``python -m analysis compare`` is the same
function). Nothing is imported here that only some need, so that help and completion answer at once.
"""

import os
import sys

import analysis.__main__ as analysis
import kernels.__main__ as kernels
import measurement.__main__ as measurement
from measurement.command_line import CommandParser, commands_of
from measurement.errors import exit_status
from workflow import run

_MORE = """examples:
  gemm-study report                                what `make report` does
  gemm-study record --device 0 --out DIR           measure a GPU and its host
  gemm-study try mine.cu                           is my own kernel right, and how fast?
  gemm-study compare DIR LATER                     what has got slower?
  gemm-study validate DIR                          is that a recording, and what of?
  gemm-study advise --gpu h100 --n 3000            what would that take?

`gemm-study COMMAND --help` tells more. For completion in bash and zsh:
  eval "$(register-python-argcomplete gemm-study)"
"""


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="gemm-study", description="Matrix multiplication on GPUs, measured.", epilog=_MORE
    )
    commands = commands_of(parser)
    for add in (
        run.add_report,
        measurement.add_record,
        measurement.add_validate,
        kernels.add_try,
        analysis.add_compare,
        analysis.add_advise,
        analysis.add_check,
    ):
        add(commands)
    return parser


def _run() -> int | None:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may follow
        import argcomplete

        argcomplete.autocomplete(parser)
    arguments = parser.parse_args()
    status: int | None = arguments.run(arguments)
    return status


def main() -> int:
    """Run the command; return its exit status."""
    return exit_status(_run)


if __name__ == "__main__":
    sys.exit(main())
