"""Tables of a kernel's memory accesses: counted on the host and predicted by theory.

Each row is a quantity of one source line, or its total, which has no line. Columns: variant, dtype,
batch, m, n, k, block_size, build, line, quantity, ncu_metric (the Nsight Compute counter for the
total), count (empty if the kernel was not run), theory (totals only), merged (theory, with loads
along rows of shared memory merged into 16-byte loads), per_thread (count or theory, per thread of
the launch) and per_request.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from base.files import digest, write_atomic
from base.paths import ROOT
from base.pool import run_all
from kernels.catalog.product import Product
from kernels.cubins.build import build_for, stem
from kernels.host_execution.binding import Run
from kernels.host_execution.check import check, predict, sums
from kernels.host_execution.compiler import BUILDS, compiler_version
from kernels.theory.cost import OPERATIONS, Total

COLUMNS = [
    "variant",
    "dtype",
    "batch",
    "m",
    "n",
    "k",
    "block_size",
    "build",
    "line",
    "quantity",
    "ncu_metric",
    "count",
    "theory",
    "merged",
    "per_thread",
    "per_request",
]

# Quantity, ncu's counter ({} is ld or st), and the value of a total.
_GLOBAL = [
    ("accesses", "", lambda total: total.accesses),
    ("requests", "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum", lambda total: total.requests),
    ("sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum", lambda total: total.transactions),
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

# Size and block sizes at which hardware counters are read (`measurement.instruments.counters`), and
# at which a full study also runs each kernel on the host.
COUNTED_SIZE = 512
BLOCK_SIZES = (8, 16, 32)
_CODE = (".py", ".cpp", ".h")

Row = dict[str, object]


def ncu_metric(quantity: str) -> str:
    """Return Nsight Compute's counter for a quantity, or ""; raise KeyError if it is unknown."""
    memory, way, measure = quantity.split("_", 2)
    listed = _SHARED if memory == "shared" else _GLOBAL
    metrics = {name: metric for name, metric, _ in listed}
    return metrics[measure].format("st" if way == "store" else "ld")


def quantities(totals: Mapping[str, Total]) -> dict[str, float]:
    """Return the value of each quantity, such as global_load_sectors, from totals by operation."""
    return {
        f"{operation}_{name}": value(total)
        for operation, total in totals.items()
        for name, _, value in (_SHARED if operation.startswith("shared") else _GLOBAL)
    }


@dataclass(frozen=True)
class Counting:
    """Products of one variant, block size and type: those to run, and those for theory only."""

    counted: tuple[Product, ...]
    predicted: tuple[Product, ...]

    @property
    def stem(self) -> str:
        """File name without suffix, for example ``block-b32-float32``."""
        first = self.counted[0]
        return stem(first.variant, first.block_size, first.dtype)


def table(
    counted: Iterable[Product], predicted: Iterable[Product] = (), folder: Path = BUILDS
) -> str:
    """Return the table as CSV; `counted` products are run and checked, others only predicted.

    Raise StudyError; raise KernelFault if a kernel is wrong or its counts differ from theory.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for product in counted:
        writer.writerows(_rows(product, check(product, folder=folder)))
    for product in predicted:
        writer.writerows(_rows(product, None))
    return stream.getvalue()


def count_all(
    tables: list[Counting],
    folder: Path,
    workers: int,
    store: Path,
    announce: Callable[[int, Counting], None] = lambda *_: None,
) -> None:
    """Write each of `tables` to ``folder/STEM.csv``, with `workers` kernels at a time.

    The folder `store` has one table per counted product, by the digest of all its inputs; only
    missing ones are counted. `announce` gets the number of finished tables and the last one. Raise
    the errors of `table`; the products already counted stay in the store.
    """
    version, code = compiler_version(), _code()

    def count(product: Product) -> str:
        source = (ROOT / str(product.entry.source)).read_bytes()
        key = digest(repr(product), version, source, *code)
        kept = store / f"{product.variant}-{product.shape}-{key}.csv"
        if not kept.exists():
            write_atomic(kept, table([product]))
        return kept.read_text()

    def one(wanted: Counting) -> None:
        parts = [*map(count, wanted.counted), table([], wanted.predicted)]
        rows = [part.partition("\n")[2] for part in parts]
        write_atomic(folder / f"{wanted.stem}.csv", "".join([table([]), *rows]))

    # The longest tables come first, so that no worker is left with one at the end.
    run_all(one, sorted(tables, key=_work, reverse=True), workers, announce)


def _work(wanted: Counting) -> int:
    return sum(product.shape.flop for product in wanted.counted)


def _code() -> list[bytes]:
    """Return the contents of the files that define a count, except the kernel's source."""
    files = sorted(path for path in (ROOT / "kernels").rglob("*") if path.suffix in _CODE)
    return [path.read_bytes() for path in files]


def _rows(product: Product, run: Run | None) -> Iterator[Row]:
    theory, merged = predict(product), predict(product, merged=True)
    launch = product.launch
    threads = launch.threads_per_block * launch.blocks
    build = build_for(product)
    assert build is not None
    cell: Row = product.row() | {"build": build.kind}
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
