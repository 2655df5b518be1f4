"""gemm-study reproduce: everything agrees; each altered input and criterion is named."""

import importlib
import json
import shutil
import sys

import pytest
import yaml

from base.command_line import as_json
from base.errors import StudyError, exit_status
from study import reproduction
from study.reproduction import HERE, NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, Statement
from tests.support import warm
from tests.support.studies import config_text

CLAIM = "loading tiles in the slow order takes about twice as long"


@pytest.fixture
def project(tmp_path, monkeypatch, computed, gpu_recording):
    """A study of one recording, whose tables were computed before."""
    shutil.copytree(gpu_recording.path, tmp_path / "mine")
    gpus = [{"id": "card", "recording": "mine"}, {"id": "local", "device": "auto"}]
    (tmp_path / "config.yaml").write_text(config_text({}, {}, gpus, report={"focus": "card"}))

    def run(root, content, target, out):
        assert not [gpu for gpu in content["gpus"] if "device" in gpu]
        shutil.copytree(computed, out / "tables", dirs_exist_ok=True)
        (out / "report.html").write_text("page")

    monkeypatch.setattr(reproduction, "_run", run)
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(reproduction, "PUBLISHED", tmp_path / "published.json")
    monkeypatch.setattr("study.__main__.RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    assert reproduction.reproduce(*paths(tmp_path), publish=True) == []
    return tmp_path


def paths(folder):
    return folder / "config.yaml", folder / "published.json"


def failed(folder, session=None):
    found = reproduction.reproduce(*paths(folder), session)
    return {one.statement: one for one in found if one.outcome == NOT_REPRODUCED}


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["study", "reproduce", "--config", "config.yaml", *arguments])
    return exit_status(importlib.import_module("study.__main__").main)


def test_an_unchanged_study_is_reproduced(project, monkeypatch, capsys):
    assert run(monkeypatch, "--json") == 0
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert json.loads((project / "results/reproduced/reproduction.json").read_text()) == {
        "outcomes": outcomes
    }
    assert "<h1>Reproduction</h1>" in (project / "results/reproduced/reproduction.html").read_text()
    by_place = {(one["where"], one["statement"]): one for one in outcomes}
    kernel = by_place["inputs", "kernels/block.cu"]
    assert (kernel["outcome"], kernel["published"]) == (REPRODUCED, kernel["here"])
    assert {"mine/samples.csv.gz", "report.html", "tables/claims.csv"} < {s for _, s in by_place}
    assert {one["outcome"] for one in outcomes if one["where"] == HERE} == {NOT_TESTABLE}
    assert by_place["card", "break-even size N"]["outcome"] == REPRODUCED
    assert run(monkeypatch) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith(" files reproduced")
    assert any(line.startswith("reproduced: card: break-even size N: published ") for line in said)
    assert said[-1].split(", ")[1] == "0 not reproduced"


def test_an_altered_recording_is_named(project, monkeypatch, capsys):
    with (project / "mine" / "ceilings.csv").open("a") as file:
        file.write("\n")
    assert list(failed(project)) == ["mine/ceilings.csv"]
    assert run(monkeypatch) == 1
    assert "\nnot reproduced: inputs: mine/ceilings.csv: published " in capsys.readouterr().out
    page = (project / "results/reproduced/reproduction.html").read_text()
    assert page.index("<td>not reproduced") < page.index("<td>reproduced")


def test_an_altered_or_missing_kernel_source_is_named(project):
    (project / "kernels").mkdir()
    (project / "kernels" / "naive.cu").write_text("other")
    assert list(failed(project)) == ["kernels/naive.cu"]
    shutil.rmtree(project / "kernels")
    known = json.loads((project / "published.json").read_text())
    known["inputs"]["kernels/gone.cu"] = 64 * "0"
    (project / "published.json").write_text(as_json(known))
    (found,) = failed(project).values()
    assert (found.statement, found.here) == ("kernels/gone.cu", "missing")


@pytest.mark.parametrize(
    ("before", "after"), [("within a factor of 1.25", "within a factor of 9"), ("V,", "H,")]
)
def test_an_altered_criterion_and_source_are_named(project, monkeypatch, before, after):
    copy = reproduction._run

    def altered(*arguments):
        copy(*arguments)
        table = project / "results" / "reproduced" / "tables" / "claims.csv"
        lines = table.read_text().splitlines(keepends=True)
        (at,) = (n for n, line in enumerate(lines) if CLAIM in line)
        lines[at] = lines[at].replace(before, after, 1)
        table.write_text("".join(lines))

    monkeypatch.setattr(reproduction, "_run", altered)
    found = failed(project)
    assert found.pop("tables/claims.csv").where == "rebuilt"
    assert found
    assert all(CLAIM in statement for statement in found)
    assert {one.where for one in found.values()} == {"card"}
    if "factor" in after:
        assert all(after in one.criterion for one in found.values())


def test_an_installed_study_publishes_nothing(project, monkeypatch):
    monkeypatch.setattr(reproduction, "IS_CHECKOUT", False)
    with pytest.raises(StudyError, match=r"^--publish: is not possible in an installed package"):
        reproduction.reproduce(*paths(project), publish=True)


def test_a_failed_command_is_named_and_nothing_is_published(project, monkeypatch):
    fault = "recording mine: broken"
    monkeypatch.setattr(reproduction, "_run", lambda *_: fault)
    assert [(one.where, one.criterion) for one in failed(project).values()] == [
        ("rebuilt", "no error")
    ]
    with pytest.raises(StudyError, match=f"^nothing is published: {fault}$"):
        reproduction.reproduce(*paths(project), publish=True)
    runs = []
    monkeypatch.setattr(reproduction, "_run", lambda *_: runs.append(1) or fault)
    with pytest.raises(StudyError, match=r"^--session mine: recording mine: broken$"):
        reproduction.reproduce(*paths(project), session=reproduction.Path("mine"))
    assert len(runs) == 1  # a wrong path is reported before anything is rebuilt


@pytest.mark.slow
def test_the_workflow_rebuilds_the_tables_of_a_recording(tmp_path, monkeypatch, make_recording):
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(reproduction.subprocess, "Popen", warm.Popen)
    few = ("naive", "block", "cublas_sgemm")
    make_recording(tmp_path / "mine", sizes=(32, 64, 128), holdout=(), samples=6, variants=few)
    content = yaml.safe_load(config_text({}, {}, [{"id": "card", "recording": "mine"}]))
    content["study"]["scope"] = "quick"
    out = tmp_path / "results" / "reproduced"
    out.mkdir(parents=True)
    (out / "old").touch()
    assert reproduction._run(tmp_path, content, "tables", out) is None
    assert {path.name for path in out.iterdir()} == {"config.yaml", "counts", "logs", "tables"}
    assert "card" in {one.where for one in reproduction.statements(out / "tables")}
    (tmp_path / "mine" / "checks.csv").unlink()
    error = reproduction._run(tmp_path, content, "tables", out)
    assert error.startswith(f"recording {tmp_path / 'mine'}: checks.csv is missing; restore")
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"counts", "reproduced"}


def test_a_full_disk_is_an_error_and_no_outcome(tmp_path, monkeypatch):
    (tmp_path / "python").write_text(
        "#!/bin/sh\necho $GIT_DIR >$0.git\necho No space left on device >&2\nexec false"
    )
    (tmp_path / "python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path)
    with pytest.raises(OSError, match="No space left on device") as raised:
        reproduction._run(tmp_path, {}, "tables", tmp_path / "out")
    assert raised.value.filename == tmp_path
    assert (tmp_path / "python.git").read_text() == "/dev/null\n"  # the page has no commit


def test_a_break_even_size_below_the_measured_ones_is_a_statement(tmp_path):
    row = {"gpu": "a", "is_answer": "True", "n": "", "location": "below", "verdict": "faster"}
    headers = {"claims": "claim\n", "answers": "role\n", "speedups": "is_answer\n"}
    for name, header in headers.items():
        (tmp_path / f"{name}.csv").write_text(header)
    (tmp_path / "break_even.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    (found,) = (one for one in reproduction.statements(tmp_path) if "size N" in one.statement)
    assert (found.value, found.verdict) == ("below", "faster")


PUBLISHED = '{"inputs": {}, "outputs": {}, "statements": [%s]}'
STATEMENT = '{"where": "a", "statement": "s", "criterion": "c", "value": "2", "verdict": "holds"}'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "No such file or directory"),
        ("", "the file: .* EOF while parsing"),
        (PUBLISHED[:20], "the file: .* EOF while parsing"),
        ("\xff", "the file: .*"),
        ("[]", r"the file: \[\] is not a mapping of keys to values"),
        ("{}", "the file: missing inputs, outputs, statements; add it"),
        ((PUBLISHED % "").replace("{}", '{"a": null}', 1), "inputs.a: None is not allowed"),
        (PUBLISHED % STATEMENT.replace('"2"', "2"), r"statements\[0\].value: 2 is not allowed"),
        (PUBLISHED % STATEMENT.replace('"value"', '"values"'), r"statements\[0\].value: "),
    ],
)
def test_unreadable_published_digests_are_named_with_the_remedy(project, text, fault):
    (project / "published.json").unlink()
    if text is not None:
        (project / "published.json").write_bytes(text.encode("latin-1"))
    remedy = "restore it, or write it with `gemm-study reproduce --publish`"
    with pytest.raises(StudyError, match=rf"published\.json: {fault}.*; {remedy}$"):
        failed(project)


def test_a_statement_is_compared_by_value_and_verdict():
    published = [Statement("a", "s", "c", "2", "holds")]
    same = [("2", "holds"), ("2.0015", "holds")]
    for here in (*same, ("2.01", "holds"), ("", "holds"), ("2", "undecided")):
        (one,) = reproduction.of_statements(published, [Statement("a", "s", "c", *here)])
        assert one.outcome == (REPRODUCED if here in same else NOT_REPRODUCED), here


def test_missing_and_additional_statements_are_not_reproduced():
    one, other = (Statement("a", text, "c", "2", "holds") for text in "st")
    found = list(reproduction.of_statements([one, one], [one, other]))
    assert [(o.statement, o.outcome) for o in found] == [
        *(("s", REPRODUCED), ("s", NOT_REPRODUCED), ("t", NOT_REPRODUCED))
    ]


def test_the_fastest_implementation_is_testable_if_a_session_measured_it():
    published = [Statement("a", reproduction.FASTEST, "c", "block", "faster")]
    for value, variants, outcome in (
        *(("block", "block", REPRODUCED), ("naive", ["block"], NOT_REPRODUCED)),
        ("naive", ["naive"], NOT_TESTABLE),
    ):
        session = [Statement("here", reproduction.FASTEST, "c", value, "faster")]
        (found,) = reproduction.of_session(published, "a", session, variants)
        assert found.outcome == outcome


def test_a_session_is_compared_by_its_tables(project):
    found = reproduction.reproduce(*paths(project), session=project / "mine")
    fastest = [one for one in found if (one.where, one.statement) == (HERE, reproduction.FASTEST)]
    assert [one.outcome for one in fastest] == [REPRODUCED]


def test_of_a_session_only_decided_verdicts_are_compared():
    published = [Statement(where, "s", "c", "2", "holds") for where in ("a", "b")]
    outcomes = {"holds": REPRODUCED, "does not hold": NOT_REPRODUCED}
    for verdict, outcome in (
        outcomes | dict.fromkeys(("undecided", "not measured"), NOT_TESTABLE)
    ).items():
        session = [Statement("this-machine", "s", "c", "7", verdict)]
        (found,) = reproduction.of_session(published, "a", session)
        assert (found.where, found.outcome, found.here) == (HERE, outcome, f"7 ({verdict})")
