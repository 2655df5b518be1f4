"""``gemm-study``: the common commands of the study in one program.

Each command is the function of its package (``python -m analysis compare`` is the same). Slow
imports are inside the functions, so help and completion are fast.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import analysis.__main__ as analysis
import measurement.__main__ as measurement
import study.__main__ as study
from base import command_line
from base.command_line import (
    CommandParser,
    Commands,
    add_command,
    add_config,
    commands_of,
    whole_number,
)
from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.paths import ROOT
from workflow import run

_MORE = """examples:
  gemm-study report                                write the report, as `make report`
  gemm-study record --device 0 --out DIR           measure a GPU and its host
  gemm-study try mine.cu                           check your own kernel
  gemm-study compare OLD NEW                       find slower configurations
  gemm-study doctor                                find unusual values of this machine
  gemm-study reproduce                             compare everything with the published study
  gemm-study validate DIR                          check a recording
  gemm-study advise --gpu h100 --n 3000            predict times

See also `gemm-study COMMAND --help`. For completion in bash and zsh:
  eval "$(register-python-argcomplete gemm-study)"
"""


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="gemm-study", description="Measure matrix multiplication on GPUs.", epilog=_MORE
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = commands_of(parser)
    for add in (
        run.add_report,
        measurement.add_record,
        measurement.add_validate,
        measurement.add_doctor,
        add_try,
        add_guard,
        analysis.add_compare,
        analysis.add_advise,
        analysis.add_check,
        study.add_reproduce,
    ):
        add(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        cited = (ROOT / "CITATION.cff").read_text()  # is part of an installed study too
        version = cited.partition("\nversion: ")[2].split()[0]
        print(f"gemm-study {version}", flush=True)
        parser.exit()


def add_try(commands: Commands) -> None:
    """Add the command for a user's own kernel."""
    parser = add_command(
        commands,
        "try",
        "check, build and compare your own kernel; with --device, time it",
        _try,
        "FILE contains CUDA kernels as they are, or a function of Triton, CuPy, Numba or PyTorch. "
        "The launch of a kernel is --launch, a `// launch:` comment, one in the host's code, or "
        "inferred. The exit status is 2 if the kernel is wrong, 3 if it was not "
        "checked to the end on the CPU (a Python function: on a GPU), else 0. See "
        "docs/how-to/try-a-kernel.md.",
        [
            "gemm-study try --example",
            "gemm-study try mine.cu",
            "gemm-study try mine.cu --launch 'gemm<32><<<dim3(CEIL_DIV(N, 32), CEIL_DIV(M, 32)), "
            "dim3(32, 32)>>>(M, N, K, 1.0f, A, B, 0.0f, C)'",
            "gemm-study try mine.cu --architecture sm_90 --gpu data/recordings/h200-sxm-pair",
            "gemm-study try mine.cu --device 0 --size 1024 4096",
            "gemm-study try torch_matmul.py --device 0",
        ],
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the .cu or .py file")
    text = "write a kernel to begin with to mine.cu"
    parser.add_argument("--example", action="store_true", help=text)
    text = "print the verdicts and counts of the CPU as JSON"
    parser.add_argument("--json", action="store_true", help=text)
    text = (
        "how the kernel is launched, in CUDA's notation, with M, N, K, A, B and C; several in order"
    )
    parser.add_argument("--launch", action="append", metavar="LAUNCH", help=text)
    text = "check only this kernel, or this Python function, of the file"
    parser.add_argument("--kernel", metavar="NAME", help=text)
    text = "folder with files that FILE includes; may be repeated"
    parser.add_argument(
        "-I", "--include", type=Path, action="append", default=[], metavar="DIR", help=text
    )
    text = "macro that FILE leaves to the compiler; may be repeated"
    parser.add_argument(
        "-D", "--define", action="append", default=[], metavar="NAME=VALUE", help=text
    )
    text = "variant of the catalog to compare with"
    parser.add_argument("--baseline", metavar="NAME", help=text)
    text = "time it on the GPU with this CUDA index"
    parser.add_argument("--device", type=int, metavar="INDEX", help=text)
    parser.add_argument(
        "--size",
        nargs="+",
        default=[],
        type=whole_number,
        metavar="N",
        help="matrix sizes to time (default: 1024 and 4096)",
    )
    parser.add_argument(
        "--architecture",
        nargs="+",
        default=[],
        metavar="SM",
        help="only these architectures, such as sm_90 (default: all of nvcc)",
    )
    text = "recording with the roofline to compare with (default: the report's)"
    parser.add_argument("--gpu", type=Path, metavar="DIR", help=text)
    add_config(parser, "the study, which defines the protocol")


def _try(arguments: argparse.Namespace) -> int:
    if arguments.example:
        return _write_example(Path("mine.cu"))
    if arguments.file is None:
        raise StudyError("FILE: missing; name a .cu or .py file, or write one by --example")
    if arguments.json:
        return _try_json(arguments)
    from workflow.trial import Wanted, attempt

    wanted = Wanted(
        _launch(arguments),
        arguments.kernel,
        arguments.include,
        arguments.define,
        arguments.baseline,
        arguments.gpu,
        arguments.architecture,
        arguments.device,
        arguments.size,
    )
    lines = attempt(arguments.file, arguments.config, wanted)
    while True:
        try:
            print(next(lines), flush=True)
        except StopIteration as end:
            return int(end.value)


def _launch(arguments: argparse.Namespace) -> str | None:
    """Return the launches of a product in order as one text."""
    return "; ".join(arguments.launch) if arguments.launch else None


def _write_example(path: Path) -> int:
    if path.exists():
        raise StudyError(f"{path}: exists; move it, or try it: gemm-study try {path}")
    write_atomic(path, (ROOT / "data" / "example.cu").read_text())
    print(f"{path}: a kernel to begin with; try it: gemm-study try {path}")
    return 0


def _try_json(arguments: argparse.Namespace) -> int:
    from workflow.guard import results, status_of

    options = (_launch(arguments), arguments.kernel, arguments.include, arguments.define)
    all_results = list(results(arguments.file, *options))
    print(json.dumps([asdict(result) for result in all_results], indent=2))
    return status_of(all_results)


def add_guard(commands: Commands) -> None:
    """Add the command that checks the kernels of a repository."""
    parser = add_command(
        commands,
        "guard",
        "check all kernels of a repository, without a GPU",
        _guard,
        "Folders are searched for CUDA sources with kernels that multiply matrices. The status is "
        "2 if a kernel is wrong, 1 if its counts of memory accesses, registers or spilled bytes "
        "grew, 3 if it was not checked to the end, else 0. See docs/how-to/guard-a-repository.md.",
        ["gemm-study guard kernels", "gemm-study guard . --counts counts.json --format github"],
    )
    text = "files and folders (default: this folder)"
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help=text)
    text = "JSON file with the counts of the last run, which is renewed"
    parser.add_argument("--counts", type=Path, metavar="FILE", help=text)
    text = "lines of text, or annotations of GitHub Actions (default: text)"
    parser.add_argument("--format", choices=["text", "github"], default="text", help=text)


def _guard(arguments: argparse.Namespace) -> int:
    from workflow.guard import guarded, status_of

    all_results = []
    for result in guarded(arguments.paths or [Path()], arguments.counts):
        all_results.append(result)
        print(f"{result.key}: {result.status}: {result.text}", flush=True)
        if arguments.format == "github" and (annotation := result.annotated()):
            print(annotation, flush=True)
    if not all_results:
        raise StudyError("PATH: contains no CUDA source with a kernel; name a file or folder")
    return status_of(all_results)


def _run() -> int | None:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # completion in a shell
        import argcomplete

        argcomplete.autocomplete(parser)
    return command_line.run(parser)


def main() -> int:
    """Run the command; return its exit status."""
    return exit_status(_run)


if __name__ == "__main__":
    sys.exit(main())
