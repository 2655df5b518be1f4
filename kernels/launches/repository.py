"""The CUDA sources of a file's repository; those in the nearest folders are first."""

import os
from functools import lru_cache
from itertools import islice
from pathlib import Path

_SUFFIXES = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
# Files at the top of a repository; without ``.git``, the highest folder with one of them counts.
_MARKS = ("README.md", "LICENSE", "Makefile", "CMakeLists.txt")
_LEVELS = 5
MOST_BYTES = 1 << 18  # of a file that is searched
_MOST_FOLDERS = 20_000  # limit of the search, because a home folder may have millions of files


def sources(path: Path) -> tuple[Path, ...]:
    """Return the CUDA sources and headers of a file's repository or, without one, of its folder."""
    return _nearest_first(path.resolve().parent)


@lru_cache(64)
def _nearest_first(folder: Path) -> tuple[Path, ...]:
    def distance(file: Path) -> tuple[int, int, Path]:
        common = len(os.path.commonpath([file.parent, folder]).rstrip(os.sep))
        up, down = str(folder)[common:], str(file.parent)[common:]
        return up.count(os.sep), down.count(os.sep), file

    return tuple(sorted(_below(_top(folder)), key=distance))


def _top(folder: Path) -> Path:
    """Return the top folder of the repository that contains a folder."""
    above = [folder, *folder.parents][:_LEVELS]
    if clone := next((folder for folder in above if (folder / ".git").exists()), None):
        return clone
    marked = [folder for folder in above if any((folder / mark).exists() for mark in _MARKS)]
    return marked[-1] if marked else folder


@lru_cache(4)
def _below(top: Path) -> list[Path]:
    files = list[Path]()
    for folder, below, names in islice(os.walk(top), _MOST_FOLDERS):
        below[:] = sorted(name for name in below if not name.startswith("."))
        files += (Path(folder, name) for name in sorted(names) if name.endswith(_SUFFIXES))
    return files
