"""The sources of the repository that contains a file, those in the nearest folders first."""

import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

_SUFFIXES = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
# At the top of a repository; without ``.git``, the highest folder with one of them.
_MARKS = ("README.md", "LICENSE", "Makefile", "CMakeLists.txt")
_LEVELS = 5
_MOST_FOLDERS = 20_000  # that are searched: a home folder may contain millions of files


def sources(path: Path) -> list[Path]:
    """Return the CUDA sources and headers of a file's repository; of its folder without one."""
    source = path.resolve()

    def distance(file: Path) -> tuple[int, int, Path]:
        common = len(os.path.commonpath([file.parent, source.parent]).rstrip(os.sep))
        up, down = str(source.parent)[common:], str(file.parent)[common:]
        return up.count(os.sep), down.count(os.sep), file

    return sorted(_below(_top(source)), key=distance)


def _top(source: Path) -> Path:
    """Return the top folder of a file's repository."""
    above = source.parents[:_LEVELS]
    if clone := next((folder for folder in above if (folder / ".git").exists()), None):
        return clone
    marked = [folder for folder in above if any((folder / mark).exists() for mark in _MARKS)]
    return marked[-1] if marked else source.parent


@lru_cache(4)
def _below(top: Path) -> list[Path]:
    return list(_walked(top))


def _walked(top: Path) -> Iterator[Path]:
    for folder, below, names in islice(os.walk(top), _MOST_FOLDERS):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(_SUFFIXES))
