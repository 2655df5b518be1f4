"""Paths of the project and of its results."""

import shutil
import sys
from pathlib import Path

from base.errors import StudyError

ROOT = Path(__file__).resolve().parents[1]
# The folders from which a study runs.
FOLDERS = ["analysis", "base", "cpu_reference", "kernels"]
FOLDERS += ["measurement", "report", "study", "workflow"]
# An installed package must not contain results, so they are written to the current folder.
IS_CHECKOUT = (ROOT / "pyproject.toml").exists()
try:
    RESULTS = (ROOT if IS_CHECKOUT else Path.cwd()) / "results"
except FileNotFoundError:
    sys.exit("error: the current folder was deleted; change to another folder")
STORE = ".store"  # subfolder with earlier results by digest of their inputs
MAKE_REPORT = "`make report`" if IS_CHECKOUT else "`gemm-study report`"


def default_config() -> Path:
    """Return config.yaml of the checkout or the current folder, else of the installed package."""
    config = RESULTS.parent / "config.yaml"
    return config if config.exists() else ROOT / "config.yaml"


def remedy(setup: str, packages: str) -> str:
    """Return the command that installs packages: `setup` in a checkout, otherwise a pip command."""
    return f"`{setup}`" if IS_CHECKOUT else f"`pip install {packages}`"


def program(name: str, package: str) -> Path:
    """Return the path of a program on PATH; raise StudyError if it is missing."""
    if path := shutil.which(name):
        return Path(path)
    raise StudyError(f"{name}: not found on PATH; install {package}")


def shown(path: Path) -> str:
    """Return a path as text for messages, relative to the project or the current folder."""
    base = next((base for base in (ROOT, Path.cwd()) if path.is_relative_to(base)), None)
    return str(path.relative_to(base) if base else path)
