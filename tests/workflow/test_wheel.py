"""The wheel contains every package and data file, and works in any folder without a checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from tests.support.studies import with_short_ceilings
from tests.workflow.test_trial import MINE
from tests.workflow.test_workflow import CONFIG

pytestmark = pytest.mark.slow
# Files for developers only, and files that the wheel contains elsewhere.
NOT_SHIPPED = (
    "action.yml",
    "data/calibration/",
    ".",
    "benchmarks/",
    "docs/",
    "kernels/.clang-format",
    "tests/",
    "LICENSE",
)
NOT_SHIPPED += ("Makefile", "README", "pyproject.toml", "uv.lock")


def run(*command, fails=False, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 2 * fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def tracked():
    """The files of the project that git tracks or would add."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tracked, tmp_path_factory):
    """The wheel, built from a copy of the tree without a network."""
    copy = tmp_path_factory.mktemp("tree")
    for name in tracked:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation"]
    run(*pip, "--wheel-dir", copy / "dist", copy)
    (built,) = (copy / "dist").iterdir()
    return built


def pythons():
    """Return this Python, and newer ones on PATH or of pyenv: some may not run."""
    found = {sys.version_info[1]: [sys.executable]}
    for minor in range(sys.version_info[1] + 1, 16):
        of_pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
        found[minor] = [*of_pyenv, *filter(None, [shutil.which(f"python3.{minor}")])]
    return [
        pytest.param(
            paths,
            id=f"3.{minor}",
            marks=[] if paths == [sys.executable] else pytest.mark.exhaustive,
        )
        for minor, paths in found.items()
        if paths
    ]


@pytest.fixture(scope="module", params=pythons())
def installed(request, wheel, tmp_path_factory):
    """An environment with the wheel; another Python gets its packages from the cache of uv."""

    def runs(python):
        return not subprocess.run([python, "-c", "import ensurepip"]).returncode

    python = next(filter(runs, request.param), None) or pytest.skip("this Python does not run here")
    venv = tmp_path_factory.mktemp("installed") / "venv"
    run(python, "-m", "venv", "--without-pip", venv)
    (packages,) = venv.glob("lib/python*/site-packages")
    if python == sys.executable:
        pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install"]
        run(*pip, "--no-index", "--no-deps", wheel)
        others = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
        (packages / "others.pth").write_text("\n".join(others) + "\n")
    else:
        uv = [Path(sys.executable).with_name("uv"), "pip", "install", "--offline", "--python", venv]
        done = subprocess.run([*uv, wheel], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"packages for {python} are not in the cache of uv")
    code = "import kernels; print(kernels.__file__)"
    assert str(packages) in run(venv / "bin" / "python", "-P", "-c", code)
    with_short_ceilings(packages)
    return packages


def files_of(packages):
    return {path for path in packages.rglob("*") if "__pycache__" not in path.parts}


@pytest.fixture
def study(installed, host_builds, tmp_path):
    """Return a function that runs ``gemm-study`` in an empty folder; the packages stay as is."""
    before = files_of(installed)
    environment = dict(os.environ)
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    here = tmp_path / "ein Ordner, größer"
    (here / "results").mkdir(parents=True)
    (here / "results" / host_builds.name).symlink_to(host_builds)

    def study(*arguments, fails=False):
        command = [installed.parents[2] / "bin" / "gemm-study", *arguments]
        return run(*command, fails=fails, cwd=here, env=environment)

    study.here = here
    yield study
    assert files_of(installed) == before


def test_the_wheel_contains_every_package_and_data_file(wheel, tracked):
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    wanted = {name for name in tracked if not name.startswith(NOT_SHIPPED)}
    assert {"Snakefile", "config.yaml", "kernels/naive.cu", "report/cpu.html.j2"} < wanted
    assert wanted - shipped == set()
    assert {name for name in shipped - wanted if ".dist-info/" not in name} == set()


@pytest.mark.exhaustive
def test_an_installed_package_tries_a_kernel(study):
    (study.here / "mine.cu").write_text(MINE)
    said = study("try", "mine.cu", "--architecture", "sm_90")
    assert said.startswith("mine.cu: mine: correct\n")
    assert "on the roofline of NVIDIA H100" in said
    assert {path.name for path in study.here.iterdir()} == {"mine.cu", "results"}


@pytest.mark.exhaustive
def test_an_installed_package_makes_a_report_from_a_recording(study, make_recording):
    few = {"sizes": (32, 64), "holdout": (), "samples": 6, "variants": ("naive", "block")}
    make_recording(study.here / "mine", **few)
    config = yaml.safe_load(CONFIG)
    config["gpus"] = [{"id": "card", "recording": "mine"}]
    (study.here / "config.yaml").write_text(yaml.safe_dump(config))
    report = study.here / "results" / "report.html"
    said = study("report", "--cores", "2")
    assert "Simulated GPU" in report.read_text()
    assert re.match(r"SIMULATED Simulated GPU \(card\)\n  Fastest product", said)
    assert f"The report: {report}" in said
    assert {path.name for path in study.here.iterdir()} == {"config.yaml", "mine", "results"}
    study("check")
    question = ("--gpu", "card", "--n", "50", "--host-memory", "pinned", "--json")
    assert json.loads(study("advise", *question))["gpu_name"] == "Simulated GPU"
    compared = json.loads(study("compare", "mine", "mine", "--json"))["comparisons"]
    assert {row["verdict"] for row in compared} <= {"same", "undecided"}


def test_an_installed_package_names_a_deleted_folder(installed, tmp_path):
    own = installed.parents[2] / "bin" / "gemm-study"
    command = ["sh", "-c", 'rmdir "$PWD" && exec "$0" doctor', own]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: the current folder was deleted; change to")


def test_errors_of_an_installed_package_suggest_gemm_study_instead_of_make(study):
    (study.here / "config.yaml").write_bytes(b"\xff")
    fault = "config.yaml: not valid UTF-8; use a configuration file"
    assert study("report", fails=True) == f"error: {study.here}/{fault}\n"
    missing = study("advise", "--gpu", "h200", "--n", "3000", fails=True)
    assert missing.endswith("is missing; make it with `gemm-study report`\n")
    (study.here / "config.yaml").write_text(CONFIG)
    study("record", "--size", "32", "--out", "mine", "--commit", 40 * "0")
    assert "mine" in study("validate", "mine")
    assert json.loads(study("doctor", "--json"))["gpus"] == []
