"""Command line of the kernels: ``python -m kernels list | toolchain | build | count | try``.

Every command imports what it needs, so that help and completion answer at once.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurement.command_line import (
    CommandParser,
    Commands,
    add_command,
    commands_of,
    whole_number,
)
from measurement.errors import StudyError, exit_status

if TYPE_CHECKING:
    from kernels.variant import Variant
    from measurement.progress import Progress

ROOT = Path(__file__).resolve().parent.parent
# What `--all` makes is kept in this folder below --out, by all that goes into it.
_STORE = ".store"


def _parser() -> CommandParser:
    parser = CommandParser(prog="python -m kernels", description="The kernels of the study.")
    commands = commands_of(parser)
    listing = add_command(commands, "list", "print the catalog", _print_catalog)
    listing.add_argument("--json", action="store_true", help="as JSON")
    toolchain = add_command(
        commands, "toolchain", "print the nvcc that will be used", _print_toolchain
    )
    build = add_command(commands, "build", "compile one cubin, or all of a study", _build)
    build.add_argument("--architecture", required=True, help="for example sm_90")
    build.add_argument("--build", help="for example block-b32-float32-exact")
    build.add_argument(
        "--out", required=True, type=Path, help="the cubin to write; with --all the folder"
    )
    _add_all(build)
    _add_count(commands)
    add_try(commands)
    for command in (toolchain, build):
        command.add_argument(
            "--nvcc", help="compiler to use (default: the one on PATH, then wheels)"
        )
    return parser


def _add_all(parser: CommandParser) -> None:
    """Add the options with which a command does its work for the whole of a study."""
    parser.add_argument("--all", action="store_true", help="for the study in --config")
    parser.add_argument("--config", type=Path, help="the study, as config.yaml")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--jobs", type=whole_number, default=cores, help="compilers or kernels at a time"
    )


def _add_count(commands: Commands) -> None:
    parser = add_command(
        commands,
        "count",
        "count a kernel's memory accesses, as CSV",
        _count,
        "It is run on this host, without a GPU, its product checked bit for bit. Accesses stand by "
        "source line and in total, beside theory and the names of ncu's counters.",
        ["python -m kernels count --variant block --block-size 32 --size 64 70"],
    )
    parser.add_argument("--variant", help="for example block")
    parser.add_argument("--block-size", type=int, help="only for variants that take one")
    parser.add_argument("--dtype", default="float32", help="type of elements (default: float32)")
    sizes = (("--size", "run and checked"), ("--theory-size", "by theory alone, however large"))
    for option, text in sizes:
        parser.add_argument(
            option,
            nargs="*",
            default=[],
            metavar="N",
            help=f"orders, or shapes MxKxN, BATCHxMxKxN: {text}",
        )
    parser.add_argument(
        "--out", type=Path, help="the CSV to write (default: print it); with --all the folder"
    )
    _add_all(parser)


def add_try(commands: Commands) -> None:
    """Add the command that takes a user's own kernel through all that the catalog's go through."""
    parser = add_command(
        commands,
        "try",
        "check, count, build and place a kernel of your own; with --device, time it",
        _try,
        "The file holds one kernel with the signature of the catalog's, and a comment such as "
        "`// try: tile=32x32 threads=32x32`: rows x columns of C that a block computes, and its "
        "threads. All that may be declared there stands in CONTRIBUTING.md. Or it is Python with a "
        "function multiply(a, b, c, stream), which has a library such as PyTorch multiply on a "
        "GPU. What is wrong is told in one line, with file and line.",
        [
            "gemm-study try mine.cu",
            "gemm-study try mine.cu --architecture sm_90 --card data/recordings/h200-sxm-pair",
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
        help="recording of the card on whose roofline it is placed (default: the report's)",
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


def _config(arguments: argparse.Namespace, one: str) -> Path | None:
    """Return the file of the study of which all is asked for; None: `one` is. Raises StudyError."""
    if not arguments.all:
        if getattr(arguments, one) is None:
            raise StudyError(f"--{one}: is missing; name one, or give --all with --config")
        return None
    if arguments.config is None or arguments.out is None:
        raise StudyError("--all: needs --config, the study, and --out, a folder; give both")
    config: Path = arguments.config
    return config


def _announcer(label: str, total: int, unit: str) -> "tuple[Progress, Callable[[int, Any], None]]":
    """Return a progress, and what tells it that so many are done, with the last of them."""
    from measurement.progress import Progress

    progress = Progress(label, total, unit)
    return progress, lambda done, last: progress.show_share(last.stem, done)


def _build(arguments: argparse.Namespace) -> None:
    from kernels.build import build_all, build_cubin
    from kernels.cubins import parse_build
    from kernels.plan import builds
    from kernels.toolchain import find_nvcc
    from measurement.config import load

    config, nvcc = _config(arguments, "build"), find_nvcc(arguments.nvcc)
    architecture, out = arguments.architecture, arguments.out
    if config is None:
        build_cubin(nvcc, parse_build(arguments.build), architecture, out)
        return
    wanted = builds(load(config).study)
    progress, announce = _announcer(architecture, len(wanted), "kernels built")
    build_all(nvcc, wanted, architecture, out, arguments.jobs, out / _STORE, announce)
    progress.end()


def _count(arguments: argparse.Namespace) -> None:
    from kernels.counts import ORDER, count_all, plan, table
    from kernels.shape import Shape
    from measurement.config import load
    from measurement.files import write_atomic

    config = _config(arguments, "variant")
    if config is not None:
        # Also what a quick study leaves out here was measured elsewhere. No large products then.
        order = ORDER if load(config).study.scope == "full" else None
        tables = plan(load(config, "full").study, order)
        progress, announce = _announcer("accesses", len(tables), "kernels counted")
        count_all(tables, arguments.out, arguments.jobs, arguments.out / _STORE, announce)
        progress.end()
        return
    counted, predicted = (
        [Shape.parse(text) for text in texts] for texts in (arguments.size, arguments.theory_size)
    )
    text = table(arguments.variant, arguments.dtype, arguments.block_size, counted, predicted)
    if arguments.out:
        write_atomic(arguments.out, text)
    else:
        print(text, end="")


def _row(variant: "Variant") -> dict[str, object]:
    sizes = variant.block_sizes
    return {
        "name": variant.name,
        "origin": variant.origin,
        "family": variant.family,
        "block_sizes": list(sizes) if sizes else None,
        "dtypes": list(variant.dtypes),
        "shapes": variant.shapes,
        "after": variant.after,
        "source": variant.source,
        "description": variant.description,
    }


def _print_catalog(arguments: argparse.Namespace) -> None:
    from kernels.catalog import VARIANTS

    rows = [_row(variant) for variant in VARIANTS.values()]
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        sizes = row["block_sizes"]
        span = f"B {sizes[0]}…{sizes[-1]}" if isinstance(sizes, list) else "–"
        print(f"{row['name']:<29} {span:<8} {row['origin']:<17} {row['description']}")


def _print_toolchain(arguments: argparse.Namespace) -> None:
    from kernels.toolchain import find_nvcc, nvcc_version

    nvcc = find_nvcc(arguments.nvcc)
    print(f"{nvcc} {nvcc_version(nvcc)}")


def main() -> int | None:
    """Run the command; raises StudyError."""
    arguments = _parser().parse_args()
    status: int | None = arguments.run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(exit_status(main))
