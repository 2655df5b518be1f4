"""Set up ``.venv`` from uv.lock, for ``make setup``. It needs the standard library only.

    python3 workflow/environment.py [test] [dev] [browser] [crate] [slurm] [blas] [compiler] [gpu]

The names are extras and groups of pyproject.toml. `compiler` installs nvcc and nvdisasm if the host
lacks them. `gpu` builds PyCUDA; a host with an NVIDIA GPU always gets it. ``uv sync`` decides
whether the environment is complete, and `STATE` holds its answer for the next call.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from host import needed, pycuda_variables
from installer import DISPLAY, ROOT, VENV, SetupError, create_venv, install

PYTHON = VENV / "bin" / "python"
STATE = VENV / "set-up.json"
# Optional layers: the name of each, and its use.
OPTIONAL = {
    "disassembler": ("nvdisasm (5 MB)", "no instructions of kernels are counted"),
    "gpu": ("PyCUDA (built here, some minutes)", "no GPU of this host can be measured"),
}


def main(asked: list[str]) -> int:
    """Bring the environment up to date with the named layers; return the exit status."""
    try:
        with open(ROOT / "uv.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once would install over each other
            set_up(set(asked))
    except SetupError as error:
        DISPLAY.say(f"error: {error}")
        return 2
    except OSError as error:  # a folder that cannot be written, a full disk
        DISPLAY.say(f"error: {error.filename or VENV}: {error.strerror}")
        return 2
    except KeyboardInterrupt:
        DISPLAY.say("stopped; rerun the same command to resume")
        return 130
    DISPLAY.clear()
    return 0


def set_up(asked: set[str]) -> None:
    """Install every layer that this host needs and that is not in place."""
    check_own()
    known = read_state()
    before = set(known["layers"])
    is_moved = not PYTHON.exists() or known.get("place") != place()
    if is_moved or ("unfinished" in known and is_damaged()):
        DISPLAY.show("set-up: making .venv (once)")
        create_venv(STATE)
    is_current = STATE.exists() and known.get("locks") == locks()
    done = before if is_current else set()
    wanted = needed(asked, before)
    plain = wanted - {*OPTIONAL}
    if not is_current or not plain <= done:
        names = ", ".join(sorted(plain - done | (set() if is_current else {"base"})))
        size = "; 290 MB" if "compiler" in plain - done else ""
        DISPLAY.show(f"set-up: installing the locked packages into .venv ({names}{size})")
        done = install_layers(done | plain)
    for layer in [name for name in OPTIONAL if name in wanted - done]:
        what, loss = OPTIONAL[layer]
        DISPLAY.show(f"set-up: installing {what} into .venv")
        try:
            with pycuda_variables() if layer == "gpu" else nullcontext({}) as variables:
                done = install_layers({*done, layer}, variables)
        except SetupError as error:
            DISPLAY.say(f"warning: {loss}: {error}")


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


def place() -> str:
    """Return the path and the Python of the environment: scripts and packages depend on them."""
    return f"{VENV} {os.path.realpath(PYTHON)}"


def locks() -> str:
    """Return the digest of the files from which the environment is installed."""
    names = ("pyproject.toml", "uv.lock", "workflow/uv.txt", "base/start.py")
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()


def read_state() -> dict[str, Any]:
    """Return the state written by the last set-up; an unreadable file counts as none."""
    with suppress(OSError, ValueError):
        return dict(json.loads(STATE.read_text()))
    return {"layers": []}


def install_layers(layers: set[str], variables: Mapping[str, str] | None = None) -> set[str]:
    """Install layers; return them. `STATE` records an unfinished installation."""
    STATE.write_text(json.dumps(read_state() | {"unfinished": True}))
    install(layers, variables)
    return save(layers)


def save(layers: set[str]) -> set[str]:
    """Write which layers are in place; return them."""
    state = {"place": place(), "locks": locks(), "layers": sorted(layers)}
    STATE.write_text(json.dumps(state))
    return layers


def is_damaged() -> bool:
    """Return whether a full disk has cut off an installed file, which uv does not repair."""
    found = distributions(path=[str(path) for path in VENV.glob("lib/python*/site-packages")])
    files = [file for each in found for file in each.files or ()]
    sizes = [(Path(str(file.locate())), file.size) for file in files if file.size is not None]
    return any(not path.exists() or path.stat().st_size != size for path, size in sizes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
