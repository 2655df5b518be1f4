"""Command line ``python -m measurement``.

Each command imports its modules itself, because worker processes import this module too.
"""

import argparse
import re
import sys
from pathlib import Path

from base import command_line
from base.command_line import (
    CommandParser,
    Commands,
    add_command,
    add_config,
    add_json,
    commands_of,
    output_path,
    whole_number,
)
from base.errors import StudyError, exit_status
from base.paths import RESULTS, ROOT

QUESTIONS = RESULTS / "questions"


def _device(text: str) -> str | int:
    """Parse ``auto``, the index of a GPU, or part of its name."""
    if text.isascii() and text.isdigit():
        return int(text)
    if re.search("[A-Za-z]", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a GPU; use auto, an index or a name")


def _commit(text: str) -> str:
    if re.fullmatch("[0-9a-f]{7,64}", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a hash; use hexadecimal digits as in git")


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="python -m measurement", description="Measure and check GPUs and CPUs."
    )
    commands = commands_of(parser)
    add_record(commands)
    sanitizer = add_command(
        commands, "sanitize", "run the kernels under compute-sanitizer", _sanitize
    )
    sanitizer.add_argument(
        "--config", required=True, type=Path, metavar="FILE", help="the study, such as config.yaml"
    )
    sanitizer.add_argument(
        "--sizes", nargs="+", metavar="N", help="sizes N, or shapes MxKxN or BATCHxMxKxN"
    )
    sanitizer.add_argument(
        "--tools",
        nargs="+",
        metavar="TOOL",
        help="tools of compute-sanitizer (default: memcheck racecheck initcheck synccheck)",
    )
    sanitizer.add_argument(
        "--out",
        type=output_path,
        default=Path("results/sanitize"),
        metavar="DIR",
        help="folder for the output of the tools (default: results/sanitize)",
    )
    adders = [
        add_command(commands, name, f"add {what} to a recording of the same GPU model", run)
        for name, what, run in (
            ("count", "hardware counters (Nsight Compute)", _count),
            ("accuracy", "the errors of products", _accuracy),
        )
    ]
    for adder in adders:
        adder.add_argument(
            "--recording", required=True, type=Path, metavar="DIR", help="folder of the recording"
        )
    for command in (sanitizer, *adders):
        command.add_argument(
            "--device", type=int, default=0, metavar="INDEX", help="CUDA index (default: 0)"
        )
    add_command(commands, "devices", "list the GPUs of this host", _print_devices)
    add_validate(commands)
    add_doctor(commands)
    add_command(
        commands, "gallery", "print a Markdown page of the committed recordings", _print_gallery
    )
    return parser


def _add_gpus(parser: CommandParser) -> None:
    parser.add_argument(
        "--device",
        type=_device,
        default="auto",
        metavar="GPU",
        help="CUDA index, part of a GPU name, or auto: all GPUs of this host (default: auto)",
    )


def add_record(commands: Commands) -> None:
    """Add the command that measures this host."""
    recorder = add_command(
        commands,
        "record",
        "measure this host into one recording",
        _record,
        "To resume an interrupted recording, rerun the command. With --variant, --size or --more, "
        "only these configurations are measured and the result is printed.",
        [
            "gemm-study record --device 0 --out data/recordings/my-4090",
            "gemm-study record --quick --out data/recordings/my-4090",
            "gemm-study record --variant block block_unroll4 --size 2048",
            "gemm-study record --more differences.csv --out results/again",
        ],
    )
    add_config(recorder)
    _add_gpus(recorder)
    recorder.add_argument(
        "--at-once", action="store_true", help="measure several GPUs at the same time"
    )
    recorder.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the recording (default with --variant or --size: in results/questions)",
    )
    recorder.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a finished recording of the same host, GPUs and configurations",
    )
    recorder.add_argument(
        "--quick",
        dest="scope",
        action="store_const",
        const="quick",
        help="shorter study, with the values of study.quick in the config",
    )
    recorder.add_argument(
        "--variant", nargs="+", default=[], metavar="NAME", help="only these GPU variants"
    )
    recorder.add_argument(
        "--size",
        nargs="+",
        default=[],
        type=whole_number,
        metavar="N",
        help="only these matrix sizes",
    )
    recorder.add_argument(
        "--more",
        type=Path,
        metavar="FILE",
        help="only undecided rows in FILE of `gemm-study compare --csv`, with enough samples",
    )
    recorder.add_argument(
        "--cubins", type=Path, metavar="DIR", help="folder of prebuilt cubins (default: build them)"
    )
    recorder.add_argument(
        "--commit",
        type=_commit,
        metavar="HASH",
        help="commit of a tree without git history (default: from git)",
    )


def add_validate(commands: Commands) -> None:
    """Add the command that checks recordings."""
    validator = add_command(
        commands,
        "validate",
        "check recordings, and print a summary of each",
        _validate,
        examples=["gemm-study validate data/recordings/my-4090"],
    )
    validator.add_argument(
        "recordings", nargs="+", type=Path, metavar="DIR", help="folder of a recording"
    )


def add_doctor(commands: Commands) -> None:
    """Add the command that examines this machine."""
    parser = add_command(
        commands,
        "doctor",
        "compare this machine with the recorded machines and report unusual values",
        _doctor,
        "It measures the ceilings of links, GPUs and CPU in about two minutes and changes nothing. "
        "Without a GPU it examines the CPU.",
        ["gemm-study doctor", "gemm-study doctor --device 0 --json"],
    )
    _add_gpus(parser)
    parser.add_argument(
        "--recordings",
        type=Path,
        default=ROOT / "data" / "recordings",
        metavar="DIR",
        help="folder of the recordings to compare with (default: data/recordings of the study)",
    )
    add_config(parser, "the study, which names the compiler")
    add_json(parser)


def _doctor(arguments: argparse.Namespace) -> None:
    from measurement.health.command import doctor

    doctor(arguments)


def _record(arguments: argparse.Namespace) -> None:
    from measurement.devices.discovery import select
    from measurement.recorder.answer import answer
    from measurement.recorder.record import record
    from measurement.recorder.target import unused
    from study.config import load
    from study.narrow import narrowed, undecided

    variants, sizes, out = arguments.variant, arguments.size, arguments.out
    samples = None
    if arguments.more:
        wanted, of_sizes, samples = undecided(arguments.more)
        variants, sizes = variants or wanted, sizes or of_sizes
    is_question = bool(variants or sizes)
    if out is None and not is_question:
        raise StudyError("--out: is missing; name a folder for the recording")
    if variants and not select(arguments.device):
        raise StudyError(
            "--variant: no NVIDIA GPU on this host; use only --size to measure its CPU"
        )
    default = QUESTIONS / "-".join(map(str, [*variants, *sizes, arguments.device]))
    out = out or unused(default)
    recording = record(
        narrowed(load(arguments.config, arguments.scope), variants, sizes, samples=samples),
        arguments.device,
        out,
        arguments.cubins,
        arguments.commit,
        at_once=arguments.at_once,
        overwrite=arguments.overwrite,
    )
    counts = recording.checks["status"].value_counts()
    outcome = ", ".join(f"{count} {status}" for status, count in counts.items())
    print(f"{out}: {len(recording.samples)} samples; cells: {outcome}", file=sys.stderr)
    if is_question:
        print("\n".join(answer(recording)))


def _count(arguments: argparse.Namespace) -> None:
    from measurement.instruments.counters import count

    count(arguments.recording, arguments.device)


def _accuracy(arguments: argparse.Namespace) -> None:
    from measurement.instruments.accuracy import add_accuracy

    add_accuracy(arguments.recording, arguments.device)


def _sanitize(arguments: argparse.Namespace) -> int:
    from measurement.instruments.sanitize import SIZES, TOOLS, sanitize
    from study.config import load

    sizes, tools = arguments.sizes or SIZES, arguments.tools or TOOLS
    return sanitize(load(arguments.config), arguments.device, sizes, tools, arguments.out)


def _validate(arguments: argparse.Namespace) -> int:
    from measurement.recording.gallery import validate

    return max([validate(folder) for folder in arguments.recordings])


def _print_gallery(_: argparse.Namespace) -> None:
    from measurement.recording.gallery import committed, gallery

    print(gallery(committed()))


def _print_devices(_: argparse.Namespace) -> None:
    from measurement.devices.discovery import cuda_devices

    devices = cuda_devices()
    if not devices:
        raise StudyError("no NVIDIA GPU: the driver lists none; check `nvidia-smi`")
    for device in devices:
        print(f"{device.index}  {device.name}  compute capability {device.compute_capability}")


def main() -> int | None:
    """Run the command; raise StudyError."""
    return command_line.run(_parser())


if __name__ == "__main__":
    sys.exit(exit_status(main))
