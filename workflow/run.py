"""Run the workflow and show how far it is: what ``make report`` does after the set-up.

    python -m workflow.run report [--quick | --full] [--cores N] [--watch] [TARGET]

Snakemake's log goes to results/logs/snakemake.log. One run at a time works in a checkout: it holds
the lock of `ALIVE`, which the kernel takes back when its processes are gone, however they ended.
Snakemake's own lock, which a ``kill -9`` leaves behind, is removed then.
"""

import argparse
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import psutil
import yaml

from base.command_line import CommandParser, Commands, add_command, commands_of, whole_number
from base.files import write_atomic
from base.paths import RESULTS, ROOT
from workflow.progress import Display, State, clock, last_lines

# Paths in the rules are relative to the folder in which Snakemake runs.
PARTS = ("analysis", "base", "cpu_reference", "data", "kernels", "measurement", "report", "study")
PARTS += ("workflow", "CITATION.cff", "Snakefile")
CONFIGS = ("config.yaml", "config.local.yaml")
LOG = Path("results/logs/snakemake.log")
ALIVE = Path(".snakemake/alive")
LOCKS = Path(".snakemake/locks")
WATCHED = ("report", "analysis")
_LONGEST = 300  # characters of what Snakemake says
_GRACE_S = 0.7  # for processes that are asked to end


class Refused(Exception):  # noqa: N818  the field's word
    """What keeps the workflow from running; the message is one line."""


class Stopped(Exception):  # noqa: N818  no error
    """The user has ended the run."""


def add_report(commands: Commands) -> None:
    """Add the command that runs the workflow."""
    parser = add_command(
        commands,
        "report",
        "measure, compute and write results/report.html: all that is not up to date",
        _report,
        "Ctrl-C ends it, and the same command goes on.",
        ["gemm-study report", "gemm-study report --full", "gemm-study report --watch"],
    )
    scope = parser.add_mutually_exclusive_group()
    for name, text in (("quick", "what the three answers need"), ("full", "the whole study")):
        scope.add_argument(
            f"--{name}",
            dest="scope",
            action="store_const",
            const=name,
            help=f"measure {text} (default: as before; at first quick)",
        )
    parser.add_argument(
        "--cores", type=whole_number, metavar="N", help="how many to use (default: all)"
    )
    parser.add_argument("--watch", action="store_true", help="make it again after every edit")
    parser.add_argument(
        "target", nargs="?", default="report", help="another rule, or the file to make"
    )


def _report(arguments: argparse.Namespace) -> int:
    os.chdir(working_folder())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    display = Display()
    try:
        with only_run() as lock:
            status = run(arguments, lock, display)
            while arguments.watch:
                wait_for_edit(display)
                status = run(arguments, lock, display)
            return status
    except Refused as error:
        display.say(f"error: {error}")
        return 2
    except OSError as error:  # a folder that cannot be written, a full disk
        display.say(f"error: {error.filename or ROOT}: {error.strerror}")
        return 2
    except Stopped:
        display.say("stopped; the same command goes on from here")
        return 130


def working_folder() -> Path:
    """Return the folder in which Snakemake runs: the checkout, or one in the current results.

    An installed study has no checkout. Its folder holds links to the study and to the results, and
    the configuration: that of the current folder, or else that of the study.
    """
    if (ROOT / "pyproject.toml").exists():
        return ROOT
    from study.config import read  # pydantic takes a moment to import

    folder = RESULTS / ".study"
    folder.mkdir(parents=True, exist_ok=True)
    for target in (*(ROOT / name for name in PARTS), RESULTS):
        (folder / target.name).unlink(missing_ok=True)
        if target.exists():
            (folder / target.name).symlink_to(target)
    for name in CONFIGS:
        (folder / name).unlink(missing_ok=True)
        found = [path for path in (RESULTS.parent / name, ROOT / name) if path.exists()]
        if found:
            shutil.copy(found[0], folder / name)
    content = read(folder / CONFIGS[0])  # of both files
    (folder / CONFIGS[1]).unlink(missing_ok=True)
    with suppress(AttributeError, KeyError, TypeError):  # Snakemake names what is wrong in it
        for gpu in content["gpus"]:
            gpu |= {key: _placed(gpu[key]) for key in ("recording", "recordings") if key in gpu}
    write_atomic(folder / CONFIGS[0], yaml.safe_dump(content, sort_keys=False))
    return folder


def _placed(recording: str | list[str]) -> str | list[str]:
    """Return the path of a recording of the current folder, or else of the study, or several."""
    if isinstance(recording, list):
        return [str(_placed(each)) for each in recording]
    here, there = RESULTS.parent / recording, ROOT / recording
    return str(there if there.exists() and not here.exists() else here)


def main() -> int:
    """Run the command; return its exit status."""
    parser = CommandParser(prog="python -m workflow.run", description="Run the workflow.")
    add_report(commands_of(parser))
    arguments = parser.parse_args()
    status: int = arguments.run(arguments)
    return status


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


@contextmanager
def only_run() -> Iterator[IO[str]]:
    """Be the one run in this checkout; raises Refused if another one is at work.

    Yields the file that holds the lock. Whoever inherits it keeps the lock.
    """
    ALIVE.parent.mkdir(exist_ok=True)
    with ALIVE.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Refused(
                f"another run is at work here (process {file.read()}); wait for it, or end it"
            ) from None
        shutil.rmtree(LOCKS, ignore_errors=True)  # nobody is at work: they were left behind
        yield file


def run(arguments: argparse.Namespace, lock: IO[str], display: Display) -> int:
    """Run Snakemake to its end; tell the outcome; return its exit status. Raises Stopped."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    begin, state = time.monotonic(), State()
    events, written = os.pipe()
    with LOG.open("w") as log, os.fdopen(events, "rb", buffering=0) as stream:
        process = subprocess.Popen(
            _command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(written, lock.fileno()),
            env=_environment(written),
        )
        os.close(written)
        lock.truncate(0)
        lock.write(str(process.pid))
        lock.flush()
        try:
            _follow(stream, state, display)
            status = process.wait()
        except Stopped:
            end(process.pid)
            process.wait()
            shutil.rmtree(LOCKS, ignore_errors=True)
            raise
    display.clear()
    if status:
        display.say(f"error: {_reason(state)}")
    elif arguments.target == "report":
        _show_outcome(time.monotonic() - begin)
    return status


def _command(arguments: argparse.Namespace) -> list[str]:
    cores = str(arguments.cores or "all")
    command = [sys.executable, "-m", "snakemake", arguments.target, "--cores", cores]
    command += ["--rerun-incomplete", "--logger", "events"]
    return command + (["--config", f"scope={arguments.scope}"] if arguments.scope else [])


def _environment(written: int) -> dict[str, str]:
    plugins = [str(ROOT / "workflow" / "events"), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, plugins))
    return {**os.environ, "PYTHONPATH": path, "MATMUL_STUDY_EVENTS": str(written)}


def _follow(stream: IO[bytes], state: State, display: Display) -> None:
    """Note the events, and show how far it is, until nobody can write any more."""
    rest = b""
    while True:
        state.show(display)
        if not select.select([stream], [], [], 0.25)[0]:
            continue
        data = stream.read(1 << 16)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            state.note(json.loads(line))
            state.show(display)


def _reason(state: State) -> str:
    """Return in one line why a run failed, and where more stands."""
    if state.failed:
        said = last_lines(state.failed.log)
        told = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
        reason = (told or said or ["it ended without a word"])[-1]
        return f"{state.failed.message}: {reason} (more in {state.failed.log})"
    said = last_lines(LOG)
    refused = [line for line in said if line.startswith("error: ")]
    if refused:  # by the Snakefile, before anything ran
        return refused[-1].removeprefix("error: ")
    words = " ".join((state.error or "".join(said[-1:])).split())
    return f"{words[:_LONGEST] or 'Snakemake ended without a word'} (more in {LOG})"


def _show_outcome(took_s: float) -> None:
    """Print the answers and where the report is."""
    in_force = {}
    with suppress(OSError):
        in_force = yaml.safe_load(Path("results/config.yaml").read_text())
    command = [sys.executable, "-m", "analysis", "answers", "--tables", "results/tables"]
    focus = in_force.get("report", {}).get("focus")
    command += ["--focus", focus] if focus else []
    answers = subprocess.run(command, capture_output=True, text=True, check=False)
    if answers.returncode == 0:
        print(answers.stdout.rstrip())
    is_quick = in_force.get("study", {}).get("scope") == "quick"
    more = "; STUDY=full measures the whole study" if is_quick else ""
    print(f"The report: {RESULTS / 'report.html'} (in {clock(took_s)}{more})", flush=True)


def end(pid: int) -> None:
    """End a process and all that it has started: ask first, and insist soon after."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    asked = _family(pid)
    for each in asked:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGINT)
    _, left = psutil.wait_procs(asked, timeout=_GRACE_S)
    for each in {member for one in left for member in _family(one.pid)}:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def _family(pid: int) -> list[psutil.Process]:
    """Return a process and all that it has started; none if it is gone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def wait_for_edit(display: Display) -> None:
    """Return when a file that the page is made of has been edited."""
    before = _edited()
    while _edited() == before:
        display.show(f"watching {' and '.join(WATCHED)}; Ctrl-C ends it")
        time.sleep(0.25)


def _edited() -> dict[Path, float]:
    found = {}
    for path in (path for name in WATCHED for path in Path(name).rglob("*.*")):
        with suppress(FileNotFoundError):  # editors make files that are gone at once
            if path.suffix != ".pyc":
                found[path] = path.stat().st_mtime
    return found


if __name__ == "__main__":
    sys.exit(main())
