"""gemm-study reproduce: everything agrees; each altered input and criterion is named."""

import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from base.command_line import as_json
from base.errors import StudyError
from study import reproduction
from study.reproduction import HERE, NOT_REPRODUCED, NOT_TESTABLE, OUTCOME, REPRODUCED
from tests.support import ROOT, warm
from tests.support.studies import config_text
from workflow.__main__ import main

CLAIM = "loading tiles in the slow order takes about twice as long"
MOST_LINES = 600
COLUMNS = ["where", "statement", "criterion", "value", "verdict", "number"]


def without_workflow(monkeypatch, computed, folder):
    """Reproduce a study in a folder, whose tables were computed before."""

    def run(root, content, target, out):
        assert not [gpu for gpu in content["gpus"] if "device" in gpu]
        shutil.copytree(computed, out / "tables", dirs_exist_ok=True)
        (out / "report.html").write_text("page")

    page = ("rebuilt", "report.html", reproduction._PAGE, "", "", REPRODUCED)
    monkeypatch.setattr(reproduction, "_run", run)
    monkeypatch.setattr(reproduction, "_of_page", lambda folder: page)
    monkeypatch.setattr(reproduction, "RESULTS", folder / "results")
    monkeypatch.setattr(reproduction, "PUBLISHED", folder / "published.json")
    monkeypatch.setattr("workflow.__main__.RESULTS", folder / "results")


@pytest.fixture(scope="module")
def computed(computed, tmp_path_factory):
    """All tables, of which long ones end early: tests read them often."""
    folder = tmp_path_factory.mktemp("computed")
    for table in computed.iterdir():
        lines = table.read_text().splitlines(keepends=True)
        (folder / table.name).write_text("".join(lines[:MOST_LINES]))
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory, computed, gpu_recording):
    """The folder of a study of one recording, which is published; do not change it."""
    folder = tmp_path_factory.mktemp("published") / "study"
    shutil.copytree(gpu_recording.path, folder / "mine")
    gpus = [{"id": "card", "recording": "mine"}, {"id": "local", "device": "auto"}]
    (folder / "config.yaml").write_text(config_text({}, {}, gpus, report={"focus": "card"}))
    with pytest.MonkeyPatch.context() as monkeypatch:
        without_workflow(monkeypatch, computed, folder)
        reproduction.publish(folder / "config.yaml")
    return folder


@pytest.fixture
def project(published, tmp_path, monkeypatch, computed):
    """A copy of the published study, in the current folder."""
    folder = shutil.copytree(published, tmp_path / "study")
    without_workflow(monkeypatch, computed, folder)
    monkeypatch.chdir(folder)
    return folder


def outcomes_of(rows):
    return pd.DataFrame(rows, columns=OUTCOME).to_dict("records")


def failed(folder, session=None):
    outcomes = reproduction.reproduce(folder / "config.yaml", session).to_dict("records")
    return {one["statement"]: one for one in outcomes if one["outcome"] == NOT_REPRODUCED}


def altered(project, monkeypatch, table, change):
    """Let every rebuilt table of this name be what `change` returns for it."""
    rebuild = reproduction._run

    def run(*arguments):
        rebuild(*arguments)
        path = project / "results" / "reproduced" / "tables" / f"{table}.csv"
        change(pd.read_csv(path, dtype=str, keep_default_na=False)).to_csv(path, index=False)

    monkeypatch.setattr(reproduction, "_run", run)


def run(monkeypatch, *arguments):
    command = ["gemm-study", "reproduce", "--config", "config.yaml", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    return main()


def test_an_unchanged_study_is_reproduced(project, monkeypatch, capsys):
    assert run(monkeypatch, "--json") == 0
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert json.loads((project / "results/reproduced/reproduction.json").read_text()) == {
        "outcomes": outcomes
    }
    by_place = {(one["where"], one["statement"]): one for one in outcomes}
    kernel = by_place["inputs", "kernels/block.cu"]
    assert (kernel["outcome"], kernel["published"]) == (REPRODUCED, kernel["here"])
    assert {"mine/samples.csv.gz", "report.html", "claims.csv"} < {s for _, s in by_place}
    assert {one["outcome"] for one in outcomes if one["where"] == HERE} == {NOT_TESTABLE}
    assert by_place["card", "break-even size N"]["outcome"] == REPRODUCED
    assert run(monkeypatch) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith(" files reproduced")
    assert any(line.startswith("reproduced: card: break-even size N: published ") for line in said)
    assert said[-1].split(", ")[1] == "0 not reproduced"


def test_reproduce_names_an_altered_recording(project, monkeypatch, capsys):
    with (project / "mine" / "ceilings.csv").open("a") as file:
        file.write("\n")
    assert list(failed(project)) == ["mine/ceilings.csv"]
    assert run(monkeypatch) == 1
    assert "\nnot reproduced: inputs: mine/ceilings.csv: published " in capsys.readouterr().out
    page = (project / "results/reproduced/reproduction.html").read_text()
    assert page.index("<td>not reproduced") < page.index("<td>reproduced")


def test_reproduce_names_an_altered_or_missing_kernel_source(project):
    (project / "kernels").mkdir()
    (project / "kernels" / "naive.cu").write_text("other")
    assert list(failed(project)) == ["kernels/naive.cu"]
    shutil.rmtree(project / "kernels")
    published = json.loads((project / "published.json").read_text())
    published["inputs"]["kernels/gone.cu"] = 64 * "0"
    (project / "published.json").write_text(as_json(published))
    (fault,) = failed(project).values()
    assert (fault["statement"], fault["here"]) == ("kernels/gone.cu", "missing")


@pytest.mark.parametrize(
    ("column", "text"), [("rule", "within a factor of 9"), ("source", "H"), ("verdict", "holds?")]
)
def test_reproduce_names_an_altered_criterion_source_or_verdict(project, monkeypatch, column, text):
    def change(claims):
        claims.loc[claims["claim"] == CLAIM, column] = text
        return claims

    altered(project, monkeypatch, "claims", change)
    faults = failed(project)
    assert column in faults.pop("claims.csv")["published"]
    assert faults
    assert all(CLAIM in statement for statement in faults)
    if column == "rule":
        assert all(text in fault["criterion"] for fault in faults.values())


@pytest.mark.parametrize(
    ("factor", "is_reproduced"), [(1 + 2e-4, True), (1 - 2e-4, True), (1.002, False), (-1, False)]
)
def test_reproduce_compares_numbers_of_tables_within_a_tolerance(
    project, monkeypatch, factor, is_reproduced
):
    def change(summary):
        summary["total_s"] = summary["total_s"].map(lambda text: text and f"{float(text) * factor}")
        return summary

    altered(project, monkeypatch, "summary", change)
    faults = failed(project)
    assert list(faults) == ([] if is_reproduced else ["summary.csv"])
    assert is_reproduced or "cells differ, first total_s" in faults["summary.csv"]["published"]


def test_reproduce_names_a_missing_row_column_or_table(project, monkeypatch):
    altered(project, monkeypatch, "summary", lambda frame: frame[1:])
    altered(project, monkeypatch, "ceilings", lambda frame: frame.drop(columns="value"))
    altered(project, monkeypatch, "claims", lambda frame: frame.assign(more="1"))
    published = json.loads((project / "published.json").read_text())
    rebuild = reproduction._run

    def run(*arguments):
        rebuild(*arguments)
        tables = project / "results" / "reproduced" / "tables"
        (tables / "models.csv").rename(tables / "other.csv")

    monkeypatch.setattr(reproduction, "_run", run)
    faults = {name: (one["published"], one["here"]) for name, one in failed(project).items()}
    rows = published["rows"]["summary"]
    assert faults.pop("summary.csv") == (f"{rows} rows", f"{rows - 1} rows")
    assert faults.pop("ceilings.csv")[0] == "columns value"
    assert faults.pop("claims.csv")[1] == "columns more"
    assert faults.pop("models.csv") == ("there", "missing")
    assert faults == {"other.csv": ("missing", "there")}


def test_a_page_that_differs_from_its_tables_is_not_reproduced(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "report.html").write_text('<b data-at="gone.csv 1 total_s">2</b>')
    outcome = reproduction._of_page(tmp_path)
    assert (outcome[1], outcome[-1]) == ("report.html", NOT_REPRODUCED)


def test_a_failed_rebuild_is_named_and_nothing_is_published(project, monkeypatch):
    fault = "recording mine: broken"
    monkeypatch.setattr(reproduction, "_run", lambda *_: fault)
    assert [(one["where"], one["criterion"]) for one in failed(project).values()] == [
        ("rebuilt", "no error")
    ]
    with pytest.raises(StudyError, match=f"^nothing is published: {fault}$"):
        reproduction.publish(project / "config.yaml")
    runs = []
    monkeypatch.setattr(reproduction, "_run", lambda *_: runs.append(1) or fault)
    with pytest.raises(StudyError, match=r"^--session mine: recording mine: broken$"):
        failed(project, reproduction.Path("mine"))
    assert len(runs) == 1  # a wrong path is reported before anything is rebuilt


@pytest.mark.exhaustive
def test_reproduce_rebuilds_the_tables_of_a_recording(tmp_path, monkeypatch, make_recording):
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(reproduction.subprocess, "Popen", warm.Popen)
    few = ("naive", "block", "cublas_sgemm")
    make_recording(tmp_path / "mine", sizes=(32, 64, 128), holdout=(), samples=6, variants=few)
    content = yaml.safe_load(config_text({}, {}, [{"id": "card", "recording": "mine"}]))
    content["study"]["scope"] = "quick"
    out = tmp_path / "results" / "reproduced"
    assert reproduction._run(tmp_path, content, "tables", out) is None
    assert {path.name for path in out.iterdir()} == {"config.yaml", "counts", "logs", "tables"}
    tables = reproduction._tables(out / "tables")
    assert "card" in set(reproduction.statements(tables)["where"])
    (tmp_path / "mine" / "checks.csv").unlink()
    error = reproduction._run(tmp_path, content, "tables", out)
    assert error.startswith(f"recording {tmp_path / 'mine'}: checks.csv is missing; restore")
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"counts", "reproduced"}


def test_a_full_disk_is_an_error_instead_of_a_failed_reproduction(tmp_path, monkeypatch):
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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "No such file or directory"),
        ("\xff", "the file: .*"),
        ('{"inputs": {"a": null}, "rows": {}}', "inputs.a: None is not allowed"),
        ('{"inputs": {}, "rows": {"gone": 3}}', "There is no item named 'gone.csv'.*"),
    ],
)
def test_unreadable_published_digests_are_named_with_the_remedy(project, text, fault):
    (project / "published.json").unlink()
    if text is not None:
        (project / "published.json").write_bytes(text.encode("latin-1"))
    remedy = "restore it, or write it with `gemm-study reproduce --publish`"
    with pytest.raises(StudyError, match=rf"published\.\w+: .*{fault}.*; {remedy}$"):
        failed(project)


def test_a_break_even_size_below_the_measured_sizes_is_compared():
    row = {"gpu": "a", "is_answer": "True", "n": "", "location": "below", "verdict": "faster"}
    tables = {name: pd.DataFrame() for name in ("claims", "answers", "speedups")}
    found = reproduction.statements(tables | {"break_even": pd.DataFrame([row])})
    assert [*found[["statement", "value", "verdict"]].iloc[0]] == [
        "break-even size N",
        "below",
        "faster",
    ]


def statements(*rows):
    return pd.DataFrame([(*row, "0") for row in rows], columns=COLUMNS)


def test_a_missing_or_additional_statement_counts_as_not_reproduced():
    one, other = (("a", text, "c", "2", "holds") for text in "st")
    for published, here in ((one, other), (other, one)):
        outcomes = outcomes_of(reproduction.of_statements(statements(published), statements(here)))
        assert [one["outcome"] for one in outcomes] == [NOT_REPRODUCED] * 2


@pytest.mark.parametrize(
    ("value", "variants", "outcome"),
    [
        ("block", ["block"], REPRODUCED),
        ("naive", ["block"], NOT_REPRODUCED),
        ("naive", ["naive"], NOT_TESTABLE),
    ],
)
def test_the_fastest_implementation_is_testable_if_a_session_measured_it(value, variants, outcome):
    published = statements(("a", reproduction.FASTEST, "c", "block", "faster"))
    session = statements(("here", reproduction.FASTEST, "c", value, "faster"))
    (row,) = outcomes_of(reproduction.of_session(published, "a", session, variants))
    assert row["outcome"] == outcome


def test_the_statements_of_a_session_are_compared_with_the_published_ones(project):
    outcomes = reproduction.reproduce(project / "config.yaml", project / "mine")
    fastest = outcomes[
        (outcomes["where"] == HERE) & (outcomes["statement"] == reproduction.FASTEST)
    ]
    assert list(fastest["outcome"]) == [REPRODUCED]


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("holds", REPRODUCED),
        ("does not hold", NOT_REPRODUCED),
        ("undecided", NOT_TESTABLE),
        ("not measured", NOT_TESTABLE),
    ],
)
def test_undecided_verdicts_of_a_session_are_not_compared(verdict, outcome):
    published = statements(*((where, "s", "c", "2", "holds") for where in ("a", "b")))
    session = statements(("this-machine", "s", "c", "7", verdict))
    (row,) = outcomes_of(reproduction.of_session(published, "a", session))
    assert (row["where"], row["outcome"], row["here"]) == (HERE, outcome, f"7 ({verdict})")


AVX2 = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("environment", [{}, AVX2], ids=["this processor", "AVX2"])
def test_the_published_study_is_reproduced_on_any_processor(environment):
    command = [sys.executable, "-m", "workflow", "reproduce"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    faults = [line for line in done.stdout.splitlines() if line.startswith(NOT_REPRODUCED)]
    assert (done.returncode, faults) == (0, []), done.stderr
