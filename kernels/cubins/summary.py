"""A table of facts about the machine code of a user-supplied kernel."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from base.command_line import ABSENT, table
from base.errors import StudyError
from base.paths import remedy
from base.pool import run_all
from base.progress import Progress
from kernels.catalog.product import with_entry
from kernels.catalog.variant import UserKernel
from kernels.cubins.build import build_for
from kernels.cubins.compile import BuildResult, build_cubin, compute_capability
from kernels.cubins.machine_code import LOOP, fma_share, loads_by_width, unrolling
from kernels.cubins.occupancy import LIMITS, occupancy
from kernels.cubins.toolchain import COMPILER, find_disassembler, list_architectures, nvcc_version
from kernels.products.shape import Shape

_SIZE = 1024  # matrix size of the launch whose occupancy is computed
_TOO_OLD = "requires .target"  # message of ptxas if an architecture lacks an instruction
_COMPILERS = 4  # compilers at a time; each takes up to 200 MB


def built(entry: UserKernel, nvcc: Path, wanted: Sequence[str], folder: Path) -> Iterator[str]:
    """Compile the kernel into `folder`; yield the lines of a table of its machine code."""
    supported = list_architectures(nvcc)
    names = wanted or [name for name in supported if compute_capability(name) in LIMITS]
    build = build_for(with_entry(entry, entry.dtypes[0], Shape.square(_SIZE)))
    assert build is not None
    progress = Progress(f"nvcc {nvcc_version(nvcc)}", len(names), "kernels built")

    def one(name: str) -> BuildResult | None:
        try:
            return build_cubin(nvcc, build, name, folder / name / f"{build.stem}.cubin")
        except StudyError as error:
            if name in wanted or _TOO_OLD not in str(error):
                raise
            return None

    cores = min(len(os.sched_getaffinity(0)), _COMPILERS)
    of_all = run_all(one, names, cores, lambda done, name: progress.show_share(name, done))
    results = [result for result in of_all if result]
    progress.end()
    yield f"machine code by nvcc {nvcc_version(nvcc)}"
    heads = ["architecture", "type", "registers", "shared bytes", "spilled bytes"]
    heads += ["occupancy", "FMA share of loop", "K per iteration", "widest loads"]
    yield from table([heads, *(_machine_code(entry, result) for result in results)])
    if find_disassembler(nvcc) is None:
        command = remedy("make setup STUDY=full", COMPILER)
        yield f"  instructions not read: no nvdisasm; {command} installs it"


def _machine_code(entry: UserKernel, result: BuildResult) -> list[str]:
    product = with_entry(entry, result.dtype, Shape.square(_SIZE))
    launch = product.launch
    shared = result.static_shared_bytes + launch.dynamic_shared_bytes
    cells = [result.architecture, result.dtype]
    cells += [str(result.registers_per_thread), str(shared), str(result.spill_store_bytes)]
    capability = compute_capability(result.architecture)
    if capability in LIMITS:
        used = (result.registers_per_thread, result.static_shared_bytes)
        part = occupancy(capability, launch.threads_per_block, *used, launch.dynamic_shared_bytes)
        cells.append(f"{part.share:.0%} by {part.limiter}" if part.fits else "does not fit")
    else:
        cells.append(ABSENT)
    counts = result.instructions
    if not counts:
        return [*cells, ABSENT, ABSENT, ABSENT]
    share = fma_share(counts, LOOP)
    steps = unrolling(counts, max(1, product.sums_per_thread))
    widths = {kind: loads_by_width(counts, "kernel", kind) for kind in ("LDG", "LDS")}
    widest = [f"{kind} {max(bits)}" for kind, bits in widths.items() if bits]
    texts = [ABSENT if share is None else f"{share:.0%}", f"{steps:g}" if steps else ABSENT]
    return [*cells, *texts, ", ".join(widest) or ABSENT]
