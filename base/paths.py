"""Where the project and its results are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# An installed copy holds no results: they belong to the folder in which the command runs.
RESULTS = (ROOT if (ROOT / "pyproject.toml").exists() else Path.cwd()) / "results"


def shown(path: Path) -> str:
    """Return a path as messages show it: relative to the project or to the current folder."""
    base = next((base for base in (ROOT, Path.cwd()) if path.is_relative_to(base)), None)
    return str(path.relative_to(base) if base else path)
