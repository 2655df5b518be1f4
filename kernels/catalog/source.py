"""The text of CUDA and C sources without comments, and the hash by which recordings cite it."""

import hashlib
import re

# A string or character is matched first, so that `//` in it begins no comment.
_STRING_OR_COMMENT = re.compile(
    r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|//[^\n]*|/\*.*?(?:\*/|\Z)""", re.S
)


def without_comments(text: str) -> str:
    """Return a source without its comments; the remaining code keeps its line numbers."""

    def kept(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n") if match[0].startswith("/") else match[0]

    return _STRING_OR_COMMENT.sub(kept, text)


def code_sha256(text: str) -> str:
    """Return the SHA-256 of a source without comments, indentation and empty lines.

    It changes only if code changes, so comments can be improved without a new recording.
    """
    lines = (" ".join(line.split()) for line in without_comments(text).splitlines())
    return hashlib.sha256("\n".join(filter(None, lines)).encode()).hexdigest()
