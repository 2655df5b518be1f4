"""The table of a kernel's memory accesses: counted on the host, by theory, and ncu's names of them.

One row for each source line and quantity, and one without a line for the total. Columns: variant,
dtype, batch, m, n, k, block_size, build, line, quantity, ncu_metric (the counter of Nsight Compute
that must show the total), count (empty where the kernel was not run), theory (totals only), merged
(theory, if the compiler merges loads along rows of shared memory to loads of 16 bytes), per_thread
(count, or else theory, over the threads of the launch) and per_request.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from base.files import digest, write_atomic
from base.paths import ROOT
from base.pool import run_all
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.cubins.build import build_for
from kernels.host_execution.binding import Run
from kernels.host_execution.check import check, launch_of, predict, sums
from kernels.host_execution.compiler import BUILDS, compiler_version
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total

COLUMNS = [
    *("variant", "dtype", "batch", "m", "n", "k", "block_size", "build", "line", "quantity"),
    *("ncu_metric", "count", "theory", "merged", "per_thread", "per_request"),
]

# Quantity, ncu's counter ({} is ld or st), and the value of a total.
_GLOBAL = [
    ("accesses", "", lambda total: total.accesses),
    (
        "requests",
        "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum",
        lambda total: total.requests,
    ),
    (
        "sectors",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum",
        lambda total: total.transactions,
    ),
    ("lines", "", lambda total: total.lines),
]
_SHARED = [
    ("accesses", "", lambda total: total.accesses),
    ("requests", "smsp__sass_inst_executed_op_shared_{}.sum", lambda total: total.requests),
    (
        "wavefronts",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
        lambda total: total.transactions,
    ),
    (
        "bank_conflicts",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum",
        lambda total: total.transactions - total.ideal,
    ),
]

# At this size, in blocks of these sizes, a GPU's hardware counters are read
# (`measurement.instruments.counters`), and a full study runs each kernel on the host too.
ORDER = 512
BLOCK_SIZES = (8, 16, 32)
_CODE = (".py", ".cpp", ".h")

Row = dict[str, object]


def ncu_metric(quantity: str) -> str:
    """Return Nsight Compute's name of a quantity such as global_load_sectors; empty: it has none.

    Raises KeyError for what is no quantity.
    """
    memory, way, measure = quantity.split("_", 2)
    listed = _SHARED if memory == "shared" else _GLOBAL
    metrics = {name: metric for name, metric, _ in listed}
    return metrics[measure].format("st" if way == "store" else "ld")


def quantities(totals: Mapping[str, Total]) -> dict[str, float]:
    """Return the value of each quantity of totals by operation: global_load_sectors and so on."""
    return {
        f"{operation}_{name}": value(total)
        for operation, total in totals.items()
        for name, _, value in (_SHARED if operation.startswith("shared") else _GLOBAL)
    }


@dataclass(frozen=True)
class Counting:
    """What one table is of: a variant, and the shapes at which it runs or is predicted only."""

    variant: str
    dtype: str
    block_size: int | None
    counted: tuple[Shape, ...]
    predicted: tuple[Shape, ...]

    @property
    def stem(self) -> str:
        """File name without suffix, for example ``block-b32-float32``."""
        block = "" if self.block_size is None else f"-b{self.block_size}"
        return f"{self.variant}{block}-{self.dtype}"


def table(
    name: str,
    dtype: str,
    block_size: int | None,
    shapes: Iterable[Shape],
    theory_shapes: Iterable[Shape] = (),
    folder: Path = BUILDS,
) -> str:
    """Return the table as CSV: run and checked at `shapes`, by theory alone at `theory_shapes`.

    Raises StudyError; KernelFault where a kernel is wrong or its counts are not those of theory.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for shape in shapes:
        product = Product(name, dtype, shape, block_size)
        writer.writerows(_rows(product, check(product, folder=folder)))
    for shape in theory_shapes:
        writer.writerows(_rows(Product(name, dtype, shape, block_size), None))
    return stream.getvalue()


def count_all(
    tables: list[Counting],
    folder: Path,
    workers: int,
    store: Path,
    announce: Callable[[int, Counting], None] = lambda *_: None,
) -> None:
    """Write the table of each of `tables` to ``folder/STEM.csv``, `workers` kernels at a time.

    `store` is a folder that keeps tables by all that goes into them: only what is not there is
    counted. `announce` is called with the number of tables that are done and the last of them.
    Raises as `table` does; what others have counted stays in the store.
    """
    version, code = compiler_version(), _code()

    def one(wanted: Counting) -> None:
        source = (ROOT / str(variant(wanted.variant).source)).read_bytes()
        kept = store / f"{wanted.stem}-{digest(repr(wanted), version, source, *code)}.csv"
        if not kept.exists():
            name, dtype, block = wanted.variant, wanted.dtype, wanted.block_size
            write_atomic(kept, table(name, dtype, block, wanted.counted, wanted.predicted))
        write_atomic(folder / f"{wanted.stem}.csv", kept.read_bytes())

    # The longest first, so that no thread begins one when the others have nothing left to do.
    run_all(one, sorted(tables, key=_work, reverse=True), workers, announce)


def _work(wanted: Counting) -> int:
    return sum(shape.flop for shape in wanted.counted)


def _code() -> list[bytes]:
    """Return the content of the files that a count follows from, but for the kernel's source."""
    files = sorted(path for path in (ROOT / "kernels").rglob("*") if path.suffix in _CODE)
    return [path.read_bytes() for path in files]


def _rows(product: Product, run: Run | None) -> Iterator[Row]:
    launch = launch_of(product)
    threads = launch.threads[0] * launch.threads[1]
    for blocks in launch.grid:
        threads *= blocks
    build = build_for(product.variant, product.shape, product.block_size, product.dtype)
    assert build is not None  # of what has none there is no launch
    cell: Row = {
        "variant": product.variant,
        "dtype": product.dtype,
        **asdict(product.shape),
        "block_size": product.block_size,
        "build": build.kind,
    }
    theory, merged = predict(product), predict(product, merged=True)
    if run is not None:
        for line in sorted({count.line for count in run.counts}):
            of_line = Run([count for count in run.counts if count.line == line], [])
            for operation, total in sums(of_line).items():
                if total.accesses:
                    yield from _quantities(cell | {"line": line}, operation, threads, total)
    counted = sums(run) if run is not None else {}
    for operation in OPERATIONS:
        found = (counted.get(operation), theory[operation], merged[operation])
        yield from _quantities(cell, operation, threads, *found)


def _quantities(
    cell: Row,
    operation: str,
    threads: int,
    counted: Total | None,
    theory: Total | None = None,
    merged: Total | None = None,
) -> Iterator[Row]:
    known = counted or theory
    assert known is not None
    for quantity, _, value in _SHARED if operation.startswith("shared") else _GLOBAL:
        yield cell | {
            "quantity": f"{operation}_{quantity}",
            "ncu_metric": ncu_metric(f"{operation}_{quantity}"),
            "count": "" if counted is None else value(counted),
            "theory": "" if theory is None else value(theory),
            "merged": "" if merged is None else value(merged),
            "per_thread": value(known) / threads,
            "per_request": value(known) / known.requests if known.requests else "",
        }
