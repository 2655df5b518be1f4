"""The analysis as a command: what it writes, and one line for each mistake."""

import io
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

from analysis import __main__ as cli
from analysis.data.recordings import ROOT
from kernels.build import BuildResult
from measurement.errors import exit_status
from measurement.files import sha256

PUBLISHED = ROOT / "data" / "published" / "times.csv"
SYSTEMS = ("--systems", ROOT / "data" / "published" / "systems.csv")
TABLES = {f"table{number}.csv" for number in range(1, 7)} | {
    *("summary.csv", "gains.csv", "recordings.csv", "checks.csv", "builds.csv"),
    *("environment.csv", "telemetry.csv", "batches.csv", "cold_starts.csv", "ceilings.csv"),
    *("phases.csv", "neighbours.csv", "agreement.csv", "agreement_cells.csv"),
    *("counts.csv", "counts_by_line.csv", "machine_code.csv", "ladder.csv", "roofline.csv"),
    *("claims.csv", "limits.csv", "systems.csv", "cpu_hosts.csv", "cpu_clock.csv"),
    *("cpu_ladder.csv", "cpu_roofline.csv", "cpu_split.csv", "cards.csv", "threats.csv"),
}
FITS = {
    *("models.csv", "model_comparison.csv", "model_steps.csv", "model_predictions.csv"),
    "model_ratios.csv",
}
STATEMENTS = ROOT / "data" / "published" / "statements.csv"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; return exit status, stdout, stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["analysis", *map(str, arguments)])
        status = exit_status(cli.main)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


def fails_with(result, *words):
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    for word in words:
        assert str(word) in err


def test_tables_and_fits_of_two_recordings(run, gpu_recording, cpu_recording, tmp_path):
    inputs = [f"--recording=card={gpu_recording.path}", f"--recording=host={cpu_recording.path}"]
    inputs += ["--published", PUBLISHED, "--out", tmp_path]
    status, out, err = run("tables", *SYSTEMS, *inputs)
    assert (status, out) == (0, "")
    assert err == "tables: medians and gains of card, host\n"
    assert {path.name for path in tmp_path.iterdir()} == TABLES
    status, out, err = run("fit", *inputs)
    assert (status, out) == (0, "")
    assert "models of card: modelled kernels\n" in err
    assert {path.name for path in tmp_path.iterdir()} == TABLES | FITS
    fits = pd.read_csv(tmp_path / "models.csv")
    assert list(fits.groupby(["source", "quantity", "kernels"], sort=False).groups) == [
        ("published", "total", "modelled"),
        ("card", "kernel", "modelled"),
        ("card", "kernel", "all"),
    ]
    table5 = pd.read_csv(tmp_path / "table5.csv")
    assert set(table5["source"]) == {"published", "card"}


def test_the_same_input_gives_the_same_bytes_in_another_process(gpu_recording, tmp_path):
    written = []
    for name, seed in (("one", "1"), ("two", "2")):
        for command in ("tables", "fit"):
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "analysis", command, "--published", str(PUBLISHED)),
                    *(f"--recording=card={gpu_recording.path}", "--out", str(tmp_path / name)),
                    *(map(str, SYSTEMS) if command == "tables" else ()),
                ],
                cwd=ROOT,
                env=os.environ | {"PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
        written.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert set(written[0]) == TABLES | FITS
    assert written[0] == written[1]


def test_published_numbers_alone_need_no_recording(run, tmp_path):
    assert run("tables", *SYSTEMS, "--published", PUBLISHED, "--out", tmp_path)[0] == 0
    assert run("fit", "--published", PUBLISHED, "--out", tmp_path)[0] == 0
    for name in TABLES | FITS:
        table = pd.read_csv(tmp_path / name)
        assert len(table.columns) > 2
        known = ("table", "model", "claims", "systems", "cpu_split")
        assert table.empty == (not name.startswith(known)), name


def test_the_audit_needs_the_published_files_alone(run, tmp_path):
    inputs = ["--published", PUBLISHED, "--statements", STATEMENTS, "--out", tmp_path / "out"]
    assert run("audit", *inputs)[:2] == (0, "")
    names = ("cells", "constants", "pairs", "headline", "cpu")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {f"audit_{name}.csv" for name in names}
    inputs[3] = tmp_path / "no.csv"
    fails_with(run("audit", *inputs), "no.csv", "restore it")


def test_a_cubin_that_is_not_what_its_json_describes_is_one_line(run, tmp_path):
    cubin = tmp_path / "block-b8-float32-exact.cubin"
    cubin.write_bytes(b"machine code")
    facts = ("sm_75", "block", "float32", 8, "exact", 40, 512, 0, 0, 0, "13.2.1")
    built = asdict(BuildResult(*facts, sha256(cubin)))
    cubin.with_suffix(".json").write_text(json.dumps(built))
    inputs = [*SYSTEMS, "--published", PUBLISHED, "--cubins", cubin, "--out", tmp_path / "out"]
    assert run("tables", *inputs)[0] == 0
    code = pd.read_csv(tmp_path / "out" / "machine_code.csv")
    assert list(code["recording"]) == ["tree"]
    cubin.write_bytes(b"other machine code")
    fails_with(run("tables", *inputs), cubin, "build it again")


def test_numbers_are_written_with_six_digits_and_whole_ones_with_all(run, tmp_path):
    run("tables", *SYSTEMS, "--published", PUBLISHED, "--out", tmp_path)
    text = (tmp_path / "table2.csv").read_text()
    row = pd.read_csv(io.StringIO(text)).set_index("n").loc[2048]
    assert row["gpu_flop_per_s"] == 13215300000.0, "of 13 215 283 987.69"
    assert row["gain"] == 79.2308
    whole = pd.DataFrame({"count": [137438953473.0, None], "s": [1.23456789012e-5, float("inf")]})
    cli._write({"whole": whole}, tmp_path)
    assert (tmp_path / "whole.csv").read_text() == "count,s\n137438953473.0,1.23457e-05\n,inf\n"
    assert text.splitlines()[-1].startswith(
        "published,Intel Core i7-4770 + GeForce GTX 770,2048,103.0,,,"
    )


@pytest.mark.parametrize("command", ["tables", "fit"])
def test_a_missing_recording_is_one_line(run, tmp_path, command):
    systems = SYSTEMS if command == "tables" else ()
    end = ["--published", PUBLISHED, "--out", tmp_path]
    result = run(command, *systems, "--recording=h100=nowhere", *end)
    fails_with(result, "nowhere", "no such folder")
    assert list(tmp_path.iterdir()) == []


def test_an_altered_recording_is_one_line(run, gpu_recording, tmp_path):
    path = tmp_path / "bent"
    path.mkdir()
    for file in gpu_recording.path.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    (path / "checks.csv").write_text((path / "checks.csv").read_text().replace("failed", "passed"))
    out = tmp_path / "out"
    end = ["--published", PUBLISHED, "--out", out]
    result = run("tables", *SYSTEMS, f"--recording=a={path}", *end)
    fails_with(result, path, "checks.csv was altered or cut off")
    assert not out.exists()


@pytest.mark.parametrize("argument", ["h100", "=data/x", "h100="])
def test_a_recording_without_id_or_path_is_one_line(run, tmp_path, argument):
    end = ["--published", PUBLISHED, "--out", tmp_path]
    result = run("tables", *SYSTEMS, f"--recording={argument}", *end)
    fails_with(result, argument, "must be ID=PATH")


def test_an_id_given_twice_or_taken_is_one_line(run, gpu_recording, tmp_path):
    end = ["--published", PUBLISHED, "--out", tmp_path]
    one = f"--recording=a={gpu_recording.path}"
    fails_with(run("fit", one, one, *end), "'a'", "twice")
    fails_with(run("fit", one.replace("=a=", "=published="), *end), "'published'")


def test_missing_or_wrong_published_times_are_one_line(run, tmp_path):
    missing = ["--published", tmp_path / "no.csv", "--out", tmp_path]
    fails_with(run("tables", *SYSTEMS, *missing), "no.csv")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(PUBLISHED.read_text().replace(",0.135,", ",fast,"))
    result = run("tables", *SYSTEMS, "--published", wrong, "--out", tmp_path)
    fails_with(result, wrong, "row 2, column time_s", "'fast'")


def test_a_folder_that_cannot_be_written_is_one_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    status, out, err = run("fit", "--published", PUBLISHED, "--out", tmp_path / "file" / "tables")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: ")
    assert "file" in err.splitlines()[-1]


def test_a_path_with_an_equals_sign_is_kept_whole():
    assert cli.recording_paths(["a=b=c/d"]) == {"a": Path("b=c/d")}
