"""``gemm-study report``: run the workflow and show its progress.

Snakemake's log is written to results/logs/snakemake.log. Only one run at a time is possible in a
checkout, so a run locks the file `ALIVE`. Linux releases this lock when all processes of the run
have ended. Snakemake's own lock remains after ``kill -9``, so the next run removes it. If this
process is killed, the logger plugin ends Snakemake and its jobs.
"""

import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import yaml

from base.errors import StudyError
from base.paths import IS_CHECKOUT, RESULTS, ROOT, default_config
from base.processes import adopt_orphans, end_children
from base.progress import clock
from workflow.progress import EXPECTED_S, FULL_S, Display, State, last_lines

LOG = Path("results/logs/snakemake.log")
ALIVE = Path(".snakemake/alive")
LOCKS = Path(".snakemake/locks")
WATCHED = ("report", "analysis")
_LONGEST = 300  # longest quoted message of Snakemake, in characters
# Errors of Snakemake if the target is an unknown name, a rule with wildcards or empty.
_NO_TARGET = re.compile("MissingRuleException|.*Target rules may not|.*no path specified", re.S)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818  not an error
    """The user stopped the run."""


@dataclass(frozen=True)
class Request:
    """What to make: a rule or file, in scope quick or full (None: as before), on `cores`."""

    target: str
    scope: str | None
    cores: int | None


def report(request: Request, is_watching: bool) -> int:
    """Run the workflow and, if `is_watching`, again after each edit; return the exit status."""
    os.chdir(working_folder())
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores the signal; keep it so
            signal.signal(number, _stop)
    adopt_orphans()
    display = Display()
    try:
        with only_run() as lock:
            try:
                status = run(request, lock, display)
                while is_watching:
                    wait_for_edit(display)
                    status = run(request, lock, display)
                return status
            finally:
                end_children()
                shutil.rmtree(LOCKS, ignore_errors=True)
    except Stopped:
        with suppress(OSError):  # the terminal may be gone
            display.say("stopped; rerun the same command to resume")
        return 130
    finally:
        with suppress(OSError):
            display.clear()


def working_folder() -> Path:
    """Return Snakemake's working folder: the checkout, or results/.study of an installed study.

    The folder results/.study contains links to the study and the results, and the config of the
    current folder or, if there is none, that of the study.
    """
    if IS_CHECKOUT:
        return ROOT
    from study.config_file import read  # imported here, because it imports yaml, which is slow
    from study.working_folder import fill

    folder = RESULTS / ".study"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS.name).unlink(missing_ok=True)
    (folder / RESULTS.name).symlink_to(RESULTS)
    fill(folder, read(default_config()), RESULTS.parent)
    return folder


def _stop(number: int, frame: FrameType | None) -> None:
    for signal_number in _SIGNALS:  # a second signal must not interrupt the clean-up
        signal.signal(signal_number, lambda *_: None)
    raise Stopped


@contextmanager
def only_run() -> Iterator[IO[str]]:
    """Lock this checkout; raise StudyError if another run is active.

    Yield the locked file. A process that inherits the file keeps the lock after this one ends.
    """
    ALIVE.parent.mkdir(exist_ok=True)
    with locked() as file:
        shutil.rmtree(LOCKS, ignore_errors=True)  # left by a killed run
        yield file


def locked() -> IO[str]:
    """Return the file `ALIVE`, locked; raise StudyError if another run has locked it."""
    file = ALIVE.open("a+")
    for _ in range(60):  # for 3 s, because processes of a killed run end by themselves
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        time.sleep(0.05)
    with file:
        file.seek(0)
        owner = f"another run is active in this folder (process {file.read()})"
    raise StudyError(f"{owner}; wait for its end or stop it")


def sign(file: IO[str], process: int) -> None:
    """Write the number of the process that runs Snakemake to the locked file."""
    file.truncate(0)
    file.write(str(process))
    file.flush()


def run(request: Request, lock: IO[str], display: Display) -> int:
    """Run Snakemake, print the outcome, return its exit status; raise Stopped."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    begin, state = time.monotonic(), State(FULL_S if request.scope == "full" else EXPECTED_S)
    events, written = os.pipe()
    with LOG.open("w") as log, os.fdopen(events, "rb", buffering=0) as stream:
        process = subprocess.Popen(
            _command(request),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(written, lock.fileno()),
            env=_environment(written),
        )
        os.close(written)
        sign(lock, process.pid)
        _follow(stream, state, display)
        status = process.wait()
    if status < 0:
        name = signal.Signals(-status).name
        raise StudyError(f"Snakemake was ended by {name}; rerun the same command")
    if status and _NO_TARGET.match(state.error):
        command = [sys.executable, "-m", "snakemake", "--list-target-rules"]
        rules = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        remedy = f"use {', '.join(rules)}, or a file that a rule makes"
        raise StudyError(f"TARGET: {request.target!r} is unknown; {remedy}")
    if status:
        display.say(f"error: {_reason(state)}")
    elif request.target == "report":
        display.clear()
        _show_outcome(time.monotonic() - begin)
    return 2 if status else 0


def _command(request: Request) -> list[str]:
    cores = str(request.cores or "all")
    command = [sys.executable, "-m", "snakemake", "--cores", cores]
    command += ["--rerun-incomplete", "--logger", "events"]
    command += ["--config", f"scope={request.scope}"] if request.scope else []
    return [*command, "--", request.target]


def _environment(written: int) -> dict[str, str]:
    plugins = [str(ROOT / "workflow" / "events"), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, plugins))
    variables = {"PYTHONPATH": path, "PYTHONUTF8": "1", "MATMUL_STUDY_EVENTS": str(written)}
    return os.environ | variables


def _follow(stream: IO[bytes], state: State, display: Display) -> None:
    """Process events and show the progress until all writers have closed the pipe."""
    rest = b""
    while True:
        state.show(display)
        if not select.select([stream], [], [], 0.25)[0]:
            continue
        data = stream.read(1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["event"] == "note":
                display.say(event["text"])
            state.note(event)
            state.show(display)


def _reason(state: State) -> str:
    """Return one line that says why a run failed and where the log is."""
    log = state.failed.log if state.failed else LOG
    lines = last_lines(log)
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if state.failed:
        reason = (errors or lines or ["no message"])[-1]
        return f"{state.failed.message}: {reason} (see {log})"
    if errors:  # errors of the Snakefile, before any job
        return errors[-1]
    text = state.error or "".join(lines[-1:])
    if text.startswith("Traceback"):
        text = text.strip().splitlines()[-1]
    words = " ".join(text.split())
    return f"{words[:_LONGEST] or 'Snakemake failed without a message'} (see {log})"


def _show_outcome(took_s: float) -> None:
    in_force = {}
    with suppress(OSError):
        in_force = yaml.safe_load(Path("results/config.yaml").read_text())
        sys.stdout.write(Path("results/report.txt").read_text().lstrip())
    is_quick = in_force.get("study", {}).get("scope") == "quick"
    whole = "make report STUDY=full" if IS_CHECKOUT else "gemm-study report --full"
    more = f"; for the whole study use `{whole}`" if is_quick else ""
    print(f"The report: {RESULTS / 'report.html'} (in {clock(took_s)}{more})", flush=True)


def wait_for_edit(display: Display) -> None:
    """Wait until a file of the report or the analysis is edited."""
    before = _edit_times()
    while _edit_times() == before:
        display.show(f"watching {' and '.join(WATCHED)} for edits; Ctrl-C to stop")
        time.sleep(0.25)


def _edit_times() -> dict[Path, float]:
    times = {}
    for path in (path for name in WATCHED for path in Path(name).rglob("*.*")):
        with suppress(FileNotFoundError):  # editors delete their temporary files
            if path.suffix != ".pyc":
                times[path] = path.stat().st_mtime
    return times
