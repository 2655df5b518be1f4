"""gemm-study reproduce: everything agrees; each altered input and criterion is named."""

import importlib
import json
import shutil
import sys

import pytest

from base.command_line import as_json
from base.errors import StudyError, exit_status
from study import reproduction
from study.reproduction import HERE, NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, Statement
from tests.support.studies import config_text

CLAIM = "loading tiles in the slow order takes about twice as long"


@pytest.fixture
def project(tmp_path, monkeypatch, computed, gpu_recording):
    """A study of one recording; its commands are parsed, but copy tables computed before."""
    shutil.copytree(gpu_recording.path, tmp_path / "mine")
    gpus = [{"id": "card", "recording": "mine"}, {"id": "local", "device": "auto"}]
    (tmp_path / "config.yaml").write_text(config_text({}, {}, gpus, report={"focus": "card"}))

    def run(root, command):
        words = [str(word) for word in command]
        parser = importlib.import_module(f"{words[0]}.__main__")._parser()
        arguments = parser.parse_args(words[1:])
        if words[1] == "tables":
            shutil.copytree(computed, arguments.out, dirs_exist_ok=True)
        if words[1] == "report":
            arguments.out.write_text("page")

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

    def altered(root, command):
        copy(root, command)
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


def test_a_real_command_returns_its_error(tmp_path):
    error = reproduction._run(tmp_path, ("analysis", "check", tmp_path / "no.html"))
    assert error.startswith("no.html: No such file or directory")
    assert reproduction._run(tmp_path, ("analysis", "schema")) is None


def test_without_published_digests_the_remedy_is_named(project):
    (project / "published.json").unlink()
    with pytest.raises(StudyError, match=r"published\.json: is missing; write it with `gemm-study"):
        failed(project)


@pytest.mark.parametrize(
    ("here", "outcome"),
    [
        (("2", "holds"), REPRODUCED),
        (("2.0015", "holds"), REPRODUCED),
        (("2.01", "holds"), NOT_REPRODUCED),
        (("", "holds"), NOT_REPRODUCED),
        (("2", "undecided"), NOT_REPRODUCED),
    ],
)
def test_a_statement_is_compared_by_value_and_verdict(here, outcome):
    published = [Statement("a", "s", "c", "2", "holds")]
    rebuilt = [Statement("a", "s", "c", *here)]
    assert [one.outcome for one in reproduction.of_statements(published, rebuilt)] == [outcome]


def test_missing_and_additional_statements_are_not_reproduced():
    one, other = (Statement("a", text, "c", "2", "holds") for text in "st")
    found = list(reproduction.of_statements([one, one], [one, other]))
    assert [(o.statement, o.outcome) for o in found] == [
        *(("s", REPRODUCED), ("s", NOT_REPRODUCED), ("t", NOT_REPRODUCED))
    ]


@pytest.mark.parametrize(
    ("value", "variants", "outcome"),
    [
        *(("block", "block", REPRODUCED), ("naive", ["block"], NOT_REPRODUCED)),
        ("naive", ["naive"], NOT_TESTABLE),
    ],
)
def test_the_fastest_implementation_is_testable_if_a_session_measured_it(value, variants, outcome):
    published = [Statement("a", reproduction.FASTEST, "c", "block", "faster")]
    session = [Statement("here", reproduction.FASTEST, "c", value, "faster")]
    (found,) = reproduction.of_session(published, "a", session, variants)
    assert found.outcome == outcome


def test_a_session_is_compared_by_its_tables(project):
    found = reproduction.reproduce(*paths(project), session=project / "mine")
    fastest = [one for one in found if (one.where, one.statement) == (HERE, reproduction.FASTEST)]
    assert [one.outcome for one in fastest] == [REPRODUCED]


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        *(("holds", REPRODUCED), ("does not hold", NOT_REPRODUCED)),
        *(("undecided", NOT_TESTABLE), ("not measured", NOT_TESTABLE)),
    ],
)
def test_of_a_session_only_decided_verdicts_are_compared(verdict, outcome):
    published = [Statement(where, "s", "c", "2", "holds") for where in ("a", "b")]
    session = [Statement("this-machine", "s", "c", "7", verdict)]
    (found,) = reproduction.of_session(published, "a", session)
    assert (found.where, found.outcome, found.here) == (HERE, outcome, f"7 ({verdict})")
