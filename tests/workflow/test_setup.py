"""The set-up of the environment: what it installs, from which sources, and its messages."""

import os
import re
import shutil
import signal
import subprocess
import tomllib
from functools import partial
from pathlib import Path

import pytest

from kernels.cubins import toolchain
from tests.support import ROOT
from tests.support.compilers import program

LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# ---- The script, with programs that write down how they are called

PYTHON = """
case "$*" in
  *_base_executable*) echo "$0"; exit ;;
  *version_info*) [ ! "$OLD" ]; exit ;;
esac
echo "python $*" >> calls
case "$*" in
  *" venv "*) [ ! "$NO_VENV" ] || { echo "No module named venv"; exit 1; }
              mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *" --no-index "*) [ -e cache/gemm-study ] && cp uv .venv/bin/uv ;;
  *" pip "*) [ ! "$NO_PIP" ] || { echo "ERROR: $NO_PIP"; echo "WARNING: error"; exit 1; }
             mkdir -p cache/gemm-study ;;
esac
"""
UV_PROGRAM = """
echo "uv $*" >> calls
env | grep -E "^(UV_|LDFLAGS|LIBRARY_PATH|PATH)" | sort > "variables of $1"
case "$*" in
  sync*--offline) [ ! "$NOT_CACHED" ] || grep -q "pip install --no-deps" calls ;;
  sync*) [ ! "$NO_PYPI" ] || { printf 'error: uv.lock\\n  cause: %s\\n' "$NO_PYPI"; exit 1; } ;;
esac
"""
LS = 'case "$*" in /dev/nvidia*) [ "$GPU" ] ;; *) exec /bin/ls "$@" ;; esac'
USED = "cat cp dirname env flock gcc as ld grep mkdir readlink sed sh sha256sum sort tail touch"


class SetUp:
    """A checkout with the script and the programs that it calls."""

    def __init__(self, root):
        self.root, self.programs = root, root / "programs"
        (root / "workflow").mkdir(parents=True)
        shutil.copy(ROOT / "workflow" / "set-up.sh", root / "workflow")
        for name in ("pyproject.toml", "uv.lock", "workflow/uv.txt", "config.yaml"):
            (root / name).write_text(f"# {name}\n")
        program(self.programs / "python3", PYTHON)
        program(self.programs / "ls", LS)
        program(root / "uv", UV_PROGRAM)
        for name in USED.split():
            (self.programs / name).symlink_to(shutil.which(name))

    def start(self, *layers, **variables):
        """Start the script from another folder, without the variables of the tests."""
        environment = {"PATH": str(self.programs), "UV_CACHE_DIR": "cache", **variables}
        command = ["sh", self.root / "workflow" / "set-up.sh", *layers]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        # Jobs in the background ignore Ctrl-C, and a shell cannot trap what it ignores.
        pipes["preexec_fn"] = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(command, cwd="/", env=environment, start_new_session=True, **pipes)

    def __call__(self, *layers, **variables):
        """Return the exit status, the output and the calls of programs."""
        (self.root / "calls").write_text("")
        process = self.start(*layers, **variables)
        said = process.communicate()[0]
        return process.returncode, said, (self.root / "calls").read_text().splitlines()

    def installs(self, *layers, **variables):
        """Return the layers of each installation; all must succeed."""
        status, said, calls = self(*layers, **variables)
        assert status == 0, said
        return [layers_of(call) for call in calls if call.startswith("uv sync")]

    def variables(self, command):
        return (self.root / f"variables of {command}").read_text()


def layers_of(call):
    return set(re.findall(r"--(?:extra|group)=(\w+)", call))


@pytest.fixture
def setup(tmp_path):
    return SetUp(tmp_path / "a $(touch x) `touch y` b")


def test_set_up_installs_each_layer_once_and_keeps_the_others(setup):
    assert setup.installs() == [set()]
    assert setup.installs("test", "blas") == [{"test", "blas"}]
    assert setup.installs("test") == setup.installs() == []
    assert setup.installs("dev") == [{"blas", "test", "dev"}]
    assert setup() == (0, "", [])
    assert not {"x", "y"} & {path.name for path in [*setup.root.iterdir(), *Path("/").iterdir()]}


@pytest.mark.parametrize("kind", ["extra", "group"])
def test_set_up_distinguishes_extras_from_dependency_groups(setup, kind):
    extras, groups = (
        set(PROJECT["project"]["optional-dependencies"]),
        PROJECT["dependency-groups"],
    )
    names = extras if kind == "extra" else set(groups) - {"build"}
    program(setup.programs / "nvcc", "exit 0")
    setup(*names - {"compiler"}, GPU="1")
    calls = setup(*names - {"compiler"}, "new")[2]
    asked = {name for call in calls for name in re.findall(rf"--{kind}=(\w+)", call)}
    assert asked - {"new", "disassembler"} == names - {"compiler", "disassembler"}


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock", "workflow/uv.txt"])
def test_a_changed_lock_file_renews_all_installed_layers(setup, name):
    setup("test")
    (setup.root / name).write_text("# another one\n")
    _, _, calls = setup()
    assert [layers_of(call) for call in calls] == [{"test"}]
    assert "--locked" in calls[0]
    assert "--inexact" in calls[0]  # what the user has added stays
    assert setup() == (0, "", [])


def moved(setup):
    setup.root = setup.root.rename(setup.root.with_name("elsewhere"))
    setup.programs = setup.root / "programs"


def interrupted(setup):
    program(setup.root / ".venv/bin/uv", "kill -9 $PPID")
    setup("dev")
    program(setup.root / ".venv/bin/uv", UV_PROGRAM)


def without_python(setup):
    (setup.root / ".venv/bin/python").unlink()


@pytest.mark.parametrize("spoil", [moved, interrupted, without_python])
def test_a_moved_or_incomplete_environment_is_reinstalled_with_its_layers(setup, spoil):
    setup("test")
    (setup.root / ".venv" / "added.txt").write_text("by the user")
    spoil(setup)
    _, _, calls = setup()
    assert " venv " in calls[0]
    assert "test" in layers_of(calls[-1])
    assert "--reinstall" in calls[-1]
    assert (setup.root / ".venv" / "added.txt").exists()
    assert setup() == (0, "", [])


# ---- Package sources


def test_uv_is_downloaded_only_if_the_cache_lacks_it(setup):
    for is_kept in (False, True):
        _, _, calls = setup()
        assert any(" pip download " in call for call in calls) == (not is_kept)
        assert "-r workflow/uv.txt" in calls[1]
        shutil.rmtree(setup.root / ".venv")


def test_packages_come_from_the_cache_or_else_pypi_or_else_the_index_of_pip(setup):
    assert [call.endswith("--offline") for call in setup("a")[2][-1:]] == [True]
    calls = setup("b", NOT_CACHED="1")[2]
    assert [call.endswith("--offline") for call in calls] == [True, False]
    calls = setup("c", NOT_CACHED="1", NO_PYPI="no route")[2]
    kinds = ["uv sync", "uv sync", "uv export", "python -m pip", "uv sync"]
    assert [re.match("uv [a-z]+|python -m pip", call)[0] for call in calls] == kinds
    assert "--no-deps --no-build-isolation -r .venv/locked.txt" in calls[3]
    assert calls[2].endswith("-o .venv/locked.txt")


def test_the_lock_file_never_depends_on_another_index_or_environment(setup):
    index = "https://mirror.example/simple"
    setup(UV_DEFAULT_INDEX=index, UV_INDEX_URL=index, UV_PROJECT_ENVIRONMENT="/mine")
    assert "mirror" not in setup.variables("sync")
    assert "UV_PROJECT_ENVIRONMENT=.venv" in setup.variables("sync")


# ---- Messages


def test_a_failed_installation_is_a_one_line_error_and_is_retried_later(setup):
    failing = {"NOT_CACHED": "1", "NO_PYPI": "no route", "NO_PIP": "no matching wheel"}
    setup()
    status, said, _ = setup("test", **failing)
    assert status == 2
    told = r"error: could not install uv\.lock; name .* PIP_INDEX_URL.* \(ERROR: no matching wheel;"
    assert re.fullmatch(told + r" more in /.*/\.venv/set-up\.log\)", said.splitlines()[1])
    assert setup.installs("test") == [{"test"}]


def test_set_up_reports_a_full_disk_before_other_errors(setup):
    setup()
    script = (
        'echo "error: failed"; echo "  cause: No space left on device"; echo "error: end"; exit 1'
    )
    program(setup.root / ".venv/bin/uv", script)
    assert "(cause: No space left on device; more in" in setup("test")[1]


def test_a_python_that_is_too_old_or_lacks_venv_is_a_one_line_error(setup):
    status, said, _ = setup(NO_VENV="1")
    told = r"error: install Python's venv module .*apt-get install python3-venv\) \(No module named"
    assert status == 2
    assert re.match(told, said.splitlines()[1])
    status, said, _ = setup(OLD="1", PYTHON="python3")
    assert status == 2
    assert re.match("error: no Python 3.11 or newer .* make PYTHON=/", said.splitlines()[1])


def test_after_ctrl_c_set_up_says_how_to_continue(setup):
    setup()
    program(setup.root / ".venv/bin/uv", "echo waits; exec sleep 60")
    (setup.programs / "sleep").symlink_to(shutil.which("sleep"))
    process = setup.start("test")
    log = setup.root / ".venv/set-up.log"
    while not (log.exists() and "waits" in log.read_text()):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    assert "rerun the same command" in process.communicate()[0].splitlines()[-1]


# ---- CUDA


def test_on_a_host_with_gpu_the_compiler_and_pycuda_are_installed_once(setup):
    nvcc = setup.root / ".venv/lib/python3.11/site-packages/nvidia/cu13/bin/nvcc"
    program(nvcc.with_name("real"), "exit 0")
    program(setup.root / "nvcc", f"echo '#$ _HERE_={nvcc.parent}' >&2")
    uv = 'case "$*" in *compiler*) cp nvcc "$(echo .venv/lib/*/*/nvidia/cu13/bin)" ;; esac'
    program(setup.root / "uv", f"{UV_PROGRAM}\n{uv}")
    (setup.root / ".venv/set-up").touch()
    assert setup.installs(GPU="1", LIBRARY_PATH="") == [{"compiler"}, {"compiler", "gpu"}]
    variables = setup.variables("sync")
    assert f"PATH={nvcc.parent}:{setup.programs}" in variables
    assert f"LIBRARY_PATH={setup.root}/.venv" in variables
    assert b"libcuda.so.1" in (setup.root / ".venv/libcuda.so").read_bytes()
    assert setup.installs(GPU="1") == setup.installs() == []


def test_on_a_host_without_gpu_the_compiler_is_installed_only_on_request(setup):
    assert setup.installs("test") == [{"test"}]
    assert setup.installs("compiler") == [{"compiler", "test"}]


def test_set_up_continues_if_optional_layers_cannot_be_installed(setup):
    program(setup.programs / "nvcc", "exit 0")
    program(setup.programs / "nvdisasm", "exit 0")
    program(setup.root / "uv", f'{UV_PROGRAM}\ncase "$*" in *gpu*) exit 1 ;; esac')
    for _ in range(2):  # the layer is tried again, the rest is in place
        status, said, calls = setup("test", GPU="1")
        assert status == 0
        assert "warning: the study works without gpu: could not install" in said
    assert {"test", "gpu"} == set.union(*map(layers_of, calls))
    assert {"test"} not in map(layers_of, calls)


@pytest.mark.parametrize("where", ["beside", "beside the link's target", "path", "nowhere"])
def test_set_up_finds_the_same_programs_as_the_builds(setup, tmp_path, monkeypatch, where):
    real, links = tmp_path / "real", setup.programs
    version = "echo 'Cuda compilation tools, release 13.0, V13.0.88'"
    program(real / "nvcc", version)
    monkeypatch.setenv("PATH", str(links))
    monkeypatch.setattr(toolchain, "_of_wheels", lambda _: tmp_path / "none")
    if where.startswith("beside"):
        (links / "nvcc").symlink_to(real / "nvcc")
    elif where == "path":
        (setup.root / "config.yaml").write_text(f"toolchain:\n  nvcc: {real / 'nvcc'} # mine\n")
    else:
        program(links / "nvcc", version)
    if where != "nowhere":
        program((real if "target" in where else links) / "nvdisasm", "exit 0")
    nvcc = toolchain.find_nvcc(str(real / "nvcc") if where == "path" else None)
    is_complete = toolchain.find_disassembler(nvcc) is not None
    assert is_complete == (where != "nowhere")
    assert setup.installs("compiler")[1:] == ([] if is_complete else [{"disassembler"}])


# ---- The lock


def test_uv_and_build_backends_have_the_versions_of_the_lock_file():
    built = [each["name"] for each in LOCK["package"] if not each.get("wheels")]
    assert PROJECT["tool"]["uv"]["no-build-isolation-package"] == sorted(built)
    versions = {package["name"]: package.get("version") for package in LOCK["package"]}
    pinned = re.findall(r"^([a-z]+)==([\d.]+) ", (ROOT / "workflow/uv.txt").read_text(), re.M)
    assert dict(pinned) == {name: versions[name] for name in ("setuptools", "uv")}
    hashes = re.findall(r"sha256:[0-9a-f]{64}", (ROOT / "workflow/uv.txt").read_text())
    assert all(f'hash = "{one}"' in (ROOT / "uv.lock").read_text() for one in hashes)


def test_names_of_checkout_and_session_are_never_run_as_shell_code(tmp_path):
    folder = tmp_path / "a $(touch x) `touch y` b"
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    program(folder / ".venv" / "bin" / "gemm-study", 'printf "%s\\n" "$@" >> calls')
    program(folder / ".venv" / "bin" / "pytest", 'printf "%s\\n" "$0" >> calls')
    for target in ("report", "reproduce", "ro-crate", "check"):
        make = ["make", "--old-file=setup", target, "SESSION=$(touch z)"]
        done = subprocess.run(make, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {".venv", "Makefile", "calls"}
    assert f"{folder}/.venv/bin/pytest" in (folder / "calls").read_text().splitlines()


def test_make_refuses_an_unknown_study_and_names_the_valid_ones():
    make = ["make", "--dry-run", "report", "STUDY=ful"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "STUDY=ful is unknown; use quick or full" in done.stderr
