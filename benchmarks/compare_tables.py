"""Compare every cell of the study's tables with those that another commit makes.

    python -m benchmarks.compare_tables [--commit COMMIT] [--recording ID=DIR ...]

Both make their tables from the same recordings (those of config.yaml, unless others are named) by
their own commands, the other commit in a temporary git worktree. Numbers are compared as numbers,
all else as text; a row stands where it stood. What was renamed, went or came since is declared
below. Prints for each table how many cells are equal and how many differ. The exit status is 1 if
any does, or if a table or column went or came undeclared.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import yaml

from base.errors import StudyError, exit_status
from base.paths import ROOT

COMMIT = "ac8df21"
# Since then: tables by their former names, those that came, and those that went.
RENAMED = {"batches": "back_to_back", "neighbours": "interference"}
CAME = {"answers", "energy", "glance", "model_tests", "sessions"}
WENT: set[str] = set()
# Columns of a table that came or went: "table.column", by the table's name of today.
COLUMNS_CAME = {f"model_comparison.left_out_factor{bound}" for bound in ("", "_low", "_high")}
COLUMNS_WENT: set[str] = set()
_SHOWN = 5  # differences of a table

Rows = list[dict[str, str]]


@dataclass
class Difference:
    """What of one table is equal and what is not; `lines` say where."""

    table: str
    equal: int = 0
    lines: list[str] = field(default_factory=list)


def compare(
    before: Mapping[str, Rows],
    after: Mapping[str, Rows],
    columns_came: set[str] = COLUMNS_CAME,
    columns_went: set[str] = COLUMNS_WENT,
) -> list[Difference]:
    """Compare tables by name, those of `before` under their names of today."""
    before = {RENAMED.get(name, name): rows for name, rows in before.items() if name not in WENT}
    found = []
    for name in sorted({*before, *after} - CAME):
        difference = Difference(name)
        if name not in before or name not in after:
            side = "came" if name in after else "went"
            difference.lines.append(f"the table {side}, and is not declared")
        else:
            _compare_rows(difference, before[name], after[name], columns_came, columns_went)
        found.append(difference)
    return found


def _compare_rows(
    difference: Difference, before: Rows, after: Rows, came: set[str], went: set[str]
) -> None:
    name = difference.table
    had, has = ({column for row in rows for column in row} for rows in (before, after))
    for column in sorted((had ^ has) if before and after else ()):
        if f"{name}.{column}" not in (came if column in has else went):
            side = "came" if column in has else "went"
            difference.lines.append(f"column {column} {side}, and is not declared")
    for number, (old, new) in enumerate(zip_longest(before, after)):
        if old is None or new is None:
            difference.lines.append(f"row {number} {'came' if old is None else 'went'}")
            continue
        for column in old.keys() & new.keys():
            if is_equal(old[column], new[column]):
                difference.equal += 1
            else:
                line = f"row {number}, {column}: {old[column]!r}, now {new[column]!r}"
                difference.lines.append(line)


def is_equal(before: str, after: str) -> bool:
    """Tell whether two cells hold the same text or the same number."""
    if before == after:
        return True
    try:
        return float(before) == float(after)
    except ValueError:
        return False


def read(folder: Path) -> dict[str, Rows]:
    """Return the CSV files of a folder by name; a table without rows has its header alone."""
    found = {}
    for path in folder.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def make(tree: Path, out: Path, recordings: Sequence[str], cubins: list[Path], counts: list[Path]):
    """Make all tables by the code in `tree`; raises StudyError where one of its commands fails."""
    data = ROOT / "data" / "published"
    published = ["--published", data / "times.csv"]
    statements = ["--statements", data / "statements.csv"]
    measured = [word for one in recordings for word in ("--recording", one)]
    tables = ["tables", *published, "--systems", data / "systems.csv", *measured]
    made_here = ["--cubins", *cubins, "--counts", *counts]
    if (tree / "analysis" / "schema.py").exists():
        commands = [[*tables, *statements, *made_here]]
    else:  # as the commits up to ac8df21 did
        commands = [
            [*tables, *made_here],
            ["fit", *published, *measured],
            ["decide", *measured],
            ["audit", *published, *statements],
        ]
    for command in commands:
        words = [sys.executable, "-m", "analysis", *map(str, command), "--out", str(out)]
        done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StudyError(f"{tree}: {command[0]}: {done.stderr.strip().splitlines()[-1:]}")


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary worktree; raises StudyError if git does not know it."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        added = _git("worktree", "add", "--detach", str(tree), commit)
        if added.returncode:
            raise StudyError(f"commit {commit}: {added.stderr.strip().splitlines()[-1]}")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def _committed() -> list[str]:
    """Return the recordings of config.yaml as ID=DIR, a session each."""
    gpus = yaml.safe_load((ROOT / "config.yaml").read_text())["gpus"]
    return [
        f"{each['id']}={ROOT / folder}"
        for each in gpus
        for folder in each.get("recordings", [each["recording"]] if "recording" in each else [])
    ]


def main() -> int:
    """Run the comparison; raises StudyError. Returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default=COMMIT, help="to compare with (default: %(default)s)")
    parser.add_argument("--recording", action="append", metavar="ID=DIR", help="once for each")
    parser.add_argument("--cubins", type=Path, help="folder of cubins, for both sides")
    parser.add_argument("--counts", type=Path, help="folder of counted accesses, for both sides")
    arguments = parser.parse_args()
    recordings = arguments.recording or _committed()
    cubins = sorted(arguments.cubins.resolve().rglob("*.cubin")) if arguments.cubins else []
    counts = sorted(arguments.counts.resolve().glob("*.csv")) if arguments.counts else []
    with worktree(arguments.commit) as tree, tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / "before", Path(folder) / "after"]
        for code, out in zip((tree, ROOT), outs, strict=True):
            make(code, out, recordings, cubins, counts)
        found = compare(*map(read, outs))
    for difference in found:
        print(f"{difference.table}: {difference.equal} equal, {len(difference.lines)} different")
        for line in difference.lines[:_SHOWN]:
            print(f"    {line}")
    equal, different = sum(d.equal for d in found), sum(len(d.lines) for d in found)
    print(f"{len(found)} tables, {equal} cells equal, {different} different")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(exit_status(main))
