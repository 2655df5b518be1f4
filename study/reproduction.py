"""``gemm-study reproduce``: rebuild tables and report and compare them with the published ones.

The inputs (recordings, sources of kernels, published times) are compared by their digests in
`PUBLISHED`. The tables are compared with those in the archive next to `PUBLISHED`: texts, verdicts
and criteria exactly, numbers within `TOLERANCE`. Every number of the page must agree with the
rebuilt tables. A statement is a claim of a source or an answer of the report; on a session of this
machine only the verdicts of statements are compared.
"""

import errno
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from base.command_line import as_json
from base.errors import StudyError
from base.files import sha256, write_atomic
from base.paths import IS_CHECKOUT, RESULTS, ROOT, STORE
from base.processes import end_children
from base.validation import Section, first_fault
from kernels.catalog.source import code_sha256
from study.config import Config, load
from study.config_file import in_scope, read
from study.working_folder import fill

PUBLISHED = ROOT / "data" / "published" / "reproduction.json"
# Relative tolerance: on another processor, iterative fits change by up to 5e-5 (AVX2 BLAS, NumPy).
TOLERANCE = 1e-3
REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable here"
HERE = "this machine"
FASTEST = "fastest implementation"
_MOST_ROWS = 2000  # rows published per table; from a longer one they are drawn at random
_CSVS = ("times", "systems", "statements")
_UNKNOWN = ("", "not measured", "undecided")  # verdicts without a decision
_STATEMENTS = "statements"  # name of the statements in the archive
_FILE = "same SHA-256"
_TABLE = f"same texts, numbers within {TOLERANCE:g}"
_PAGE = "every number agrees with its table"

Tables = Mapping[str, pd.DataFrame]
Row = tuple[str, ...]  # an outcome, with these columns:
OUTCOME = ["where", "statement", "criterion", "published", "here", "outcome"]


class Published(Section):
    """The published digest of each input by path, and the number of rows of each table by name."""

    inputs: dict[str, str]
    rows: dict[str, int]


def reproduce(config: Path, session: Path | None = None) -> pd.DataFrame:
    """Rebuild everything; return a row with the `OUTCOME` columns per file, table and statement.

    `session`: a recording of this machine, whose verdicts are compared with those of the report's
    focus. Raise StudyError for an unusable configuration, or without published tables.
    """
    study, folder = load(config, "full"), RESULTS / "reproduced"
    published, tables = _read(PUBLISHED)
    conclusions = tables.pop(_STATEMENTS)
    root, content = config.resolve().parent, in_scope(read(config), "quick")
    # Read first, because its path may be wrong.
    here, variants = _session(root, content, session, folder) if session else (None, set())
    rows = list(of_files(published.inputs, _digests(root, study)))
    if fault := _rebuild(root, content, folder):
        rows.append(("rebuilt", fault, "no error", "", "an error", NOT_REPRODUCED))
    else:
        rebuilt = _tables(folder / "tables")
        rows += of_tables(published.rows, tables, rebuilt)
        rows.append(_of_page(folder))
        rows += of_statements(conclusions, statements(rebuilt))
    focus = study.report.focus or next((gpu.id for gpu in study.gpus if gpu.folders), "")
    rows += of_session(conclusions, focus, here, variants)
    return pd.DataFrame(rows, columns=OUTCOME)


def publish(config: Path) -> None:
    """Rebuild everything; write the digests of inputs and the tables as published.

    Raise StudyError for an unusable configuration, and in an installed package.
    """
    if not IS_CHECKOUT:
        raise StudyError("--publish: is not possible in an installed package; use a checkout")
    root, folder = config.resolve().parent, RESULTS / "reproduced"
    inputs = _digests(root, load(config, "full"))
    if fault := _rebuild(root, in_scope(read(config), "quick"), folder):
        raise StudyError(f"nothing is published: {fault}")
    tables = _tables(folder / "tables")
    stored = {name: _sample(table) for name, table in tables.items()}
    stored[_STATEMENTS] = statements(tables)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, table in stored.items():  # no dates, so that equal tables give equal bytes
            archive.writestr(zipfile.ZipInfo(f"{name}.csv"), table.to_csv(index=False), 8)
    write_atomic(PUBLISHED.with_suffix(".zip"), packed.getvalue())
    rows = {name: len(table) for name, table in tables.items()}
    write_atomic(PUBLISHED, as_json(Published(inputs=inputs, rows=rows).plain()))


def _read(path: Path) -> tuple[Published, dict[str, pd.DataFrame]]:
    """Return the published digests and tables; raise StudyError if they are unreadable."""
    remedy = "restore it, or write it with `gemm-study reproduce --publish`"
    packed = path.with_suffix(".zip")
    try:
        published = Published.model_validate_json(path.read_bytes())
        with zipfile.ZipFile(packed) as archive:
            names = [*published.rows, _STATEMENTS]
            return published, {
                name: _texts(io.BytesIO(archive.read(f"{name}.csv"))) for name in names
            }
    except OSError as error:
        raise StudyError(f"{error.filename}: {error.strerror}; {remedy}") from None
    except ValidationError as error:
        raise StudyError(f"{path}: {first_fault(error)}; {remedy}") from None
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise StudyError(f"{packed}: {error}; {remedy}") from None


def _texts(file: Any) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def _tables(folder: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: _texts(path) for path in sorted(folder.glob("*.csv"))}


def _sample(table: pd.DataFrame) -> pd.DataFrame:
    """Return all rows of a table or, if it is longer, a fixed choice of `_MOST_ROWS` rows."""
    if len(table) <= _MOST_ROWS:
        return table
    return table.sample(_MOST_ROWS, random_state=0).sort_index()


def _digests(root: Path, study: Config) -> dict[str, str]:
    """Return the digests of recordings, published data and measured sources, by path."""
    folders = [folder for gpu in study.gpus for folder in gpu.folders]
    recorded = [path for folder in folders for path in (root / folder).glob("*.*")]
    sources = [*ROOT.glob("kernels/*.cu"), *ROOT.glob("cpu_reference/*.c")]
    sources += [ROOT / "data" / "published" / f"{name}.csv" for name in _CSVS]
    paths = {os.path.relpath(path, root): path for path in recorded}
    for path in sources:  # the study's own if the folder has no other
        name = path.relative_to(ROOT)
        paths[str(name)] = root / name if (root / name).exists() else path
    return {name: _digest(path) for name, path in sorted(paths.items())}


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file; of the code without comments if it is a measured source."""
    return code_sha256(file.read_text()) if file.suffix in (".cu", ".c") else sha256(file)


def _rebuild(root: Path, content: dict[str, Any], out: Path) -> str | None:
    """Make the report in `out` from recordings, without measuring; return the error, or None."""
    gpus = [gpu for gpu in content["gpus"] if {"recording", "recordings"} & set(gpu)]
    return _run(root, content | {"gpus": gpus}, "report", out)


def _run(root: Path, content: dict[str, Any], target: str, out: Path) -> str | None:
    """Make a target of the workflow and replace `out` by its results; return the error, or None.

    Raise OSError if the disk is full. Without a git folder the report contains no commit, so its
    digest depends only on its content.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".reproduced.", dir=RESULTS) as name:
        folder, store = Path(name), RESULTS / "counts" / STORE
        fill(folder, content, root)
        store.mkdir(parents=True, exist_ok=True)
        (folder / "results" / "counts").mkdir(parents=True)
        (folder / "results" / "counts" / STORE).symlink_to(store)
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", target, "--cores", "all"],
            cwd=folder,
            env=os.environ | {"GIT_DIR": os.devnull, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            lines = [_shown(line.strip()) for line in process.stderr or ()]
        except BaseException:  # such as KeyboardInterrupt
            end_children()
            raise
        if process.wait():
            full = os.strerror(errno.ENOSPC)
            if any(full in line for line in lines):
                raise OSError(errno.ENOSPC, full, RESULTS)
            errors = [line for line in lines if line.startswith("error: ")] or lines
            return (errors or ["no message"])[-1].removeprefix("error: ")
        shutil.rmtree(out)
        os.replace(folder / "results", out)
    return None


def _shown(line: str) -> str:
    """Print the message of a job if Snakemake's `line` has one; return the line."""
    if job := re.fullmatch(r"Job \d+: (.+)", line):
        print(f"reproduce: {job[1]}", file=sys.stderr, flush=True)
    return line


def _session(
    root: Path, content: dict[str, Any], session: Path, out: Path
) -> tuple[pd.DataFrame, set[str]]:
    """Return statements and variants of a session; raise StudyError if it is unusable."""
    gpus = [{"id": HERE.replace(" ", "-"), "recording": str(session.absolute())}]
    if fault := _run(root, content | {"gpus": gpus, "report": {}}, "tables", out):
        raise StudyError(f"--session {session}: {fault}")
    tables = _tables(out / "tables")
    return statements(tables), set(tables["summary"]["variant"])


def statements(tables: Tables) -> pd.DataFrame:
    """Return one row per statement in the tables: the claims of sources, and the report's answers.

    Columns: where (GPU or recording), statement, number (among statements with equal text),
    criterion, value, verdict.
    """
    rows = []
    for row in tables["claims"].to_dict("records"):
        text = f"{row['claim']} ({', '.join(filter(None, [row['source'], row['quantity']]))})"
        rule = f"{row['rule']}; expected {row['expected']}; measured: {row['measured']}"
        where = row["gpu"] or row["recording"] or "all"
        rows.append((where, text, rule, row["value"], row["verdict"]))
    for row in tables["answers"].to_dict("records"):
        if row["role"] == "fastest":
            where = row["gpu"] or row["recording"]
            rows.append((where, FASTEST, "least end-to-end time", row["variant"], row["verdict"]))
            rows.append((where, "end-to-end time of it, in s", "its median", row["total_s"], ""))
    for row in tables["speedups"].to_dict("records"):
        if row["is_answer"] == "True":
            over_cpu = ("speedup over the CPU", "interval above 1", row["speedup"], row["verdict"])
            rows.append((row["source"], *over_cpu))
    for row in tables["break_even"].to_dict("records"):
        if row["is_answer"] == "True":
            place = row["n"] or row["location"]
            size = ("break-even size N", "a size is measured", place, row["verdict"])
            rows.append((row["gpu"], *size))
    frame = pd.DataFrame(rows, columns=["where", "statement", "criterion", "value", "verdict"])
    return frame.assign(number=frame.groupby(["where", "statement"]).cumcount().map(str))


def of_files(published: Mapping[str, str], here: Mapping[str, str]) -> Iterator[Row]:
    """Yield one outcome per input file, from the digests as published and as computed here."""
    for path in sorted({*published, *here}):
        digests = published.get(path, "missing")[:12], here.get(path, "missing")[:12]
        is_same = published.get(path) == here.get(path)
        yield "inputs", path, _FILE, *digests, _outcome(is_same)


def of_tables(rows: Mapping[str, int], published: Tables, here: Tables) -> Iterator[Row]:
    """Yield one outcome per table; `rows` is the number of rows of each published table."""
    for name in sorted({*published, *here}):
        if not (name in published and name in here):
            texts = tuple("there" if name in tables else "missing" for tables in (published, here))
        else:
            texts = _differences(rows[name], published[name], here[name])
        yield "rebuilt", f"{name}.csv", _TABLE, *texts, _outcome(texts[0] == texts[1])


def _differences(rows: int, published: pd.DataFrame, here: pd.DataFrame) -> tuple[str, str]:
    """Return the first differing row as text, as published and here; two equal texts if none."""
    if list(published) != list(here):
        only = {*published} ^ {*here}
        columns = [", ".join(name for name in table if name in only) for table in (published, here)]
        return f"columns {columns[0] or '–'}", f"columns {columns[1] or 'in another order'}"
    if rows != len(here):
        return f"{rows} rows", f"{len(here)} rows"
    sample = _sample(here)
    for name in published:
        is_same = _is_close(published[name], sample[name])
        if not is_same.all():
            at = int(is_same.argmin())
            where = f"{(~is_same).sum()} cells differ, first {name} in row {sample.index[at] + 1}"
            return f"{where}: {published[name].iloc[at]}", f"{sample[name].iloc[at]}"
    return (f"{rows} rows",) * 2


def _is_close(published: pd.Series, here: pd.Series) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each row whether texts are equal, or numbers equal within the tolerance."""
    one, other = (pd.to_numeric(texts, errors="coerce").to_numpy() for texts in (here, published))
    is_close = np.isclose(one, other, rtol=TOLERANCE, atol=0)
    return np.asarray((published.to_numpy() == here.to_numpy()) | is_close)


def _of_page(folder: Path) -> Row:
    """Return an outcome: whether all numbers of the rebuilt page agree with the rebuilt tables."""
    command = [sys.executable, "-m", "workflow", "check", str(folder / "report.html")]
    command += ["--tables", str(folder / "tables")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    text = (done.stdout or done.stderr or "no message").splitlines()[0]
    return "rebuilt", "report.html", _PAGE, _PAGE, text, _outcome(done.returncode == 0)


def of_statements(published: pd.DataFrame, here: pd.DataFrame) -> Iterator[Row]:
    """Yield one outcome per published statement, compared with the rebuilt statement."""
    both = published.merge(here, "outer", ["where", "statement", "number"], suffixes=("", "_here"))
    both = both.fillna("missing")
    is_same = _is_close(both["value"], both["value_here"])
    for row, is_same_value in zip(both.to_dict("records"), is_same, strict=True):
        is_reproduced = is_same_value and row["verdict"] == row["verdict_here"]
        criterion = row["criterion"]
        if row["criterion_here"] != criterion:
            is_reproduced, criterion = False, f"{criterion}, here: {row['criterion_here']}"
        texts = _text(row["value"], row["verdict"]), _text(row["value_here"], row["verdict_here"])
        yield row["where"], row["statement"], criterion, *texts, _outcome(is_reproduced)


def of_session(
    published: pd.DataFrame, focus: str, here: pd.DataFrame | None, variants: Container[str] = ()
) -> Iterator[Row]:
    """Yield one outcome per published statement on the GPU `focus`, compared with a session.

    `variants` are those that the session measured. If the fastest variant is not among them, its
    statement is not testable. Of several GPUs in a session, the first one is compared.
    """
    published = published[published["where"] == focus]
    session = published[:0] if here is None else here[here["where"] != "all"]
    session = session.drop_duplicates(["statement", "number"])
    both = published.merge(session, "left", ["statement", "number"], suffixes=("", "_here"))
    for row in both.fillna("").to_dict("records"):
        verdicts = row["verdict"], row["verdict_here"]
        is_same, is_testable = verdicts[0] == verdicts[1], not {*_UNKNOWN} & {*verdicts}
        if row["statement"] == FASTEST:
            is_same = is_same and row["value"] == row["value_here"]
            is_testable = row["value"] in variants
        texts = _text(row["value"], verdicts[0]), _text(row["value_here"], verdicts[1])
        outcome = _outcome(is_same) if is_testable else NOT_TESTABLE
        yield HERE, row["statement"], row["criterion"], texts[0], texts[1] or "no session", outcome


def _text(value: str, verdict: str) -> str:
    return f"{value} ({verdict})" if value and verdict != value else verdict


def _outcome(is_same: bool) -> str:
    return REPRODUCED if is_same else NOT_REPRODUCED


def summary(outcomes: pd.DataFrame) -> list[str]:
    """Return the lines of the summary: one per conclusion and per fault, then the counts.

    Reproduced files and tables, and conclusions not testable here, are only counted.
    """
    is_file = outcomes["criterion"].isin([_FILE, _TABLE])
    is_reproduced = outcomes["outcome"] == REPRODUCED
    lines = [f"{(is_file & is_reproduced).sum()} of {is_file.sum()} files reproduced"]
    shown = outcomes[(outcomes["outcome"] == NOT_REPRODUCED) | (is_reproduced & ~is_file)]
    for row in shown.to_dict("records"):
        line = f"{row['outcome']}: {row['where']}: {row['statement']}: published"
        lines.append(f"{line} {row['published']}, here {row['here']} [{row['criterion']}]")
    kinds = (REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE)
    return [*lines, ", ".join(f"{(outcomes['outcome'] == kind).sum()} {kind}" for kind in kinds)]


def write(outcomes: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Write the outcomes as reproduction.json and reproduction.html; return their content."""
    content: dict[str, Any] = {"outcomes": outcomes.to_dict("records")}
    write_atomic(folder / "reproduction.json", as_json(content))
    faults_first = outcomes.sort_values("outcome", key=lambda kind: kind != NOT_REPRODUCED)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Reproduction</title>'
        "<style>body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left;"
        "vertical-align:top;border-bottom:1px solid}</style><h1>Reproduction</h1>"
        f"<p>{html.escape(summary(outcomes)[-1])}</p>{faults_first.to_html(index=False)}</html>\n"
    )
    write_atomic(folder / "reproduction.html", page)
    return content
