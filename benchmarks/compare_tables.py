"""Compare every cell of the study's tables with the tables that another commit computes.

    python -m benchmarks.compare_tables [--commit COMMIT] [--before DIR] [--after DIR]

Both commits compute their tables from their own copies of the same recordings; --before and --after
name folders with tables instead. `renamed_columns.csv` maps former tables and columns to present
ones; a column that is not listed keeps its table and name, and the rows keep their order. With a
condition, such as ``baseline=cublas``, the values are in the rows that fulfil it. The entries with
the condition ``key`` are the columns that identify these rows in both tables. Bounds are renamed
like their column. With ``blank: REASON``, values may be blank now. Further options, such as
--counts, apply to both commits.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from analysis.schema import with_bounds
from base.errors import StudyError, exit_status
from base.paths import ROOT

COMMIT = "dcdc8c9"
MAPPING = Path(__file__).with_name("renamed_columns.csv")
KEY, REMOVED, BLANK = "key", "removed: ", "blank: "
_PUBLISHED = ("times", "systems", "statements")

Tables = Mapping[str, pd.DataFrame]


@dataclass
class Comparison:
    """One former table: numbers of equal numbers and texts, differences, removed parts."""

    table: str
    numbers: int = 0
    texts: int = 0
    different: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def compare(before: Tables, after: Tables, mapping: pd.DataFrame) -> list[Comparison]:
    """Compare every column of `before` with the columns that `mapping` names."""
    return [
        _compared(name, frame, after, mapping[mapping["old_table"] == name])
        for name, frame in before.items()
    ]


def _compared(table: str, frame: pd.DataFrame, after: Tables, mapping: pd.DataFrame) -> Comparison:
    one = Comparison(table)
    keys = mapping[mapping["condition"] == KEY]
    # Old and new columns by table and condition.
    places: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    listed: set[str] = set()
    for row in mapping[mapping["condition"] != KEY].itertuples():
        listed.update(with_bounds(row.old_column))
        if row.new_table.startswith(REMOVED):
            one.removed.append(f"{row.old_column}: {row.new_table}")
            continue
        if row.condition.startswith(BLANK):
            one.removed.append(f"{row.old_column}: {row.condition}")
            frame = _blanked(frame, after[table], with_bounds(row.old_column))
            listed.difference_update(with_bounds(row.old_column))
            continue
        names = zip(with_bounds(row.old_column), with_bounds(row.new_column), strict=True)
        places[row.new_table, row.condition] += [names for names in names if names[0] in frame]
    if not {*frame} <= {*listed, *keys["old_column"]} and "*" not in listed:
        places[table, ""] += [(name, name) for name in frame if name not in listed]
    for (new_table, condition), columns in places.items():
        chosen = after.get(new_table, pd.DataFrame())
        if condition:
            chosen = _aligned(frame, chosen, condition, keys[keys["new_table"] == new_table], one)
        for old, new in columns:
            _compare_column(one, frame[old], chosen, new, f"{new_table} {condition}".strip())
    return one


def _blanked(frame: pd.DataFrame, after: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return `frame` without the values in `columns` that are blank now."""
    blank = {name: frame[name].where(after[name] != "", "") for name in columns if name in frame}
    return frame.assign(**blank)


def _aligned(
    frame: pd.DataFrame, after: pd.DataFrame, condition: str, keys: pd.DataFrame, one: Comparison
) -> pd.DataFrame:
    """Return for each row of `frame` the row of `after` with the same keys, blank if there is none.

    A row that no row of `frame` corresponds to is a difference.
    """
    for equality in condition.split("; "):
        column, _, value = equality.partition("=")
        after = after[after[column].isin(value.split("|"))]
    names = dict(zip(keys["new_column"], keys["old_column"], strict=True))
    after = after.rename(columns={new: f"key {new}" for new in names})
    sides = {"left_on": list(names.values()), "right_on": [f"key {new}" for new in names]}
    both = frame[list(names.values())].merge(after, how="left", validate="m:1", **sides)
    unmatched = len(after) - len(both[sides["right_on"]].dropna(how="all").drop_duplicates())
    if unmatched:
        one.different.append(f"{condition}: {unmatched} rows only now")
    return both.fillna("")


def _compare_column(
    one: Comparison, before: pd.Series, after: pd.DataFrame, name: str, place: str
) -> None:
    if name not in after or len(before) != len(after):
        rows = f"{len(after)} rows now" if name in after else "not in the table"
        one.different.append(f"{place}, {name}: {len(before)} rows, {rows}")
        return
    for row, (was, now) in enumerate(zip(before, after[name], strict=True)):
        if not is_equal(was, now):
            one.different.append(f"{place}, row {row}, {name}: {was!r}, now {now!r}")
        elif _is_number(was):
            one.numbers += 1
        elif was:
            one.texts += 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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


def make(tree: Path, out: Path, more: Sequence[str] = ()) -> None:
    """Compute all tables by code and recordings of `tree`; raise StudyError if this fails."""
    module = "analysis" if (tree / "analysis" / "__main__.py").exists() else "workflow"
    words = [sys.executable, "-m", module, "tables", *more, "--out", str(out)]
    for name, option in zip(_PUBLISHED, ("published", *_PUBLISHED[1:]), strict=True):
        words += [f"--{option}", str(tree / "data" / "published" / f"{name}.csv")]
    words += [word for recording in _committed(tree) for word in ("--recording", recording)]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{tree}: gemm-study tables: {done.stderr.strip()[-500:]}")


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
    parser.add_argument("--before", type=Path, metavar="DIR", help="tables of the commit")
    parser.add_argument("--after", type=Path, metavar="DIR", help="tables of this tree")
    arguments, more = parser.parse_known_args()
    with ExitStack() as stack:
        before, after = arguments.before, arguments.after
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if before is None:
            before = folder / "before"
            make(stack.enter_context(worktree(arguments.commit)), before, more)
        if after is None:
            after = folder / "after"
            make(ROOT, after, more)
        mapping = pd.read_csv(MAPPING, dtype=str, keep_default_na=False)
        compared = compare(read(before), read(after), mapping)
    for one in compared:
        for line in (*one.removed, *one.different[:5]):
            print(f"{one.table}: {line}")
    numbers, texts = (sum(getattr(one, kind) for one in compared) for kind in ("numbers", "texts"))
    different = sum(len(one.different) for one in compared)
    print(f"{numbers} numbers and {texts} texts equal, {different} different")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(exit_status(main))
