"""The exception class of all errors that a user can fix, and the exit status of commands."""

import os
import sys
from collections.abc import Callable

_LONGEST = 2000  # characters of a message


class StudyError(Exception):
    """An error in the input or the environment; its one-line message names thing and remedy.

    Every command prints ``error: <message>`` and exits with status 2, without a traceback. Messages
    may quote untrusted text: control characters are replaced, and the length is limited.
    """

    def __init__(self, message: str = "") -> None:
        line = "".join(c if c.isprintable() else " " for c in message)
        super().__init__(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ...")


def exit_status(command: Callable[[], int | None]) -> int:
    """Run `command`; return its result as exit status (None is 0), or 2 after printing an error."""
    try:
        return command() or 0
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; rerun the same command", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (`| head`) has closed the pipe: not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # for example no permission, or a full disk
        print(f"error: {error.filename or 'input or output'}: {error.strerror}", file=sys.stderr)
        return 2
    return 0
