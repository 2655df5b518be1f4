"""Finding in other files of a repository what a file lacks: its launch, or definitions of names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from kernels.host_execution.compiler import SOURCE_NAME, CompilerError
from kernels.launches.expression import declarations_in
from kernels.launches.in_files import launches
from kernels.launches.includes import BEGIN, END, enabled, read, sources, with_includes_of
from kernels.launches.pieces import Piece, blanked, kernels_of, pieces

_UNIMPORTANT = {"const", "__restrict__", "__restrict", "restrict"}
_MOST_BYTES = 1 << 18  # of a file that is searched
_MOST_FILES = 1000  # that are searched, the nearest first
_UNKNOWN = re.compile(
    r"‘(\w+)’ (?:(?:was not|has not been) declared|does not name a type)|"
    r"no arguments to ‘(\w+)’ that depend on a template"
)


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
    for other, code in _others(path):
        if not called.search(blanked(code)):
            continue
        whole, files = with_includes_of(other, code, path, folders)
        if path.resolve() not in files:
            if not _declares(whole, kernels):
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


def _declares(text: str, kernels: Mapping[str, Piece]) -> bool:
    """Return whether a text declares a kernel with the same parameter types as its definition."""
    return any(
        piece.name in kernels and _types(piece) == _types(kernels[piece.name])
        for piece in pieces(text)
        if "__global__" in piece.head and piece.body is None
    )


def _types(kernel: Piece) -> list[str]:
    """Return the first word of each parameter of a kernel that distinguishes its type."""
    given = [re.findall(r"\w+", each) for each in kernel.parameters]
    return [next((word for word in each if word not in _UNIMPORTANT), "") for each in given]


def unknown_in(error: CompilerError) -> str:
    """Return the name that a compiler reports as undefined, "" if that is not its error."""
    unknown = _UNKNOWN.search(str(error))
    return unknown[1] or unknown[2] if unknown else ""


def with_definition(path: Path, text: str, error: CompilerError) -> tuple[str, str] | None:
    """Return a source with a definition of the name that a compiler reports, and the name.

    The definition is that in the nearest file of the repository; without one, the result is None. A
    launch may call functions of another file, but its numbers must be those of its own file.
    """
    name, is_called = unknown_in(error), ": its launch: " in str(error)
    defined = _definition(path, name, is_called) if name else None
    if defined is None or defined[0] in text:
        return None
    code, file = defined
    attribute = re.search(r"\n([A-Z_]{3,})\s", code)  # a macro
    before = _definition(path, attribute[1], is_called=False) if attribute else None
    parts = [before[0] if before else "", code, f'#line 1 "{SOURCE_NAME}"\n', text]
    return "".join(parts), f"{name} of {file}"


def _definition(path: Path, name: str, is_called: bool) -> tuple[str, str] | None:
    """Return the nearest definition of a name, with its line, and the name of its file."""
    for file, code in _others(path):
        for piece in pieces(enabled(code)) if name in code else ():
            if _defines(piece, name, is_called):
                line = 1 + code.count("\n", 0, piece.begin)
                return f'#line {line} "{file.name}"\n{piece.text.strip()}\n', file.name
    return None


def _defines(piece: Piece, name: str, is_called: bool) -> bool:
    """Return whether a piece defines a macro, a type, a constant or a function of the device."""
    if piece.is_directive:
        macro = re.match(rf"\s*#\s*define\s+{name}\b(\(?)", piece.text)
        return macro is not None and bool(macro[1] or not is_called)
    if piece.is_function or is_called:
        is_for_the_device = piece.is_for_the_device or re.match(r"\s*[A-Z_]{3}", piece.head)
        return piece.name == name and bool(is_for_the_device)
    kind = (
        rf"\busing\s+{name}\s*=|\btypedef\b[^;]*\b{name}\s*;|\b(?:struct|enum)\s+{name}\b[^;]*\{{"
    )
    is_constant = re.search(r"\bconst(?:expr)?\b[^;]*=", piece.code) is not None
    return re.search(kind, piece.code) is not None or (
        is_constant and name in declarations_in(" ".join(piece.code.split()))
    )


def _others(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the other files of a repository with their texts, except very large ones."""
    for file in islice(sources(path), _MOST_FILES):
        if file != path.resolve() and file.stat().st_size <= _MOST_BYTES:
            yield file, read(file)
