"""List CUDA's functions on numbers: ``python list_functions.py INCLUDE``.

INCLUDE is the folder of the toolkit's headers. The output is functions.txt: result, name and types
of the parameters of each function of the pages on single and double precision, type casting,
integer and SIMD intrinsics. test_functions.py compiles a call of each.
"""

import re
import sys
from pathlib import Path

HEADERS = (
    "crt/math_functions.h",
    "crt/device_functions.h",
    "crt/device_double_functions.h",
    "sm_20_intrinsics.h",
    "sm_32_intrinsics.h",
    "sm_61_intrinsics.h",
)
_DECLARED = re.compile(
    r"(?:__\w*(?:FUNCTIONS|INTRINSICS)\w*DECL__|\b__device__)\s+([\w\s*]+?)\b(\w+)\s*\(([^()]*)\)"
    r'\s*(?:__THROW|noexcept|asm\("[^"]*"\)|\s)*(?:[;{]|__DEF_IF_HOST)'
)
_TYPE = re.compile(
    r"(?:(?:un)?signed|void|bool|float|double|int|long|u?(?:char|short)[24]?)"
    r"(?: (?:int|long|short|char))*(?: ?\*)?"
)
# Other pages: atomic operations, barriers, memory, warps, extended precision, internal names.
_OTHER = re.compile(
    r"__(?:is[A-Z]\w+|cvta\w+|syncthreads\w*|threadfence\w*|trap|brkpt|prof_trigger|pm\d"
    r"|ld\w+|st(?:wb|cg|cs|wt)|nv_\w+|\w*atomic\w*|nanosleep|cuda\w+|isinf\w*|isnan\w*"
    r"|isfinite\w*|finite\w*|signbit\w*|pow_helper|cmath_power|FLOAT_BITS|DOUBLE_BITS)$"
    r"|_[A-Za-z]|clock\w*$|nan|syncthreads_|.*(?:atomic|Atomic)"
)


def signatures(include: Path) -> list[str]:
    """Return sorted lines: result, name, and types of the parameters, separated by ``|``."""
    found = set()
    for header in HEADERS:
        text = (include / header).read_text(errors="replace")
        text = re.sub(r"/\*.*?\*/|//[^\n]*|\\\n", "", text, flags=re.DOTALL)
        for words, name, listed in _DECLARED.findall(text):
            result = _type_of(words)
            parameters = [_type_of(each) for each in listed.split(",") if each.strip() != "void"]
            known = [*parameters, result]
            if (
                not _OTHER.match(name)
                and all(known)
                and "void *" not in known
                and "long double" not in " ".join(words)
            ):
                found.add("|".join([result, name, *parameters]))
    return sorted(found, key=lambda line: line.split("|")[1:])


def _type_of(words: str) -> str:
    """Return the C type in words that may also name attributes and the parameter; "" if none."""
    text = " ".join(re.sub(r"\bconst\b", "", words).replace("*", " * ").split())
    names = [match[0] for match in _TYPE.finditer(text) if match[0]]
    return names[-1] if names and "long double" not in text else ""


if __name__ == "__main__":
    print("\n".join(signatures(Path(sys.argv[1]))))
