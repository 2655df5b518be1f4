"""Files that a source includes from beside itself or from given folders, in its text."""

import re
from collections.abc import Sequence
from pathlib import Path

from kernels.host_execution.compiler import SOURCE_NAME
from kernels.launches.pieces import blanked

_LOCAL = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">][^\n]*$', re.MULTILINE)
_MOST_DEPTH = 8


def with_includes(path: Path, text: str, folders: Sequence[Path] = ()) -> str:
    """Return a source with the files that it includes, each once; lines keep their numbers.

    Files of compilers and libraries, which are in none of the folders, stay directives.
    """
    return _expanded(path, text, SOURCE_NAME, [path.parent, *folders], {path.resolve()}, 0)


def _expanded(
    path: Path, text: str, name: str, folders: list[Path], seen: set[Path], depth: int
) -> str:
    directives = [match for match in _LOCAL.finditer(text) if blanked(text)[match.start()] != " "]
    for match in reversed(directives):
        inner = _file([path.parent, *folders], match[1])
        if inner is None or depth == _MOST_DEPTH:
            continue
        line = text.count("\n", 0, match.start()) + 1
        replaced = ""
        if inner.resolve() not in seen:
            seen.add(inner.resolve())
            body = _expanded(inner, inner.read_text(), inner.name, folders, seen, depth + 1)
            replaced = f'#line 1 "{inner.name}"\n{body}\n'
        text = f'{text[: match.start()]}{replaced}#line {line + 1} "{name}"{text[match.end() :]}'
    return text


def _file(folders: Sequence[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)
