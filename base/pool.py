"""A thread pool for work that waits for compilers or for C code."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    announce: Callable[[int, Item], None],
) -> list[Result]:
    """Apply `work` to all items, `workers` at a time; return the results in the items' order.

    After each item, `announce` gets the number of finished items and the item. After an exception
    or interrupt no further item starts. The exception is raised when the running items have ended.
    """
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(work, item): item for item in items}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                announce(done, futures[future])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]
