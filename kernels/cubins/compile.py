"""Building cubins, and reading what they use: resources from ptxas, instructions from the code."""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from base.errors import StudyError
from base.files import digest, sha256, write_atomic
from base.paths import ROOT, shown
from base.pool import run_all
from kernels.catalog.entries import variant
from kernels.cubins.build import INSTRUMENTS, TENSOR_PROBE, Build, recorded
from kernels.cubins.machine_code import InstructionCount, instructions
from kernels.cubins.toolchain import find_disassembler, list_architectures, nvcc_version
from kernels.theory.tiles import number_of

FLAGS = ["-O3", "-std=c++17", "-Xptxas", "-v"]
# What becomes of a source is read by these.
_READERS = ("kernels/cubins/compile.py", "kernels/cubins/machine_code.py")

_RESOURCES = {
    "registers_per_thread": r"Used (\d+) registers",
    "static_shared_bytes": r"(\d+) bytes smem",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "stack_bytes": r"(\d+) bytes stack frame",
}


@dataclass(frozen=True)
class BuildResult:
    """What was built: a row of a recording's builds.csv, and rows of its instructions.csv.

    Of a cubin with several kernels (the probes), each number is that of the kernel with the most,
    and no instructions are counted. Without a disassembler there are none either.
    """

    architecture: str
    variant: str
    dtype: str
    block_size: int | None
    build: str
    registers_per_thread: int
    static_shared_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    nvcc: str
    cubin_sha256: str
    instructions: tuple[InstructionCount, ...] = ()

    @property
    def origin(self) -> Build:
        """The build that was compiled."""
        return recorded(self.variant, self.block_size, self.dtype, self.build)

    def row(self) -> dict[str, Any]:
        """Return the cubin as a row of builds.csv."""
        fields = asdict(self)
        del fields["instructions"]
        return fields

    def instruction_rows(self) -> list[dict[str, Any]]:
        """Return the cubin's instructions as rows of instructions.csv."""
        names = ("architecture", "variant", "dtype", "block_size", "build")
        build = {name: getattr(self, name) for name in names}
        return [build | asdict(count) for count in self.instructions]


def architecture(compute_capability: str) -> str:
    """Return nvcc's name of a compute capability: ``9.0`` is ``sm_90``."""
    return "sm_" + compute_capability.replace(".", "")


def compute_capability(architecture: str) -> str:
    """Return the compute capability of an architecture: ``sm_90`` is ``9.0``."""
    digits = architecture.removeprefix("sm_")
    return f"{digits[:-1]}.{digits[-1]}"


def command(nvcc: Path, build: Build, architecture: str, out: Path) -> list[str]:
    """Return the compiler's command line for one cubin."""
    defines = [f"-D{name}={value}" for name, value in build.defines.items()]
    source = ROOT / build.source
    own = build not in INSTRUMENTS
    on_tensor_cores = variant(build.variant).tensor_cores if own else build == TENSOR_PROBE
    # Asynchronous products on tensor cores (wgmma) are what this GPU has alone.
    target = "sm_90a" if on_tensor_cores and architecture == "sm_90" else architecture
    return [
        str(nvcc),
        "-cubin",
        f"-arch={target}",
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
        if "Unsupported gpu architecture" in output:
            raise StudyError(_unsupported(nvcc, architecture))
        if done.returncode != 0:
            raise StudyError(_complaint(f"{shown(Path(build.source))} for {architecture}", output))
        result = BuildResult(
            architecture,
            build.variant,
            build.dtype,
            number_of(build.block_size),
            build.kind,
            **{name: _resource(pattern, output) for name, pattern in _RESOURCES.items()},
            nvcc=version,
            cubin_sha256=sha256(temporary),
            instructions=_instructions(nvcc, build, temporary),
        )
        write_atomic(out, temporary.read_bytes())
        write_atomic(out.with_suffix(".json"), json.dumps(asdict(result), indent=2) + "\n")
    return result


def read_result(cubin: Path) -> BuildResult:
    """Return what stands beside a cubin; raises StudyError if missing or not this cubin's."""
    try:
        fields = json.loads(cubin.with_suffix(".json").read_text())
        counts = tuple(InstructionCount(**count) for count in fields.pop("instructions"))
        result = BuildResult(**fields, instructions=counts)
        if result.cubin_sha256 == sha256(cubin):
            return result
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    raise StudyError(f"{cubin}: missing, or not the cubin that its .json describes; build it again")


def build_all(
    nvcc: Path,
    wanted: list[Build],
    architecture: str,
    folder: Path,
    workers: int,
    store: Path | None = None,
    announce: Callable[[int, Build], None] = lambda *_: None,
) -> list[BuildResult]:
    """Build all `wanted` cubins into ``folder/architecture``, `workers` compilers at a time.

    With a `store`, a folder that keeps cubins by all that goes into them, only what is not there is
    compiled. `announce` is called with the number of cubins that are done and the last of them.
    Raises StudyError of the first build that fails; what others have built stays in the store.
    """

    def one(build: Build) -> BuildResult:
        out = folder / architecture / f"{build.stem}.cubin"
        if store is None:
            return build_cubin(nvcc, build, architecture, out)
        kept = store / architecture / f"{build.stem}-{_digest(nvcc, build, architecture)}.cubin"
        try:
            result = read_result(kept)
        except StudyError:
            result = build_cubin(nvcc, build, architecture, kept)
        for source in (kept, kept.with_suffix(".json")):
            write_atomic(out.with_suffix(source.suffix), source.read_bytes())
        return result

    return run_all(one, wanted, workers, announce)


def _digest(nvcc: Path, build: Build, architecture: str) -> str:
    """Return what stands for all that a cubin and its JSON are made from."""
    texts = [(ROOT / path).read_bytes() for path in (build.source, *_READERS)]
    told = command(Path("nvcc"), build, architecture, Path())
    tools = (nvcc_version(nvcc), str(find_disassembler(nvcc)))
    return digest(*tools, *told[:-1], *texts)


def _instructions(nvcc: Path, build: Build, cubin: Path) -> tuple[InstructionCount, ...]:
    """Count the instructions of the one kernel of a cubin, where there is a disassembler."""
    disassembler = find_disassembler(nvcc)
    if build in INSTRUMENTS or disassembler is None:
        return ()
    return tuple(instructions(cubin, disassembler, build.variant))


def _resource(pattern: str, output: str) -> int:
    """Return the largest number that ptxas printed for a kernel; it omits what is zero."""
    return max(map(int, re.findall(pattern, output)), default=0)


def _unsupported(nvcc: Path, architecture: str) -> str:
    """Say that a compiler does not build for an architecture, and which one does."""
    known = [_number(name) for name in list_architectures(nvcc)] or [0]
    oldest, newest = known[0], known[-1]
    # CUDA 13.0 has dropped what is older than sm_75.
    remedy = "the CUDA toolkit 12.9" if _number(architecture) < oldest else "a newer CUDA toolkit"
    return (
        f"{architecture}: nvcc {nvcc_version(nvcc)} builds for sm_{oldest} to sm_{newest} only; "
        f"install {remedy} and name its nvcc: toolchain.nvcc in the configuration, or --nvcc"
    )


def _number(architecture: str) -> int:
    """Return the number in an architecture's name: 90 of ``sm_90`` and of ``sm_90a``."""
    digits = re.search(r"\d+", architecture)
    return int(digits[0]) if digits else 0


def _complaint(what: str, output: str) -> str:
    """Return nvcc's first error in one line, with file and line where it has them."""
    if found := re.search(
        r"^(/.*)\((\d+)\): (?:catastrophic )?error\b:? ?(.*)$", output, re.MULTILINE
    ):
        return f"{shown(Path(found[1]))}:{found[2]}: {found[3]} (nvcc)"
    lines = [line for line in output.splitlines() if "error" in line.lower()] or output.splitlines()
    return f"{what}: {lines[0] if lines else 'the compiler failed without a message'}"
