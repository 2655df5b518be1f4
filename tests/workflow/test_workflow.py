"""The real Snakefile in a copy of the project, with a study of seconds."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter

import pandas as pd
import pytest
import yaml

from base.paths import FOLDERS
from kernels.cubins.build import INSTRUMENTS
from measurement.recording import recording
from tests.support import ROOT, for_make_test, warm
from tests.support.compilers import stand_in
from tests.support.studies import CPU, config_text, with_short_ceilings

pytestmark = pytest.mark.slow
COMMIT = ["-c", "user.name=A", "-c", "user.email=a@example.org", "commit"]
PARTS = ["Snakefile", "CITATION.cff", "LICENSE", "Makefile", "README.md", "pyproject.toml"]
PARTS += [*FOLDERS, "uv.lock"]
CONFIG = config_text(
    {
        "sizes": [32, 48],
        "variants": ["naive", "block"],
        "block_sizes": [32],
        "series": [
            {"variants": ["bmm_tile"], "dtypes": ["int32"]}
            | {"block_sizes": [16], "shapes": ["3x17x33x65"]}
        ],
        "cpu": CPU | {"variants": ["naive", "blocked"], "sizes": [32, 48], "block_sizes": [16]},
    },
    {"gpu_cell_budget_s": 0.1, "cpu_cell_budget_s": 0.1, "single_run_s": 1, "warm_up_s": 0.001},
    [{"id": "GPU", "recording": "data/recordings/card"}, {"id": "local", "device": "auto"}],
)


@pytest.fixture(scope="module")
def make_project(make_recording, host_builds):
    """A function that copies the project with CONFIG and a small recording of an sm_90 GPU."""

    def make(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for part in [*PARTS, "data/published"]:  # including bytecode
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, folder / part)
        with_short_ceilings(folder)
        few = {"sizes": (32, 64), "holdout": (), "samples": 6, "variants": ("naive", "block")}
        make_recording(folder / "data" / "recordings" / "card", **few)
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "results").mkdir()
        (folder / "results" / host_builds.name).symlink_to(host_builds)
        return folder

    return make


@pytest.fixture
def project(make_project, tmp_path):
    return make_project(tmp_path / "project")


@pytest.fixture(scope="module")
def finished(make_project, tmp_path_factory):
    """A project with the report of the full study, whose nvcc is a stand-in."""
    project = make_project(tmp_path_factory.mktemp("finished") / "project")
    nvcc = stand_in(project.parent / "nvcc")
    edit(project / "config.yaml", "study:\n", f"toolchain: {{nvcc: {nvcc}}}\nstudy:\n")
    with_few_figures_and_published_times(project)
    made(project, "report", "--config", "scope=full")
    return project


def with_few_figures_and_published_times(project):
    """Leave what takes most of the time, and what other tests check."""
    drawing = project / "analysis" / "render" / "figures.py"
    edit(drawing, "for topic in TOPICS for", 'for topic in ("cpu",) for')
    published = project / "data" / "published" / "times.csv"
    published.write_text("".join(published.read_text().splitlines(keepends=True)[:3]))


def in_force(project):
    """Return the configuration of a project with the scope that the workflow sets."""
    config = yaml.safe_load((project / "config.yaml").read_text())
    config["study"]["scope"] = "full"
    return config


def snakemake(project, *arguments, **options):
    return warm.run_module("snakemake", *arguments, "--cores", "2", cwd=project, **options)


def made(project, *arguments):
    """Run the workflow of a project without errors; return the output."""
    done = snakemake(project, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def planned(project, *arguments):
    """Return the number of jobs per rule in a dry run, and the updated files in `planned.files`."""
    told = made(project, "report", "--dry-run", *arguments)
    updated = re.findall(r"^Reason: Updated input files: (.*)$", told, re.MULTILINE)
    planned.files = {file for line in updated for file in line.split(", ")}
    jobs = re.findall(r"^(\w+) +(\d+)$", told, re.MULTILINE)
    return Counter({rule: int(count) for rule, count in jobs if rule not in ("report", "total")})


def edit(file, *change):
    """Replace a text of a file, or append a line to it; return the earlier content."""
    before = file.read_text()
    after = before.replace(*change) if change else f"{before}\n"
    assert after != before, change
    file.write_text(after)
    return before


def planned_after(project, edits):
    """Return the jobs after edits of files, which are undone: arguments of `edit` by file."""
    before = {project / file: edit(project / file, *change) for file, change in edits.items()}
    jobs = planned(project)
    for file, text in before.items():
        file.write_text(text)
    return jobs


@pytest.mark.exhaustive
def test_snakemake_reports_the_provenance_of_results_without_a_network(finished):
    out = finished / "results" / "provenance.html"
    made(finished, "report", "--report", str(out))
    page = out.read_text()
    for rule in ("measure", "count", "tables", "figures", "render"):
        assert f'"{rule}"' in page, rule
    assert "python -m workflow tables" in re.sub(r"<[^>]*>", "", page), "the code of the rules"
    assert "this host, device auto" in page, "what was studied"
    assert planned(finished) == {}, "it makes nothing stale"


@pytest.mark.exhaustive
def test_the_workflow_packs_the_study_as_a_crate(finished):
    pytest.importorskip("rocrate", reason="the package rocrate is not installed")
    made(finished, "crate")
    with zipfile.ZipFile(finished / "results" / "ro-crate.zip") as archive:
        names = set(archive.namelist())
        packed = yaml.safe_load(archive.read("config.yaml"))
    assert packed == in_force(finished), "the configuration in force"
    for name in ("data/recordings/card", "results/recordings/local"):
        assert f"{name}/samples.csv.gz" in names
    assert {"Snakefile", "results/report.html", "results/tables/summary.csv"} <= names


def test_the_report_combines_live_and_recorded_measurements_with_builds_and_counts(finished):
    assert "</html>" in (finished / "results" / "report.html").read_text()
    live = recording.read(finished / "results" / "recordings" / "local")
    assert set(live.checks["status"]) == {"passed"}
    assert {"naive", "blocked"} <= set(live.samples["variant"])
    tables = finished / "results" / "tables"
    sources = pd.read_csv(tables / "recordings.csv").set_index("recording")
    assert sources["simulated"].to_dict() == {"GPU": True, "local": False}
    assert sources["live"].to_dict() == {"GPU": False, "local": True}
    assert len(list((finished / "results" / "figures").glob("*.svg"))) > 0
    assert live.provenance["configuration"]["scope"] == "full"
    assert planned(finished, "--config", "scope=quick")["measure"] == 1
    built = {path.stem for path in (finished / "results" / "cubins" / "sm_90").glob("*.cubin")}
    kinds = ("b32-float32-exact", "b32-float32-guarded")
    expected = {f"{variant}-{kind}" for variant in ("naive", "block") for kind in kinds}
    expected |= {"bmm_tile-b16-int32-guarded", *(build.stem for build in INSTRUMENTS)}
    assert built == expected
    builds = pd.read_csv(tables / "builds.csv")
    assert set(builds.loc[builds["recording"] == "tree", "architecture"]) == {"sm_90"}
    files = {path.stem for path in (finished / "results" / "counts").glob("*.csv")}
    assert files == {"naive-b32-float32", "block-b32-float32", "bmm_tile-b16-int32"}
    counts = pd.read_csv(tables / "counts.csv")
    squares = counts["batch"] == 1
    assert set(counts.loc[squares, "n"]) == {32, 48, 64, 70}
    assert set(counts.loc[~squares, "variant"]) == {"bmm_tile"}
    assert counts["host"].notna().all(), "all are small"
    assert counts["agrees"].all()
    key = ["variant", "dtype", "batch", "m", "n", "k", "block_size", "quantity"]
    assert not counts.duplicated(key).any()


def test_a_second_run_keeps_the_scope_and_recomputes_nothing(finished):
    assert "Nothing to be done" in made(finished, "report")
    written = yaml.safe_load((finished / "results" / "config.yaml").read_text())
    assert written == in_force(finished)


def test_a_missing_table_or_an_edited_list_of_gpus_triggers_no_remeasurement(finished):
    table = finished / "results" / "tables" / "speedups.csv"
    table.rename(finished / "kept.csv")
    jobs = planned(finished)
    (finished / "kept.csv").rename(table)
    assert (jobs["measure"], jobs["tables"]) == (0, 1)
    entry = ("- {id: local", "- {id: new, device: auto}\n- {id: local")
    assert planned_after(finished, {"config.yaml": entry})["measure"] == 1  # only the new entry
    entry = ("- {id: GPU, recording: data/recordings/card}\n", "")
    removed = planned_after(finished, {"config.yaml": entry})
    assert (removed["measure"], removed["tables"]) == (0, 1)


def test_a_faulty_template_keeps_the_old_report(finished):
    report, template = finished / "results" / "report.html", finished / "report" / "page.html.j2"
    before, text = report.read_bytes(), edit(template, "<head>", "<head>{% if %}")
    failed = snakemake(finished, "report")
    template.write_text(text)
    assert failed.returncode != 0
    assert re.search(r"error: \S*page.html.j2:\d+: Expected an expression", failed.stderr)
    assert "jinja2.exceptions" not in failed.stderr
    assert report.read_bytes() == before
    made(finished, "report")


LOCAL = {
    "another seed": ("study: { seed: 2 }", 1),
    "nothing": ("# nothing yet", 0),
    "other GPUs": ("gpus: [{ id: GPU, recording: data/recordings/card }]", 0),
}


@pytest.mark.parametrize(("own", "measured"), for_make_test(LOCAL, "another seed"))
def test_settings_in_config_local_yaml_override_the_configuration(finished, own, measured):
    local = finished / "config.local.yaml"
    local.write_text(own)
    jobs = planned(finished)
    local.unlink()
    assert jobs["measure"] == measured


# Files, and the rules that use them.
EDITS = {
    "a kernel": ("kernels/block.cu", "build count tables figures render"),
    "tables": ("analysis/overview/speedups.py base/dictionary.txt", "tables figures render"),
    "figures": ("analysis/drawing/style.py analysis/cpu/figures.py", "figures render"),
    "the page": ("analysis/render/numbers.py analysis/archive/crate.py", "render"),
    "templates": ("report/cpu.html.j2 report/style.css", "render"),
}


@pytest.mark.parametrize(("files", "rules"), for_make_test(EDITS, "a kernel", "figures"))
def test_editing_a_file_reruns_only_the_rules_that_use_it(finished, files, rules):
    files = files.split()
    assert planned_after(finished, dict.fromkeys(files, ())) == dict.fromkeys(rules.split(), 1)
    assert planned.files == {*files}, "each is a reason"


def test_a_report_is_refused_while_snakemake_runs_in_the_same_folder(project):
    snakemake = [sys.executable, "-m", "snakemake", "report", "--cores", "1"]
    options = {"cwd": project, "stderr": subprocess.DEVNULL, "start_new_session": True}
    at_work = warm.Popen(snakemake, **options)
    until, alive = time.monotonic() + 60, project / ".snakemake" / "alive"
    while not (alive.is_file() and alive.read_text() == str(at_work.pid)):
        assert time.monotonic() < until
        time.sleep(0.05)
    script = ["workflow", "report", "--cores", "1"]
    refused = warm.run_module(*script, cwd=project)
    os.killpg(at_work.pid, signal.SIGKILL)
    at_work.wait()
    assert refused.returncode == 2
    owner = f"another run is active in this folder (process {at_work.pid})"
    assert refused.stderr.startswith(f"error: {owner}")
    assert list((project / ".snakemake" / "locks").iterdir()), "left behind"
    done = warm.run_module(*script, "results/counts/naive-b32-float32.csv", cwd=project)
    assert done.returncode == 0, done.stderr


def test_snakemake_is_refused_while_a_report_is_running(project):
    alive = project / ".snakemake" / "alive"
    alive.parent.mkdir()
    with alive.open("w") as file:  # locked before Snakemake's own lock, as at the start of a run
        fcntl.flock(file, fcntl.LOCK_EX)
        print(123, end="", file=file, flush=True)
        done = snakemake(project, "report")
    assert done.returncode != 0
    owner = "error: another run is active in this folder (process 123)"
    assert done.stderr.splitlines()[-1] == f"{owner}; wait for its end or stop it"
    assert not (project / "results" / "config.yaml").exists()


def refusal(project, *options, environment=None):
    """Return the one-line error of the workflow, which leaves no files."""
    before = sorted(project.rglob("results*"))
    done = snakemake(project, "report", *options, environment=environment)
    assert done.returncode != 0
    (line,) = (done.stdout + done.stderr).strip().splitlines()
    assert sorted(project.rglob("results*")) == before
    return line


# Changes of config.yaml, and the error.
WRONG = {
    "a size": ("sizes: [32, 48]", "sizes: [32, 0]", r"config\.yaml: study\.sizes\[1\]: 0 is not "),
    "a GPU": ("device: auto", "device: 99", r"GPU 99: not found on this host"),
    "a wildcard": (
        "data/recordings/card",
        "'a{b}'",
        r"recording a\{b\}: braces are wildcards .*; rename it",
    ),
    "a compiler": (
        "study:\n",
        "toolchain: {nvcc: /no/nvcc}\nstudy:\n  scope: full\n",
        "toolchain.nvcc: /no/nvcc is not a program",
    ),
}


@pytest.mark.parametrize(("old", "new", "message"), for_make_test(WRONG, "a size"))
def test_a_wrong_argument_is_reported_in_one_line(project, old, new, message):
    edit(project / "config.yaml", old, new, 1)
    assert re.match(rf"error: {message}", refusal(project))


def test_a_wrong_config_value_on_the_command_line_is_a_one_line_error(project):
    (project / "mine.yaml").write_text("study: {sizes: [0]}")
    for options, message in (
        (["--config", "study={sizes: [0]}"], "--config study: use scope=quick or scope=full"),
        (
            ["--configfile", "mine.yaml"],
            r"config\.yaml with .*/mine\.yaml: study\.sizes\[0\]: 0 is",
        ),
    ):
        assert re.match(rf"error: {message}", refusal(project, *options))


def test_edited_values_that_the_quick_study_overrides_are_named(project):
    edit(project / "config.yaml", "study:\n", "study:\n  quick: {sizes: [32], seed: 2}\n")
    for words in (["init", "-q"], ["add", "config.yaml"], [*COMMIT, "-qm", "as published"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    note = "note: study.quick replaces your "
    assert note not in made(project, "report", "--dry-run", "--printshellcmds")
    edit(project / "config.yaml", "\n  seed: 1\n", "\n  seed: 3\n")
    edit(project / "config.yaml", "\n  sizes: [32, 48]", "\n  sizes: [24]")
    told = made(project, "report", "--dry-run", "--printshellcmds")
    assert f"{note}sizes, seed; edit it there\n" in told
    assert " --sizes 32 --out" in told
    (project / "mine.yaml").write_text("study: {sizes: [16]}")
    told = made(project, "report", "--dry-run", "--printshellcmds", "--configfile", "mine.yaml")
    assert f"{note}seed; " in told
    assert " --sizes 16 --out" in told


def test_kernels_are_built_for_a_gpu_of_this_host_in_every_scope(project):
    found = "\n\ndef cuda_devices():\n    return [CudaDevice(0, 'a card', '8.6')]\n"
    with (project / "measurement" / "devices" / "discovery.py").open("a") as module:
        module.write(found)
    nvcc = stand_in(project.parent / "nvcc")
    compiler = f"toolchain: {{nvcc: {nvcc}}}\nstudy:\n"
    edit(project / "config.yaml", "study:\n", compiler)
    for scope, builds in (("quick", 1), ("full", 2)):
        jobs = planned(project, "--config", f"scope={scope}")
        assert (jobs["build"], jobs["measure"]) == (builds, 1), "the recorded GPU's too in full"


def test_a_recording_altered_by_one_byte_is_refused_and_named(project):
    samples = project / "data" / "recordings" / "card" / "samples.csv.gz"
    content = bytearray(samples.read_bytes())
    content[len(content) // 2] ^= 1
    samples.write_bytes(content)
    line = refusal(project)
    assert line.startswith("error: recording data/recordings/card: samples.csv.gz was altered")


def test_missing_compilers_are_a_one_line_error(project, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "tee"):
        (tools / name).symlink_to(shutil.which(name))
    line = refusal(project, environment={**os.environ, "PATH": str(tools)})
    assert line.startswith("error: gcc: not found on PATH; ")
