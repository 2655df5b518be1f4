"""Reading CUDA sources as text."""

import re


def without_comments(text: str) -> str:
    """Return a source without its comments; all other code keeps its line number."""
    return re.sub(
        r"//[^\n]*|/\*.*?(?:\*/|\Z)", lambda match: "\n" * match[0].count("\n"), text, flags=re.S
    )
