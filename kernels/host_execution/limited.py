"""Running work in a separate process, within limits of time and memory."""

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, TypeVar

import psutil

from base.errors import StudyError, has_no_reader
from base.processes import end_with_parent

Result = TypeVar("Result")
_PAUSE_S = 0.05  # pause between two checks of time and memory
# The longest elapsed time: a multiple of the CPU time on a busy host, and seconds.
_MOST_ELAPSED, _MOST_ELAPSED_S = 8.0, 120.0


class LimitReached(StudyError):  # noqa: N818  no fault of the work
    """An error: the work needed more time or memory than allowed."""


def limited(
    work: Callable[[], Result], seconds: float, memory_bytes: int, name: str = "host execution"
) -> Result:
    """Return the result of `work`, which runs in a fork of this process; errors contain `name`.

    Raise LimitReached if the fork and its children use more than `seconds` of CPU time, or more
    than `memory_bytes` beyond the memory of this process, or if the work sleeps. CPU time is
    limited because other programs do not change it. Raise BrokenPipeError as soon as nobody reads
    the standard output, for example after ``| head -1``. Raise StudyError if a signal ends the
    fork, and every StudyError that `work` raises. Temporary files of the fork are removed.
    """
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as folder:
        return _limited(partial(_run, work, folder), seconds, memory_bytes, name)


def _limited(
    run: Callable[[Connection], None], seconds: float, memory_bytes: int, name: str
) -> Any:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(sender,), daemon=True)
    process.start()
    sender.close()
    try:
        elapsed_s = min(_MOST_ELAPSED * seconds, max(seconds, _MOST_ELAPSED_S))
        end, before = monotonic() + elapsed_s, psutil.Process().memory_info().rss
        while not receiver.poll(_PAUSE_S):
            if has_no_reader(sys.stdout):
                raise BrokenPipeError
            used_s, used_bytes = _used(process.pid or 0)
            if used_s > seconds or monotonic() > end:
                raise LimitReached(f"{name} takes more than {seconds:.2g} s")
            if used_bytes > before + memory_bytes:
                limit = f"{memory_bytes / 2**30:.2g} GiB"
                raise LimitReached(f"{name} needs more than {limit}")
        outcome = receiver.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        signalled = signal.Signals(-code).name if code < 0 else "exit"
        raise StudyError(f"{name} ends by {signalled}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()  # the fork may not lead a process group yet
        process.join()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def cpu_clock() -> float:
    """Return the CPU time of this process, and of the children that it has waited for, in s."""
    return sum(os.times()[:4])


def _used(pid: int) -> tuple[float, int]:
    """Return CPU time in s and bytes of memory of a process and its children; 0 if ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        processes = (process, *process.children(recursive=True))
        memory_bytes = sum(each.memory_info().rss for each in processes)
        return sum(sum(each.cpu_times()[:4]) for each in processes), memory_bytes
    return 0.0, 0


def _run(work: Callable[[], object], folder: str, sender: Connection) -> None:
    end_with_parent()
    tempfile.tempdir = folder
    faulthandler.disable()
    os.setsid()  # a process group, so that its compilers end with it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        outcome = work()
    except Exception as error:
        outcome = error
    sender.send(outcome)
