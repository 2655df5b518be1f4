"""Finding another file of a repository that launches the kernels of a file."""

import re
from collections.abc import Sequence
from pathlib import Path

from kernels.launches.in_files import launches
from kernels.launches.includes import BEGIN, END, read, with_includes_of
from kernels.launches.pieces import Piece, blanked, kernels_of, pieces
from kernels.launches.repository import MOST_BYTES, sources

_UNIMPORTANT = {"const", "__restrict__", "__restrict", "restrict"}


def with_launcher(path: Path, text: str, folders: Sequence[Path] = ()) -> str:
    """Return a source together with the nearest file that launches its kernels.

    This is done only if the source launches none. The other file includes the source, or declares a
    kernel with the same types. `text` is the source with the files that it includes; `folders` are
    searched for included files.
    """
    kernels = kernels_of(text)
    if not kernels or {launch.name for launch in launches(text)} & set(kernels):
        return text
    called = re.compile(rf"\b(?:{'|'.join(kernels)})\b[^;{{}}]*<\s?<\s?<")
    for other in sources(path):
        if other == path.resolve() or other.stat().st_size > MOST_BYTES:
            continue
        code = read(other)
        if not called.search(blanked(code)):
            continue
        whole, files = with_includes_of(other, code, path, folders)
        if path.resolve() not in files:
            if not any(_declares(whole, name, kernel) for name, kernel in kernels.items()):
                continue
            _, before = with_includes_of(path, read(path), path, folders)
            whole, _ = with_includes_of(other, code, path, folders, before)
            whole = f'{BEGIN}{text}{END}#line 1 "{other.name}"\n{whole}'
        texts = {name: kernel.text.strip() for name, kernel in kernels_of(whole).items()}
        if all(texts[name] == kernel.text.strip() for name, kernel in kernels.items()):
            return whole
    return text


def own(text: str) -> str:
    """Return the part of a text that is the user's source, without the launching file."""
    begin, end = text.find(BEGIN), text.find(END)
    return text if begin < 0 else text[begin:end]


def _declares(text: str, name: str, kernel: Piece) -> bool:
    """Return whether a text declares a kernel with the same parameter types as its definition."""
    return any(
        _types(piece) == _types(kernel)
        for piece in pieces(text)
        if "__global__" in piece.head and piece.body is None and piece.name == name
    )


def _types(kernel: Piece) -> list[str]:
    """Return the first word of each parameter of a kernel that distinguishes its type."""
    given = [re.findall(r"\w+", each) for each in kernel.parameters]
    return [next((word for word in each if word not in _UNIMPORTANT), "") for each in given]
