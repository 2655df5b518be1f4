"""uv in ``.venv``: its installation, its package sources and its errors."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from progress import Display

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
EXTRAS = ("blas", "crate", "gpu", "slurm")
# uv reads no pip.conf: these are pip's settings and the variables of uv.
INDEXES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
}
ACCESS = {"trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE", "timeout": "UV_HTTP_TIMEOUT"}
REMEDY = "name a package index that answers, for example in PIP_INDEX_URL"
HASHED = ("--no-deps", "--require-hashes", "-r")
DISPLAY = Display()


class SetupError(Exception):
    """An error that stops the set-up; the message is one line that names the remedy."""


def create_venv(marker: Path) -> None:
    """Make the environment again, with this Python or the Python from which this one was made.

    The file `marker`, in it from the first moment, tells it from an environment of the user; empty,
    it says that nothing is installed.
    """
    VENV.mkdir(exist_ok=True)
    marker.write_text("")
    for path in set(VENV.iterdir()) - {marker}:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    python = getattr(sys, "_base_executable", None) or sys.executable
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    remedy = f"install its venv module (Debian, Ubuntu: apt-get install {package})"
    command = [python, "-m", "venv", "--prompt", "matmul-study", str(VENV)]
    run(command, f"{python} could not create {VENV}; {remedy}")


def install(layers: Collection[str], build: Mapping[str, str] | None = None) -> None:
    """Install the study with these extras and groups; `build` holds variables of source builds."""
    python, uv = str(VENV / "bin" / "python"), str(VENV / "bin" / "uv")
    copy_start()
    environment = {**pip_settings(python), **os.environ, **(build or {})}
    environment |= {"UV_PROJECT_ENVIRONMENT": str(VENV), "UV_INDEX_STRATEGY": "unsafe-best-match"}
    install_uv(python)
    names = ("UV_INDEX_URL", "UV_EXTRA_INDEX_URL", *INDEXES.values())
    sources = {name: environment.pop(name) for name in names if name in environment}
    wanted = [f"--{'extra' if layer in EXTRAS else 'group'}={layer}" for layer in sorted(layers)]
    remedy = "install what its build lacks" if build else f"{REMEDY}, or run `make lock`"
    failed = f"could not install uv.lock ({', '.join(sorted(layers)) or 'base'}); {remedy}"
    if sources:
        # uv.lock names PyPI. With another index --locked refuses it, and --frozen still asks PyPI.
        # So pip's indexes give the packages by their hashes, and sync finds them in place.
        locked = str(VENV / "locked.txt")
        export = [uv, "export", "--locked", *wanted, "--no-emit-project", "--output-file", locked]
        run(export, failed, environment)
        pip = [uv, "pip", "install", "--python", python, *HASHED, locked]
        run_cached(pip, failed, {**environment, **sources})
    sync = [uv, "sync", "--locked", "--inexact", "--python", python, *wanted]
    run_cached(sync, failed, environment)


def run_cached(command: Sequence[str], failed: str, environment: Mapping[str, str]) -> None:
    """Run uv without a network; if its cache lacks something, run it with the network."""
    with suppress(SetupError):
        return run(command, failed, {**environment, "UV_OFFLINE": "1"})
    return run(command, failed, environment)


def copy_start() -> None:
    """Copy `base/start.py` into the environment: all of its Pythons start with it."""
    (packages,) = VENV.glob("lib/python*/site-packages")
    shutil.copy(ROOT / "base" / "start.py", packages / "matmul_study_start.py")
    # Its own bytecode could be cut off.
    quiet = "import sys; kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True"
    line = f"{quiet}; import matmul_study_start; sys.dont_write_bytecode = kept\n"
    (packages / "0-matmul-study.pth").write_text(line)


def install_uv(python: str) -> None:
    """Install uv and setuptools with pip, from uv's cache where an earlier set-up left them."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = str(Path(os.environ.get("UV_CACHE_DIR") or caches / "uv", "matmul-study"))
    pins = [*HASHED, "workflow/uv.txt"]
    install = [python, "-m", "pip", "install", "--no-index", "--find-links", kept, *pins]
    failed = f"could not install uv; {REMEDY}"
    try:
        run(install, failed)
    except SetupError:
        run([python, "-m", "pip", "download", "--dest", kept, *pins], failed)
        run(install, failed)


def pip_settings(python: str) -> dict[str, str]:
    """Return pip's package sources on this machine as variables of uv."""
    listed = output([python, "-m", "pip", "config", "list"])
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):  # a later one counts more
        for name, value in re.findall(rf"^{section}\.([\w-]+)=(.+)$", listed, re.MULTILINE):
            separator = "," if name == "find-links" else " "
            settings[name.removeprefix("default-")] = separator.join(
                ast.literal_eval(value).split()
            )
    found = {uv: settings[pip] for pip, uv in (INDEXES | ACCESS).items() if settings.get(pip)}
    is_closed = settings.get("no-index", "").lower() in ("1", "true", "yes")
    return found | ({"UV_OFFLINE": "1"} if is_closed else {})


def run(command: Sequence[str], failed: str, environment: Mapping[str, str] = os.environ) -> None:
    """Run a command in the checkout; raise SetupError with the relevant line of its output."""
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.25)
            DISPLAY.show_again()
        log.seek(0)
        said = log.read()
    if process.returncode:
        with suppress(OSError):  # for example a full disk
            (VENV / "setup.log").write_text(said)
        lines = [line for line in map(str.strip, said.splitlines()) if line]
        lines = [line for line in lines if not line.startswith("WARNING:")] or ["no message"]
        # The message of a compiler or linker is more useful than the installer's.
        patterns = ("No space|fatal error:|cannot find -l|not found|No such", "error|failed", "")
        telling = [line for words in patterns for line in lines if re.search(words, line, re.I)]
        raise SetupError(f"{failed} ({telling[0]}; more in {VENV / 'setup.log'})")


def output(command: Sequence[str]) -> str:
    """Return the output of a command; empty if the command does not exist."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout
    except OSError:
        return ""
