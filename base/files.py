"""Writing files so that a reader never sees half of one."""

import ast
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write `content` to `path` in one step: whole or not at all. Parent folders are made."""
    with atomic_writer(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_writer(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` when the block ends without an exception.

    The data go to a temporary file in the same folder (so that the rename cannot cross a file
    system), reach the disk, and replace `path`. Parent folders are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~current_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def current_umask() -> int:
    """Return the process's file mode mask (mkstemp makes files private, results should not be)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sha256(path: Path | str) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def code_digest(paths: Iterable[Path | str]) -> str:
    """Return a `digest` of what Python files do: comments, docstrings and errors' texts apart."""
    trees = []
    for path in paths:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                node.exc.args = []
            elif hasattr(node, "body") and isinstance(node.body, list):
                node.body = [each for each in node.body if not _is_text(each)]
        trees.append(ast.dump(tree))
    return digest(*trees)


def digest(*parts: str | bytes) -> str:
    """Return 16 hexadecimal digits that stand for these texts or bytes, in this order."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8) + data)
    return found.hexdigest()[:16]
