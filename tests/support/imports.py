"""Imports of the project's modules, read from their code."""

import ast
from functools import cache
from pathlib import Path

from tests.support import ROOT


def path_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def nodes_of(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text()))]


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the names that a file imports anywhere: a and a.b for ``from a import b``."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return frozenset(found)


@cache
def reached(*paths: Path) -> frozenset[Path]:
    """Return the files of the project that these import, directly or not, and themselves."""
    found, left = set(), {*paths}
    while left:
        found |= left
        names = {name for path in left for name in imported(path)}
        left = {path for path in map(path_of, names) if path.is_file()} - found
    return frozenset(found)
