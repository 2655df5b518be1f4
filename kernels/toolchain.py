"""Finding nvcc: the configured one, the one on PATH, or the one of the PyPI wheels."""

import re
import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

from measurement.errors import StudyError

# Where the wheels of `cuda-toolkit[nvcc]` put their programs below site-packages.
_WHEEL_NVCC = Path("nvidia", "cu13", "bin", "nvcc")


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
    wheel = Path(sysconfig.get_paths()["purelib"]) / _WHEEL_NVCC
    found = shutil.which("nvcc") or shutil.which(wheel)
    if not found:
        raise StudyError(
            "nvcc: found neither on PATH nor in this Python environment; install a CUDA toolkit, "
            "or run `pip install --require-hashes -r requirements-compiler.lock`"
        )
    return Path(found)


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
