"""The kernels of the catalog, run on the host and held against reference and theory."""

from dataclasses import astuple
from pathlib import Path

import numpy as np

from kernels.catalog import Launch, build_for, parse_build, variant
from kernels.host_execution.binding import Array, Kernel, KernelFault, Run, has_fma, reference
from kernels.host_execution.compiler import BUILDS, MODES, ROOT, Mode, build_kernel, shown
from kernels.theory import OPERATIONS, Geometry, Total, totals
from measurement.errors import StudyError
from measurement.matrices import Inputs

MAX_THREADS = 1024
SEED = 1


def launch_of(name: str, n: int, block_size: int | None) -> Launch:
    """Return the launch of a variant; raises StudyError for one that the host cannot execute."""
    if n < 1:
        raise StudyError(f"size {n}: is less than 1")
    variant(name)
    parse_build(build_for(name, n, block_size).stem)  # refuses what is not in the catalog
    launch = variant(name).launch(n, block_size or 0)
    threads = launch.threads[0] * launch.threads[1]
    if threads > MAX_THREADS:
        raise StudyError(
            f"{name} at size {n}: needs {threads} threads a block, {MAX_THREADS} allowed"
        )
    return launch


def predict(name: str, n: int, block_size: int | None) -> dict[str, Total]:
    """Return the theory's totals by operation (`theory.OPERATIONS`); raises StudyError."""
    launch = launch_of(name, n, block_size)
    whole = (launch.threads, launch.threads)  # a block of threads is all there is to a line of C
    square = ((block_size or 0, block_size or 0), (n, n))
    tile, extent = whole if block_size is None else square
    geometry = Geometry(launch.threads, launch.grid[0] * launch.grid[1], tile, extent)
    return totals(variant(name).accesses(n, block_size or 0), geometry)


def execute(
    name: str,
    n: int,
    block_size: int | None,
    mode: Mode,
    source: Path | None = None,
    folder: Path = BUILDS,
) -> tuple[Array, Run]:
    """Run a variant on seeded matrices of order n; return its product, shape (n, n), and the run.

    `source` takes the place of the catalog's source file. What the kernel does not store stays NaN.
    Raises KernelFault; other StudyErrors if it cannot be built.
    """
    launch = launch_of(name, n, block_size)
    build = build_for(name, n, block_size)
    defines = {"GUARDED": int(build.guarded)}
    if block_size is not None:
        defines["BLOCK"] = block_size
    source = source or ROOT / build.source
    if mode == "fused" and not has_fma(folder):
        raise StudyError(
            "this CPU has no fused multiply-add (FMA3), which kernels are checked with"
        )
    kernel = Kernel(
        build_kernel(name, source, defines, mode, folder), source, name, mode == "counted"
    )
    a, b = Inputs([n], SEED).pair(n)
    product = np.full((n, n), np.nan, np.float32)
    run = kernel.run(launch.grid, launch.threads, [a, b, product, n], launch.dynamic_shared_bytes)
    return product, run


def check(
    name: str,
    n: int,
    block_size: int | None,
    source: Path | None = None,
    folder: Path = BUILDS,
) -> Run:
    """Run a variant in all modes at order n; return the counted run.

    Raises KernelFault for a fault, for a product that is not the reference bit for bit, and for
    counts that are not those of theory.
    """
    named = shown(source or ROOT / variant(name).source)
    product, run = execute(name, n, block_size, "counted", source, folder)
    _compare_products(named, name, product, run, "counted", folder)
    _compare_counts(named, name, run, predict(name, n, block_size))
    for mode in MODES[1:]:
        product, _ = execute(name, n, block_size, mode, source, folder)
        _compare_products(named, name, product, run, mode, folder)
    return run


def sums(run: Run) -> dict[str, Total]:
    """Return the totals of a counted run by operation, as `predict` does."""
    found = dict.fromkeys(OPERATIONS, Total())
    for count in run.counts:
        found[count.operation] += Total(
            count.accesses, count.requests, count.transactions, count.ideal
        )
    return found


def _compare_products(
    named: str, name: str, product: Array, run: Run, mode: Mode, folder: Path
) -> None:
    """Hold a product against the reference; `run` tells which line stored a wrong element."""
    n = len(product)
    expected = reference(*Inputs([n], SEED).pair(n), mode == "fused", folder)
    wrong = np.flatnonzero(product.view(np.uint32) != expected.view(np.uint32))
    if not len(wrong):
        return
    row, column = divmod(int(wrong[0]), n)
    line = int(run.stored_by[2].ravel()[wrong[0]])
    if line:
        text = f"stores C({row}, {column}) = {product[row, column]:.9g}"
    else:
        stores = [count.line for count in run.counts if count.operation == "global_store"]
        line, text = min(stores, default=0), f"does not store C({row}, {column})"
    raise KernelFault(
        f"{named}:{line}: {name}, {mode}: {text}; bit for bit it is {expected[row, column]:.9g}, "
        f"and {len(wrong)} of {n * n} elements are wrong"
    )


def _compare_counts(named: str, name: str, run: Run, theory: dict[str, Total]) -> None:
    counted = sums(run)
    for operation in OPERATIONS:
        if counted[operation] != theory[operation]:
            lines = sorted({count.line for count in run.counts if count.operation == operation})
            raise KernelFault(
                f"{named}:{','.join(map(str, lines)) or 0}: {name}: {operation}: accesses, "
                f"requests, transactions, ideal are {astuple(counted[operation])}, by theory "
                f"{astuple(theory[operation])}"
            )
