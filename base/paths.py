"""Paths of the project and its results."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The folders from which a study runs.
FOLDERS = [
    *("analysis", "base", "cpu_reference", "kernels"),
    *("measurement", "report", "study", "workflow"),
]
# An installed package must not contain results: there they go to the current folder.
RESULTS = (ROOT if (ROOT / "pyproject.toml").exists() else Path.cwd()) / "results"


def shown(path: Path) -> str:
    """Return a path for messages: relative to the project or to the current folder if inside."""
    base = next((base for base in (ROOT, Path.cwd()) if path.is_relative_to(base)), None)
    return str(path.relative_to(base) if base else path)
