"""The version of this tree, from git."""

import os
import re
import shutil
import subprocess

import pytest

from base import version


def test_the_version_has_the_commit_and_whether_the_tree_was_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(version, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    unknown = {"commit": None, "dirty": None}
    assert version.git() == unknown
    named = {"commit": "0" * 40, "dirty": None, "changed": []}
    assert version.tree("0" * 40) == named
    with monkeypatch.context() as without_git:
        without_git.setenv("PATH", str(tmp_path))
        assert version.git() == unknown
    if not shutil.which("git"):
        pytest.skip("git: not found on PATH")

    def git(*arguments):
        name = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *name, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    for folder in ("base", "kernels"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("one")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    commit = git("rev-parse", "HEAD")
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    assert version.git() == {"commit": commit, "dirty": False}
    assert version.tree("0" * 40) == named
    (tmp_path / "mine.cu").write_text("")
    clean = {"commit": commit, "dirty": False, "changed": []}
    assert version.tree() == clean, "the study has no mine.cu"
    (tmp_path / "base" / "file").write_text("two")
    (tmp_path / "kernels" / "new").write_text("")
    assert version.git() == {"commit": commit, "dirty": True}
    assert version.tree()["changed"] == ["base/file", "kernels/new"]
