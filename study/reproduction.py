"""``gemm-study reproduce``: rebuild tables and report, compare them with the published ones.

The published digests and statements are in `PUBLISHED`; ``--publish`` writes them. A statement is
a claim of a source or an answer of the report. It is reproduced if its criterion and its verdict
are the published ones and its value differs by less than `TOLERANCE`: fits depend on the
processor in their last digits. On a session of this machine only verdicts are compared.
"""

import csv
import html
import json
import math
import os
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from base.command_line import as_json
from base.errors import StudyError
from base.files import sha256, write_atomic
from base.paths import RESULTS, ROOT
from study.config import Config, dump, in_scope, load, read
from study.counting import plan

PUBLISHED = ROOT / "data" / "published" / "reproduction.json"
TOLERANCE = 1e-3  # relative
REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable here"
HERE = "this machine"
FASTEST = "fastest implementation"
_CSVS = ("published", "times"), ("systems", "systems"), ("statements", "statements")
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
    if not publish and not published.exists():
        raise StudyError(f"{published}: is missing; write it with `gemm-study reproduce --publish`")
    root = config.resolve().parent
    here = _on(root, folder, session) if session else []  # first: its path may be wrong
    inputs = _digests(root, _inputs(root, study))
    fault = _rebuild(root, config, study, folder)
    if publish:
        if fault:
            raise StudyError(f"nothing is published: {fault}")
        facts: dict[str, Any] = {"inputs": inputs, "outputs": _outputs(folder)}
        facts |= {"statements": [asdict(one) for one in statements(folder / "tables")]}
        write_atomic(published, as_json(facts))
        return []
    known = json.loads(published.read_text(encoding="utf-8"))
    known["statements"] = [Statement(**one) for one in known["statements"]]
    found = list(of_files("inputs", known["inputs"], inputs))
    if fault:
        found.append(Outcome("rebuilt", fault, "no error", "", "an error", NOT_REPRODUCED))
    else:
        found += of_files("rebuilt", known["outputs"], _outputs(folder))
        found += of_statements(known["statements"], statements(folder / "tables"))
    focus = study.report.focus or next((gpu.id for gpu in study.gpus if gpu.folders), "")
    rows = _rows(folder / "session" / "summary.csv") if session else []
    variants = {row["variant"] for row in rows}
    return found + list(of_session(known["statements"], focus, here, variants))


def _inputs(root: Path, study: Config) -> list[str]:
    """Return the paths of recordings, published data and measured sources, from `root`."""
    folders = [folder for gpu in study.gpus for folder in gpu.folders]
    recorded = [str(path) for folder in folders for path in (root / folder).glob("*.*")]
    sources = [*ROOT.glob("kernels/*.cu"), *ROOT.glob("cpu_reference/*.c")]
    own = [str(path.relative_to(ROOT)) for path in sources]
    own += [f"data/published/{name}.csv" for _, name in _CSVS]
    return sorted([*own, *(os.path.relpath(path, root) for path in recorded)])


def _digests(root: Path, paths: Iterable[str]) -> dict[str, str]:
    found = {path: root / path if (root / path).exists() else ROOT / path for path in paths}
    return {path: sha256(file) for path, file in found.items() if file.is_file()}


def _outputs(folder: Path) -> dict[str, str]:
    files = [*(folder / "tables").glob("*.csv"), folder / "report.html"]
    return {str(path.relative_to(folder)): sha256(path) for path in sorted(files)}


def _rebuild(root: Path, config: Path, study: Config, folder: Path) -> str | None:
    """Write tables, figures and report to `folder`; return the error, or None."""
    counts, quick = RESULTS / "counts", folder / "config.yaml"
    # The full study also counts large products, which take minutes and confirm the same theory.
    write_atomic(quick, dump(in_scope(read(config), "quick")))
    recordings = [f"--recording={gpu.id}={one}" for gpu in study.gpus for one in gpu.folders]
    tables, figures = folder / "tables", folder / "figures"
    focus = ["--focus", study.report.focus] if study.report.focus else []
    files = [counts / f"{one.stem}.csv" for one in plan(study.study, None)]
    options = ["--sizes", *map(str, study.study.sizes)]
    page = ["--figures", figures, "--template", ROOT / "report", "--out", folder / "report.html"]
    page += ["--baseline", study.report.baseline]
    commands = (
        ("study", "count", "--config", quick, "--out", counts),
        ("analysis", *_tables(recordings, tables), "--counts", *files, *options),
        ("analysis", "figures", "--tables", tables, *focus, "--out", figures),
        ("analysis", "report", "--tables", tables, *recordings, *focus, *page),
    )
    return next(filter(None, (_run(root, command) for command in commands)), None)


def _tables(recordings: Sequence[str], out: Path) -> list[object]:
    published = [(f"--{option}", ROOT / f"data/published/{name}.csv") for option, name in _CSVS]
    return ["tables", *(word for pair in published for word in pair), *recordings, "--out", out]


def _run(root: Path, command: Sequence[object]) -> str | None:
    """Run a module in the folder `root`; return the error, or None.

    Without a git folder the report contains no commit, so its digest is that of its content.
    """
    print(f"reproduce: {' '.join(map(str, command[:2]))}", file=sys.stderr, flush=True)
    words = [os.path.relpath(one, root) if isinstance(one, Path) else str(one) for one in command]
    environment = os.environ | {"GIT_DIR": os.devnull, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=root,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines() or ["no message"]
    return lines[-1].removeprefix("error: ") if done.returncode else None


def _on(root: Path, folder: Path, session: Path) -> list[Statement]:
    """Return the statements of a session; raise StudyError if it is unusable."""
    tables = folder / "session"
    recordings = [f"--recording={HERE.replace(' ', '-')}={session.resolve()}"]
    fault = _run(root, ("analysis", *_tables(recordings, tables)))
    if fault:
        raise StudyError(f"--session {session}: {fault}")
    return [one for one in statements(tables) if one.where != "all"]


def statements(tables: Path) -> list[Statement]:
    """Return the claims and the answers in a folder of tables."""
    found = []
    for row in _rows(tables / "claims.csv"):
        text = f"{row['claim']} ({', '.join(filter(None, [row['source'], row['quantity']]))})"
        rule = f"{row['rule']}; expected {row['expected']}; measured: {row['measured']}"
        where = row["gpu"] or row["recording"] or "all"
        found.append(Statement(where, text, rule, row["value"], row["verdict"]))
    for row in _rows(tables / "answers.csv"):
        where = row["gpu"] or row["recording"]
        place = row["break_even_n"] or row["break_even_location"]
        rows = (
            (FASTEST, "least end-to-end time", row["variant"], row["implementation_verdict"]),
            ("end-to-end time of it, in s", "its median", row["total_s"], ""),
            ("speedup over the CPU", "interval above 1", row["speedup"], row["speedup_verdict"]),
            ("break-even size N", "a size is measured", place, row["break_even_verdict"]),
        )
        found += [Statement(where, *one) for one in rows]
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

    `variants` are those that the session measured: the fastest one is not testable without it.
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
