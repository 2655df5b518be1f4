"""Progress lines: the current item, how many items are done, and the time remaining."""

import sys
import time
from collections.abc import Callable

_INTERVAL_S = 2.0
_SHARE = 0.2  # share of the items that must be done before an estimate is shown


class Progress:
    """Prints at most one line every two seconds, which overwrites the last one on a terminal."""

    def __init__(self, label: str, total: int, unit: str = "cells") -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._in_place = sys.stderr.isatty()
        self._printed = 0.0
        self._started = time.monotonic()
        self._first: tuple[int, float] | None = None  # items of `show_share`, and when

    def show(
        self, item: object, done: int, left_s: Callable[[], float | None], bound: str = "at most"
    ) -> None:
        """Show the current item, the number of finished items and the seconds remaining.

        `left_s` estimates these seconds; `bound` is the word before them, such as "about". `left_s`
        is called only when a line is due, because the estimate takes longer than a short run.
        """
        now = time.monotonic()
        if now - self._printed < _INTERVAL_S:
            return
        self._printed = now
        estimate_s = left_s()
        left = "" if estimate_s is None else f", {bound} {clock(estimate_s)} left"
        self._line(f"{self._label}: {done}/{self._total} {self._unit}{left} · {item}")

    def show_share(self, item: object, done: int) -> None:
        """Show the last finished item, and the time remaining if all items take equally long.

        The first item is excluded from the estimate, because its time includes the start. No
        estimate is shown until enough items are done, because a few do not predict the others.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = (done, now)
        before, began = self._first
        count, left = done - before, self._total - done
        is_estimate = count >= _SHARE * self._total
        self.show(
            item, done, lambda: (now - began) / count * left if is_estimate else None, "about"
        )

    def end(self) -> None:
        """Show the number of items and the elapsed time."""
        took = clock(time.monotonic() - self._started)
        self._line(f"{self._label}: {self._total}/{self._total} {self._unit} in {took}")
        if self._in_place:
            print(file=sys.stderr)

    def _line(self, text: str) -> None:
        before, after = ("\r\x1b[2K", "") if self._in_place else ("", "\n")
        print(f"{before}{text}", end=after, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, such as ``1:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
