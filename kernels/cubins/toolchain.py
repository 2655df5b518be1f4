"""Finding nvcc (configured, on PATH, or from PyPI wheels) and nvdisasm."""

import re
import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

from base.errors import StudyError
from base.paths import remedy

COMPILER = "'cuda-toolkit[nvcc,cuobjdump,nvdisasm,profiler]==13.2.1'"

# Folder of the programs in the `cuda-toolkit` wheels, below site-packages.
_WHEEL_PROGRAMS = Path("nvidia", "cu13", "bin")


def find_nvcc(configured: str | None = None) -> Path:
    """Return the path of nvcc; raise StudyError if there is none.

    `configured` is `toolchain.nvcc` of the configuration; if given, no other path is tried.
    """
    if configured:
        nvcc = shutil.which(configured)
        if not nvcc:
            raise StudyError(
                f"toolchain.nvcc: {configured} is not a program; correct the path, or remove the "
                "key to use the nvcc on PATH"
            )
        nvcc_version(Path(nvcc))  # raises StudyError if it is not nvcc
        return Path(nvcc)
    nvcc = shutil.which("nvcc") or shutil.which(_of_wheels("nvcc"))
    if not nvcc:
        raise StudyError(
            "nvcc: not found on PATH or in this Python environment; install a CUDA toolkit, "
            f"or run {remedy('make setup LAYERS=compiler', COMPILER)}"
        )
    return Path(nvcc)


def find_disassembler(nvcc: Path) -> Path | None:
    """Return the path of the nvdisasm that matches this nvcc, or None if there is none.

    First choice is the one next to nvcc or to the target of its link, which has the same release;
    then one on PATH, which may be older than the architecture; then that of the PyPI wheels.
    """
    candidates: list[Path | str] = [
        nvcc.with_name("nvdisasm"),
        nvcc.resolve().with_name("nvdisasm"),
        "nvdisasm",
        _of_wheels("nvdisasm"),
    ]
    disassembler = next(filter(None, map(shutil.which, candidates)), None)
    return Path(disassembler) if disassembler else None


@cache
def nvcc_version(nvcc: Path) -> str:
    """Return the compiler's release, for example ``13.0.88``; raise StudyError if unknown."""
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise StudyError(f"{nvcc}: cannot run ({error.strerror}); use another nvcc") from None
    match = re.search(r"V(\d+\.\d+\.\d+)", done.stdout)
    if not match:
        raise StudyError(f"{nvcc}: --version prints no release; use another nvcc")
    return match.group(1)


def list_architectures(nvcc: Path) -> list[str]:
    """Return the architectures that this nvcc supports, such as sm_90, oldest first."""
    done = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"sm_\d+", done.stdout)), key=lambda name: int(name[3:]))


def _of_wheels(program: str) -> Path:
    return Path(sysconfig.get_paths()["purelib"]) / _WHEEL_PROGRAMS / program
