"""The descendants of this process: adopt orphans, end all."""

import ctypes
import signal
from contextlib import suppress

import psutil

_GRACE_S = 0.7  # wait between SIGINT and SIGKILL
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, so that `end_children` finds them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Let Linux kill this process when the thread that started this process ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_children() -> None:
    """End all descendants of this process: by SIGINT and, if they persist, by SIGKILL."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.send_signal(signal.SIGINT)
    psutil.wait_procs(children, timeout=_GRACE_S)
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=_GRACE_S)
