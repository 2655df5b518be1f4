"""Compiled sources of the study, compiled once: do not change them."""

import platform
import subprocess
from functools import cache
from pathlib import Path

from cpu_reference.library import CEILINGS, MACHINE_FLAGS, OWN_FLAGS, build_library, find_gcc
from cpu_reference.library import VARIANTS as ON_CPU
from tests.support import ROOT
from tests.support.cache import made


@cache
def cpu_library(*_: object) -> Path:
    """Return the library of the CPU's variants for this machine; stands in for `build_library`."""
    gcc = find_gcc()
    sources = [ROOT / each for each in (CEILINGS, *(v.source for v in ON_CPU.values())) if each]
    inputs = [_version(gcc), _cpu(), *MACHINE_FLAGS, *OWN_FLAGS, *sources]
    return made("library", inputs, lambda out: build_library(gcc, out)) / "cpu_reference.so"


@cache
def _version(compiler: Path) -> str:
    return subprocess.check_output([compiler, "--version"], text=True)


def _cpu() -> str:
    """Return the model and the flags of this machine's processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else [platform.processor()]
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
