"""Sources of packages, CUDA compiler, disassembler and GPU of a host, for the set-up."""

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
# uv reads no pip.conf: these are pip's settings and the variables of uv.
SOURCES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "timeout": "UV_HTTP_TIMEOUT",
}


class SetupError(Exception):
    """An error that stops the set-up; the message is one line that names the remedy."""


def needed(asked: set[str], before: set[str]) -> set[str]:
    """Return the layers requested now or before, and the layers that this host needs for them."""
    wanted = asked - {"compiler"} | before
    if "gpu" not in wanted and has_nvidia_gpu():
        wanted.add("gpu")
    if wanted.isdisjoint({"compiler", "disassembler"}) and {"compiler", "gpu"} & (asked | wanted):
        nvcc = find_nvcc()
        if nvcc is None:
            wanted.add("compiler")
        elif not has_disassembler(nvcc):
            wanted.add("disassembler")
    return wanted


def find_nvcc() -> Path | None:
    """Return the nvcc that the configuration names or PATH has; None if there is none."""
    texts = [path.read_text() for path in ROOT.glob("config*.yaml")]
    named = re.findall(r"\bnvcc: *['\"]?([^\s'\"#}]+)", "\n".join(texts))
    nvcc = next(filter(None, map(shutil.which, [*named, "nvcc"])), None)
    return Path(nvcc) if nvcc else None


def has_disassembler(nvcc: Path) -> bool:
    """Return whether the builds will find nvdisasm, as `kernels.cubins.toolchain` looks for it."""
    beside = [str(path.with_name("nvdisasm")) for path in (nvcc, nvcc.resolve())]
    return any(shutil.which(path) for path in (*beside, "nvdisasm"))


def has_nvidia_gpu() -> bool:
    """Return whether an NVIDIA GPU can be used on this host."""
    if shutil.which("nvidia-smi"):
        return "GPU " in output(["nvidia-smi", "-L"])
    return Path("/dev/nvidia0").exists()


@contextmanager
def pycuda_variables() -> Iterator[dict[str, str]]:
    """Yield the variables that build PyCUDA against the toolkit of the nvcc in use."""
    of_wheels = VENV.glob("lib/python*/site-packages/nvidia/cu13/bin/nvcc")
    nvcc = find_nvcc() or next(of_wheels, None)
    if nvcc is None:
        raise SetupError("PyCUDA needs nvcc, and none is here; install a CUDA toolkit")
    # PyCUDA takes the toolkit of the first nvcc on PATH. It may be a script: the real one is named.
    steps = output([str(nvcc), "--dryrun", "-x", "cu", "/dev/null"])
    real = re.search(r"^#\$ _HERE_=(.+)$", steps, re.MULTILINE)
    with TemporaryDirectory() as folder:
        # A library of the driver's name is enough to link; many hosts lack libcuda.so.
        stub = ["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", f"{folder}/libcuda.so"]
        run([*stub, "-x", "c", "/dev/null"], "could not build a stub of libcuda; install gcc")
        yield {
            "PATH": f"{real[1] if real else nvcc.parent}{os.pathsep}{os.environ['PATH']}",
            "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} -Wl,--no-as-needed".strip(),
            "LIBRARY_PATH": f"{os.environ.get('LIBRARY_PATH', '')}:{folder}".strip(":"),
        }


def pip_settings(python: Path) -> dict[str, str]:
    """Return pip's package sources on this machine as variables of uv."""
    listed = output([str(python), "-m", "pip", "config", "list"])
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for section in ("global", "install", ":env:"):  # a later one counts more
        for name, text in re.findall(rf"^{section}\.([\w-]+)=(.+)$", listed, re.MULTILINE):
            value, variable = ast.literal_eval(text), SOURCES.get(name.removeprefix("default-"))
            if variable and value:
                settings[variable] = ("," if name == "find-links" else " ").join(value.split())
            if name == "no-index" and value.lower() in ("1", "true", "yes"):
                settings["UV_OFFLINE"] = "1"
    return settings


def run(command: Sequence[str], failed: str, environment: Mapping[str, str] = os.environ) -> None:
    """Run a command in the checkout; raise SetupError with the relevant line of its output."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
    )
    if done.returncode:
        with suppress(OSError):  # for example a full disk
            (VENV / "setup.log").write_text(done.stdout)
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith("WARNING:")] or ["no message"]
        # The message of a compiler or linker is more useful than the installer's.
        patterns = ("No space|fatal error:|cannot find -l|not found|No such", "error|failed", "")
        telling = [line for words in patterns for line in lines if re.search(words, line, re.I)]
        raise SetupError(f"{failed} ({telling[0]}; more in {VENV / 'setup.log'})")


def output(command: Sequence[str]) -> str:
    """Return the output of a command; empty if the command does not exist."""
    with suppress(OSError):
        return subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ).stdout
    return ""
