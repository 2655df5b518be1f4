"""``gemm-study document tutorials``: run the commands in the tutorials and renew their output.

A code block ``console`` contains commands after ``$ `` and what they print; a code block after
"Save as `NAME`" is a file. All commands of a document run in order, in one folder with the files of
the study and, in results/tables, the published tables.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from analysis.render.documents import PUBLISHED
from base.files import write_atomic
from base.paths import ROOT

_STEP = re.compile(
    r"Save as `(?P<name>[\w.]+)`[^\n]*\n\n```\w+\n(?P<content>.*?)```"
    r"|(?<=```console\n)(?P<commands>.*?)(?=```)",
    re.DOTALL,
)
_PROGRESS = re.compile(r"^(?:nvcc [\d.]+: |Wrote ).*\n", re.MULTILINE)


def tutorials() -> list[Path]:
    """Return the documents whose commands are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]


def update() -> list[Path]:
    """Write the current output into all tutorials; return those that changed."""
    changed = []
    for path in tutorials():
        text = path.read_text(encoding="utf-8")
        if (current := with_output(text)) != text:
            write_atomic(path, current)
            changed.append(path)
    return changed


def with_output(text: str) -> str:
    """Return a document with the current output of each of its commands."""
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as name:
        folder = Path(name)
        for path in ROOT.iterdir():
            if path.name != "results" and not path.name.startswith("."):
                (folder / path.name).symlink_to(path)
        with zipfile.ZipFile(PUBLISHED) as archive:
            archive.extractall(folder / "results" / "tables")

        def done(step: re.Match[str]) -> str:
            if step["name"]:
                (folder / step["name"]).write_text(step["content"], encoding="utf-8")
                return step[0]
            commands = re.findall(r"^\$ (.*)", step["commands"], re.MULTILINE)
            return "".join(f"$ {command}\n{_output(command, folder)}" for command in commands)

        return _STEP.sub(done, text)


def _output(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["bash", "-c", f"exec 2>&1; {command}"]
    environment = os.environ | {"PATH": path, "COLUMNS": "100"}
    run = subprocess.run(
        shell, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return _PROGRESS.sub("", run.stdout)
