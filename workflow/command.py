"""``gemm-study``: what there is to do with the study, in one command.

Each command is that of the package which does it (``python -m analysis compare`` is the same
function). Nothing is imported here that only some need, so that help and completion answer at once.
"""

import argparse
import os
import sys
from pathlib import Path

import analysis.__main__ as analysis
import measurement.__main__ as measurement
from base.command_line import CommandParser, Commands, add_command, commands_of, whole_number
from base.errors import exit_status
from base.paths import ROOT
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
        add_try,
        analysis.add_compare,
        analysis.add_advise,
        analysis.add_check,
    ):
        add(commands)
    return parser


def add_try(commands: Commands) -> None:
    """Add the command that takes a user's own kernel through all that the catalog's go through."""
    parser = add_command(
        commands,
        "try",
        "check, count, build and place a kernel of your own; with --device, time it",
        _try,
        "The file holds one kernel with the signature of the catalog's, and a comment such as "
        "`// try: tile=32x32 threads=32x32`: rows x columns of C that a block computes, and its "
        "threads; docs/how-to/try-a-kernel.md describes all keys. Or it is Python with a "
        "function multiply(a, b, c, stream), which has a library such as PyTorch multiply on a "
        "GPU. What is wrong is told in one line, with file and line.",
        [
            "gemm-study try mine.cu",
            "gemm-study try mine.cu --architecture sm_90 --GPU data/recordings/h200-sxm-pair",
            "gemm-study try mine.cu --device 0 --size 1024 4096",
            "gemm-study try torch_matmul.py --device 0",
        ],
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the .cu or .py file")
    parser.add_argument(
        "--device", type=int, metavar="INDEX", help="time it on the GPU with this CUDA index"
    )
    parser.add_argument(
        "--size",
        nargs="+",
        default=[],
        type=whole_number,
        metavar="N",
        help="matrix sizes to time it at (default: 1024 and 4096)",
    )
    parser.add_argument(
        "--architecture",
        nargs="+",
        default=[],
        metavar="SM",
        help="build for these alone, such as sm_90 (default: all that nvcc can)",
    )
    parser.add_argument(
        "--card",
        type=Path,
        metavar="DIR",
        help="recording of the GPU on whose roofline it is placed (default: the report's)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=ROOT / "config.yaml",
        metavar="FILE",
        help="the study that says how it is measured (default: config.yaml)",
    )


def _try(arguments: argparse.Namespace) -> None:
    from workflow.trial import attempt

    places = (arguments.file, arguments.config, arguments.card)
    for line in attempt(*places, arguments.architecture, arguments.device, arguments.size):
        print(line, flush=True)


def _try(arguments: argparse.Namespace) -> None:
    from workflow.trial import attempt

    places = (arguments.file, arguments.config, arguments.card)
    for line in attempt(*places, arguments.architecture, arguments.device, arguments.size):
        print(line, flush=True)


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
