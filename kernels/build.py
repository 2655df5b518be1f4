"""Building cubins, and reading what ptxas says of the resources they use."""

import json
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from kernels.catalog import Build
from kernels.toolchain import nvcc_version
from measurement.errors import StudyError
from measurement.files import sha256, write_atomic

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-O3", "-std=c++17", "-Xptxas", "-v"]

_RESOURCES = {
    "registers_per_thread": r"Used (\d+) registers",
    "static_shared_bytes": r"(\d+) bytes smem",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "stack_bytes": r"(\d+) bytes stack frame",
}


@dataclass(frozen=True)
class BuildResult:
    """What was built: a row of a recording's builds.csv.

    Of a cubin with several kernels (the probes), each number is that of the kernel with the most.
    """

    architecture: str
    variant: str
    block_size: int | None
    build: str
    registers_per_thread: int
    static_shared_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    nvcc: str
    cubin_sha256: str


def architecture(compute_capability: str) -> str:
    """Return nvcc's name of a compute capability: ``9.0`` is ``sm_90``."""
    return "sm_" + compute_capability.replace(".", "")


def command(nvcc: Path, build: Build, architecture: str, out: Path) -> list[str]:
    """Return the compiler's command line for one cubin."""
    defines = [f"-DGUARDED={int(build.guarded)}"]
    if build.block_size is not None:
        defines.append(f"-DBLOCK={build.block_size}")
    source = ROOT / build.source
    return [
        str(nvcc),
        "-cubin",
        f"-arch={architecture}",
        *FLAGS,
        *defines,
        "-o",
        str(out),
        str(source),
    ]


def build_cubin(nvcc: Path, build: Build, architecture: str, out: Path) -> BuildResult:
    """Compile one cubin to `out`, with its resource use beside it as JSON.

    Raises StudyError with the compiler's first complaint. Neither file is left half-written.
    """
    version = nvcc_version(nvcc)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        temporary = Path(folder) / out.name
        done = subprocess.run(
            command(nvcc, build, architecture, temporary),
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        if done.returncode != 0:
            raise StudyError(f"{build.source} for {architecture}: {_complaint(output)}")
        result = BuildResult(
            architecture,
            build.variant,
            build.block_size,
            build.kind,
            **{name: _resource(pattern, output) for name, pattern in _RESOURCES.items()},
            nvcc=version,
            cubin_sha256=sha256(temporary),
        )
        write_atomic(out, temporary.read_bytes())
        write_atomic(out.with_suffix(".json"), json.dumps(asdict(result), indent=2) + "\n")
    return result


def read_result(cubin: Path) -> BuildResult:
    """Return what stands beside a cubin; raises StudyError if missing or not this cubin's."""
    try:
        result = BuildResult(**json.loads(cubin.with_suffix(".json").read_text()))
        if result.cubin_sha256 == sha256(cubin):
            return result
    except (OSError, ValueError, TypeError):
        pass
    raise StudyError(f"{cubin}: missing, or not the cubin that its .json describes; build it again")


def build_all(
    nvcc: Path, wanted: list[Build], architecture: str, folder: Path, workers: int
) -> list[BuildResult]:
    """Build all `wanted` cubins into ``folder/architecture``, `workers` compilers at a time."""

    def one(build: Build) -> BuildResult:
        return build_cubin(nvcc, build, architecture, folder / architecture / f"{build.stem}.cubin")

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, wanted))


def _resource(pattern: str, output: str) -> int:
    """Return the largest number that ptxas printed for a kernel; it omits what is zero."""
    return max(map(int, re.findall(pattern, output)), default=0)


def _complaint(output: str) -> str:
    lines = [line for line in output.splitlines() if "error" in line.lower()] or output.splitlines()
    return lines[0] if lines else "the compiler failed without a message"
