"""Set up ``.venv`` from uv.lock, for ``make setup``. It needs the standard library only.

    python3 workflow/environment.py [test] [dev] [browser] [crate] [slurm] [blas] [compiler] [gpu]

The names are extras and groups of pyproject.toml. `compiler` installs nvcc and nvdisasm if the host
lacks them. `gpu` builds PyCUDA; a host with an NVIDIA GPU always gets it. `STATE` records what is
in place, so that the next call has nothing to do.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from host import ROOT, VENV, SetupError, needed, pip_settings, pycuda_variables, run

PYTHON, UV, STATE = VENV / "bin" / "python", VENV / "bin" / "uv", VENV / "set-up.json"
EXTRAS = ("blas", "crate", "gpu", "slurm")  # the other layers are groups
# Layers without which the study works, and what is lost.
OPTIONAL = {
    "disassembler": "no instructions of kernels are counted",
    "gpu": "no GPU of this host can be measured",
}
REMEDY = "name a package index that answers, for example in PIP_INDEX_URL"


def main(asked: list[str]) -> int:
    """Bring the environment up to date with the named layers; return the exit status."""
    try:
        with open(ROOT / "uv.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once would install over each other
            set_up(set(asked))
        return 0
    except SetupError as error:
        say(f"error: {error}")
    except OSError as error:  # a folder that cannot be written, a full disk
        say(f"error: {error.filename or VENV}: {error.strerror}")
    except KeyboardInterrupt:
        say("stopped; rerun the same command to resume")
        return 130
    return 2


def set_up(asked: set[str]) -> None:
    """Install every layer that this host needs and that is not in place."""
    check_own()
    state = read_state()
    installed = set(state["layers"])
    wanted = needed(asked, installed)
    if not PYTHON.exists() or state.get("place") != place():
        create_venv()
    if state.get("locks") != locks() or not STATE.read_text() or wanted - {*OPTIONAL} - installed:
        installed = install(installed | (wanted - {*OPTIONAL}))
    for layer in [name for name in OPTIONAL if name in wanted - installed]:
        try:
            with pycuda_variables() if layer == "gpu" else nullcontext({}) as variables:
                installed = install({*installed, layer}, variables)
        except SetupError as error:
            say(f"warning: {OPTIONAL[layer]}: {error}")


def check_own() -> None:
    """Raise SetupError if the environment cannot be here: by the folder's name or its contents."""
    if refused := set(str(ROOT)) & set(":{}\n"):
        named = " ".join(map(repr, sorted(refused)))
        raise SetupError(
            f"{str(ROOT)!r}: Python packages cannot be in a folder with {named}; move it"
        )
    if VENV.is_symlink():
        raise SetupError(f"{VENV} is a link to {os.readlink(VENV)}; remove the link")
    if not STATE.exists() and (VENV.is_file() or (VENV.is_dir() and any(VENV.iterdir()))):
        raise SetupError(
            f"{VENV} was not made by this set-up, which would clear it; move it away or remove it, "
            "or use it without make: .venv/bin/gemm-study report"
        )


def read_state() -> dict[str, Any]:
    """Return what the last set-up has installed; an unreadable file counts as nothing."""
    with suppress(OSError, ValueError):
        return dict(json.loads(STATE.read_text()))
    return {"layers": []}


def place() -> str:
    """Return the path and the Python of the environment: scripts and packages depend on them."""
    return f"{VENV} {os.path.realpath(PYTHON)}"


def locks() -> str:
    """Return the digest of the files from which the environment is installed."""
    names = ("pyproject.toml", "uv.lock", "workflow/uv.txt")
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()


def create_venv() -> None:
    """Make the environment again, with this Python or the Python from which this one was made.

    The empty file `STATE`, in it from the first moment, tells it from an environment of the user.
    """
    say("set-up: making .venv (once)")
    VENV.mkdir(exist_ok=True)
    STATE.write_text("")
    for path in set(VENV.iterdir()) - {STATE}:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    python = getattr(sys, "_base_executable", None) or sys.executable
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    remedy = f"install its venv module (Debian, Ubuntu: apt-get install {package})"
    command = [python, "-m", "venv", "--prompt", "matmul-study", str(VENV)]
    run(command, f"{python} could not create {VENV}; {remedy}")


def install(layers: set[str], build: Mapping[str, str] | None = None) -> set[str]:
    """Install the study with these layers and return them; `build`: variables of source builds.

    Until the end `STATE` is marked as unfinished: then the next call installs every file again,
    because a full disk or a kill may have cut some off.
    """
    state = read_state()
    size = " (the compiler: 290 MB)" if "compiler" in layers - set(state["layers"]) else ""
    say(f"set-up: installing {', '.join(['the study', *sorted(layers)])} into .venv{size}")
    STATE.write_text(json.dumps(state | {"unfinished": True, "locks": ""}))
    install_uv()
    wanted = [f"--{'extra' if name in EXTRAS else 'group'}={name}" for name in sorted(layers)]
    failed = f"could not install uv.lock ({', '.join(sorted(layers)) or 'base'}); "
    failed += "install what its build lacks" if build else f"{REMEDY}, or run `make lock`"
    # The lock names PyPI, and export refuses another index. Any index gives the same packages,
    # because they are installed by their hashes.
    plain = {name: text for name, text in os.environ.items() if not name.startswith("UV_")}
    locked = str(VENV / "locked.txt")
    export = ["export", "--locked", *wanted, "--no-group=build", "--no-emit-project"]
    run([str(UV), *export, "--output-file", locked], failed, plain)
    pip = [str(UV), "pip", "install", "--python", str(PYTHON), "--no-deps"]
    again = ["--reinstall"] if "unfinished" in state else []
    environment = {**pip_settings(PYTHON), **os.environ, **(build or {})}
    run_cached([*pip, *again, "--require-hashes", "-r", locked], failed, environment)
    run_cached([*pip, "--no-build-isolation", "--editable", "."], failed, environment)
    return save(layers)


def install_uv() -> None:
    """Install uv and setuptools with pip, from uv's cache where an earlier set-up left them."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = str(Path(os.environ.get("UV_CACHE_DIR") or caches / "uv", "matmul-study"))
    pip, pins = (
        [str(PYTHON), "-m", "pip"],
        ["--no-deps", "--require-hashes", "-r", "workflow/uv.txt"],
    )
    install = [*pip, "install", "--no-index", "--find-links", kept, *pins]
    failed = f"could not install uv; {REMEDY}"
    try:
        run(install, failed)
    except SetupError:
        run([*pip, "download", "--dest", kept, *pins], failed)
        run(install, failed)


def run_cached(command: Sequence[str], failed: str, environment: Mapping[str, str]) -> None:
    """Run uv without a network; if its cache lacks something, run it with the network."""
    try:
        run(command, failed, {**environment, "UV_OFFLINE": "1"})
    except SetupError:
        run(command, failed, environment)


def save(layers: set[str]) -> set[str]:
    """Write which layers are in place; return them."""
    state = {"place": place(), "locks": locks(), "layers": sorted(layers)}
    STATE.write_text(json.dumps(state))
    return layers


def say(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
