"""Compiling cubins, and reading their resources (from ptxas) and instructions (machine code)."""

import json
import os
import re
import shutil
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
from kernels.catalog.entries import VARIANTS
from kernels.cubins.build import INSTRUMENTS, TENSOR_PROBE, Build, recorded
from kernels.cubins.machine_code import InstructionCount, instructions
from kernels.cubins.toolchain import find_disassembler, list_architectures, nvcc_version
from kernels.theory.tiles import number_of

FLAGS = ["-O3", "-std=c++17", "-Xptxas", "-v"]
# Modules that read the compiler's output: a change of them invalidates stored cubins.
_READERS = ("kernels/cubins/compile.py", "kernels/cubins/machine_code.py")

_OLDEST_OF_CUDA_12 = 50  # CUDA 13.0 dropped all architectures before sm_75
_PLAIN = re.compile(r"[\w./+=,@-]+", re.ASCII)

_RESOURCES = {
    "registers_per_thread": r"Used (\d+) registers",
    "static_shared_bytes": r"(\d+) bytes smem",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "stack_bytes": r"(\d+) bytes stack frame",
}


@dataclass(frozen=True)
class BuildResult:
    """A compiled cubin: a row of a recording's builds.csv, and rows of its instructions.csv.

    For a cubin with several kernels (the probes), each number is the maximum over the kernels, and
    no instructions are counted. Without a disassembler, `instructions` is empty too.
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
        """The build from which this cubin was compiled."""
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
    """Return nvcc's name for a compute capability: ``sm_90`` for ``9.0``."""
    return "sm_" + compute_capability.replace(".", "")


def compute_capability(architecture: str) -> str:
    """Return the compute capability of an architecture: ``9.0`` for ``sm_90``."""
    digits = architecture.removeprefix("sm_")
    return f"{digits[:-1]}.{digits[-1]}"


def command(nvcc: Path, build: Build, architecture: str, out: Path) -> list[str]:
    """Return nvcc's command line that compiles one cubin to `out`."""
    defines = [f"-D{name}={value}" for name, value in build.defines.items()]
    source = ROOT / build.source
    entry = VARIANTS.get(build.variant)
    needs = entry.tensor_cores or entry.only_capability if entry else build == TENSOR_PROBE
    # Only this architecture has wgmma, and registers that warps exchange (setmaxnreg).
    target = "sm_90a" if needs and architecture == "sm_90" else architecture
    # Kernels of users call constexpr functions of the C++ library, such as std::min.
    is_own = source.is_relative_to(ROOT / "kernels")
    relaxed = [] if is_own else ["--expt-relaxed-constexpr"]
    return [
        str(nvcc),
        "-cubin",
        f"-arch={target}",
        *FLAGS,
        *relaxed,
        *defines,
        "-o",
        str(out),
        str(source),
    ]


def build_cubin(nvcc: Path, build: Build, architecture: str, out: Path) -> BuildResult:
    """Compile one cubin to `out`, and write its `BuildResult` next to it as JSON.

    Both files are complete or absent. Raise StudyError with the compiler's first error.
    """
    version = nvcc_version(nvcc)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        temporary = Path(folder) / out.name
        source = ROOT / build.source
        words, place = command(nvcc, build, architecture, temporary), None
        if not _PLAIN.fullmatch(f"{source}{temporary}"):
            # nvcc passes its arguments to a shell, so file names must not have special characters.
            shutil.copy(source, Path(folder) / "kernel.cu")
            words[-2:], place = ["kernel.cubin", "kernel.cu"], folder
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        output = (done.stdout + done.stderr).replace("kernel.cu(", f"{source}(")
        if (made := temporary.with_name("kernel.cubin")).exists():
            made.rename(temporary)
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
    """Return the result stored next to a cubin; raise StudyError if missing or not its own."""
    try:
        fields = json.loads(cubin.with_suffix(".json").read_text())
        counts = tuple(InstructionCount(**count) for count in fields.pop("instructions"))
        result = BuildResult(**fields, instructions=counts)
        if result.cubin_sha256 == sha256(cubin):
            return result
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    raise StudyError(f"{cubin}: missing, or different from its .json; build it again")


def build_all(
    nvcc: Path,
    wanted: list[Build],
    architecture: str,
    folder: Path,
    workers: int | None = None,
    store: Path | None = None,
    announce: Callable[[int, Build], None] = lambda *_: None,
) -> list[BuildResult]:
    """Build all `wanted` cubins into ``folder/architecture``, with `workers` compilers at a time.

    The default is one compiler per core. The folder `store` has one cubin per digest of its inputs,
    so only missing ones are compiled. `announce` gets the number of finished cubins and the last
    one. Raise StudyError for the first failed build; finished cubins stay in the store.
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

    return run_all(one, wanted, workers or len(os.sched_getaffinity(0)), announce)


def _digest(nvcc: Path, build: Build, architecture: str) -> str:
    """Return a digest of all inputs that determine a cubin and its JSON file."""
    texts = [(ROOT / path).read_bytes() for path in (build.source, *_READERS)]
    told = command(Path("nvcc"), build, architecture, Path())
    tools = (nvcc_version(nvcc), str(find_disassembler(nvcc)))
    return digest(*tools, *told[:-1], *texts)


def _instructions(nvcc: Path, build: Build, cubin: Path) -> tuple[InstructionCount, ...]:
    """Count the instructions of the kernel in a cubin; no counts without a disassembler."""
    disassembler = find_disassembler(nvcc)
    if build in INSTRUMENTS or disassembler is None:
        return ()
    return tuple(instructions(cubin, disassembler, build.variant))


def _resource(pattern: str, output: str) -> int:
    """Return the largest number that ptxas printed for a resource; 0 if it printed none."""
    return max(map(int, re.findall(pattern, output)), default=0)


def _unsupported(nvcc: Path, architecture: str) -> str:
    supported = list_architectures(nvcc) or ["sm_0"]
    oldest, number, newest = (_number(name) for name in (supported[0], architecture, supported[-1]))
    toolkit = ""
    if number > newest:
        toolkit = "a newer CUDA toolkit"
    elif _OLDEST_OF_CUDA_12 <= number < oldest:
        toolkit = "the CUDA toolkit 12.9"
    other = (
        f", or install {toolkit} and name its nvcc: toolchain.nvcc in the configuration, or --nvcc"
    )
    return (
        f"{architecture}: nvcc {nvcc_version(nvcc)} builds for {', '.join(supported)}; "
        "use one of them"
        f"{other if toolkit else ''}"
    )


def _number(architecture: str) -> int:
    """Return the number in an architecture's name: 90 for ``sm_90`` and ``sm_90a``."""
    digits = re.search(r"\d+", architecture)
    return int(digits[0]) if digits else 0


def _complaint(what: str, output: str) -> str:
    """Return nvcc's first error as one line, with file and line if known."""
    if first_error := re.search(
        r"^(/.*)\((\d+)\): (?:catastrophic )?error\b:? ?(.*)$", output, re.MULTILINE
    ):
        return f"{shown(Path(first_error[1]))}:{first_error[2]}: {first_error[3]} (nvcc)"
    lines = [line for line in output.splitlines() if "error" in line.lower()] or output.splitlines()
    return f"{what}: {lines[0] if lines else 'nvcc failed without a message'}"
