"""Progress of a long command: the current job, how many jobs are done, and the time remaining."""

import re
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base.progress import clock

# Seconds of each rule on two cores. An estimate in a log may be for one phase only: the longer of
# both is used.
EXPECTED_S = {"build": 30, "count": 25, "measure": 60, "tables": 30, "figures": 20, "render": 10}
FULL_S = EXPECTED_S | {"measure": 300}
_REDRAWN_S = 0.5
_PLAIN_S = 15.0
_TAIL_BYTES = 4096
_TIME_LEFT = re.compile(r"(?:at most|about) (\d+):(\d\d) left")


def last_lines(path: Path | None) -> list[str]:
    """Return the last non-empty lines of a log; empty if it is not readable."""
    if path is None:
        return []
    with suppress(OSError), path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
        return [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    return []


class Display:
    """Shows progress on standard error: on a terminal as one line with a running clock.

    Otherwise, it prints a line when the work changes, and at least every 15 s.
    """

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown = float("-inf")
        self._work = ""

    def show(self, work: str, detail: str = "", left_s: float | None = None) -> None:
        """Show the current work, its detail and the remaining time; call this often."""
        now = time.monotonic()
        pause_s = _REDRAWN_S if self._on_terminal else _PLAIN_S
        if work == self._work and now - self._shown < pause_s:
            return
        self._work, self._shown = work, now
        left = "" if left_s is None else f", about {clock(left_s)} left"
        text = " · ".join(filter(None, [f"{clock(now - self._started)}{left}", work, detail]))
        if self._on_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[2K{text[:width]}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def show_again(self) -> None:
        """Show the current work again, so that its clock advances."""
        self.show(self._work)

    def say(self, text: str) -> None:
        """Print a line that stays, above the progress line."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the progress line."""
        if self._on_terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
        self._shown = float("-inf")


@dataclass
class Job:
    """A job: its expected seconds, message and log, and when the run and the job started."""

    expected_s: float
    message: str
    log: Path | None
    run_began: float
    began: float = field(default_factory=time.time)

    def detail(self) -> str:
        """Return the last line of the job's log; empty if the log is from an earlier run."""
        with suppress(OSError):
            if self.log and self.log.stat().st_mtime >= self.run_began:
                return (last_lines(self.log) or [""])[-1]
        return ""

    def left_s(self) -> float:
        """Return the remaining seconds: those in the log, but no less than expected."""
        estimate = _TIME_LEFT.search(self.detail())
        told_s = 60 * int(estimate[1]) + int(estimate[2]) if estimate else 0
        return max(told_s, self.expected_s - (time.time() - self.began))


@dataclass
class State:
    """The state of a run, as Snakemake's events report it (`snakemake_logger_plugin_events`)."""

    expected_s: Mapping[str, int]  # expected seconds of a job by rule
    waiting: dict[str, int] = field(default_factory=dict)  # number of waiting jobs by rule
    steps: int = 0
    done: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)  # running jobs by id
    failed: Job | None = None
    error: str = ""
    began: float = field(default_factory=time.time)

    def note(self, event: dict[str, Any]) -> None:
        """Update the state by one event."""
        match event["event"]:
            case "run_info":
                self.waiting = {k: v for k, v in event["stats"].items() if k != "total"}
                self.steps = sum(self.waiting.values())
            case "job_info":
                log = Path(event["log"][0]) if event["log"] else None
                rule = event["rule_name"]
                if self.failed is self.jobs.get(event["jobid"]):  # this is its second attempt
                    self.failed = None
                message, expected_s = event["rule_msg"] or rule, self.expected_s.get(rule, 0)
                self.jobs[event["jobid"]] = Job(expected_s, message, log, self.began)
                self.waiting[rule] -= 1
            case "job_finished":
                self.jobs.pop(event["job_id"], None)
                self.done += 1
            case "job_error":
                self.failed = self.failed or self.jobs.get(event["jobid"])
            case "error":
                self.error = self.error or event["text"]

    def show(self, display: Display) -> None:
        """Show the last started job, the jobs done, and the remaining time."""
        if not self.steps:
            display.show("planning jobs")
            return
        if not self.jobs:  # between two jobs
            display.show_again()
            return
        waiting_s = sum(self.expected_s.get(rule, 0) * n for rule, n in self.waiting.items())
        left_s = waiting_s + sum(job.left_s() for job in self.jobs.values())
        job = list(self.jobs.values())[-1]
        display.show(f"{self.done + 1}/{self.steps} {job.message}", job.detail(), left_s)
