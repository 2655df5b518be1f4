"""The exception class of all errors that a user can fix, and the exit status of commands."""

import errno
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

_LONGEST = 2000  # longest message, in characters
_FULL = os.strerror(errno.ENOSPC)
_REMEDIES = {errno.EFBIG: "; raise `ulimit -f`", errno.EMFILE: "; raise `ulimit -n`"}
_REMEDIES |= {errno.ENOSPC: "", 0: ""}  # all other errors are faults of a path


class StudyError(Exception):
    """An error in the input or the environment; its one-line message names fault and remedy.

    Every command prints ``error: <message>`` and exits with status 2, without a traceback. Messages
    may quote untrusted text: control characters are replaced, and the length is limited.
    """

    def __init__(self, message: str = "") -> None:
        line = "".join(c if c.isprintable() else " " for c in message)
        super().__init__(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ...")


def exit_status(command: Callable[[], int | None]) -> int:
    """Run `command`; return its result as exit status (None: 0), or print an error, return 2."""
    _prepare_streams()
    try:
        try:
            status = command() or 0
        except SystemExit as end:  # raised by argparse after help or an error
            status = int(end.code or 0)
        sys.stdout.flush()
        return status
    except StudyError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted; rerun the same command", 130)
    except BrokenPipeError:
        # Without standard error nobody sees a failure. The reader of the output (`| head`) may end.
        return _fail("standard error is closed", 141) if has_no_reader(sys.stderr) else 0
    except OSError as error:  # for example no permission, or a full disk
        # A rename names its target, not the temporary file. Errors of libraries lack strerror.
        thing = error.filename2 or error.filename or "input or output"
        remedy = _REMEDIES.get(error.errno or 0, "; correct it, or use another path")
        return _fail(f"{thing}: {error.strerror or error}{remedy}")
    except MemoryError as error:
        amount = f" ({error})" if str(error) else ""
        return _fail(f"not enough memory{amount}; end other programs, or raise `ulimit -v`")
    finally:
        _flush(sys.stdout)


def has_no_reader(stream: TextIO) -> bool:
    """Return whether a stream is a pipe that nobody reads any more."""
    with suppress(OSError, ValueError):  # a stream without descriptor is no pipe
        writer = select.poll()
        writer.register(stream, 0)
        return any(events & select.POLLERR for _, events in writer.poll(0))
    return False


def _prepare_streams() -> None:
    """Reopen closed standard streams; let streams replace characters that they cannot encode."""
    for number in range(3):  # otherwise a file would get the number of the closed stream
        with suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _fail(message: str, status: int = 2) -> int:
    if _FULL in message and "free" not in message:  # a compiler's message can say so, too
        temporary = os.environ.get("TMPDIR", "/tmp")
        message += f"; free space there or in {temporary} (TMPDIR), and rerun the same command"
    with suppress(OSError):
        print(f"error: {message}", file=sys.stderr)
    _flush(sys.stderr)
    return status


def _flush(stream: TextIO) -> None:
    """Flush a stream; if that fails, discard its buffered text."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
