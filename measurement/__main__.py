"""Command line of the harness; ``python -m measurement --help`` lists its commands.

Every command imports what it needs: worker processes import this module anew, and have no use for
the rest.
"""

import argparse
import re
import sys
from pathlib import Path

from base.command_line import CommandParser, Commands, add_command, commands_of, whole_number
from base.errors import StudyError, exit_status
from base.paths import RESULTS, ROOT

QUESTIONS = RESULTS / "questions"


def _device(text: str) -> str | int:
    """Parse ``auto``, the index of a GPU, or a part of its name."""
    if text.isascii() and text.isdigit():
        return int(text)
    if re.search("[A-Za-z]", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a GPU's index or name")


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="python -m measurement", description="What is measured, and on which devices."
    )
    commands = commands_of(parser)
    add_record(commands)
    sanitizer = add_command(
        commands, "sanitize", "run the kernels under compute-sanitizer", _sanitize
    )
    sanitizer.add_argument("--config", required=True, type=Path, help="the study, as config.yaml")
    sanitizer.add_argument("--device", type=int, default=0, help="index of a GPU (default: 0)")
    sanitizer.add_argument(
        "--sizes", nargs="+", help="orders, or shapes MxKxN, BATCHxMxKxN (default: a few of each)"
    )
    sanitizer.add_argument(
        "--tools", nargs="+", help="default: memcheck racecheck initcheck synccheck"
    )
    sanitizer.add_argument(
        "--out",
        type=Path,
        default=Path("results/sanitize"),
        help="folder for what the tools print (default: results/sanitize)",
    )
    for name, what, run in (
        ("count", "hardware counters (Nsight Compute)", _count),
        ("accuracy", "the errors of products", _accuracy),
    ):
        text = f"add {what} to a recording of this kind of GPU"
        adder = add_command(commands, name, text, run)
        adder.add_argument("--recording", required=True, type=Path, help="folder of the recording")
        adder.add_argument("--device", type=int, default=0, help="index of a GPU (default: 0)")
    add_command(commands, "devices", "list the GPUs of this host", _print_devices)
    add_validate(commands)
    add_command(
        commands, "gallery", "print the recordings that travel with the project", _print_gallery
    )
    return parser


def add_record(commands: Commands) -> None:
    """Add the command that measures this host."""
    recorder = add_command(
        commands,
        "record",
        "measure this host into one recording",
        _record,
        "One that was interrupted goes on with the same command. With --variant or --size it is a "
        "quick question, whose answer is printed.",
        [
            "gemm-study record --device 0 --out data/recordings/my-4090",
            "gemm-study record --quick --out data/recordings/my-4090",
            "gemm-study record --variant block block_unroll4 --size 2048",
        ],
    )
    recorder.add_argument(
        "--config",
        type=Path,
        default=ROOT / "config.yaml",
        metavar="FILE",
        help="the study (default: config.yaml)",
    )
    recorder.add_argument(
        "--device",
        type=_device,
        default="auto",
        help="index of a GPU, a part of its name, or auto: all of this host, also none (default)",
    )
    recorder.add_argument(
        "--at-once", action="store_true", help="several GPUs at once, not one after the other"
    )
    recorder.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the recording (needed but for a question: below results/questions)",
    )
    recorder.add_argument(
        "--quick",
        dest="scope",
        action="store_const",
        const="quick",
        help="with the values of study.quick, as much as the three answers need",
    )
    recorder.add_argument(
        "--variant", nargs="+", default=[], metavar="NAME", help="these GPU variants alone"
    )
    recorder.add_argument(
        "--size",
        nargs="+",
        default=[],
        type=whole_number,
        metavar="N",
        help="at these matrix sizes alone",
    )
    recorder.add_argument(
        "--cubins",
        type=Path,
        metavar="DIR",
        help="folder with cubins built beforehand (default: build them)",
    )
    recorder.add_argument(
        "--commit", help="commit of this tree, where it was copied without its git history"
    )


def add_validate(commands: Commands) -> None:
    """Add the command that judges recordings of others."""
    validator = add_command(
        commands,
        "validate",
        "say what a recording is, or what is wrong",
        _validate,
        examples=["gemm-study validate data/recordings/my-4090"],
    )
    validator.add_argument("recordings", nargs="+", type=Path, metavar="DIR", help="its folder")


def _record(arguments: argparse.Namespace) -> None:
    from measurement.devices.discovery import select
    from measurement.recorder.answer import answer
    from measurement.recorder.record import record
    from study.narrow import asked

    variants, sizes, out = arguments.variant, arguments.size, arguments.out
    is_question = bool(variants or sizes)
    if out is None and not is_question:
        raise StudyError("--out: is missing; name the folder that the recording shall have")
    if variants and not select(arguments.device):
        raise StudyError(
            "--variant: no NVIDIA GPU on this host; name sizes alone to measure its CPU"
        )
    out = out or QUESTIONS / "-".join(map(str, [*variants, *sizes, arguments.device]))
    recording = record(
        asked(arguments.config, arguments.scope, variants, sizes),
        arguments.device,
        out,
        arguments.cubins,
        arguments.commit,
        at_once=arguments.at_once,
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
        raise StudyError("no NVIDIA GPU: the driver names none; check `nvidia-smi`")
    for device in devices:
        print(f"{device.index}  {device.name}  compute capability {device.compute_capability}")


def main() -> int | None:
    """Run the command; raises StudyError."""
    arguments = _parser().parse_args()
    status: int | None = arguments.run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(exit_status(main))
