"""Texts that a spreadsheet would take for formulas, as they stand in the tables' files.

An apostrophe before such a text makes it one (OWASP, CSV injection); it is taken away in reading.
"""

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escaped(text: str) -> str:
    """Return a text as it is written."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """Return a text as it was before it was written."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
