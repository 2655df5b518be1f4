"""The one exception class for everything a user can put right, and how commands end with it."""

import os
import sys
from collections.abc import Callable

_LONGEST = 2000  # characters of a message


class StudyError(Exception):
    """A mistake in the input or the environment; its message is one line naming thing and remedy.

    Every command prints it as ``error: <message>`` and exits with status 2, without a traceback.
    What it quotes may be anybody's: nothing of it breaks the line, moves a cursor or has no end.
    """

    def __init__(self, message: str = "") -> None:
        line = "".join(c if c.isprintable() else " " for c in message)
        super().__init__(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ...")


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command line's `command`; return its exit status.

    That is what `command` returns (None is 0: most have nothing to tell), or 2 after printing the
    error.
    """
    try:
        return command() or 0
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; run the same command again", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (`| head`) has gone; nothing is lost
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a folder that cannot be made, a full disk
        print(f"error: {error.filename or 'input or output'}: {error.strerror}", file=sys.stderr)
        return 2
    return 0
