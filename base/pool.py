"""Work that is shared out to threads, each of which waits for compilers or for C code."""

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

    After each, `announce` is called with how many are done and the item. The first exception, an
    interrupt included, is raised once what runs has ended; what waits is not begun.
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
