"""Escape texts in CSV files that a spreadsheet would read as formulas.

They get a leading apostrophe (OWASP, CSV injection), which is removed on reading.
"""

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escaped(text: str) -> str:
    """Return a text as written to a file."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """Return a text as it was before `escaped`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
