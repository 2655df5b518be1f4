"""Start-up code of every Python in ``.venv``; the set-up copies this module there.

A full disk must not cut off bytecode, and modules in PYTHONPATH must not replace the locked
modules.
"""

import _frozen_importlib_external as importing
import os
import sys


def _write_atomic(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write bytecode, or raise OSError: on a full disk, Python 3.11 keeps a truncated file."""
    temporary = f"{path}.{os.getpid()}"
    handle = os.open(temporary, os.O_EXCL | os.O_CREAT | os.O_WRONLY, mode & 0o666)
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


setattr(importing, "_write_atomic", _write_atomic)  # noqa: B010  private, unknown to mypy
if not sys.flags.ignore_environment:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = {os.path.abspath(folder) for folder in given}
    sys.path.sort(key=folders.__contains__)  # last
