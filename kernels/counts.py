"""The table of a kernel's memory accesses: counted on the host, by theory, and ncu's names of them.

One row for each source line and quantity, and one without a line for the total. Columns: variant,
n, block_size, build, line, quantity, ncu_metric (the counter of Nsight Compute that must show the
total), count (empty where the kernel was not run), theory (totals only), per_thread (count, or else
theory, over the threads of the launch) and per_request.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernels.catalog import build_for
from kernels.host_execution.binding import Run
from kernels.host_execution.check import check, launch_of, predict, sums
from kernels.host_execution.compiler import BUILDS
from kernels.theory import OPERATIONS, Total

COLUMNS = [
    *("variant", "n", "block_size", "build", "line", "quantity", "ncu_metric"),
    *("count", "theory", "per_thread", "per_request"),
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

Row = dict[str, object]


def table(
    name: str,
    block_size: int | None,
    sizes: Iterable[int],
    theory_sizes: Iterable[int] = (),
    folder: Path = BUILDS,
) -> str:
    """Return the table as CSV: run and checked at `sizes`, by theory alone at `theory_sizes`.

    Raises StudyError; KernelFault where a kernel is wrong or its counts are not those of theory.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for n in sizes:
        writer.writerows(_rows(name, n, block_size, check(name, n, block_size, folder=folder)))
    for n in theory_sizes:
        writer.writerows(_rows(name, n, block_size, None))
    return stream.getvalue()


def _rows(name: str, n: int, block_size: int | None, run: Run | None) -> Iterator[Row]:
    launch = launch_of(name, n, block_size)
    threads = launch.grid[0] * launch.grid[1] * launch.threads[0] * launch.threads[1]
    cell: Row = {
        "variant": name,
        "n": n,
        "block_size": block_size,
        "build": build_for(name, n, block_size).kind,
    }
    theory = predict(name, n, block_size)
    if run is not None:
        for line in sorted({count.line for count in run.counts}):
            of_line = Run([count for count in run.counts if count.line == line], [])
            for operation, total in sums(of_line).items():
                if total.accesses:
                    yield from _quantities(cell | {"line": line}, operation, threads, total, None)
    counted = sums(run) if run is not None else {}
    for operation in OPERATIONS:
        yield from _quantities(cell, operation, threads, counted.get(operation), theory[operation])


def _quantities(
    cell: Row, operation: str, threads: int, counted: Total | None, theory: Total | None
) -> Iterator[Row]:
    known = counted or theory
    assert known is not None
    for quantity, metric, value in _SHARED if operation.startswith("shared") else _GLOBAL:
        yield cell | {
            "quantity": f"{operation}_{quantity}",
            "ncu_metric": metric.format("st" if operation.endswith("store") else "ld"),
            "count": "" if counted is None else value(counted),
            "theory": "" if theory is None else value(theory),
            "per_thread": value(known) / threads,
            "per_request": value(known) / known.requests if known.requests else "",
        }
