"""The command line of the analysis: its output, and one-line errors."""

import json
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

from analysis.data.sessions import recordings_of
from analysis.data.store import Store
from analysis.schema import TABLES
from base.errors import StudyError
from base.files import sha256
from kernels.cubins.compile import BuildResult
from tests.support.report_data import PUBLISHED, STATEMENTS, SYSTEMS, chain, published_once

pytestmark = pytest.mark.slow

INPUTS = ("--published", PUBLISHED, "--systems", SYSTEMS, "--statements", STATEMENTS)


@pytest.fixture
def run(command):
    def analysis(*arguments):
        with published_once():
            done = command(*arguments)
        return done.returncode, done.stdout, done.stderr

    return analysis


def fails_with(result, *words):
    status, out, err = result
    assert (status, out, err[:7], err.count("\n")) == (2, "", "error: ", 1), err
    assert [word for word in words if str(word) not in err] == []


def test_a_cubin_that_differs_from_its_json_is_a_one_line_error(run, tmp_path):
    cubin = tmp_path / "block-b8-float32-exact.cubin"
    cubin.write_bytes(b"machine code")
    facts = ("sm_75", "block", "float32", 8, "exact", 40, 512, 0, 0, 0, "13.2.1")
    cubin.with_suffix(".json").write_text(json.dumps(asdict(BuildResult(*facts, sha256(cubin)))))
    inputs = [*INPUTS, "--cubins", cubin, "--out", tmp_path / "out"]
    assert run("tables", *inputs)[0] == 0
    assert list(pd.read_csv(tmp_path / "out" / "machine_code.csv")["recording"]) == ["tree"]
    cubin.write_bytes(b"other machine code")
    fails_with(run("tables", *inputs), cubin, "build it again")


def test_an_unusable_recording_is_a_one_line_error(run, tmp_path, gpu_recording):
    result = run("tables", *INPUTS, "--recording=h100=nowhere", "--out", tmp_path)
    fails_with(result, "nowhere", "no such folder")
    assert list(tmp_path.iterdir()) == []
    end = [*INPUTS, "--out", tmp_path]
    for argument in ("h100", "=data/x", "h100="):
        fails_with(run("tables", *end, f"--recording={argument}"), argument, "use ID=PATH")
    one = f"--recording=a={gpu_recording.path}"
    fails_with(run("tables", one, one, *end), f"'a={gpu_recording.path}'", "twice")
    fails_with(run("tables", one.replace("=a=", "=published="), *end), "'published'")


def test_a_recording_is_given_as_a_path_or_as_the_result_of_a_job(tmp_path, run, monkeypatch):
    assert recordings_of(["a=b=c/d"]) == ({"a": [Path("b=c/d")]}, {})
    there, gone = tmp_path / "there.json", tmp_path / "gone.json"
    there.write_text('{"recording": "results/recordings/there"}')
    gone.write_text('{"missing": "its node failed"}')
    paths, missing = recordings_of(["card=data/card", f"there={there}", f"gone={gone}"])
    assert paths == {"card": [Path("data/card")], "there": [Path("results/recordings/there")]}
    assert missing == {"gone": "its node failed"}
    with pytest.raises(StudyError, match=r"none\.json is unreadable"):
        recordings_of([f"card={tmp_path}/none.json"])
    made = Store(chain({}))
    frames = {name: made[name] for name in TABLES}
    monkeypatch.setattr("analysis.tables.compute", lambda *_: frames)
    (tmp_path / "file").write_text("")
    fails_with(run("tables", *INPUTS, "--out", tmp_path / "file" / "tables"), "file")
