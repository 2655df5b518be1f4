"""Compare every cell of the study's tables with the tables computed by another commit.

    python -m benchmarks.compare_tables [--commit COMMIT] [--recording ID=DIR ...]

Both commits compute their tables from the same recordings. The default is all recordings of the
earlier commit, which cannot read later ones, with the ids of its config.yaml. The section Renames
of docs/CHANGELOG.md maps former names and values to present ones. Numbers are compared as numbers,
other cells as text, in the order of rows and columns. Reworded texts must correspond one to one.
Rows of the kind *changed* name tables, or columns, that are computed in another way; they are
listed with the reason and not compared. Further options, such as --counts, apply to both commits.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from base.errors import StudyError, exit_status
from base.paths import ROOT

COMMIT = "b16e759"
CHANGELOG = ROOT / "docs" / "CHANGELOG.md"
_PUBLISHED = ("times", "systems", "statements")
_REMOVED = "removed: "

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Renames:
    """Renames as rows (kind, before, now); a * in both names stands for the same text."""

    rows: Sequence[tuple[str, ...]] = ()

    @classmethod
    def read(cls, changelog: Path) -> "Renames":
        """Read the section Renames of a changelog; names without * precede names with *."""
        _, _, text = changelog.read_text(encoding="utf-8").partition("\n### Renames\n")
        lines = re.split(r"\n##", text)[0].replace("`", "").splitlines()
        rows = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("|")]
        return cls(tuple(sorted(rows[2:], key=lambda row: "*" in row[1])))

    def now(self, kind: str, *names: str) -> str | None:
        """Return the present name by the first row that fits one of `names`, or None."""
        for _, before, now in (row for row in self.rows if row[0] == kind):
            pattern = re.escape(before).replace(r"\*", "(.*)")
            for found in filter(None, (re.fullmatch(pattern, name) for name in names)):
                return now.replace("*", found[1]) if found.groups() else now
        return None

    def column(self, table: str, name: str) -> str:
        """Return the present name of a column, or the reason for its removal."""
        bound = next((bound for bound in ("_low", "_high") if bound in name), "")
        base = name.replace(bound, "", 1)
        now = self.now("column", base, f"{table}.{base}")
        if now is None or now.startswith(_REMOVED):
            return now or name
        stem, unit = (now[:-2], "_s") if now.endswith("_s") else (now, "")
        return f"{stem}{bound}{unit}"


@dataclass
class Comparison:
    """One table: number of equal cells, differences, removed parts with reasons."""

    table: str
    equal: int = 0
    different: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def compare(before: Tables, after: Tables, renames: Renames) -> list[Comparison]:
    """Compare tables by name, those of `before` by their present names."""
    former = {renames.now("table", name) or name: name for name in before}
    found = {name: Comparison(name) for name in sorted({*former, *after})}
    for name, one in found.items():
        if name.startswith(_REMOVED):
            one.table, one.removed = former[name], [name]
        elif reason := renames.now("changed", name):
            one.removed = [f"changed: {reason}"]
        elif name not in former or name not in after:
            one.different = [f"only {'before' if name in former else 'now'}"]
        else:
            _compare_cells(one, before[former[name]], after[name], renames)
    return list(found.values())


def _compare_cells(
    one: Comparison, before: pd.DataFrame, after: pd.DataFrame, renames: Renames
) -> None:
    names = {column: renames.column(one.table, column) for column in before}
    one.removed = [f"{old}: {now}" for old, now in names.items() if now.startswith(_REMOVED)]
    changed = {
        name: renames.now("changed", f"{one.table}.{name}") for name in {*names.values(), *after}
    }
    one.removed += [f"{name}: changed: {why}" for name, why in sorted(changed.items()) if why]
    after = after[[name for name in after if not changed[name]]]
    kept = {o: now for o, now in names.items() if not (now.startswith(_REMOVED) or changed[now])}
    if list(kept.values()) != list(after) or len(before) != len(after):
        shapes = (f"{len(rows)} rows of {' '.join(rows)}" for rows in (before, after))
        one.different = [", now ".join(shapes)]
        return
    for old, now in kept.items():
        reworded = renames.now("text", f"{one.table}.{now}") is not None
        partners: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for row, (was, cell) in enumerate(zip(before[old], after[now], strict=True)):
            if reworded and was and cell:
                first = partners[0].setdefault(was, cell), partners[1].setdefault(cell, was)
                equal = first == (cell, was)
            else:
                value = (f"{one.table}.{now}: {was}", f"{now}: {was}")
                equal = is_equal(was, cell) or cell == renames.now("value", *value)
            one.equal += equal
            one.different += [] if equal else [f"row {row}, {now}: {was!r}, now {cell!r}"]


def is_equal(before: str, after: str) -> bool:
    """Return whether two cells contain the same text or the same number."""
    try:
        return before == after or float(before) == float(after)
    except ValueError:
        return False


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the CSV files of a folder by name, with every cell as text."""
    paths = folder.glob("*.csv")
    return {path.stem: pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths}


def make(tree: Path, out: Path, recordings: Sequence[str], more: Sequence[str] = ()) -> None:
    """Compute all tables by the code in `tree`; raise StudyError if its command fails."""
    words = [sys.executable, "-m", "analysis", "tables", *more, "--out", str(out)]
    for name, option in zip(_PUBLISHED, ("published", *_PUBLISHED[1:]), strict=True):
        words += [f"--{option}", str(tree / "data" / "published" / f"{name}.csv")]
    words += [word for each in recordings for word in ("--recording", each)]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{tree}: python -m analysis tables: {done.stderr.strip()[-500:]}")


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check out a commit in a temporary worktree; raise StudyError if git cannot."""
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


def _committed(tree: Path) -> list[str]:
    """Return the recordings of a commit as ID=DIR, with ids of its config.yaml where given."""
    gpus = yaml.safe_load((tree / "config.yaml").read_text())["gpus"]
    ids = {tree / folder: each["id"] for each in gpus for folder in each.get("recordings", [])}
    folders = sorted(path.parent for path in tree.glob("data/recordings/*/MANIFEST.sha256"))
    return [f"{ids.get(folder, folder.name)}={folder}" for folder in folders]


def main() -> int:
    """Run the comparison; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default=COMMIT, help="default: %(default)s")
    parser.add_argument("--recording", action="append", metavar="ID=DIR", help="repeatable")
    arguments, more = parser.parse_known_args()
    with worktree(arguments.commit) as tree, tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / "before", Path(folder) / "after"]
        for code, out in zip((tree, ROOT), outs, strict=True):
            make(code, out, arguments.recording or _committed(tree), more)
        found = compare(read(outs[0]), read(outs[1]), Renames.read(CHANGELOG))
    for one in found:
        print(f"{one.table}: {one.equal} cells equal, {len(one.different)} different")
        for line in (*one.removed, *one.different[:5]):
            print(f"    {line}")
    equal, different = sum(one.equal for one in found), sum(len(one.different) for one in found)
    print(f"{equal} cells equal, {different} different")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(exit_status(main))
