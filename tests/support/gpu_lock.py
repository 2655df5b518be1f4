"""Processes that test on the same GPU: those that measure times there wait until they are alone."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Literal

from tests.support import cache

Use = Literal["shared", "alone", "later"]


@contextmanager
def gpu(use: Use = "shared") -> Iterator[None]:
    """Use the GPU with others or alone; later: the test itself calls this around its times."""
    if use == "later":
        yield
        return
    # Who waits for the GPU alone is not overtaken.
    with _locked("queue", fcntl.LOCK_EX) as queue, _locked("use", _MODES[use]):
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextmanager
def only_recording() -> Iterator[None]:
    """Wait for the recordings of other processes: there is one at a time on a GPU."""
    with _locked("recording", fcntl.LOCK_EX):
        yield


_MODES = {"alone": fcntl.LOCK_EX, "shared": fcntl.LOCK_SH}


@contextmanager
def _locked(name: str, mode: int) -> Iterator[IO[str]]:
    cache.FOLDER.mkdir(parents=True, exist_ok=True)
    with (cache.FOLDER / f"gpu-{name}.lock").open("w") as lock:
        fcntl.flock(lock, mode)
        yield lock
