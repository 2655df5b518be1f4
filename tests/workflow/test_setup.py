"""The set-up of the environment: what is installed when, from which sources, and what it says."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT

LAYERS = ("base", "build", "compiler", "dev", "disassembler", "gpu", "project", "test", "uv")
LOCKS = sorted(ROOT.glob("requirements*.lock"))


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """The set-up module, at work in an empty project of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "workflow"))
    spec = importlib.util.spec_from_file_location("environment", ROOT / "workflow/environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    for name, value in {
        "ROOT": tmp_path,
        "VENV": venv,
        "PYTHON": venv / "bin" / "python",
        "UV": venv / "bin" / "uv",
        "LOG": venv / "setup.log",
        "MARK": venv / "made",
    }.items():
        monkeypatch.setattr(module, name, value)
    module.MARK.touch()
    for layer in LAYERS:
        module.lock_file(layer).write_text(f"# lock of {layer}\n")
    return module


def program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_pips_package_sources_reach_uv(environment, tmp_path, monkeypatch):
    program(environment.PYTHON, f'exec {sys.executable} "$@"')
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://mirror.example/simple\nextra-index-url = https://a.example\n"
        "  https://b.example\n[install]\ntrusted-host = mirror.example\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")
    settings = environment.uv_settings(environment.pip_configuration())
    expected = {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert expected.items() <= settings.items()
    assert {"https://a.example", "https://b.example"} <= set(settings["UV_INDEX"].split())


def test_the_environment_counts_more_than_pips_file(environment, tmp_path, monkeypatch):
    program(environment.PYTHON, f'exec {sys.executable} "$@"')
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://file.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example/simple")
    assert environment.pip_configuration()["index-url"] == "https://variable.example/simple"


def test_without_pip_settings_uv_keeps_its_defaults(environment):
    assert set(environment.uv_settings({})) == {"UV_INDEX_STRATEGY", "UV_LINK_MODE"}


def test_pip_takes_over_where_uv_fails(environment, capsys):
    program(environment.UV, "echo 'error: no route to host' >&2; exit 2")
    program(environment.PYTHON, 'case "$*" in *install*) echo "$*" >> "$0.calls";; esac')
    environment.install("base")
    calls = Path(f"{environment.PYTHON}.calls").read_text()
    assert calls.startswith("-m pip install ")
    assert "--require-hashes" in calls
    assert f"-r {environment.lock_file('base')}" in calls
    assert environment.is_installed("base")
    said = capsys.readouterr().err
    assert "pip takes over (could not install requirements.lock" in said
    assert "error: no route to host" in said


def test_failed_installation_leaves_no_stamp(environment):
    program(environment.PYTHON, "echo 'ERROR: No matching distribution found for x' >&2; exit 1")
    with pytest.raises(
        environment.SetupError, match=r"could not install requirements\.lock .*: ERROR"
    ):
        environment.install("base")
    assert not environment.is_installed("base")
    assert "No matching distribution" in environment.LOG.read_text()


def test_layers_are_installed_at_once(environment):
    program(environment.UV, 'echo "$*" >> "$0.calls"')
    program(environment.PYTHON, "exit 0")
    environment.install("base", "test")
    (call,) = Path(f"{environment.UV}.calls").read_text().splitlines()
    locks = [environment.lock_file(layer) for layer in ("base", "test")]
    assert call.endswith(f" -r {locks[0]} -r {locks[1]}")
    assert environment.is_installed("base")
    assert environment.is_installed("test")


@pytest.mark.slow
def test_long_work_shows_that_it_goes_on(environment, monkeypatch):
    shown = []
    monkeypatch.setattr(environment.DISPLAY, "show_again", lambda: shown.append(1))
    environment.run_checked(["sleep", "1.2"], "no sleep")
    assert len(shown) >= 3


def test_layer_is_installed_until_its_lock_changes(environment):
    program(environment.PYTHON, "exit 0")
    environment.install("gpu")
    assert environment.is_installed("gpu")
    environment.lock_file("gpu").write_text("# another lock\n")
    assert not environment.is_installed("gpu")


def test_environment_of_its_own_is_made_anew_and_links_are_not_followed(
    environment, monkeypatch, tmp_path
):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    (environment.VENV / "lib").symlink_to(tmp_path / "other")
    (environment.VENV / "stamp-base").touch()
    monkeypatch.setattr(environment, "run_checked", lambda *_: None)
    environment.create_venv()
    assert list(environment.VENV.iterdir()) == [environment.MARK]
    assert (tmp_path / "other" / "thesis.txt").exists()


def test_an_activated_environment_is_made_anew_with_the_python_below_it(tmp_path):
    """As after a pull that changes the lock, in a shell in which the environment is activated."""
    inside = tmp_path / ".venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", inside.parents[1]], check=True)
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "workflow")!r})
import environment
environment.VENV = Path({str(inside.parents[1])!r})
environment.MARK = environment.VENV / "made"
environment.run_checked = lambda command, _: print(command[0])
environment.create_venv()
"""
    done = subprocess.run([inside, "-c", code], capture_output=True, text=True, check=True)
    python = Path(done.stdout.strip())
    assert not inside.exists()
    assert python.exists()
    assert tmp_path not in python.parents


def test_moved_environment_counts_as_not_installed(environment, monkeypatch, tmp_path):
    program(environment.PYTHON, "exit 0")
    environment.install("base")
    moved = tmp_path / "elsewhere"
    environment.VENV.rename(moved)
    monkeypatch.setattr(environment, "VENV", moved)
    monkeypatch.setattr(environment, "PYTHON", moved / "bin" / "python")
    assert not environment.is_installed("base")


@pytest.fixture
def host(environment, monkeypatch):
    """A host without GPU whose base is in place, and the layers that are installed on it."""
    program(environment.PYTHON, "exit 0")
    environment.install("base", "project")
    installed = []
    monkeypatch.setattr(environment, "install", lambda *layers, **_: installed.extend(layers))
    monkeypatch.setattr(environment, "has_nvidia_gpu", lambda: False)
    return installed


def refuse(*_):
    pytest.fail("was asked for")


def test_what_is_in_place_is_not_looked_for(environment, host, monkeypatch):
    for name in ("run_checked", "find_nvcc", "create_venv", "pip_configuration"):
        monkeypatch.setattr(environment, name, refuse)
    environment.set_up([])
    assert host == []


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_the_projects_command_is_installed_until_it_changes(environment, host, installer):
    path = environment.UV if installer == "uv" else environment.PYTHON
    program(path, 'echo "$*" >> "$0.calls"')
    environment.lock_file("project").write_text("# other scripts\n")
    environment.set_up([])
    environment.set_up([])
    (call,) = Path(f"{path}.calls").read_text().splitlines()
    assert "--no-index" in call
    assert call.endswith(f"--editable {environment.ROOT}")


def test_without_gpu_no_compiler_is_installed_for_a_report(environment, host, monkeypatch):
    monkeypatch.setattr(environment, "find_nvcc", refuse)
    environment.set_up(["test", "dev"])
    assert host == ["test", "dev"]


def test_with_a_gpu_the_compiler_and_pycuda_are_installed(environment, host, monkeypatch):
    monkeypatch.setattr(environment, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(environment, "find_nvcc", lambda: None)
    monkeypatch.setattr(environment, "install_pycuda", lambda: environment.install("gpu"))
    environment.set_up([])
    assert host == ["compiler", "gpu"]


@pytest.mark.parametrize(
    ("nvcc", "has_disassembler", "expected"),
    [
        (None, False, ["compiler"]),
        (Path("/bin/sh"), False, ["disassembler"]),
        (Path("/bin/sh"), True, []),
    ],
    ids=["no nvcc", "no nvdisasm", "both"],
)
def test_of_the_compiler_only_what_is_missing_is_installed(
    environment, host, monkeypatch, nvcc, has_disassembler, expected
):
    monkeypatch.setattr(environment, "find_nvcc", lambda: nvcc)
    monkeypatch.setattr(environment, "has_disassembler", lambda _: has_disassembler)
    environment.set_up(["compiler"])
    assert host == expected


def test_a_compiler_that_was_found_is_looked_for_again_when_it_is_gone(
    environment, host, monkeypatch, tmp_path
):
    nvcc = tmp_path / "nvcc"
    nvcc.touch()
    monkeypatch.setattr(environment, "has_disassembler", lambda _: True)
    monkeypatch.setattr(environment, "find_nvcc", lambda: nvcc)
    environment.set_up(["compiler"])
    monkeypatch.setattr(environment, "find_nvcc", refuse)
    environment.set_up(["compiler"])
    nvcc.unlink()
    monkeypatch.setattr(environment, "find_nvcc", lambda: None)
    environment.set_up(["compiler"])
    assert host == ["compiler"]


def test_installed_compiler_is_not_looked_for_again(environment, host, monkeypatch):
    environment.stamp_file("compiler").write_text(environment.stamp_text("compiler"))
    monkeypatch.setattr(environment, "find_nvcc", refuse)
    environment.set_up(["compiler"])
    assert host == []


def test_set_up_goes_on_without_a_disassembler(environment, host, monkeypatch, capsys):
    def fail(*layers):
        raise environment.SetupError(f"no route for {layers[0]}")

    monkeypatch.setattr(environment, "find_nvcc", lambda: Path("/bin/sh"))
    monkeypatch.setattr(environment, "has_disassembler", lambda _: False)
    monkeypatch.setattr(environment, "install", fail)
    environment.set_up(["compiler"])
    said = capsys.readouterr().err
    assert "warning: no nvdisasm" in said
    assert "no route for disassembler" in said
    assert not environment.has_known_nvcc(), "it is tried again the next time"


@pytest.mark.parametrize("found", [True, False])
def test_disassembler_is_the_one_that_the_builds_will_find(environment, found):
    program(environment.PYTHON, f'exec {sys.executable} "$@"')
    toolchain = environment.ROOT / "kernels" / "cubins" / "toolchain.py"
    toolchain.parent.mkdir(parents=True)
    for folder in (toolchain.parent, toolchain.parent.parent):
        (folder / "__init__.py").touch()
    toolchain.write_text(
        "from pathlib import Path\ndef find_disassembler(nvcc):\n"
        f"    assert nvcc == Path('/cuda/bin/nvcc')\n    return Path('/x') if {found} else None\n"
    )
    assert environment.has_disassembler(Path("/cuda/bin/nvcc")) == found


def test_python_without_venv_is_one_line(environment, monkeypatch, capsys):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda _name: None)
    assert environment.main([]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(
        r"error: \S+ has no venv module; install it \(on .*: apt-get install python3\.\d+-venv\)",
        message,
    )


def test_the_compilers_complaint_is_told_before_the_installers(environment, tmp_path):
    failing = tmp_path / "build"
    program(
        failing, "echo 'error: subprocess failed' >&2; echo 'a.cpp: fatal error: cuda.h'; exit 1"
    )
    with pytest.raises(environment.SetupError, match=r"no build: a\.cpp: fatal error: cuda\.h \("):
        environment.run_checked([str(failing)], "no build")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_pins_every_package_by_hash_and_names_no_source(lock):
    lines = lock.read_text().splitlines()
    packages = [line for line in lines if not line.startswith(" ")]
    assert packages
    assert all(re.match(r"[a-z0-9.-]+==[\w.]+( ; .*)? \\$", line) for line in packages), packages
    assert all(
        re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)
        for line in set(lines) - set(packages)
    )


def test_locks_hold_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    extras = project["project"]["optional-dependencies"]
    wanted = {
        "requirements.lock": project["project"]["dependencies"],
        **{f"requirements-{name}.lock": extras[name] for name in extras},
        **{f"requirements-{name}.lock": groups[name] for name in groups},
    }
    assert {lock.name for lock in LOCKS} == set(wanted)
    for name, requirements in wanted.items():
        locked = (ROOT / name).read_text()
        for requirement in requirements:
            package, _, version = requirement.partition(";")[0].lower().partition("==")
            pin = f"{package.partition('[')[0]}=={version}"
            assert re.search(rf"^{re.escape(pin)}", locked, re.MULTILINE), f"{pin} in {name}"
