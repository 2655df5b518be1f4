"""Set up ``.venv`` from the hash-locked requirements: what ``make setup`` runs.

    python3 workflow/environment.py [test] [dev] [browser] [crate] [slurm] [compiler] [gpu]

Needs nothing but the standard library. Each lock is one layer: `base` for the report, `test` and
`browser` for the tests, `dev` for the linters, `crate` for the archive, `compiler` for what builds
kernels, where no nvcc is found (`disassembler` where nvcc comes without nvdisasm), `gpu` (PyCUDA)
where it is asked for or an NVIDIA GPU is found. The last is this project itself, whose command is
``gemm-study``. A layer that is in place leaves a stamp with the digest of its lock, so that the
next call installs nothing and uses no network.
"""

import ast
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from progress import Display

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
LOG = VENV / "setup.log"
# Stands in what this made, and nothing else is ever removed.
MARK = VENV / "made-by-make-setup"
# PyCUDA's cuRAND binding is not used here, and the compiler wheels hold no cuRAND to link.
PYCUDA_OPTION = "--config-settings=--global-option=--conf:CUDA_ENABLE_CURAND=False"
DISPLAY = Display()


class SetupError(Exception):
    """What stops the set-up; the message is one line that names the remedy."""


def main(optional_layers: list[str]) -> int:
    """Bring the environment up to date with the named layers; return the exit status."""
    try:
        with open(lock_file("base")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once would install over each other
            check_own()
            set_up(optional_layers)
    except SetupError as error:
        DISPLAY.say(f"error: {error}")
        return 2
    except OSError as error:  # a folder that cannot be written, a full disk
        DISPLAY.say(f"error: {error.filename or VENV}: {error.strerror}")
        return 2
    except KeyboardInterrupt:
        DISPLAY.say("stopped; the same command goes on from here")
        return 130
    DISPLAY.clear()
    return 0


def check_own() -> None:
    """Raise SetupError where something stands in the environment's place that is not of this."""
    if VENV.is_symlink():
        raise SetupError(
            f"{VENV} is a link to {os.readlink(VENV)}, and would be changed there; remove the link"
        )
    made_here = MARK.exists() or stamp_file("base").exists()
    if VENV.exists() and not made_here and not (VENV.is_dir() and not any(VENV.iterdir())):
        raise SetupError(f"{VENV} was not made by this set-up; move it away, or remove it")


def set_up(optional_layers: list[str]) -> None:
    """Install every layer that this host needs and that is not in place."""
    if not is_installed("base"):
        show("installing the locked packages into .venv (once)")
        create_venv()
        install_installers()
    layers = ["base", *(layer for layer in optional_layers if layer not in ("compiler", "gpu"))]
    missing = [layer for layer in layers if not is_installed(layer)]
    if missing:
        show(f"installing the locked packages into .venv ({', '.join(missing)})")
        install(*missing)
    if not is_installed("project"):
        install_project()
    has_new_gpu = not is_installed("gpu") and ("gpu" in optional_layers or has_nvidia_gpu())
    if "compiler" in optional_layers or has_new_gpu:
        set_up_compiler()
    if has_new_gpu:
        install_pycuda()


def set_up_compiler() -> None:
    """Install of nvcc and nvdisasm what this host lacks."""
    if is_installed("compiler") or has_known_nvcc():
        return
    nvcc = find_nvcc()
    if nvcc is None:
        show("no nvcc found: installing the CUDA compiler into .venv (290 MB, once)")
        install("compiler")
    elif is_installed("disassembler") or has_disassembler(nvcc) or install_disassembler():
        stamp_file("nvcc").write_text(str(nvcc))


def has_known_nvcc() -> bool:
    """Say whether the nvcc that an earlier call found with all that it needs is still there."""
    stamp = stamp_file("nvcc")
    return stamp.exists() and Path(stamp.read_text()).exists()


def lock_file(layer: str) -> Path:
    """Return the lock of a layer; of the project itself, what says which command it has."""
    names = {"base": "requirements.lock", "project": "pyproject.toml"}
    return ROOT / names.get(layer, f"requirements-{layer}.lock")


def stamp_file(layer: str) -> Path:
    """Return the file that says from which lock a layer was installed."""
    return VENV / f"stamp-{layer}"


def stamp_text(layer: str) -> str:
    """Return what the stamp of a layer must hold: the environment's place and the lock's digest.

    The place counts because the scripts in an environment name it: a moved checkout starts afresh.
    """
    return f"{VENV} {hashlib.sha256(lock_file(layer).read_bytes()).hexdigest()}\n"


def is_installed(layer: str) -> bool:
    """Say whether a layer is in place, from the lock as it is now."""
    stamp = stamp_file(layer)
    return PYTHON.exists() and stamp.exists() and stamp.read_text() == stamp_text(layer)


def create_venv() -> None:
    """Make the environment anew with the Python that runs this, or that which it was made with.

    Where it is activated, the Python that runs this is in it, and goes with it.
    """
    if not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupError(
            f"{sys.executable} has no venv module; install it "
            f"(on Debian and Ubuntu: apt-get install python{version}-venv)"
        )
    VENV.mkdir(exist_ok=True)
    MARK.touch()
    for path in VENV.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != MARK:
            path.unlink()
    python = getattr(sys, "_base_executable", None) or sys.executable
    run_checked([python, "-m", "venv", str(VENV)], f"{python} could not create {VENV}")


def install_installers() -> None:
    """Install uv, and the backend that source-only packages are built with."""
    try:
        install("build", "uv", use_uv=False)
    except SetupError as error:
        say(f"no uv here, pip does its work ({error})")
        install("build", use_uv=False)


def install_project() -> None:
    """Install the command `gemm-study`, which runs what stands in this checkout."""
    installer = [str(UV), "pip", "install", "--python", str(PYTHON)]
    if not UV.exists():
        installer = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    run_checked([*installer, *options, "--editable", str(ROOT)], "could not install gemm-study")
    stamp_file("project").write_text(stamp_text("project"))


def install(
    *layers: str,
    use_uv: bool = True,
    options: tuple[str, ...] = (),
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Install locks, with uv where it is there and works, else with pip, and stamp the layers."""
    # Source-only packages are built in the environment, with the locked setuptools: an isolated
    # build would fetch a backend that no lock pins.
    wanted = ["--require-hashes", "--no-deps", "--no-build-isolation", *options]
    wanted += [word for layer in layers for word in ("-r", str(lock_file(layer)))]
    names = " and ".join(lock_file(layer).name for layer in layers)
    failed = f"could not install {names} (the set-up needs a package index once)"
    done = False
    if use_uv and UV.exists():
        command = [str(UV), "pip", "install", "--quiet", "--python", str(PYTHON), *wanted]
        settings = uv_settings(pip_configuration())
        try:
            # What the user has set for uv counts more than what is set for pip.
            run_checked(command, failed, {**settings, **environment})
            done = True
        except SetupError as error:
            say(f"uv gave up, pip takes over ({error})")
    if not done:
        command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run_checked([*command, *wanted], failed, environment)
    for layer in layers:
        stamp_file(layer).write_text(stamp_text(layer))


def pip_configuration() -> dict[str, str]:
    """Return pip's settings on this machine by plain name, such as ``index-url``."""
    listed = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings: dict[str, str] = {}
    # A command's section counts more than the global one, the environment more than both.
    for section in ("global", "install", ":env:"):
        for line in listed.stdout.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(f"{section}."):
                settings[name.removeprefix(f"{section}.")] = ast.literal_eval(value)
    return settings


def uv_settings(pip: Mapping[str, str]) -> dict[str, str]:
    """Return pip's package sources as uv's environment variables; uv reads no pip.conf itself."""
    settings = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(pip.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(pip.get("find-links", "").split()),
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", "").split()),
        "UV_OFFLINE": "1" if pip.get("no-index", "").lower() in ("1", "true", "yes") else "",
        "SSL_CERT_FILE": pip.get("cert", ""),
        "UV_HTTP_TIMEOUT": pip.get("timeout", pip.get("default-timeout", "")),
        # As pip: the best version of all sources, whichever comes first. The hashes decide.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_LINK_MODE": "copy",
    }
    return {name: value for name, value in settings.items() if value}


def find_nvcc() -> Path | None:
    """Return the nvcc that the builds will use, or None."""
    command = [str(PYTHON), "-m", "kernels", "toolchain"]
    # A compiler named in config.yaml counts; a faulty config.yaml is for the workflow to report.
    code = "from study.config import read; print(read('config.yaml')['toolchain']['nvcc'])"
    named = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if named.returncode == 0:
        command += ["--nvcc", named.stdout.strip()]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return Path(found.stdout.split()[0]) if found.returncode == 0 else None


def has_disassembler(nvcc: Path) -> bool:
    """Say whether the builds will find an nvdisasm that reads what this nvcc writes."""
    code = (
        "import pathlib, sys; from kernels.cubins.toolchain import find_disassembler; "
        "sys.exit(find_disassembler(pathlib.Path(sys.argv[1])) is None)"
    )
    return subprocess.run([PYTHON, "-c", code, nvcc], cwd=ROOT, capture_output=True).returncode == 0


def install_disassembler() -> bool:
    """Install nvdisasm; say whether it is there. Without it builds count no instructions."""
    show("nvcc comes without nvdisasm: installing it into .venv (5 MB, once)")
    try:
        install("disassembler")
    except SetupError as error:
        say(f"warning: no nvdisasm, so no instructions of the kernels are counted: {error}")
        return False
    return True


def has_nvidia_gpu() -> bool:
    """Say whether an NVIDIA GPU can be used on this host."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except OSError:
        return Path("/dev/nvidia0").exists()
    return listed.returncode == 0 and "GPU " in listed.stdout


def install_pycuda() -> None:
    """Build PyCUDA against the toolkit of the nvcc in use; a failure leaves the rest usable."""
    nvcc = find_nvcc()
    if nvcc is None:
        say("warning: PyCUDA needs nvcc, and none works: no GPU of this host can be measured")
        return
    show("building PyCUDA for NVIDIA GPUs (once, some minutes)")
    with tempfile.TemporaryDirectory() as links:
        driver = driver_library()
        library = Path(links) / "libcuda.so"
        if driver is not None:  # hosts without the toolkit often lack the name that -lcuda wants
            library.symlink_to(driver)
        else:  # for a host that has one: all that counts here is the name
            stub = ["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", str(library)]
            run_checked([*stub, "-x", "c", "/dev/null"], "could not stand in for libcuda")
        environment = {
            **os.environ,
            # PyCUDA takes the toolkit of the first nvcc on PATH.
            "PATH": f"{toolkit_folder(nvcc)}{os.pathsep}{os.environ['PATH']}",
            "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} -Wl,--no-as-needed".strip(),
            "LIBRARY_PATH": f"{os.environ.get('LIBRARY_PATH', '')}{os.pathsep}{links}".strip(":"),
        }
        try:
            install("gpu", options=(PYCUDA_OPTION,), environment=environment)
        except SetupError as error:
            say(f"warning: no PyCUDA, so no GPU of this host can be measured: {error}")


def toolkit_folder(nvcc: Path) -> Path:
    """Return the folder of the real nvcc, which a wrapper script on PATH may stand for."""
    shown = subprocess.run(
        [nvcc, "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True
    )
    here = re.search(r"^#\$ _HERE_=(.+)$", shown.stderr, re.MULTILINE)
    return Path(here.group(1)) if here else nvcc.parent


def driver_library() -> str | None:
    """Return the path of the NVIDIA driver's libcuda.so.1, None where the linker cache has none."""
    # Users who are not root often have no /sbin on their PATH.
    ldconfig = shutil.which("ldconfig", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if ldconfig is None:
        return None
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libcuda\.so\.1 .*=> (\S+)", listed)
    return found.group(1) if found else None


def run_checked(
    command: list[str], failed: str, environment: Mapping[str, str] = os.environ
) -> None:
    """Run a command; SetupError with the telling line of its output if it does not succeed.

    The whole output of a failed command goes to `LOG`.
    """
    try:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise SetupError(f"{failed}: {error}") from error
    output, errors = communicate(process)
    if process.returncode == 0:
        return
    LOG.write_text(output + errors)
    lines = [line.strip() for line in (errors + output).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("WARNING:")] or lines
    # A compiler's or linker's own complaint says more than what the installer makes of it.
    telling = [
        line
        for pattern in ("fatal error:|cannot find -l|not found|No such", "error|failed")
        for line in lines
        if re.search(pattern, line, re.IGNORECASE)
    ]
    reason = (telling or lines or [f"exit status {process.returncode}"])[0]
    raise SetupError(f"{failed}: {reason} (more in {LOG})")


def communicate(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Return what a process has written, when it has ended; meanwhile the display lives."""
    while True:
        try:
            return process.communicate(timeout=0.25)
        except subprocess.TimeoutExpired:
            DISPLAY.show_again()


def show(work: str) -> None:
    """Show what takes the time."""
    DISPLAY.show(f"set-up: {work}")


def say(message: str) -> None:
    """Tell the user what stays worth knowing."""
    DISPLAY.say(f"set-up: {message}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
