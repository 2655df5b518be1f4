"""The version of this tree: its commit and its changed files, from git."""

import subprocess
from typing import Any

from base.paths import FOLDERS, IS_CHECKOUT, ROOT

_STUDY = [*FOLDERS, "Snakefile", "pyproject.toml", "uv.lock", "data/published"]


def git() -> dict[str, Any]:
    """Return the commit of the tree, and whether files were changed since (None: unknown)."""
    return {name: fact for name, fact in tree().items() if name != "changed"}


def tree(named: str | None = None) -> dict[str, Any]:
    """Return the facts of `git`, and the changed files of the study; other files do not matter.

    `named` is the user's commit for a tree that was copied without history or with an older one.
    """
    commit = _git_output("rev-parse", "HEAD")
    status = _git_output("status", "--porcelain", "--untracked-files=all", "--", *_STUDY)
    changed = [line.split(maxsplit=1)[1] for line in status.splitlines()]
    from_git = bool(commit) and not named
    return {
        "commit": commit if from_git else named,
        "dirty": bool(changed) if from_git else None,
        "changed": changed,
    }


def committed(path: str) -> str:
    """Return the committed text of a file of the study; empty if it is unknown."""
    return _git_output("show", f"HEAD:./{path}") if IS_CHECKOUT else (ROOT / path).read_text()


def _git_output(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
