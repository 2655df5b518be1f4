"""Including files in the text of a source, from its repository or from given folders.

The CUDA sources of a repository are in one order: those in the nearest folders are first.
"""

import os
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from kernels.host_execution.compiler import SOURCE_NAME, preprocessed
from kernels.launches.pieces import blanked, with_conditions

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">][^\n]*', re.MULTILINE)
_MARKER = re.compile(r'^# (\d+) "<stdin>"[^\n]*', re.MULTILINE)
# Headers of C and CUDA, of which some repositories contain a copy.
_OF_COMPILERS = re.compile(
    r"(?:cuda|cuda_(?:runtime|[bf]\w*\d|pipeline|awbarrier)\w*|mma|cooperative_groups|cublas_v2|"
    r"assert|ctype|errno|float|limits|math|std\w+|string|time)\.h"
)
_MOST_DEPTH = 8
_SUFFIXES = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
# Files at the top of a repository; without ``.git``, the highest folder with one of them counts.
_MARKS = ("README.md", "LICENSE", "Makefile", "CMakeLists.txt")
_LEVELS = 5
_MOST_FOLDERS = 20_000  # limit of the search, because a home folder may have millions of files
# Marks around the text of the user's source in a file that includes it.
BEGIN, END = "// Begin of the source.\n", "// End of the source.\n"


def with_includes(path: Path, text: str, folders: Sequence[Path] = ()) -> str:
    """Return a source with the files that it includes, each once; lines keep their numbers.

    `folders` are searched first, then the repository. Directives that include files of compilers
    and libraries, which are in none of these, are kept. Code under ``#if 0`` is blanked.
    """
    return with_includes_of(path, text, path, folders)[0].rstrip("\n") + "\n"


def with_defines(text: str, defines: Sequence[str]) -> str:
    """Return a source that begins with macros, such as ``TILE=16``; without a value they are 1."""
    macros = [macro.partition("=") for macro in defines]
    lines = [f"#define {name} {value if equals else 1}" for name, equals, value in macros]
    first = [f'#line 1 "{SOURCE_NAME}"'] if lines else []
    return "\n".join([*lines, *first, text])


def with_includes_of(
    path: Path, text: str, source: Path, folders: Sequence[Path], before: Collection[Path] = ()
) -> tuple[str, set[Path]]:
    """Return a text with the files that it includes, except those `before` it, and all these files.

    `source` is the user's file; if another file includes it, `BEGIN` and `END` mark its text.
    """
    seen = {path.resolve(), *before}
    inside = _expanded(path, text, source.resolve(), folders, seen, 0)
    return inside, seen


def without_includes(text: str, kept: re.Pattern[str] | None = None) -> str:
    """Return a source without include directives, except those whose names match `kept`."""
    return _INCLUDE.sub(lambda match: match[0] if kept and kept.fullmatch(match[1]) else "", text)


def enabled(text: str) -> str:
    """Return a source in which code under ``#if 0`` is blank up to ``#else`` or ``#endif``."""
    lines = []
    for line, inside in with_conditions(text):
        disabled = [condition in ("0", "false") for _, condition in inside]
        is_branch = re.match(r"\s*#\s*(?:el|if)", line) and not any(disabled[:-1])
        lines.append(line if is_branch or not any(disabled) else "\n")
    return "".join(lines)


def conditions_of_kernels(text: str) -> list[str]:
    """Return the macros that must be defined so that a source's kernels are compiled at all.

    Those of compilers are defined. Conditions other than a macro's name are not known.
    """
    begin = text[: text.find(BEGIN) + 1].count("\n")
    end = text.count("\n", 0, text.find(END)) if END in text else text.count("\n")
    needed = [
        condition
        for line, inside in with_conditions(blanked(text))[begin : end + 1]
        for _, condition in inside
        if "__global__" in line and re.fullmatch(r"[A-Za-z]\w*", condition)
    ]
    return list(dict.fromkeys(needed))


def with_macros(text: str) -> str:
    """Return a source with its macros expanded, in which lines keep their numbers.

    Only then can a kernel be found that a macro declares.
    """
    return _MARKER.sub(rf'#line \1 "{SOURCE_NAME}"', preprocessed(without_includes(text)).code)


def _expanded(
    path: Path, text: str, source: Path, folders: Sequence[Path], seen: set[Path], depth: int
) -> str:
    name = SOURCE_NAME if path.resolve() == source else path.name
    text = enabled(text)
    code, parts, end = blanked(text), [], 0
    for match in _INCLUDE.finditer(text):
        inner = _file(path, folders, match[1])
        if inner is None or depth == _MOST_DEPTH or "#" not in code[match.start() : match.end()]:
            continue
        parts.append(text[end : match.start()])
        if inner.resolve() not in seen:
            seen.add(inner.resolve())
            inside = _expanded(inner, read(inner), source, folders, seen, depth + 1)
            is_source = inner.resolve() == source
            file = SOURCE_NAME if is_source else inner.name
            begin, end_of_file = (BEGIN, END) if is_source else ("", "")
            parts.append(f'{begin}#line 1 "{file}"\n{inside}\n{end_of_file}')
        line = text.count("\n", 0, match.start()) + 1
        parts.append(f'#line {line + 1} "{name}"')
        end = match.end()
    return "".join([*parts, text[end:]])


def read(path: Path) -> str:
    """Return the text of a source; its comments may have any encoding."""
    return path.read_text(encoding="utf-8-sig", errors="replace")


def _file(path: Path, folders: Sequence[Path], name: str) -> Path | None:
    """Return the file that a source includes; None for one of a compiler or library."""
    for folder in (path.parent, *folders):
        if (folder / name).is_file():
            return folder / name
    if _OF_COMPILERS.fullmatch(name):
        return None
    end = Path(os.path.normpath(f"/{name}")).parts[1:]
    return next((file for file in sources(path) if file.parts[-len(end) :] == end), None)


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
