"""Running kernels under compute-sanitizer: memory errors, races, uninitialised reads, barriers."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from base.errors import StudyError
from base.files import write_atomic
from base.paths import ROOT
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import Kernel
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.toolchain import find_nvcc
from kernels.products.elements import ELEMENTS
from measurement.devices.discovery import select
from measurement.devices.locks import lock_file, only_run
from measurement.instruments.check import builds_of, plan
from study.config import Config

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SIZES = ("1", "17", "64", "100", "256", "17x33x65", "1x512x3", "3x17x33x65")
# Padding: without it, an access behind a buffer could hit the next buffer and go unnoticed.
_OPTIONS = {"memcheck": ["--leak-check", "no", "--padding", "4096"]}
_ERRORS_FOUND = 86
# Time until the checked process uses CUDA, including slow imports.
_CONNECT_S = 120


@dataclass(frozen=True)
class ToolReport:
    """The result of one tool: cells run, errors (None: it did not finish), and first error."""

    tool: str
    cells: int
    errors: int | None
    fault: str | None
    seconds: float

    def __str__(self) -> str:
        errors = "no result" if self.errors is None else f"{self.errors} errors"
        line = f"{self.tool:<9}  {self.cells} cells, {errors}, {self.seconds:.1f} s"
        return f"{line}: {self.fault}" if self.fault else line


def sanitize(
    config: Config, device_index: int, sizes: Sequence[str], tools: Sequence[str], out: Path
) -> int:
    """Run all variants under each tool, with all dtypes, the config's block sizes and `sizes`.

    Print one line per tool; its output is written to ``out/TOOL.txt``. Return 1 if a tool found an
    error or did not finish, else 0. Raise StudyError for an invalid size or tool, or if the GPU, a
    compiler or compute-sanitizer is missing.
    """
    for tool in set(tools) - set(TOOLS):
        raise StudyError(f"--tools: {tool!r} is unknown; use one of {', '.join(TOOLS)}")
    device = select(device_index)[0]
    nvcc = find_nvcc(config.toolchain.nvcc)
    program = find_sanitizer(nvcc)
    block_sizes = config.study.block_sizes
    variants = [name for name, entry in VARIANTS.items() if isinstance(entry, Kernel)]
    dtypes = tuple(name for name, element in ELEMENTS.items() if not element.rounded)
    cells = plan(variants, block_sizes, list(sizes), dtypes)
    with (
        only_run(device, lock_file(device), "running compute-sanitizer"),
        tempfile.TemporaryDirectory(prefix="gemm-study-") as folder,
    ):
        name = architecture(device.compute_capability)
        wanted = builds_of(cells)
        print(f"building {len(wanted)} kernels for {name}", file=sys.stderr, flush=True)
        build_all(nvcc, wanted, name, Path(folder))
        check = [sys.executable, "-m", "measurement.instruments.check"]
        check += ["--device", str(device.index), "--cubins", folder, "--variants", *variants]
        check += ["--block-sizes", *map(str, block_sizes), "--sizes", *sizes]
        check += ["--dtypes", *dtypes]
        reports = []
        for tool in tools:
            reports.append(run_tool(program, tool, check, out / f"{tool}.txt"))
            print(reports[-1], flush=True)
    return int(any(report.fault for report in reports))


def find_sanitizer(nvcc: Path) -> Path:
    """Return compute-sanitizer from PATH or from nvcc's folder; raise StudyError."""
    tool = shutil.which("compute-sanitizer") or shutil.which(nvcc.parent / "compute-sanitizer")
    if not tool:
        raise StudyError("compute-sanitizer: not found; install the CUDA toolkit")
    return Path(tool)


def run_tool(program: Path, tool: str, check: list[str], log: Path) -> ToolReport:
    """Run the command `check` under one tool; write all output to the file `log`."""
    options = ["--error-exitcode", str(_ERRORS_FOUND), "--target-processes", "application-only"]
    options += ["--check-exit-code", "no", "--launch-timeout", str(_CONNECT_S)]
    command = [str(program), "--tool", tool, *options, *_OPTIONS.get(tool, []), *check]
    begin = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    seconds = time.perf_counter() - begin
    output = done.stdout.decode(errors="replace")
    write_atomic(log, output)
    return read_report(tool, output, done.returncode, seconds, log)


def read_report(tool: str, output: str, status: int, seconds: float, log: Path) -> ToolReport:
    """Return the result of a tool, from its output with that of the check.

    A tool succeeded only if its summary, the check's summary and the exit status all say so.
    """
    summaries = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", output)
    checked = re.search(r"^check: (\d+) cells run, (\d+) failed", output, re.MULTILINE)
    cells, failed = (int(checked[1]), int(checked[2])) if checked else (0, 0)
    errors = max(map(int, summaries)) if summaries else None
    fault = None
    if errors:
        fault = _first_error(output)
    elif errors is None or not checked:
        fault = f"exit status {status}: {_last_line(output)}"
    elif failed or not cells:
        fault = f"{failed} products wrong" if failed else "no cell ran"
    elif status:
        fault = f"exit status {status}"
    return ToolReport(tool, cells, errors, fault and f"{fault}; see {log}", seconds)


def _first_error(output: str) -> str:
    lines = re.findall(r"^=+ +(.+)$", output, re.MULTILINE)
    return next(line for line in lines if not line.startswith("COMPUTE-SANITIZER")).strip()


def _last_line(output: str) -> str:
    """Return the last line of the check or, if it printed nothing, of the tool."""
    lines = [line for line in output.splitlines() if line.strip()] or ["no message"]
    of_check = [line for line in lines if not line.startswith("=")]
    return (of_check or lines)[-1].strip("= ")
