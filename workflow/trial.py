"""A kernel of the user's own: checked and counted on the CPU, built, placed, and timed on a GPU.

It becomes a variant of the catalog in this process, and goes through what every other one does. A
call from Python is timed alone.
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
from measurement.recorder.hardware import Hardware
from study.config import Config, load
from study.narrow import asked

RESULTS = RESULTS / "tried"
# Edges of what is run on the CPU: about so much, a multiple of the tile; and what none divides.
_EDGE = 64
_UNEVEN = {"square": ("70",), "single": ("70", "17x33x65"), "batched": ("70", "3x17x33x65")}
# Of what is timed on a GPU.
SIZES = (1024, 4096)
# Beside these, and the nearest on the roofline; of other types of elements beside those.
_ALWAYS = ("naive_coalesced", "block", "sgemm_top", "cublas_sgemm")
_OTHER_TYPES = ("mm_naive", "mm_tile")

_BOUNDS = {"compute": "multiply-adds", "l1": "L1", "shared": "shared memory", "dram": "memory"}
_MERGED = (
    "  nvcc may merge loads of shared memory (LDS 64, LDS 128), and more is possible then; of the "
    "catalog's kernels that is known"
)

Counted = dict[Product, dict[str, Total]]


def attempt(
    path: Path,
    config: Path,
    card: Path | None = None,
    architectures: Sequence[str] = (),
    device: int | None = None,
    sizes: Sequence[int] = (),
    hardware: Hardware | None = None,
) -> Iterator[str]:
    """Yield, line by line, what becomes of the kernel in the file `path`.

    `GPU` is the recording of the GPU on whose roofline it is placed (None: the first one of the
    study in `config`); `architectures` such as sm_90 are built for (none: all that nvcc can). With
    the index of a `device` it is timed there, at `sizes`. Raises StudyError, naming file and line,
    where the kernel is wrong.
    """
    study, entry = load(config), adopt(path)
    yield _introduced(entry)
    counted: Counted = {}
    if not isinstance(entry, UserKernel):
        yield "not checked on this CPU: a call runs on a GPU alone"
    else:
        try:
            counted = yield from _checked(entry)
        except NotSupported as error:
            yield f"not checked on this CPU: {error}"
        yield from _built(entry, study, architectures)
    near: Sequence[str] = list(dict.fromkeys([*_ALWAYS, *filter(None, [entry.after])]))
    if counted:
        lines, near = _placed(counted, entry.after, card or _recorded(study))
        yield from lines
    if device is not None:
        yield from _timed(entry, config, near, device, sizes, hardware)
    else:
        yield f"times on a GPU of this host: gemm-study try {path} --device 0"


def _introduced(entry: UserSupplied) -> str:
    if not isinstance(entry, UserKernel):
        return f"{shown(Path(entry.file))}: {CALL}(a, b, c, stream), {', '.join(entry.dtypes)}"
    block = (entry.block_sizes or (None,))[0]
    tile, threads = entry.tile(block), entry.launch(Shape.square(1), block).threads
    arguments = "n" if entry.shapes == "square" else "m, n, k"
    first = f", B={block}" if block else ""
    return (
        f"{shown(Path(entry.file))}: {entry.name}(a, b, c, {arguments}), "
        f"{', '.join(entry.dtypes)}{first}: tiles of {tile[0]}x{tile[1]}, "
        f"{threads[0]}x{threads[1]} threads"
    )


# ---- On the CPU


def _checked(entry: UserKernel) -> Generator[str, None, Counted]:
    """Check every build of the kernel; yield lines; return what is counted at the largest orders.

    The accesses of a square product grow as a·n³ + b·n², of which two orders tell both.
    """
    counted: Counted = {}
    for dtype in entry.dtypes:
        for block in entry.block_sizes or (None,):
            width = lcm(*entry.tile(block))
            order = width * -(-_EDGE // width)
            products = [Product(entry.name, dtype, Shape.square(order), block)]
            products += [
                Product(entry.name, dtype, Shape.parse(text), block)
                for text in _UNEVEN[entry.shapes]
            ]
            with _interruptible():
                runs = [_check(product) for product in products]
            names = ", ".join(str(product.shape) for product in products)
            own = " ".join(filter(None, [dtype, f"B={block}" if block else ""]))
            how = "bit for bit" if entry.in_order else "within the bound"
            yield f"checked on this CPU, {own}: {how} the reference at {names}; no race, in bounds"
            yield from _accesses(products[0], runs[0])
            if dtype == "float32":
                twice = Product(entry.name, dtype, Shape.square(2 * order), block)
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
            f"{fault} (at size {product.shape}, which the tile does not divide: check bounds, at "
            "least #if GUARDED)"
        ) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once: an endless kernel gives nothing else the time to."""
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
    rows = [["accesses", "a thread", "sectors or wavefronts a request", "bank conflicts"]]
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
    """Build the kernel where there is a compiler; yield what machine code has become of it."""
    try:
        nvcc = find_nvcc(study.toolchain.nvcc)
    except StudyError as error:
        yield f"not built: {error} (`make setup STUDY=full` does)"
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
    heads += ["occupancy", "FMAs of the loop", "steps of k a turn", "widest loads"]
    yield from table([heads, *(_machine_code(entry, result) for result in results)])
    if find_disassembler(nvcc) is None:
        yield "  instructions: not read, there is no nvdisasm; `make setup STUDY=full` fetches it"


def _machine_code(entry: UserKernel, result: BuildResult) -> list[str]:
    launch = entry.launch(Shape.square(SIZES[0]), result.block_size)
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
    steps = unrolling(counts, max(1, entry.sums_per_thread(result.block_size)))
    widths = [f"{kind} {max(of)}" for kind in ("LDG", "LDS") if (of := _widths(result, kind))]
    texts = [ABSENT if share is None else f"{share:.0%}", f"{steps:g}" if steps else ABSENT]
    return [*cells, *texts, ", ".join(widths) or ABSENT]


def _widths(result: BuildResult, opcode: str) -> dict[int, int]:
    return loads_by_width(result.instructions, "kernel", opcode)


# ---- On the roofline of a recorded GPU


def _recorded(study: Config) -> Path:
    """Return the recording of the study's focus, or else the first that it has."""
    entries = [gpu for gpu in study.gpus if gpu.folders]
    entries.sort(key=lambda gpu: gpu.id != study.report.focus)
    if not entries:
        raise StudyError("--GPU: is missing; name the recording of a GPU to compare with")
    return ROOT / entries[0].folders[0]


def _placed(counted: Counted, after: str | None, card: Path) -> tuple[list[str], Sequence[str]]:
    """Return lines on where the kernel would stand on a GPU, and its neighbours' names."""
    from analysis.data.recordings import load as load_recordings  # pandas and all, for a second
    from analysis.data.recordings import sources, with_gpu
    from analysis.kernels.standing import largest_order, standing

    found = with_gpu(sources(load_recordings({card.name: [card]})))
    if not found:
        raise StudyError(f"--GPU: {card}: is of a host without GPU; name another recording")
    order = largest_order(found[0])
    pairs = list(counted.items())
    extended = {
        replace(small, shape=Shape.square(order)): {
            operation: _extended(totals[operation], twice[operation], small.shape.n, order)
            for operation in OPERATIONS
        }
        for (small, totals), (_, twice) in zip(pairs[::2], pairs[1::2], strict=True)
    }
    rows = [["kernel", "B", "flop a byte", "bound by", "TFLOP/s at best", "measured", "of that"]]
    frame = standing(found[0], extended, [after] if after else [])
    rows += [_standing_texts(row) for row in frame.to_dict("records")]
    note = [_MERGED] if ((frame["bound"] == "shared") & frame["is_own"]).any() else []
    title = f"on the roofline of {found[0].gpu_name} at N = {order}, by the counts at "
    title += " and ".join(str(product.shape) for product, _ in pairs[:2])
    near = [name for name in frame["variant"] if name not in {p.variant for p in counted}]
    return [title, *table(rows), *note], tuple(dict.fromkeys([*_ALWAYS, *near]))


def _standing_texts(row: Mapping[str, Any]) -> list[str]:
    """Return a row of the roofline as texts; of a library no accesses are known."""
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
        f"{row['kernel_flop_per_s'] / 1e12:.3g}" if timed else "not yet",
        f"{row['share_of_bound']:.0%}" if timed and has_bound else ABSENT,
    ]


def _extended(small: Total, twice: Total, order: int, wanted: int) -> Total:
    """Return the total a·n³ + b·n² at order `wanted` that has these at an order and twice it."""

    def at(low: int, high: int) -> int:
        cubic = (high - 4 * low) / (4 * order**3)
        square = low / order**2 - cubic * order
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
    hardware: Hardware | None,
) -> Iterator[str]:
    """Measure the kernel beside its neighbours; yield the ladder. Raises StudyError if it fails."""
    from measurement.recorder.record import record

    width = max(lcm(*entry.tile(block)) for block in entry.block_sizes or (None,))
    orders = list(sizes) or [width * -(-size // width) for size in SIZES]
    others = [name for name in near if variant(name).flow == IN_TURN]
    types = [dtype for dtype in entry.dtypes if dtype != "float32"]
    variants = [entry.name, *others] if "float32" in entry.dtypes else ["cublas_sgemm"]
    more = {"variants": [entry.name, *_OTHER_TYPES], "dtypes": types, "block_sizes": [32]}
    study = asked(config, "quick", variants, orders, [more | {"shapes": orders}] if types else [])
    out = RESULTS / entry.name / f"gpu{device}-{sha256(Path(entry.file))[:8]}"
    recording = record(study, device, out, None, None, hardware)
    yield from answer(recording, ladder_of=entry.name)
    yield f"the recording: {shown(out)}"
    checks = recording.checks[recording.checks["variant"] == entry.name]
    failed = checks[checks["status"] == "failed"]
    if len(failed):
        named = shown(Path(entry.file))
        raise StudyError(f"{named}: {entry.name} fails on gpu{device}: {failed['reason'].iloc[0]}")
