"""``gemm-study reproduce``: rebuild tables and report, compare them with the published ones.

The published digests and statements are in `PUBLISHED`; ``--publish`` writes them. A statement is a
claim of a source or an answer of the report. It is reproduced if its criterion and its verdict
equal the published ones and its value differs by less than `TOLERANCE`. The last digits of fits
depend on the processor. On a session of this machine only verdicts are compared.
"""

import csv
import errno
import html
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

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
TOLERANCE = 1e-3  # relative
REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable here"
HERE = "this machine"
FASTEST = "fastest implementation"
_CSVS = ("times", "systems", "statements")
_UNKNOWN = ("", "not measured", "undecided")  # verdicts without a decision
_FILE = "same SHA-256"


@dataclass(frozen=True)
class Statement:
    """A claim or an answer: on which GPU or recording, its criterion, its value and verdict."""

    where: str
    statement: str
    criterion: str
    value: str
    verdict: str


class Published(Section):
    """The published digests, by path, and statements."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    statements: list[Statement]


@dataclass(frozen=True)
class Outcome:
    """A statement or file: as published, as here, and whether it is reproduced."""

    where: str
    statement: str
    criterion: str
    published: str
    here: str
    outcome: str


def reproduce(
    config: Path, published: Path = PUBLISHED, session: Path | None = None, publish: bool = False
) -> list[Outcome]:
    """Rebuild everything; return the outcomes, or write `published` and return nothing.

    `session`: a recording of this machine, whose verdicts are compared with those of the report's
    focus. Raise StudyError for an unusable configuration, or without published digests.
    """
    study, folder = load(config, "full"), RESULTS / "reproduced"
    if publish and not IS_CHECKOUT:
        raise StudyError("--publish: is not possible in an installed package; use a checkout")
    known = None if publish else _read(published)
    folder.mkdir(parents=True, exist_ok=True)
    root, content = config.resolve().parent, in_scope(read(config), "quick")
    # First: its path may be wrong.
    here, variants = _on(root, content, session, folder) if session else ([], set())
    inputs = _digests(root, _inputs(root, study))
    # A device would be measured.
    content["gpus"] = [gpu for gpu in content["gpus"] if {"recording", "recordings"} & set(gpu)]
    fault = _run(root, content, "report", folder)
    if known is None:
        if fault:
            raise StudyError(f"nothing is published: {fault}")
        found = statements(folder / "tables")
        facts = Published(inputs=inputs, outputs=_outputs(folder), statements=found)
        write_atomic(published, as_json(facts.plain()))
        return []
    outcomes = list(of_files("inputs", known.inputs, inputs))
    if fault:
        outcomes.append(Outcome("rebuilt", fault, "no error", "", "an error", NOT_REPRODUCED))
    else:
        outcomes += of_files("rebuilt", known.outputs, _outputs(folder))
        outcomes += of_statements(known.statements, statements(folder / "tables"))
    focus = study.report.focus or next((gpu.id for gpu in study.gpus if gpu.folders), "")
    return outcomes + list(of_session(known.statements, focus, here, variants))


def _read(published: Path) -> Published:
    """Return the published digests and statements; raise StudyError if they are unreadable."""
    remedy = "restore it, or write it with `gemm-study reproduce --publish`"
    try:
        return Published.model_validate_json(published.read_bytes())
    except OSError as error:
        raise StudyError(f"{published}: {error.strerror}; {remedy}") from None
    except ValidationError as error:
        raise StudyError(f"{published}: {first_fault(error)}; {remedy}") from None


def _inputs(root: Path, study: Config) -> list[str]:
    """Return the paths of recordings, published data and measured sources, from `root`."""
    folders = [folder for gpu in study.gpus for folder in gpu.folders]
    recorded = [str(path) for folder in folders for path in (root / folder).glob("*.*")]
    sources = [*ROOT.glob("kernels/*.cu"), *ROOT.glob("cpu_reference/*.c")]
    own = [str(path.relative_to(ROOT)) for path in sources]
    own += [f"data/published/{name}.csv" for name in _CSVS]
    return sorted([*own, *(os.path.relpath(path, root) for path in recorded)])


def _digests(root: Path, paths: Iterable[str]) -> dict[str, str]:
    found = {path: root / path if (root / path).exists() else ROOT / path for path in paths}
    return {path: _digest(file) for path, file in found.items() if file.is_file()}


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file; of the code without comments if it is a measured source."""
    return code_sha256(file.read_text()) if file.suffix in (".cu", ".c") else sha256(file)


def _outputs(folder: Path) -> dict[str, str]:
    files = [*(folder / "tables").glob("*.csv"), folder / "report.html"]
    return {str(path.relative_to(folder)): sha256(path) for path in sorted(files)}


def _run(root: Path, content: dict[str, Any], target: str, out: Path) -> str | None:
    """Make a target of the workflow, whose results replace `out`; return the error, or None.

    Raise OSError if the disk is full. Without a git folder the report contains no commit, so its
    digest depends only on its content.
    """
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
    """Print the message of a job in a line of Snakemake; return the line."""
    if job := re.fullmatch(r"Job \d+: (.+)", line):
        print(f"reproduce: {job[1]}", file=sys.stderr, flush=True)
    return line


def _on(
    root: Path, content: dict[str, Any], session: Path, out: Path
) -> tuple[list[Statement], set[str]]:
    """Return the statements and the variants of a session; raise StudyError if it is unusable."""
    own = [{"id": HERE.replace(" ", "-"), "recording": str(session.absolute())}]
    fault = _run(root, content | {"gpus": own, "report": {}}, "tables", out)
    if fault:
        raise StudyError(f"--session {session}: {fault}")
    variants = {row["variant"] for row in _rows(out / "tables" / "summary.csv")}
    return [one for one in statements(out / "tables") if one.where != "all"], variants


def statements(tables: Path) -> list[Statement]:
    """Return the claims and the answers in a folder of tables."""
    found = []
    for row in _rows(tables / "claims.csv"):
        text = f"{row['claim']} ({', '.join(filter(None, [row['source'], row['quantity']]))})"
        rule = f"{row['rule']}; expected {row['expected']}; measured: {row['measured']}"
        where = row["gpu"] or row["recording"] or "all"
        found.append(Statement(where, text, rule, row["value"], row["verdict"]))
    for row in _rows(tables / "answers.csv"):
        if row["role"] == "fastest":
            where = row["gpu"] or row["recording"]
            best = (FASTEST, "least end-to-end time", row["variant"], row["verdict"])
            time_s = ("end-to-end time of it, in s", "its median", row["total_s"], "")
            found += [Statement(where, *best), Statement(where, *time_s)]
    for row in _rows(tables / "speedups.csv"):
        if row["is_answer"] == "True":
            over_cpu = ("speedup over the CPU", "interval above 1", row["speedup"], row["verdict"])
            found.append(Statement(row["source"], *over_cpu))
    for row in _rows(tables / "break_even.csv"):
        if row["is_answer"] == "True":
            place = row["n"] or row["location"]
            size = ("break-even size N", "a size is measured", place, row["verdict"])
            found.append(Statement(row["gpu"], *size))
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def of_files(kind: str, published: Mapping[str, str], here: Mapping[str, str]) -> Iterator[Outcome]:
    """Yield one outcome per file."""
    for path in sorted({*published, *here}):
        pair = published.get(path, "missing")[:12], here.get(path, "missing")[:12]
        same = published.get(path) == here.get(path)
        yield Outcome(kind, path, _FILE, *pair, REPRODUCED if same else NOT_REPRODUCED)


def of_statements(published: Sequence[Statement], here: Sequence[Statement]) -> Iterator[Outcome]:
    """Yield one outcome per published statement, compared with the rebuilt ones."""
    found = dict(_numbered(here))
    for key, one in _numbered(published):
        own = found.pop(key, None)
        same = own is not None and replace(own, value=one.value) == one
        same = same and own is not None and _close(one.value, own.value)
        criterion = one.criterion
        if own is not None and own.criterion != criterion:
            criterion = f"{criterion}, here: {own.criterion}"
        texts = _text(one), _text(own) if own else "missing"
        yield Outcome(
            one.where, one.statement, criterion, *texts, REPRODUCED if same else NOT_REPRODUCED
        )
    for one in found.values():
        outcome = ("missing", _text(one), NOT_REPRODUCED)
        yield Outcome(one.where, one.statement, one.criterion, *outcome)


def of_session(
    published: Sequence[Statement],
    focus: str,
    here: Sequence[Statement],
    variants: Container[str] = (),
) -> Iterator[Outcome]:
    """Yield one outcome per published statement on the GPU `focus`, compared with a session.

    `variants` are the variants that the session measured: a fastest variant that is missing is not
    testable.
    """
    # Of several GPUs in a session, the first one.
    found = {key[1:]: one for key, one in reversed(list(_numbered(here)))}
    for key, one in _numbered(each for each in published if each.where == focus):
        own = found.get(key[1:])
        outcome = NOT_TESTABLE
        if own and one.statement == FASTEST:
            if one.value in variants:
                same = (own.value, own.verdict) == (one.value, one.verdict)
                outcome = REPRODUCED if same else NOT_REPRODUCED
        elif own and not {own.verdict, one.verdict} & {*_UNKNOWN}:
            outcome = REPRODUCED if own.verdict == one.verdict else NOT_REPRODUCED
        texts = _text(one), _text(own) if own else "no session"
        yield Outcome(HERE, one.statement, one.criterion, *texts, outcome)


def _numbered(
    found: Iterable[Statement],
) -> Iterator[tuple[tuple[str, str, int], Statement]]:
    """Yield statements with their keys; equal ones are numbered."""
    seen: dict[tuple[str, str], int] = {}
    for one in found:
        key = (one.where, one.statement)
        seen[key] = seen.get(key, 0) + 1
        yield (*key, seen[key]), one


def _close(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=TOLERANCE)
    except ValueError:  # a name, or empty
        return one == other


def _text(one: Statement) -> str:
    return f"{one.value} ({one.verdict})" if one.value else one.verdict


def summary(found: Sequence[Outcome]) -> list[str]:
    """Return a row per conclusion, file that is not reproduced and error; and the counts.

    Conclusions that are not testable here are only counted.
    """
    files = [one for one in found if one.criterion == _FILE]
    lines = [f"{_count(files, REPRODUCED)} of {len(files)} files reproduced"]
    for one in found:
        if one.outcome == NOT_REPRODUCED or (one not in files and one.outcome == REPRODUCED):
            line = f"{one.outcome}: {one.where}: {one.statement}: published {one.published}"
            lines.append(f"{line}, here {one.here} [{one.criterion}]")
    outcomes = (REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE)
    return [*lines, ", ".join(f"{_count(found, each)} {each}" for each in outcomes)]


def _count(found: Iterable[Outcome], outcome: str) -> int:
    return sum(one.outcome == outcome for one in found)


def write(found: Sequence[Outcome], folder: Path) -> dict[str, Any]:
    """Write the outcomes as reproduction.json and reproduction.html; return their content."""
    content: dict[str, Any] = {"outcomes": [asdict(one) for one in found]}
    write_atomic(folder / "reproduction.json", as_json(content))
    names = ("outcome", "where", "statement", "criterion", "published", "here")
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    rows = (
        "".join(f"<td>{html.escape(str(asdict(one)[name]))}</td>" for name in names)
        for one in sorted(found, key=lambda one: one.outcome != NOT_REPRODUCED)
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Reproduction</title>'
        "<style>body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left;"
        "vertical-align:top;border-bottom:1px solid}</style><h1>Reproduction</h1>"
        f"<p>{html.escape(summary(found)[-1])}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></html>\n"
    )
    write_atomic(folder / "reproduction.html", page)
    return content
