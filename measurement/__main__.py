"""Command line of the harness; ``python -m measurement --help`` lists its commands."""

import argparse
import re
import sys
from pathlib import Path

from measurement.errors import StudyError, exit_status


def _device(text: str) -> str | int:
    """Parse ``auto``, the index of a GPU, or a part of its name."""
    if text.isascii() and text.isdigit():
        return int(text)
    if re.search("[A-Za-z]", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a GPU's index or name")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m measurement", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="measure this host into one recording")
    recorder.add_argument("--config", required=True, type=Path, help="the study, as config.yaml")
    recorder.add_argument(
        "--device",
        type=_device,
        default="auto",
        help="index of a GPU, a part of its name, or auto: all of this host, also none (default)",
    )
    recorder.add_argument(
        "--at-once", action="store_true", help="several GPUs at once, not one after the other"
    )
    recorder.add_argument("--out", required=True, type=Path, help="folder of the recording")
    recorder.add_argument(
        "--cubins", type=Path, help="folder with cubins built beforehand (default: build them)"
    )
    recorder.add_argument(
        "--commit", help="commit of this tree, where it was copied without its git history"
    )
    validator = commands.add_parser("validate", help="say what a recording is, or what is wrong")
    validator.add_argument("recordings", nargs="+", type=Path, metavar="DIR", help="its folder")
    commands.add_parser("gallery", help="print the recordings that travel with the project")
    sanitizer = commands.add_parser("sanitize", help="run the kernels under compute-sanitizer")
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
    for name, what in (
        ("count", "hardware counters (Nsight Compute)"),
        ("accuracy", "the errors of products"),
    ):
        adder = commands.add_parser(name, help=f"add {what} to a recording of this kind of GPU")
        adder.add_argument("--recording", required=True, type=Path, help="folder of the recording")
        adder.add_argument("--device", type=int, default=0, help="index of a GPU (default: 0)")
    commands.add_parser("devices", help="list the GPUs of this host")
    return parser


def main() -> int | None:
    """Run the command; raises StudyError."""
    arguments = _parser().parse_args()
    # Worker processes import this module anew, and have no use for these.
    from measurement.accuracy import add_accuracy
    from measurement.config import load
    from measurement.counters import count
    from measurement.discovery import cuda_devices
    from measurement.gallery import committed, gallery, validate
    from measurement.record import record
    from measurement.sanitize import SIZES, TOOLS, sanitize

    if arguments.command == "devices":
        devices = cuda_devices()
        if not devices:
            raise StudyError("no NVIDIA GPU: the driver names none; check `nvidia-smi`")
        for device in devices:
            print(f"{device.index}  {device.name}  compute capability {device.compute_capability}")
        return None
    if arguments.command == "validate":
        return max([validate(folder) for folder in arguments.recordings])
    if arguments.command == "gallery":
        print(gallery(committed()))
        return None
    if arguments.command == "sanitize":
        sizes, tools = arguments.sizes or SIZES, arguments.tools or TOOLS
        return sanitize(load(arguments.config), arguments.device, sizes, tools, arguments.out)
    if arguments.command in ("count", "accuracy"):
        {"count": count, "accuracy": add_accuracy}[arguments.command](
            arguments.recording, arguments.device
        )
        return None
    recording = record(
        load(arguments.config),
        arguments.device,
        arguments.out,
        arguments.cubins,
        arguments.commit,
        at_once=arguments.at_once,
    )
    counts = recording.checks["status"].value_counts()
    outcome = ", ".join(f"{count} {status}" for status, count in counts.items())
    print(f"{arguments.out}: {len(recording.samples)} samples; cells: {outcome}", file=sys.stderr)
    return None


if __name__ == "__main__":
    sys.exit(exit_status(main))
