"""CUDA on this host, for the set-up: the compiler, the disassembler and a GPU."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from installer import ROOT, VENV, SetupError, output, run


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
    found = next(filter(None, map(shutil.which, [*named, "nvcc"])), None)
    return Path(found) if found else None


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
    # PyCUDA takes the toolkit of the first nvcc on PATH. It may be a script, so the real nvcc is
    # used.
    told = output([str(nvcc), "--dryrun", "-x", "cu", "/dev/null"])
    here = re.search(r"^#\$ _HERE_=(.+)$", told, re.MULTILINE)
    with TemporaryDirectory() as folder:
        # A library of the driver's name is enough to link; many hosts lack libcuda.so.
        stub = ["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", f"{folder}/libcuda.so"]
        run([*stub, "-x", "c", "/dev/null"], "could not build a stub of libcuda; install gcc")
        yield {
            "PATH": f"{here[1] if here else nvcc.parent}{os.pathsep}{os.environ['PATH']}",
            "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} -Wl,--no-as-needed".strip(),
            "LIBRARY_PATH": f"{os.environ.get('LIBRARY_PATH', '')}:{folder}".strip(":"),
        }
