"""Jobs that run at the same time, each in a thread, and that wait for each other where they say."""

import queue
import threading
from collections.abc import Callable, Sequence

Meet = Callable[[], object]


def run_at_once(jobs: Sequence[Callable[[Meet], None]]) -> None:
    """Run the jobs; each is given what it calls to wait until all others have called it as well.

    Raises what the first raises that fails. The threads of the others end with the process: they
    are not waited for.
    """
    barrier = threading.Barrier(len(jobs))
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run(job: Callable[[Meet], None]) -> None:
        try:
            job(barrier.wait)
            ended.put(None)
        except BaseException as error:  # whatever it is, the caller's thread must have it
            ended.put(error)
            barrier.abort()

    for job in jobs:
        threading.Thread(target=run, args=(job,), daemon=True).start()
    for _ in jobs:
        error = ended.get()
        if error:
            raise error
