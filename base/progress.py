"""Progress that a person can follow: what is measured now, cells done of all, time left."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

_INTERVAL_S = 2.0


class Progress:
    """Prints one line every two seconds at most, rewritten in place on a terminal."""

    def __init__(
        self, label: str, total: int, unit: str = "cells", stream: TextIO | None = None
    ) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._stream = stream or sys.stderr
        self._in_place = self._stream.isatty()
        self._printed = 0.0
        self._started = time.monotonic()

    def show(
        self,
        what: object,
        done: int,
        left_s: Callable[[], float | None],
        bound: str = "at most",
    ) -> None:
        """Show that `what` is worked on, `done` of all are finished and `left_s()` seconds remain.

        `bound` says how that is meant. The estimate costs more than a short pass and is asked for
        only when a line is due.
        """
        now = time.monotonic()
        if now - self._printed < _INTERVAL_S:
            return
        self._printed = now
        estimate_s = left_s()
        left = "" if estimate_s is None else f", {bound} {_clock(estimate_s)} left"
        self._line(f"{self._label}: {done}/{self._total} {self._unit}{left} · {what}")

    def show_share(self, what: object, done: int) -> None:
        """Show that `what` is the last of `done`; each of the rest is taken to need as long."""
        took_s = time.monotonic() - self._started
        self.show(what, done, lambda: took_s / done * (self._total - done), "about")

    def end(self) -> None:
        """Say that all is done, and how long it took."""
        took = _clock(time.monotonic() - self._started)
        self._line(f"{self._label}: {self._total}/{self._total} {self._unit} in {took}")
        if self._in_place:
            print(file=self._stream)

    def _line(self, text: str) -> None:
        before, after = ("\r\x1b[2K", "") if self._in_place else ("", "\n")
        print(f"{before}{text}", end=after, file=self._stream, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
