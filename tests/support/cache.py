"""A cache of results that are slow to compute, shared by all workers and later runs.

The name of a result contains the hash of its inputs, so no result is outdated.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.support import ROOT

FOLDER = ROOT / ".pytest_cache" / "made"
KEPT_S = 7 * 86400.0  # after the last use
_LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib", "seaborn", "jinja2")


def made(name: str, inputs: Iterable[object], make: Callable[[Path], object]) -> Path:
    """Return the read-only folder that `make` filled, once for the same texts, numbers, files."""
    digest = hashlib.sha256()
    for each in inputs:
        digest.update(_content(each) + b"\0")
    out = FOLDER / f"{name}-{digest.hexdigest()[:16]}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
                whole = Path(temporary) / "whole"
                whole.mkdir()
                make(whole)
                whole.rename(out)
    os.utime(out)
    return out


@cache
def code(*names: str) -> str:
    """Return the hash of files and folders of the study, and of the libraries that they use."""
    versions = [sys.version, *map(version, _LIBRARIES)]
    contents = [_content(ROOT / name) for name in names]
    return hashlib.sha256(b"".join([*map(str.encode, versions), *contents])).hexdigest()


def tidy() -> None:
    """Remove results that no run has used for `KEPT_S`."""
    for path in FOLDER.glob("*"):
        try:
            if time.time() - path.stat().st_mtime > KEPT_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except FileNotFoundError:
            continue  # another worker was first


def _content(each: object) -> bytes:
    """Return a text or number as it is, a file as its hash, a folder as those of its files."""
    if not isinstance(each, Path):
        return repr(each).encode()
    files = [each] if each.is_file() else sorted(each.rglob("*"))
    digest = hashlib.sha256()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(each)}\0".encode() + file.read_bytes() + b"\0")
    return digest.digest()
