"""Work in a separate process, within limits of time and memory."""

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from base.errors import StudyError

Result = TypeVar("Result")


class LimitReached(StudyError):  # noqa: N818  no fault of the work
    """The work needed more time or memory than allowed."""


def limited(work: Callable[[], Result], seconds: float, memory_bytes: int) -> Result:
    """Return the result of `work`, which runs in a fork of this process.

    The fork and its children may use `memory_bytes` of address space each, beyond what this process
    has. Raises LimitReached after `seconds` or if memory is exhausted, StudyError if a signal ends
    the fork, and every StudyError that `work` raises.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(work, sender, memory_bytes), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise LimitReached(f"host execution takes more than {seconds:g} s")
        outcome: Result | BaseException = receiver.recv()
    except EOFError:
        process.join()
        name = (
            signal.Signals(-(process.exitcode or 0)).name if (process.exitcode or 0) < 0 else "exit"
        )
        raise StudyError(f"host execution ends by {name}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()  # a fork that is no group yet
        process.join()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _run(work: Callable[[], object], sender: Connection, memory_bytes: int) -> None:
    faulthandler.disable()
    os.setsid()  # a group, to be ended with its compilers
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory_bytes, used + memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        outcome = work()
    except MemoryError:
        outcome = LimitReached(f"host execution needs more than {memory_bytes / 2**30:.2g} GiB")
    except Exception as error:
        outcome = error
    sender.send(outcome)
