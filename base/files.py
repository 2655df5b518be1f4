"""Atomic writes and digests of files."""

import ast
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from base.errors import StudyError

MANIFEST = "MANIFEST.sha256"  # this file marks a finished recording


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write `content` to `path` atomically; create parent folders."""
    with atomic_writer(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_writer(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` when the block ends without an exception.

    The temporary file is in the same folder, so the rename stays within one file system. Data are
    flushed to disk before the rename. Parent folders are created.
    """
    path = Path(os.path.realpath(path))  # a rename would replace a link
    if path.exists() and not path.is_file():  # the path is a device or a folder
        raise StudyError(f"{path}: is not a regular file; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~current_umask())
        os.replace(temporary, path)
    except BaseException as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.strerror and not (temporary and error.filename):
            error.filename = str(path)  # not the temporary file, or no file if the disk is full
        raise


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread is in a block for `folder`; create it if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def holds_recording(folder: Path) -> bool:
    """Return whether a folder contains a finished recording."""
    return (folder / MANIFEST).exists()


def current_umask() -> int:
    """Return the process's file mode mask (mkstemp creates private files; results are public)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def files_below(*folders: str) -> list[str]:
    """Return the sorted paths of all files in these folders, except Python's caches."""
    return [
        str(path)
        for folder in folders
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def date_not_ahead(paths: Iterable[str]) -> None:
    """Set the modification times of files to now if they are in the future.

    A copy from a machine whose clock is ahead has such times, and Snakemake would then consider
    every file made from it outdated.
    """
    now_s = time.time()
    for path in paths:
        with suppress(OSError):
            if os.stat(path).st_mtime > now_s:
                os.utime(path)


def python_files_below(*folders: str) -> list[str]:
    """Return the paths of all Python files in these folders."""
    return [path for path in files_below(*folders) if path.endswith(".py")]


def sha256(path: Path | str) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def code_digest(paths: Iterable[Path | str]) -> str:
    """Return a `digest` of Python files that ignores comments, docstrings and error messages."""
    trees = []
    for path in paths:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                node.exc.args = []
            elif hasattr(node, "body") and isinstance(node.body, list):
                node.body = [line for line in node.body if not _is_docstring(line)]
        trees.append(ast.dump(tree))
    return digest(*trees)


def digest(*parts: str | bytes) -> str:
    """Return a SHA-256 of `parts` in this order, cut to 16 hexadecimal digits."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8) + data)
    return hasher.hexdigest()[:16]
