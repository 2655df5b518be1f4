"""Command line of the kernels: ``python -m kernels list | toolchain | build | count``."""

import argparse
import json
import sys
from pathlib import Path

from kernels.build import build_cubin
from kernels.catalog import VARIANTS
from kernels.counts import table
from kernels.cubins import parse_build
from kernels.shape import Shape
from kernels.toolchain import find_nvcc, nvcc_version
from kernels.variant import ELEMENTS, Variant
from measurement.errors import exit_status
from measurement.files import write_atomic


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="print the catalog")
    listing.add_argument("--json", action="store_true", help="as JSON")
    toolchain = commands.add_parser("toolchain", help="print the nvcc that will be used")
    build = commands.add_parser("build", help="compile one cubin")
    build.add_argument("--architecture", required=True, help="for example sm_90")
    build.add_argument("--build", required=True, help="for example block-b32-float32-exact")
    build.add_argument("--out", required=True, type=Path, help="the cubin to write")
    _add_count(commands.add_parser("count", help="count a kernel's memory accesses, as CSV"))
    for command in (toolchain, build):
        command.add_argument(
            "--nvcc", help="compiler to use (default: the one on PATH, then wheels)"
        )
    return parser


def _add_count(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a kernel on this host, without a GPU; check its product bit for bit; print its memory "
        "accesses by source line and in total, beside theory and the names of ncu's counters."
    )
    parser.add_argument("--variant", required=True, help="for example block")
    parser.add_argument("--block-size", type=int, help="only for variants that take one")
    parser.add_argument("--dtype", default="float32", choices=ELEMENTS, help="type of elements")
    sizes = (("--size", "run and checked"), ("--theory-size", "by theory alone, however large"))
    for option, text in sizes:
        parser.add_argument(
            option,
            nargs="*",
            default=[],
            metavar="N",
            help=f"orders, or shapes MxKxN, BATCHxMxKxN: {text}",
        )
    parser.add_argument("--out", type=Path, help="the CSV to write (default: print it)")


def _count(arguments: argparse.Namespace) -> None:
    counted, predicted = (
        [Shape.parse(text) for text in texts] for texts in (arguments.size, arguments.theory_size)
    )
    text = table(arguments.variant, arguments.dtype, arguments.block_size, counted, predicted)
    if arguments.out:
        write_atomic(arguments.out, text)
    else:
        print(text, end="")


def _row(variant: Variant) -> dict[str, object]:
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


def _print_catalog(as_json: bool) -> None:
    rows = [_row(variant) for variant in VARIANTS.values()]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        sizes = row["block_sizes"]
        span = f"B {sizes[0]}…{sizes[-1]}" if isinstance(sizes, list) else "–"
        print(f"{row['name']:<29} {span:<8} {row['origin']:<17} {row['description']}")


def main() -> None:
    """Run the command; raises StudyError."""
    arguments = _parser().parse_args()
    if arguments.command == "list":
        _print_catalog(arguments.json)
        return
    if arguments.command == "count":
        _count(arguments)
        return
    nvcc = find_nvcc(arguments.nvcc)
    if arguments.command == "toolchain":
        print(f"{nvcc} {nvcc_version(nvcc)}")
    else:
        build_cubin(nvcc, parse_build(arguments.build), arguments.architecture, arguments.out)


if __name__ == "__main__":
    sys.exit(exit_status(main))
