"""Command line of the kernels: ``python -m kernels list | toolchain | build | count``.

Every command imports what it needs, so that help and completion stay fast.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from base import command_line
from base.command_line import (
    CommandParser,
    Commands,
    add_command,
    add_json,
    commands_of,
    output_path,
    print_json,
)
from base.errors import StudyError, exit_status

if TYPE_CHECKING:
    from kernels.catalog.variant import Variant


def _parser() -> CommandParser:
    parser = CommandParser(prog="python -m kernels", description="The kernels of the study.")
    commands = commands_of(parser)
    listing = add_command(commands, "list", "print the catalog", _print_catalog)
    add_json(listing)
    toolchain = add_command(commands, "toolchain", "print the nvcc in use", _print_toolchain)
    build = add_command(commands, "build", "compile one cubin", _build)
    build.add_argument("--architecture", required=True, help="for example sm_90")
    build.add_argument("--build", required=True, help="for example block-b32-float32-exact")
    build.add_argument("--out", required=True, type=output_path, help="the cubin to write")
    _add_count(commands)
    for command in (toolchain, build):
        command.add_argument(
            "--nvcc", help="compiler to use (default: from PATH, otherwise from PyPI wheels)"
        )
    return parser


def _add_count(commands: Commands) -> None:
    parser = add_command(
        commands,
        "count",
        "count a kernel's memory accesses, as CSV",
        _count,
        "Runs the kernel on this host, without a GPU, and checks the product bit for bit. Prints "
        "accesses per source line and in total, with theory and the names of ncu's counters.",
        ["python -m kernels count --variant block --block-size 32 --size 64 70"],
    )
    parser.add_argument("--variant", required=True, help="for example block")
    parser.add_argument("--block-size", type=int, help="for variants with block sizes")
    parser.add_argument("--dtype", default="float32", help="element type (default: float32)")
    sizes = (("--size", "to run and check"), ("--theory-size", "for theory only, of any size"))
    for option, text in sizes:
        parser.add_argument(
            option,
            nargs="*",
            default=[],
            metavar="N",
            help=f"sizes, or shapes MxKxN, BATCHxMxKxN, {text}",
        )
    parser.add_argument("--out", type=output_path, help="the CSV to write (default: print it)")


def _build(arguments: argparse.Namespace) -> None:
    from kernels.cubins.build import parse_build
    from kernels.cubins.compile import build_cubin
    from kernels.cubins.toolchain import find_nvcc

    build = parse_build(arguments.build)
    build_cubin(find_nvcc(arguments.nvcc), build, arguments.architecture, arguments.out)


def _count(arguments: argparse.Namespace) -> None:
    from base.files import write_atomic
    from kernels.catalog.entries import variant
    from kernels.catalog.product import Product
    from kernels.host_execution.counts import table
    from kernels.products.shape import Shape

    entry = variant(arguments.variant)
    block_size = entry.block_size(arguments.block_size)
    counted, predicted = (
        [Product(entry.name, arguments.dtype, Shape.parse(text), block_size) for text in texts]
        for texts in (arguments.size, arguments.theory_size)
    )
    if not (counted or predicted):
        raise StudyError("--size: is missing; give sizes to run, or --theory-size")
    text = table(counted, predicted)
    if arguments.out:
        write_atomic(arguments.out, text)
    else:
        print(text, end="")


def _row(variant: "Variant") -> dict[str, object]:
    from kernels.theory.tiles import number_of

    sizes = variant.block_sizes
    return {
        "name": variant.name,
        "origin": variant.origin,
        "family": variant.family,
        "block_sizes": [number_of(size) for size in sizes] if sizes else None,
        "dtypes": list(variant.dtypes),
        "shapes": variant.shapes,
        "after": variant.after,
        "source": variant.source,
        "description": variant.description,
    }


def _print_catalog(arguments: argparse.Namespace) -> None:
    from kernels.catalog.entries import VARIANTS

    if arguments.json:
        print_json([_row(variant) for variant in VARIANTS.values()])
        return
    for variant in VARIANTS.values():
        sizes = variant.block_sizes
        span = f"B {sizes[0]}…{sizes[-1]}" if sizes else "–"
        print(f"{variant.name:<29} {span:<16} {variant.origin:<17} {variant.description}")


def _print_toolchain(arguments: argparse.Namespace) -> None:
    from kernels.cubins.toolchain import find_nvcc, nvcc_version

    nvcc = find_nvcc(arguments.nvcc)
    print(f"{nvcc} {nvcc_version(nvcc)}")


def main() -> int | None:
    """Run the command; raise StudyError."""
    return command_line.run(_parser())


if __name__ == "__main__":
    sys.exit(exit_status(main))
