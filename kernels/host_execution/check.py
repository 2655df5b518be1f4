"""The kernels of the catalog, run on the host and compared with reference and theory."""

from dataclasses import astuple
from fractions import Fraction
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np

from base.errors import StudyError
from base.paths import ROOT, shown
from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.catalog.variant import Launch
from kernels.cubins.build import build_for
from kernels.host_execution.binding import Array, Kernel, KernelFault, Run, has_fma, reference
from kernels.host_execution.compiler import BUILDS, MODES, Mode, build_kernel
from kernels.products.elements import ELEMENTS
from kernels.products.gate import evaluate
from kernels.products.matrices import POISON_WORD, Inputs
from kernels.products.matrices import reference as float64_reference
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total, totals

MAX_THREADS = 1024
SEED = 1


def launch_of(product: Product) -> Launch:
    """Return the launch of a product; raises StudyError for one that the host cannot execute."""
    name, shape, block = product.variant, product.shape, product.block_size
    entry = variant(name)
    if entry.kernel is None:
        raise StudyError(f"{name}: is a library's; there is no source to execute on the host")
    if not entry.takes_block(block):
        sizes = ", ".join(map(str, entry.block_sizes or ())) or "none"
        raise StudyError(f"{name}: has no block size {block}; it takes: {sizes}")
    if product.dtype not in entry.dtypes:
        raise StudyError(
            f"{name}: does not multiply {product.dtype}; it takes: {', '.join(entry.dtypes)}"
        )
    if not entry.takes(shape):
        raise StudyError(f"{name} at {shape}: takes {entry.shapes} products only")
    launch = entry.launch(shape, block)
    threads = launch.threads[0] * launch.threads[1]
    if threads > MAX_THREADS:
        raise StudyError(
            f"{name} at size {shape}: needs {threads} threads a block, {MAX_THREADS} allowed"
        )
    return launch


def predict(product: Product, merged: bool = False) -> dict[str, Total]:
    """Return the theory's totals by operation, of the source or `merged`; raises StudyError.

    See `kernels.theory.cost.totals`.
    """
    launch = launch_of(product)
    accesses = variant(product.variant).accesses(product.shape, product.block_size, product.dtype)
    return totals(accesses, launch.threads, prod(launch.grid), merged)


def inputs_of(product: Product) -> tuple[Array, Array]:
    """Return the seeded A and B of a product, shapes (batch, m, k) and (batch, k, n)."""
    return Inputs([(product.dtype, product.shape)], SEED).pair(product.dtype, product.shape)


def execute(
    product: Product, mode: Mode, source: Path | None = None, folder: Path = BUILDS
) -> tuple[Array, Run]:
    """Run a variant on seeded matrices; return C, shape (batch, m, n), and the run.

    What the host does beyond copying is done too. `source` takes the place of the catalog's source
    file. What the kernel does not store stays as poison (NaN for numbers that have it). Raises
    KernelFault; other StudyErrors if it cannot be built.
    """
    launch = launch_of(product)
    entry, shape, block = variant(product.variant), product.shape, product.block_size
    build = build_for(product.variant, shape, block, product.dtype)
    assert build is not None
    assert entry.kernel is not None
    source = source or ROOT / build.source
    if mode == "fused" and not has_fma(folder):
        raise StudyError("this CPU has no fused FMA (FMA3), which kernels are checked with")
    library = build_kernel(entry.kernel, source, build.defines, mode, folder)
    kernel = Kernel(library, source, entry.kernel, mode == "counted")
    a, b, c = _operands(product)
    arguments: list[Array | int] = [a, b, c, *entry.arguments(shape, block)]
    run = kernel.run(launch.grid, launch.threads, arguments, launch.dynamic_shared_bytes)
    return _product(product, c), run


def _operands(product: Product) -> tuple[Array, Array, Array]:
    """Return what the kernel gets: A and B as the host prepares them, and C full of poison."""
    entry = variant(product.variant)
    seen = entry.operands(product.shape, product.block_size)
    a, b = inputs_of(product)
    step = entry.host_step
    targets = ((a, step and step.a, (seen.m, seen.k)), (b, step and step.b, (seen.k, seen.n)))
    prepared = []
    for matrix, fill, edges in targets:
        if fill:
            target = np.empty((seen.batch, *edges), matrix.dtype)
            fill(matrix, target)
            matrix = target
        prepared.append(np.ascontiguousarray(matrix))
    c = np.empty((seen.batch, seen.m, seen.n), ELEMENTS[product.dtype].dtype)
    c.view(np.uint32).fill(POISON_WORD)
    return prepared[0], prepared[1], c


def _product(product: Product, c: Array) -> Array:
    """Return C as the host hands it on."""
    step = variant(product.variant).host_step
    if step is None or step.c is None:
        return c
    shape = product.shape
    target = np.empty((shape.batch, shape.m, shape.n), c.dtype)
    step.c(c, target)
    return target


def check(product: Product, source: Path | None = None, folder: Path = BUILDS) -> Run:
    """Run a variant in all modes; return the counted run.

    Raises KernelFault for a fault, for a product that is not the reference bit for bit, and for
    counts that are not those of theory, or of what the kernel declares. Where sums are not in order
    a product must be within its bound; and one of tensor cores, for which the host adds up in an
    order of its own, the same in all modes.
    """
    entry = variant(product.variant)
    named = shown(source or ROOT / str(entry.source))
    run = Run([], [])
    first: Array | None = None
    for mode in MODES:
        c, found = execute(product, mode, source, folder)
        if mode == "counted":
            run = found
        if entry.tensor_cores or not entry.in_order:
            _evaluate_product(named, product, c, run)
        else:
            expected = expected_product(product, mode == "fused", folder)
            _compare_products(named, product, c, run, mode, expected)
        if entry.tensor_cores:
            first = c if first is None else first
            _compare_products(named, product, c, run, mode, first)
        if mode == "counted":
            _check_counts(named, product, run)
    return run


def sums(run: Run) -> dict[str, Total]:
    """Return the totals of a counted run by operation, as `predict` does."""
    found = dict.fromkeys(OPERATIONS, Total())
    for count in run.counts:
        found[count.operation] += Total(
            count.accesses, count.requests, count.transactions, count.ideal, count.lines
        )
    return found


def _evaluate_product(named: str, product: Product, c: Array, run: Run) -> None:
    """Compare a product with the bound on its error; `run` tells which line stored the worst."""
    k = product.shape.k
    multiple = variant(product.variant).roundoffs(k) / k
    verdict = evaluate(c, *float64_reference(*inputs_of(product)), multiple)
    if not verdict.passed:
        line = _stored_by(product, run, 0, verdict.worst_row, verdict.worst_column)
        raise KernelFault(f"{named}:{line}: {product.variant}: {verdict.reason}")


def _compare_products(
    named: str, product: Product, c: Array, run: Run, mode: Mode, expected: Array
) -> None:
    """Compare a product with what is expected; `run` tells which line stored a wrong element."""
    differs = (c.view(np.uint8) != expected.view(np.uint8)).reshape(c.size, c.itemsize)
    wrong = np.flatnonzero(differs.any(axis=1))
    if not len(wrong):
        return
    place = np.unravel_index(int(wrong[0]), c.shape)
    batch, row, column = (int(index) for index in place)
    element = f"C({row}, {column})" if product.shape.batch == 1 else f"C({batch}, {row}, {column})"
    line = _stored_by(product, run, batch, row, column)
    if line:
        text = f"stores {element} = {c[place]:.9g}"
    else:
        stores = [count.line for count in run.counts if count.operation == "global_store"]
        line, text = min(stores, default=0), f"does not store {element}"
    raise KernelFault(
        f"{named}:{line}: {product.variant}, {mode}: {text}; bit for bit it is "
        f"{expected[place]:.9g}, and {len(wrong)} of {c.size} elements are wrong"
    )


def expected_product(product: Product, fused: bool, folder: Path = BUILDS) -> Array:
    """Return what C must be bit for bit, shape (batch, m, n).

    Where slices share the steps of a tile, each sums its own, and the sums are added in order.
    """
    entry, block = variant(product.variant), product.block_size or 0
    slices = entry.slices(block)
    if slices == 1:
        return _expected(product.dtype, product.shape, fused, folder)
    a, b = inputs_of(product)
    steps = entry.tile(block)[2]
    of_slice = np.arange(product.shape.k) % steps // (steps // slices)
    parts = []
    for number in np.unique(of_slice):
        own = of_slice == number
        rows, columns = (np.ascontiguousarray(part) for part in (a[:, :, own], b[:, own]))
        parts.append(reference(rows, columns, fused, folder))
    return sum(parts[1:], start=parts[0])


@lru_cache(maxsize=16)
def _expected(dtype: str, shape: Shape, fused: bool, folder: Path) -> Array:
    """Return the reference of all variants' products of a shape; it takes longer than some runs."""
    return reference(*Inputs([(dtype, shape)], SEED).pair(dtype, shape), fused, folder)


def _stored_by(product: Product, run: Run, batch: int, row: int, column: int) -> int:
    """Return the source line that stored an element of C last; 0 if none did."""
    seen = variant(product.variant).operands(product.shape, product.block_size)
    words = ELEMENTS[product.dtype].bytes // 4
    return int(run.stored_by[2][((batch * seen.m + row) * seen.n + column) * words])


def _check_counts(named: str, product: Product, run: Run) -> None:
    """Compare counts with theory; of a kernel without one, with what it declares a thread."""
    entry = variant(product.variant)
    if entry.theory:
        _compare_counts(named, product.variant, run, predict(product))
    launch, counted = launch_of(product), sums(run)
    threads = prod(launch.threads) * prod(launch.grid)
    build = build_for(product.variant, product.shape, product.block_size, product.dtype)
    if build is None or build.guarded:  # threads outside of the matrices do less
        return
    for operation, claim in entry.claims.items():
        claimed = claim(product.shape, product.block_size or 0)
        found = Fraction(counted[operation].accesses, threads)
        if found != claimed:
            lines = sorted({count.line for count in run.counts if count.operation == operation})
            raise KernelFault(
                f"{named}:{','.join(map(str, lines)) or 0}: {entry.name} at {product.shape}: "
                f"{operation.replace('_', ' ')}s a thread are {float(found):g}, declared "
                f"{float(claimed):g}"
            )


def _compare_counts(named: str, name: str, run: Run, theory: dict[str, Total]) -> None:
    counted = sums(run)
    for operation in OPERATIONS:
        if counted[operation] != theory[operation]:
            lines = sorted({count.line for count in run.counts if count.operation == operation})
            raise KernelFault(
                f"{named}:{','.join(map(str, lines)) or 0}: {name}: {operation}: accesses, "
                f"requests, transactions, ideal, lines are {astuple(counted[operation])}, "
                f"by theory {astuple(theory[operation])}"
            )
