"""Finding nvcc (the configured one, the one on PATH, or that of the PyPI wheels) and nvdisasm."""

import re
import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

from base.errors import StudyError

# Where the wheels of `cuda-toolkit` put their programs below site-packages.
_WHEEL_PROGRAMS = Path("nvidia", "cu13", "bin")


def find_nvcc(configured: str | None = None) -> Path:
    """Return the nvcc to build with; raises StudyError if there is none.

    `configured` is `toolchain.nvcc` of the config. It is the only candidate where it is given.
    """
    if configured:
        found = shutil.which(configured)
        if not found:
            raise StudyError(
                f"toolchain.nvcc: {configured} is no program; correct the path, or remove the key "
                "to use the nvcc on PATH"
            )
        return Path(found)
    found = shutil.which("nvcc") or shutil.which(_of_wheels("nvcc"))
    if not found:
        raise StudyError(
            "nvcc: found neither on PATH nor in this Python environment; install a CUDA toolkit, "
            "or run `make setup LAYERS=compiler`"
        )
    return Path(found)


def find_disassembler(nvcc: Path) -> Path | None:
    """Return the nvdisasm that reads what this nvcc writes, or None where there is none.

    First the one beside nvcc, or where a link called nvcc leads: it is of the same release, while
    one on PATH may be older than the architecture. That of the wheels is the last.
    """
    candidates: list[Path | str] = [
        nvcc.with_name("nvdisasm"),
        nvcc.resolve().with_name("nvdisasm"),
        "nvdisasm",
        _of_wheels("nvdisasm"),
    ]
    found = next(filter(None, (shutil.which(program) for program in candidates)), None)
    return Path(found) if found else None


@cache
def nvcc_version(nvcc: Path) -> str:
    """Return the compiler's release, for example ``13.0.88``; raises StudyError if it is silent."""
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise StudyError(f"{nvcc}: cannot be run ({error.strerror}); name another nvcc") from None
    match = re.search(r"V(\d+\.\d+\.\d+)", done.stdout)
    if not match:
        raise StudyError(f"{nvcc}: does not answer --version as nvcc does; name another nvcc")
    return match.group(1)


def list_architectures(nvcc: Path) -> list[str]:
    """Return the architectures that this nvcc builds for, such as sm_90, the oldest first."""
    done = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"sm_\d+", done.stdout)), key=lambda name: int(name[3:]))


def _of_wheels(program: str) -> Path:
    """Return where a program of the wheels lies in this Python environment, if it is installed."""
    return Path(sysconfig.get_paths()["purelib"]) / _WHEEL_PROGRAMS / program
