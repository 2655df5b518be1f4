"""The set-up of the environment: what it installs, from which sources, and its messages."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels.cubins import toolchain
from tests.support import ROOT
from tests.support.compilers import program

LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
UV = Path(sys.executable).with_name("uv")


@pytest.fixture
def setup(tmp_path, monkeypatch, patch):
    """The set-up's modules, in an empty project with an environment of fake programs."""
    monkeypatch.syspath_prepend(str(ROOT / "workflow"))
    names = ("environment", "host")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    root = tmp_path / "project"
    for name in ("base", "workflow"):
        (root / name).mkdir(parents=True)
    for name in ("pyproject.toml", "uv.lock", "workflow/uv.txt"):
        (root / name).write_text(f"# {name}\n")
    venv = root / ".venv"
    for module in (modules.environment, modules.host):
        patch(module, ROOT=root, VENV=venv)
    programs = {name.upper(): venv / "bin" / name for name in ("python", "uv")}
    patch(modules.environment, **programs, STATE=venv / "set-up.json")
    (venv / "bin").mkdir(parents=True)
    (venv / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    modules.environment.STATE.write_text('{"layers": []}')
    program(venv / "bin" / "python", "exit 0")
    program(venv / "bin" / "uv", LOGGED)
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    modules.root, modules.venv = root, venv
    return modules


LOGGED = 'echo "$*" >> "$0.calls"; env | grep ^UV_ | sort > "$0.$1$2"'


def calls(setup, program="uv"):
    logged = setup.venv / "bin" / f"{program}.calls"
    return logged.read_text().splitlines()


# ---- Package sources


@pytest.fixture
def pip_config(setup, tmp_path, monkeypatch):
    """Return a function that sets pip's file, which the real pip reads."""
    python = setup.venv / "bin" / "python"
    program(python, f'case "$3" in config) exec {sys.executable} "$@";; esac')

    def write(text):
        (tmp_path / "pip.conf").write_text(text)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))

    return write


def settings(setup):
    return setup.host.pip_settings(setup.venv / "bin" / "python")


@pytest.mark.slow
def test_pips_package_sources_reach_uv(setup, pip_config, monkeypatch):
    pip_config(
        "[global]\nindex-url = https://mirror.example/simple\nextra-index-url = https://a.example\n"
        "  https://b.example\nno-index = true\n[install]\ntrusted-host = mirror.example\n"
    )
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    found = settings(setup)
    assert set(found.pop("UV_INDEX").split()) == {"https://a.example", "https://b.example"}
    expected = {"UV_DEFAULT_INDEX": "https://mirror.example/simple", "UV_HTTP_TIMEOUT": "180"}
    expected |= {"UV_INSECURE_HOST": "mirror.example", "UV_FIND_LINKS": "/wheels,/more"}
    assert (expected | {"UV_OFFLINE": "1"}).items() <= found.items()
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example/simple")
    assert settings(setup)["UV_DEFAULT_INDEX"] == "https://variable.example/simple"


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_any_index_gives_the_locked_packages_and_the_lock_never_sees_it(
    setup, pip_config, monkeypatch, variable
):
    pip_config("")
    assert not {"UV_INDEX", "UV_DEFAULT_INDEX", "UV_OFFLINE"} & set(settings(setup))
    if variable:
        monkeypatch.setenv(variable, "https://mirror.example/simple")
    setup.environment.install({"test", "blas"})
    export, pip, editable = calls(setup)
    assert "export --locked --extra=blas --group=test --no-group=build --no-emit-project" in export
    assert "--no-deps --require-hashes" in pip
    assert pip.split()[-1] == export.split()[-1]
    assert editable.endswith("--no-build-isolation --editable .")
    names = ("pipinstall", "export--locked")
    seen = [name for name in names if "mirror" in (setup.venv / f"bin/uv.{name}").read_text()]
    assert seen == (["pipinstall"] if variable else [])


@pytest.mark.parametrize("is_cached", [True, False])
def test_the_network_is_used_only_where_the_cache_lacks_packages(setup, is_cached):
    script = 'echo "$1 ${UV_OFFLINE:-0}" >> "$0.calls"; [ $1 = export ] || [ ${UV_OFFLINE:-0} = '
    program(setup.venv / "bin" / "uv", f"{script}{int(is_cached)} ]")
    setup.environment.install(set())
    assert calls(setup) == ["export 0", *(["pip 1"] if is_cached else ["pip 1", "pip 0"]) * 2]


@pytest.mark.parametrize("is_kept", [True, False])
def test_uv_is_downloaded_only_where_its_cache_lacks_it(setup, monkeypatch, tmp_path, is_kept):
    kept = tmp_path / "cache" / "matmul-study"
    monkeypatch.setenv("UV_CACHE_DIR", str(kept.parent))
    if is_kept:
        kept.mkdir(parents=True)
    script = 'echo "$*" >> "$0.calls"; [ $3 != download ] || mkdir -p $5; [ $3 = config ] ||'
    program(setup.venv / "bin" / "python", f"{script} [ -d {kept} ]")
    setup.environment.install(set())
    pins = "--no-deps --require-hashes -r workflow/uv.txt"
    install = f"-m pip install --no-index --find-links {kept} {pins}"
    download = [] if is_kept else [f"-m pip download --dest {kept} {pins}", install]
    assert calls(setup, "python") == [install, *download, "-m pip config list"]


# ---- Messages


def test_failed_installation_is_one_line_and_leaves_no_state(setup, capsys, patch):
    patch(setup.environment, create_venv=lambda: None)
    said = 'echo "WARNING: error"; echo "error: no route to host" >&2; exit 2'
    program(setup.venv / "bin" / "uv", said)
    assert setup.environment.main([]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"error: could not install uv\.lock \(base\); name .* \(error: no route", said)
    assert "place" not in setup.environment.read_state()
    assert "no route to host" in (setup.venv / "setup.log").read_text()


def test_the_compilers_error_is_shown_before_the_installers(setup, tmp_path):
    work = "echo 'error: failed' >&2; echo 'a.cpp: fatal error: cuda.h'; exit 1"
    told = r"no build \(a\.cpp: fatal error: cuda\.h; more in "
    with pytest.raises(setup.host.SetupError, match=told):
        setup.host.run([str(program(tmp_path / "build", work))], "no build")


def test_python_without_venv_is_one_line(setup, patch, capsys, tmp_path):
    program(tmp_path / "python3", "echo 'No module named venv' >&2; exit 1")
    patch(sys, _base_executable=str(tmp_path / "python3"))
    shutil.rmtree(setup.venv)
    setup.venv.mkdir()
    assert setup.environment.main([]) == 2
    told = (
        r"error: \S+python3 could not create .*; install its venv module \(Debian, Ubuntu: apt-get"
    )
    told += r" install python3\.\d+-venv\) \(No module named venv"
    assert re.match(told, capsys.readouterr().err.splitlines()[-1])


# ---- The environment itself


@pytest.fixture
def host(setup, patch):
    """A host without GPU and compiler whose base is in place, and what is installed on it."""
    setup.environment.save(set())
    installed = []

    def install(layers, _=None):
        installed.append(sorted(layers))
        return setup.environment.save(layers)

    def create_venv():
        installed.append("again")
        setup.environment.STATE.write_text("")

    patch(setup.environment, install=install, create_venv=create_venv)
    patch(setup.environment, pycuda_variables=nullcontext)
    patch(setup.host, has_nvidia_gpu=lambda: False, find_nvcc=lambda: None)
    patch(setup.host, has_disassembler=lambda _: False)
    return installed


def refuse(*_):
    pytest.fail("was asked for")


def test_a_layer_is_installed_and_looked_for_once_and_no_layer_is_lost(setup, host, patch):
    for asked in ({"test"}, {"test"}, {"dev"}):
        setup.environment.set_up(asked)
    patch(setup.host, run=refuse, output=refuse)
    patch(setup.host, find_nvcc=refuse)
    setup.environment.set_up(set())
    assert host == [["test"], ["dev", "test"]]


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock", "workflow/uv.txt"])
def test_a_changed_lock_renews_all_layers_in_place(setup, host, name):
    setup.environment.set_up({"test"})
    (setup.root / name).write_text("# another one\n")
    setup.environment.set_up(set())
    setup.environment.set_up(set())
    assert host == [["test"], ["test"]]


def test_moved_environment_is_made_again_with_its_layers(setup, host, patch, tmp_path):
    setup.environment.set_up({"test"})
    moved, state = tmp_path / "elsewhere", tmp_path / "elsewhere" / "set-up.json"
    setup.venv.rename(moved)
    patch(setup.environment, VENV=moved, PYTHON=moved / "bin" / "python", STATE=state)
    patch(setup.environment, create_venv=lambda: state.write_text(""))
    setup.environment.set_up(set())
    assert host == [["test"], ["test"]]


def nothing(setup):
    setup.environment.STATE.write_text("")


def cut_off(setup):
    setup.environment.STATE.write_text('{"layers": [')


def no_python(setup):
    setup.environment.PYTHON.unlink()


def another_python(setup):
    no_python(setup)
    setup.environment.PYTHON.symlink_to(sys.executable)


@pytest.mark.parametrize("spoil", [nothing, cut_off, no_python, another_python])
def test_an_environment_without_its_state_or_python_is_made_again(setup, host, spoil):
    spoil(setup)
    setup.environment.set_up(set())
    assert host[0] == "again"


# ---- A full disk


def test_what_an_interrupted_installation_cut_off_is_installed_again(setup):
    uv = setup.venv / "bin" / "uv"
    program(uv, "exit 1")
    with pytest.raises(setup.host.SetupError):
        setup.environment.install({"test"})
    assert setup.environment.read_state()["locks"] != setup.environment.locks()
    program(uv, LOGGED)
    for _ in range(2):
        setup.environment.install({"test"})
    assert ["--reinstall" in call for call in calls(setup)] == [False, True, *[False] * 4]


# ---- CUDA


def test_only_with_a_gpu_the_compiler_and_pycuda_are_installed_once(setup, host, patch):
    setup.environment.set_up({"test", "dev"})
    assert host == [["dev", "test"]]
    setup.environment.save(set())
    host.clear()
    patch(setup.host, has_nvidia_gpu=lambda: True)
    setup.environment.set_up(set())
    patch(setup.host, has_nvidia_gpu=refuse)
    setup.environment.set_up(set())
    assert host == [["compiler"], ["compiler", "gpu"]]


@pytest.mark.parametrize("layer", ["disassembler", "gpu"])
def test_set_up_continues_without_optional_layers(setup, host, patch, capsys, layer):
    def fail(layers, _=None):
        host.append(sorted(layers))
        if layer in layers:
            raise setup.host.SetupError("no route")
        return setup.environment.save(layers)

    is_gpu = layer == "gpu"
    patch(setup.host, find_nvcc=lambda: Path("/bin/sh"), has_disassembler=lambda _: is_gpu)
    patch(setup.environment, install=fail)
    for _ in range(2):  # it is tried again the next time
        setup.environment.set_up({"compiler", "test", *({layer} & {"gpu"})})
    assert host == [["test"], sorted([layer, "test"]), sorted([layer, "test"])]
    assert capsys.readouterr().err.count("warning: no ") == 2


@pytest.mark.parametrize("where", ["beside", "beside the link's target", "path", "nowhere"])
def test_the_set_up_finds_the_programs_that_the_builds_find(setup, tmp_path, monkeypatch, where):
    real, links = tmp_path / "real", tmp_path / "links"
    links.mkdir()
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
    nvcc = setup.host.find_nvcc()
    assert nvcc == toolchain.find_nvcc(str(real / "nvcc") if where == "path" else None)
    found = toolchain.find_disassembler(nvcc)
    assert setup.host.has_disassembler(nvcc) == (found is not None) == (where != "nowhere")


def test_pycuda_is_built_with_nvcc_behind_a_script_or_of_the_wheels(
    setup, tmp_path, monkeypatch, patch
):
    program(tmp_path / "nvcc", "echo '#$ _HERE_=/cuda/bin' >&2")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with setup.host.pycuda_variables() as variables:
        assert variables["PATH"].startswith(f"/cuda/bin:{tmp_path}:")
        stub = Path(variables["LIBRARY_PATH"].rpartition(":")[2]) / "libcuda.so"
        assert b"libcuda.so.1" in stub.read_bytes()
        assert "--no-as-needed" in variables["LDFLAGS"]
    patch(setup.host, find_nvcc=lambda: None)
    needs = pytest.raises(setup.host.SetupError, match="needs nvcc, and none is here; install")
    with needs, setup.host.pycuda_variables():
        pass
    nvcc = setup.venv / "lib/python3.11/site-packages/nvidia/cu13/bin/nvcc"
    program(nvcc, "exit 0")
    with setup.host.pycuda_variables() as variables:
        assert variables["PATH"].startswith(f"{nvcc.parent}:")


# ---- The lock


def test_uv_and_the_build_backend_of_packages_without_wheels_are_pinned_as_in_the_lock():
    built = [each["name"] for each in LOCK["package"] if not each.get("wheels")]
    assert PROJECT["tool"]["uv"]["no-build-isolation-package"] == sorted(built)
    versions = {package["name"]: package.get("version") for package in LOCK["package"]}
    pinned = re.findall(r"^([a-z]+)==([\d.]+) ", (ROOT / "workflow/uv.txt").read_text(), re.M)
    assert dict(pinned) == {name: versions[name] for name in ("setuptools", "uv")}
    hashes = re.findall(r"sha256:[0-9a-f]{64}", (ROOT / "workflow/uv.txt").read_text())
    assert all(f'hash = "{one}"' in (ROOT / "uv.lock").read_text() for one in hashes)


def test_no_shell_reads_the_name_of_the_checkout_or_of_a_session_as_code(tmp_path):
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


def test_make_names_the_studies():
    make = ["make", "--dry-run", "report", "STUDY=ful"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "STUDY=ful is unknown; use quick or full" in done.stderr
