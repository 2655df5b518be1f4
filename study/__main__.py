"""Command line of a study: ``python -m study build | count``.

Both commands process the whole study in --config. Each result is stored under a digest of its
inputs, so an unchanged result is copied instead of computed again.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from base import command_line
from base.command_line import (
    CommandParser,
    Commands,
    add_command,
    add_config,
    add_json,
    commands_of,
    output_path,
    print_json,
    whole_number,
)
from base.errors import exit_status
from base.paths import RESULTS, STORE
from base.progress import Progress


def _parser() -> CommandParser:
    parser = CommandParser(prog="python -m study", description="Build and count a study's kernels.")
    commands = commands_of(parser)
    build = add_command(commands, "build", "compile the cubins of a study", _build)
    build.add_argument("--architecture", required=True, help="for example sm_90")
    build.add_argument("--nvcc", help="compiler (default: from PATH, otherwise from PyPI wheels)")
    count = add_command(commands, "count", "count the memory accesses of a study", _count)
    cores = len(os.sched_getaffinity(0))
    for command in (build, count):
        command.add_argument("--config", required=True, type=Path, help="the study's config.yaml")
        command.add_argument(
            "--out", required=True, type=output_path, help="folder for the results"
        )
        command.add_argument(
            "--jobs", type=whole_number, default=cores, help="parallel compilers or kernels"
        )
    add_reproduce(commands)
    return parser


def add_reproduce(commands: Commands) -> None:
    """Add the command that compares everything with the published study."""
    parser = add_command(
        commands,
        "reproduce",
        "rebuild tables and report, and compare every conclusion with the published ones",
        _reproduce,
        "Recordings, kernel sources and published times must be the same files. Tables must have "
        "the same texts and verdicts, and the same numbers within 0.1 %, because processors round "
        "fits differently. The outcomes are written to results/reproduced as JSON and HTML. The "
        "exit status is 1 if anything is not reproduced.",
        [
            "gemm-study reproduce",
            "gemm-study record --quick --out mine && gemm-study reproduce --session mine",
        ],
    )
    add_config(parser)
    parser.add_argument(
        "--session",
        type=Path,
        metavar="DIR",
        help="a recording of this machine; its verdicts are also compared",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="write data/published/reproduction.json and .zip instead of comparing",
    )
    add_json(parser)


def _reproduce(arguments: argparse.Namespace) -> int:
    from study import reproduction

    if arguments.publish:
        reproduction.publish(arguments.config)
        print(f"published: {reproduction.PUBLISHED}")
        return 0
    outcomes = reproduction.reproduce(arguments.config, arguments.session)
    content = reproduction.write(outcomes, RESULTS / "reproduced")
    if arguments.json:
        print_json(content)
    else:
        print("\n".join(reproduction.summary(outcomes)), flush=True)
    return int((outcomes["outcome"] == reproduction.NOT_REPRODUCED).any())


def _announcer(label: str, total: int, unit: str) -> tuple[Progress, Callable[[int, Any], None]]:
    """Return a progress, and a function that shows the number of results and the last one."""
    progress = Progress(label, total, unit)
    return progress, lambda done, last: progress.show_share(last.stem, done)


def _build(arguments: argparse.Namespace) -> None:
    from kernels.cubins.compile import build_all
    from kernels.cubins.toolchain import find_nvcc
    from study.config import load
    from study.plan import builds

    nvcc, architecture, out = find_nvcc(arguments.nvcc), arguments.architecture, arguments.out
    wanted = builds(load(arguments.config).study)
    progress, announce = _announcer(architecture, len(wanted), "kernels built")
    build_all(nvcc, wanted, architecture, out, arguments.jobs, out / STORE, announce)
    progress.end()


def _count(arguments: argparse.Namespace) -> None:
    from kernels.host_execution.counts import COUNTED_SIZE, count_all
    from study.config import load
    from study.counting import plan

    config, out = arguments.config, arguments.out
    # A quick study counts for full recordings too, but runs no large product.
    size = COUNTED_SIZE if load(config).study.scope == "full" else None
    tables = plan(load(config, "full").study, size)
    progress, announce = _announcer("accesses", len(tables), "kernels counted")
    count_all(tables, out, arguments.jobs, out / STORE, announce)
    progress.end()


def main() -> int | None:
    """Run the command; raise StudyError."""
    return command_line.run(_parser())


if __name__ == "__main__":
    sys.exit(exit_status(main))
