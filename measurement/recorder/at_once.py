"""Running concurrent jobs in threads that can wait for each other."""

import queue
import threading
from collections.abc import Callable, Sequence

Meet = Callable[[], object]


def run_at_once(jobs: Sequence[Callable[[Meet], None]]) -> None:
    """Run the jobs; each gets a function `meet`, which waits until all jobs have called it.

    Raise the error of the first job that fails, without waiting for the others, because their
    daemon threads end with the process.
    """
    barrier = threading.Barrier(len(jobs))
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run(job: Callable[[Meet], None]) -> None:
        try:
            job(barrier.wait)
            ended.put(None)
        except BaseException as error:  # raised again in the caller's thread
            ended.put(error)
            barrier.abort()

    for job in jobs:
        threading.Thread(target=run, args=(job,), daemon=True).start()
    for _ in jobs:
        error = ended.get()
        if error:
            raise error
