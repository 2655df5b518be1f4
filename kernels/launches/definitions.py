"""Finding definitions, in other files of a repository, of names that a file does not define."""

import re
from pathlib import Path

from kernels.host_execution.compiler import SOURCE_NAME, CompilerError
from kernels.launches.expression import declared_names
from kernels.launches.includes import enabled, read
from kernels.launches.pieces import Piece, pieces
from kernels.launches.repository import MOST_BYTES, sources

_MOST_FILES = 1000  # that are searched, the nearest first
_UNKNOWN = re.compile(
    r"‘(\w+)’ (?:(?:was not|has not been) declared|does not name a type)|"
    r"no arguments to ‘(\w+)’ that depend on a template"
)


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
    for file in sources(path)[:_MOST_FILES]:
        if file == path.resolve() or file.stat().st_size > MOST_BYTES:
            continue
        code = read(file)
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
        is_constant and name in declared_names(" ".join(piece.code.split()))
    )
