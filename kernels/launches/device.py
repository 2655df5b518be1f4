"""Selecting the code that a launch needs: the names it uses, and those that these use.

All other code is removed, because functions of the host and code of other kernels may use features
that host execution does not support.
"""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache

from kernels.launches.expression import words
from kernels.launches.pieces import Piece, pieces

OF_THE_HOST = re.compile(
    r"\b(?:cuda[A-Z]\w*|cublas\w*|thrust::\w+|"
    r"std::(?!size_t|ptrdiff_t|u?int(?:\d+|ptr)_t|min\b|max\b|is_same)\w+)\b|<\s?<\s?<"
)
_BASES = re.compile(r"^(\s*(?:template\s*<[^{]*>)?\s*(?:struct|class)\s[\w\s]*):(?!:)[^{]*")
_ATTRIBUTE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t][^\n(]*__device__", re.MULTILINE)
_MACRO = re.compile(r"\s*#\s*define\s+(\w+)")
_INCLUDE = re.compile(r"\s*#\s*include\b")
_KEYWORDS = words(
    "auto bool char class const constexpr double enum extern float inline int long namespace "
    "short signed static struct template typedef typename union unsigned using void volatile "
    "__constant__ __device__ __forceinline__ __global__ __host__ __restrict__ __shared__"
)


def for_the_device(text: str, launched: AbstractSet[str]) -> str:
    """Return a source with only the code that the names `launched` need, at the same lines.

    A kernel calls only functions of the device and constexpr functions; a launch may call functions
    of the host, such as one that divides and rounds up.
    """
    parts = list(pieces(text))
    attributes = set(_ATTRIBUTE.findall(text))
    on_device = {
        index
        for index, piece in enumerate(parts)
        if piece.is_for_the_device or words(piece.head) & attributes
    }
    kept: set[int] = set()
    of_the_host, needed = set(launched), set(launched)
    before = -1
    while before != len(kept):
        before = len(kept)
        for index, piece in enumerate(parts):
            usable = needed if index in on_device else of_the_host
            if index in kept or not _is_needed(piece, needed, usable, index in on_device):
                continue
            kept.add(index)
            named = set() if _INCLUDE.match(piece.text) else words(piece.text) - _KEYWORDS
            needed |= named
            if piece.is_function and index not in on_device:
                of_the_host |= named
    code, end = list[str](), 0
    for index, piece in enumerate(parts):
        blank = "\n" * piece.text.count("\n")
        code += [text[end : piece.begin], piece.text if index in kept else blank]
        end = piece.end
    return "".join([*code, text[end:]])


def _is_needed(piece: Piece, needed: set[str], functions: set[str], on_device: bool) -> bool:
    if piece.is_directive:
        macro = _MACRO.match(piece.text)
        return not macro or macro[1] in needed
    code = piece.code
    if re.match(r"\s*using\s+namespace\s+(?:nvcuda|cooperative_groups)\b", code):
        return True
    if re.match(r"\s*template\s+(?!\s*<)", code):  # an explicit instantiation
        return False
    outside = re.sub(r"\{.*\}", " ", code, flags=re.DOTALL)  # of a type with methods
    if piece.is_function or "(" in outside.partition("=")[0]:
        is_usable = on_device or not OF_THE_HOST.search(code)
        return is_usable and piece.name in {*functions, ""}
    if "__device__" not in code and "__constant__" not in code and OF_THE_HOST.search(code):
        return False
    return bool(_names(code) & needed)


@lru_cache(1 << 12)
def _names(code: str) -> set[str]:
    """Return the names that a type, an alias, a variable or a prototype appears to declare."""
    is_alias = re.match(r"\s*(?:using|namespace)\b[^={]*=", code)
    code = _BASES.sub(r"\1", code)
    declared = code.partition("=")[0] if is_alias or "{" not in code else code
    if not re.search(r"\benum\b", code):
        declared = re.sub(r"\{.*\}|=[^,;]*", " ", declared, flags=re.DOTALL)
    return words(re.sub(r"\[[^]]*\]", " ", declared)) - _KEYWORDS
