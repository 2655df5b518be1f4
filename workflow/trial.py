"""``gemm-study try``: check, count, build, compare and time a user-supplied kernel.

The kernel is added to the catalog of this process and handled like every other variant. A Python
function is only timed.
"""

import os
import signal
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isnan, lcm
from pathlib import Path
from typing import Any

from base.errors import StudyError
from base.files import sha256
from base.paths import RESULTS, ROOT, shown
from base.pool import run_all
from base.progress import Progress
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.catalog.user_supplied import CALL, adopt
from kernels.catalog.variant import IN_TURN, UserKernel, UserSupplied
from kernels.cubins.build import Build
from kernels.cubins.compile import BuildResult, build_cubin, compute_capability
from kernels.cubins.machine_code import LOOP, fma_share, loads_by_width, unrolling
from kernels.cubins.occupancy import LIMITS, occupancy
from kernels.cubins.toolchain import find_disassembler, find_nvcc, list_architectures, nvcc_version
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.check import check, execute, launch_of, sums
from kernels.host_execution.compiler import NotSupported
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total
from measurement.recorder.answer import ABSENT, answer, table
from measurement.recorder.hardware import Host
from study.config import Config, load
from study.narrow import asked

RESULTS = RESULTS / "tried"
# Sizes on the CPU: about this one, a multiple of the tile; and sizes that no tile divides.
_SIZE = 64
_UNEVEN = {"square": ("70",), "single": ("70", "17x33x65"), "batched": ("70", "3x17x33x65")}
SIZES = (1024, 4096)  # on the GPU
# Always timed with float32 kernels, and with kernels of other dtypes.
_ALWAYS = ("naive_coalesced", "block", "sgemm_top", "cublas_sgemm")
_OTHER_DTYPES = ("mm_naive", "mm_tile")

_BOUNDS = {"compute": "FMAs", "l1": "L1", "shared": "shared memory", "dram": "memory"}
_MERGED = "  > assumes that nvcc merges no loads of shared memory; LDS 64 and LDS 128 raise it"

Counted = dict[Product, dict[str, Total]]


def attempt(
    path: Path,
    config: Path,
    recording: Path | None = None,
    architectures: Sequence[str] = (),
    device: int | None = None,
    sizes: Sequence[int] = (),
    hardware: Host | None = None,
) -> Iterator[str]:
    """Yield the lines of the report on the kernel in the file `path`.

    `recording`: a recorded GPU, whose roofline is used (None: the report's). `architectures`:
    targets such as sm_90 (empty: all of nvcc). `device`: the CUDA index of a GPU on which the
    kernel is timed at `sizes`. Raise StudyError with file and line if the kernel is wrong.
    """
    study, entry = load(config), adopt(path)
    yield _introduced(entry)
    counted: Counted = {}
    if not isinstance(entry, UserKernel):
        yield "not checked on the CPU: a Python function runs only on a GPU"
    else:
        try:
            counted = yield from _checked(entry)
        except NotSupported as error:
            yield f"not checked on the CPU: {error}"
        yield from _built(entry, study, architectures)
    near: Sequence[str] = list(dict.fromkeys([*_ALWAYS, *filter(None, [entry.after])]))
    if counted:
        lines, near = _roofline(counted, entry.after, recording or _focus(study))
        yield from lines
    if device is not None:
        yield from _timed(entry, config, near, device, sizes, hardware)
    else:
        yield f"to time it on a GPU of this host: gemm-study try {path} --device 0"


def _introduced(entry: UserSupplied) -> str:
    if not isinstance(entry, UserKernel):
        return f"{shown(Path(entry.file))}: {CALL}(a, b, c, stream), {', '.join(entry.dtypes)}"
    block = (entry.block_sizes or (None,))[0]
    product = Product(entry.name, entry.dtypes[0], Shape.square(1), block)
    tile, threads = product.tile, product.launch.threads
    arguments = "n" if entry.shapes == "square" else "m, n, k"
    first = f", B={block}" if block else ""
    return (
        f"{shown(Path(entry.file))}: {entry.name}(a, b, c, {arguments}), "
        f"{', '.join(entry.dtypes)}{first}: tiles of {tile[0]}x{tile[1]}, "
        f"{threads[0]}x{threads[1]} threads"
    )


# ---- On the CPU


def _checked(entry: UserKernel) -> Generator[str, None, Counted]:
    """Check every build of the kernel; yield lines; return the counts at two sizes.

    Two sizes suffice: the accesses of a square product grow as a·N³ + b·N².
    """
    counted: Counted = {}
    for dtype in entry.dtypes:
        for block in entry.block_sizes or (None,):
            width = lcm(*entry.tile(block))
            size = width * -(-_SIZE // width)
            shapes = [Shape.square(size), *map(Shape.parse, _UNEVEN[entry.shapes])]
            products = [Product(entry.name, dtype, shape, block) for shape in shapes]
            with _interruptible():
                runs = [_check(product) for product in products]
            names = ", ".join(map(str, shapes))
            build = " ".join(filter(None, [dtype, f"B={block}" if block else ""]))
            how = "bit for bit equal to" if entry.in_order else "within the error bound of"
            yield f"checked on the CPU, {build}: {how} the reference at {names}; no race, in bounds"
            yield from _accesses(products[0], runs[0])
            if dtype == "float32":
                twice = replace(products[0], shape=Shape.square(2 * size))
                with _interruptible():
                    _, run = execute(twice, "counted")
                counted[products[0]], counted[twice] = runs[0], sums(run)
    return counted


def _check(product: Product) -> dict[str, Total]:
    try:
        return sums(check(product))
    except KernelFault as fault:
        if not product.is_guarded:
            raise
        raise KernelFault(
            f"{fault} (at size {product.shape}, which the tile does not divide: add bounds checks, "
            "at least #if GUARDED)"
        ) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once: Python's handler would wait for an endless kernel."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _accesses(product: Product, totals: Mapping[str, Total]) -> list[str]:
    launch = launch_of(product)
    threads = launch.threads_per_block * launch.blocks
    entry = product.entry
    claims = entry.claims if isinstance(entry, UserKernel) else {}
    per_request = "sectors or wavefronts per request"
    rows = [["accesses", "per thread", per_request, "bank conflicts per request"]]
    for operation in OPERATIONS:
        total = totals[operation]
        if not total.accesses:
            continue
        shared = operation.startswith("shared")
        rows.append(
            [
                f"{operation.replace('_', ' ')}s",
                f"{total.accesses / threads:g}{' as declared' if operation in claims else ''}",
                f"{total.transactions / total.requests:.3g}",
                f"{(total.transactions - total.ideal) / total.requests:.3g}" if shared else ABSENT,
            ]
        )
    return table(rows)


# ---- Machine code


def _built(entry: UserKernel, study: Config, wanted: Sequence[str]) -> Iterator[str]:
    """Build the kernel if there is a compiler; yield a table of its machine code."""
    try:
        nvcc = find_nvcc(study.toolchain.nvcc)
    except StudyError as error:
        yield f"not built: {error} (`make setup STUDY=full` installs it)"
        return
    known = list_architectures(nvcc)
    names = wanted or [name for name in known if compute_capability(name) in LIMITS]
    builds = [
        Build(entry.name, block, dtype, False)
        for dtype in entry.dtypes
        for block in entry.block_sizes or (None,)
    ]
    progress = Progress(f"nvcc {nvcc_version(nvcc)}", len(builds) * len(names), "kernels built")

    def one(item: tuple[Build, str]) -> BuildResult:
        build, name = item
        return build_cubin(nvcc, build, name, RESULTS / entry.name / name / f"{build.stem}.cubin")

    items = [(build, name) for build in builds for name in names]
    cores = len(os.sched_getaffinity(0))
    results = run_all(one, items, cores, lambda done, last: progress.show_share(last[1], done))
    progress.end()
    yield f"machine code by nvcc {nvcc_version(nvcc)}"
    heads = ["architecture", "type", "B", "registers", "shared bytes", "spilled bytes"]
    heads += ["occupancy", "FMA share of loop", "K per iteration", "widest loads"]
    yield from table([heads, *(_machine_code(entry, result) for result in results)])
    if find_disassembler(nvcc) is None:
        yield "  instructions not read: no nvdisasm; `make setup STUDY=full` installs it"


def _machine_code(entry: UserKernel, result: BuildResult) -> list[str]:
    product = Product(entry.name, result.dtype, Shape.square(SIZES[0]), result.block_size)
    launch = product.launch
    shared = result.static_shared_bytes + launch.dynamic_shared_bytes
    cells = [result.architecture, result.dtype, str(result.block_size or ABSENT)]
    cells += [str(result.registers_per_thread), str(shared), str(result.spill_store_bytes)]
    capability = compute_capability(result.architecture)
    if capability in LIMITS:
        used = (result.registers_per_thread, result.static_shared_bytes)
        found = occupancy(capability, launch.threads_per_block, *used, launch.dynamic_shared_bytes)
        cells.append(f"{found.share:.0%} by {found.limiter}" if found.fits else "does not fit")
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


# ---- On the roofline of a recorded GPU


def _focus(study: Config) -> Path:
    """Return the recording of the report's focus, or else the study's first one."""
    entries = [gpu for gpu in study.gpus if gpu.folders]
    entries.sort(key=lambda gpu: gpu.id != study.report.focus)
    if not entries:
        raise StudyError("--gpu: is missing; name the recording of a GPU")
    return ROOT / entries[0].folders[0]


def _roofline(
    counted: Counted, after: str | None, recording: Path
) -> tuple[list[str], Sequence[str]]:
    """Return a table of the kernel and its neighbours on a GPU's roofline, and their names."""
    from analysis.data.recordings import load as load_recordings  # imports pandas: slow
    from analysis.data.recordings import sources, with_gpu
    from analysis.kernels.standing import largest_size, standing

    found = with_gpu(sources(load_recordings({recording.name: [recording]})))
    if not found:
        raise StudyError(f"--gpu: {recording}: contains no GPU; name another recording")
    size = largest_size(found[0])
    pairs = list(counted.items())
    extended = {
        replace(small, shape=Shape.square(size)): {
            operation: _extended(totals[operation], twice[operation], small.shape.n, size)
            for operation in OPERATIONS
        }
        for (small, totals), (_, twice) in zip(pairs[::2], pairs[1::2], strict=True)
    }
    rows = [["kernel", "B", "flop/byte", "bound by", "attainable TFLOP/s", "measured", "share"]]
    frame = standing(found[0], extended, [after] if after else [])
    rows += [_standing_texts(row) for row in frame.to_dict("records")]
    note = [_MERGED] if ((frame["bound"] == "shared") & frame["is_own"]).any() else []
    title = f"on the roofline of {found[0].gpu_name} at N = {size}, from the counts at "
    title += " and ".join(str(product.shape) for product, _ in pairs[:2])
    near = [name for name in frame["variant"] if name not in {p.variant for p in counted}]
    return [title, *table(rows), *note], tuple(dict.fromkeys([*_ALWAYS, *near]))


def _standing_texts(row: Mapping[str, Any]) -> list[str]:
    """Return a row of the roofline as texts; a library has no bound."""
    has_bound, timed = not isnan(row["flop_per_byte_of_sectors"]), not isnan(row["kernel_s"])
    bound = (
        f"{row['flop_per_byte_of_sectors']:.3g}",
        _BOUNDS[row["bound"]],
        f"{row['bound_flop_per_s'] / 1e12:.3g}",
    )
    return [
        f"> {row['variant']}" if row["is_own"] else str(row["variant"]),
        ABSENT if isnan(row["block_size"]) else str(int(row["block_size"])),
        *(bound if has_bound else [ABSENT] * len(bound)),
        f"{row['kernel_flop_per_s'] / 1e12:.3g}" if timed else ABSENT,
        f"{row['share_of_bound']:.0%}" if timed and has_bound else ABSENT,
    ]


def _extended(small: Total, twice: Total, size: int, wanted: int) -> Total:
    """Extrapolate a total a·N³ + b·N² from `size` and twice `size` to `wanted`."""

    def at(low: int, high: int) -> int:
        cubic = (high - 4 * low) / (4 * size**3)
        square = low / size**2 - cubic * size
        return round(cubic * wanted**3 + square * wanted**2)

    pairs = zip(vars(small).values(), vars(twice).values(), strict=True)
    return Total(*(at(low, high) for low, high in pairs))


# ---- On a GPU


def _timed(
    entry: UserSupplied,
    config: Path,
    near: Sequence[str],
    device: int,
    sizes: Sequence[int],
    hardware: Host | None,
) -> Iterator[str]:
    """Time the kernel and its neighbours; yield a table. Raise StudyError if the kernel fails."""
    from measurement.recorder.record import record

    one = Shape.square(1)
    products = [Product(entry.name, "float32", one, b) for b in entry.block_sizes or (None,)]
    width = max(lcm(*product.tile) for product in products)
    wanted = list(sizes) or [width * -(-size // width) for size in SIZES]
    others = [name for name in near if variant(name).flow == IN_TURN]
    dtypes = [dtype for dtype in entry.dtypes if dtype != "float32"]
    variants = [entry.name, *others] if "float32" in entry.dtypes else ["cublas_sgemm"]
    more = {"variants": [entry.name, *_OTHER_DTYPES], "dtypes": dtypes, "block_sizes": [32]}
    study = asked(config, "quick", variants, wanted, [more | {"shapes": wanted}] if dtypes else [])
    out = RESULTS / entry.name / f"gpu{device}-{sha256(Path(entry.file))[:8]}"
    recording = record(study, device, out, None, None, hardware)
    yield from answer(recording, ladder_of=entry.name)
    yield f"recording: {shown(out)}"
    checks = recording.checks[recording.checks["variant"] == entry.name]
    failed = checks[checks["status"] == "failed"]
    if len(failed):
        file, reason = shown(Path(entry.file)), failed["reason"].iloc[0]
        raise StudyError(f"{file}: {entry.name} fails on gpu{device}: {reason}")
