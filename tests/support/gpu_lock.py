"""Processes that test on the same GPU: those that measure times there wait until they are alone."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from tests.support import cache

Use = Literal["shared", "alone", "by a child"]


@contextmanager
def gpu(use: Use = "shared") -> Iterator[None]:
    """Use the GPU with others or alone; with "by a child", a child process calls this itself."""
    if use == "by a child":
        yield
        return
    cache.FOLDER.mkdir(parents=True, exist_ok=True)
    queue, lock = ((cache.FOLDER / f"gpu-{name}.lock").open("w") for name in ("queue", "use"))
    with queue, lock:
        fcntl.flock(queue, fcntl.LOCK_EX)  # who waits for the GPU alone is not overtaken
        fcntl.flock(lock, fcntl.LOCK_EX if use == "alone" else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield
