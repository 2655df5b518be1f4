"""Running kernels on the host, and comparing them with reference and theory."""

import mmap
from dataclasses import astuple, replace
from functools import lru_cache
from math import isqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from base.errors import StudyError
from base.paths import ROOT, shown
from kernels.catalog.product import Product
from kernels.catalog.variant import MAX_THREADS, Kernel, Launch
from kernels.cubins.build import build_for, step_build
from kernels.host_execution.binding import Array, KernelFault, LastBlock, Run, has_fma, reference
from kernels.host_execution.binding import Kernel as Compiled
from kernels.host_execution.compiler import BUILDS, MODES, Mode, NotSupported, build_kernel
from kernels.products.elements import ELEMENTS
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import POISON_WORD, Inputs
from kernels.products.matrices import reference as float64_reference
from kernels.products.shape import MOST_ELEMENTS, Shape
from kernels.theory.cost import OPERATIONS, Total, totals
from kernels.theory.tiles import TileShape

MAX_SHARED_BYTES = 227 * 1024  # per block, on any GPU
MAX_GRID = (2**31 - 1, 65_535, 65_535)
SEED = 1
# What C and shared memory contain before a launch, by mode: a kernel that depends on it differs.
FILLS: dict[Mode, int] = {"counted": POISON_WORD, "separate": 0, "fused": 1}
_TERMS = 512  # of a sum of the largest product, at random places and at the end
_MAP_NORESERVE = 0x4000  # of Linux; Python has no name for it
# Ends of a message on elements that differ from the reference.
WRONG = "are wrong"
OTHER_ORDER = (
    "differ: the product differs from the reference's order of summation but is within the error "
    "bound"
)


def kernel_of(product: Product) -> Kernel:
    """Return the kernel of a product; raise StudyError if the host cannot execute it."""
    name, shape, kernel = product.variant, product.shape, product.kernel
    if kernel is None:
        raise StudyError(f"{name}: has no source to execute on the host; use a kernel")
    if not kernel.takes_block(product.block_size):
        raise StudyError(f"{name}: {_block_fault(product, kernel)}")
    if product.dtype not in kernel.dtypes:
        raise StudyError(f"{name}: no {product.dtype} version; use {', '.join(kernel.dtypes)}")
    if not kernel.takes(shape):
        raise StudyError(f"{name} at size {shape}: supports {kernel.shapes} products only")
    threads = product.launch.threads_per_block
    if threads > MAX_THREADS:
        raise StudyError(
            f"{name} at size {shape}: needs {threads} threads per block, {MAX_THREADS} allowed"
        )
    return kernel


def _block_fault(product: Product, kernel: Kernel) -> str:
    if kernel.block_sizes is None:
        return f"has no block size; remove {product.block_size}"
    fault = "missing" if product.block_size is None else f"{product.block_size} is not available"
    return f"block size {fault}; use {', '.join(map(str, kernel.block_sizes))}"


def launch_of(product: Product) -> Launch:
    """Return the launch of a product; raise StudyError if the host cannot execute it."""
    kernel_of(product)
    return product.launch


def predict(product: Product, merged: bool = False) -> dict[str, Total]:
    """Return the totals of theory by operation, of the source or `merged`; raise StudyError.

    See `kernels.theory.cost.totals`.
    """
    launch = launch_of(product)
    if not product.has_theory:
        raise StudyError(
            f"{product.variant}: has no theory of its memory accesses; use another kernel"
        )
    return totals(product.accesses(), launch.threads, launch.blocks, merged)


def inputs_of(product: Product) -> tuple[Array, Array]:
    """Return seeded A and B, shapes (batch, m, k) and (batch, k, n)."""
    return Inputs([(product.dtype, product.shape)], SEED).pair(product.dtype, product.shape)


def execute(
    product: Product,
    mode: Mode,
    source: Path | None = None,
    folder: Path = BUILDS,
    matrices: tuple[Array, Array] | None = None,
) -> tuple[Array, Run]:
    """Run a product on `matrices`, else seeded ones; return C, (batch, m, n), and the run.

    The work of the host is included. `source` replaces the catalog's source file. Elements that the
    kernel does not store keep the value of `FILLS` (NaN in a counted run of a floating-point type).
    Raise KernelFault, also if A or B is overwritten; StudyError if the kernel cannot be built.
    """
    kernel, launch = kernel_of(product), product.launch
    build = build_for(product)
    assert build is not None
    source = source or ROOT / build.source
    if mode == "fused" and not has_fma(folder):
        raise StudyError("this CPU has no FMA3, which the kernel check needs; use another host")
    library = build_kernel(kernel.kernel, source, build.defines, mode, folder)
    compiled = Compiled(library, source, kernel.kernel, mode == "counted")
    a, b, c = _operands(product, FILLS.get(mode, POISON_WORD), matrices or inputs_of(product))
    if step_build(product):
        a, b = _prepare(product, a, b, mode, folder)
    arguments: list[Array | int] = [a, b, c, *product.arguments]
    before, fill = (a.copy(), b.copy()), FILLS.get(mode, POISON_WORD)
    shared = launch.dynamic_shared_bytes
    run = compiled.run(launch.grid, launch.threads, arguments, shared, results=(2,), fill=fill)
    for number, (kept, operand) in enumerate(zip(before, (a, b), strict=True)):
        lines = sorted({*run.stored_by[number].tolist()} - {0})
        if lines or len(_differing(operand, kept)):
            place = f"{shown(source)}:{','.join(map(str, lines or [0]))}"
            raise KernelFault(f"{place}: {kernel.kernel}: stores to {'AB'[number]}, an input")
    return _product(product, c), run


def _prepare(product: Product, a: Array, b: Array, mode: Mode, folder: Path) -> tuple[Array, Array]:
    """Run the kernel that prepares the operands on the GPU; return the prepared operands.

    Raise KernelFault, also if a word of the result is not stored.
    """
    build, step = step_build(product), product.device_step
    assert build
    assert step
    source, (m, n, k) = ROOT / build.source, (product.shape.m, product.shape.n, product.shape.k)
    library = build_kernel(step.kernel, source, build.defines, mode, folder)
    compiled = Compiled(library, source, step.kernel, mode == "counted")
    prepared = np.full(product.prepared_bytes // 4, np.nan, np.float32)
    grid = (step.blocks(m, k) + step.blocks(n, k), 1, 1)
    run = compiled.run(grid, (step.threads, 1), [a, b, prepared, m, n, k])
    if mode == "counted" and not run.stored_by[2].all():
        raise KernelFault(f"{shown(source)}: {step.kernel}: leaves words of its result unwritten")
    return prepared[step.bytes(n, k) // 4 :], prepared[: step.bytes(n, k) // 4]


def _operands(
    product: Product, word: int, matrices: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Return the arguments of the kernel: A and B as the host prepares them, and a C of `word`."""
    seen, step = product.operands, product.entry.host_step
    a, b = matrices
    targets = ((a, step and step.a, (seen.m, seen.k)), (b, step and step.b, (seen.k, seen.n)))
    prepared = []
    for matrix, fill, edges in targets:
        if fill:
            target = np.empty((seen.batch, *edges), matrix.dtype)
            fill(matrix, target)
            matrix = target
        prepared.append(np.ascontiguousarray(matrix))
    c = np.empty((seen.batch, seen.m, seen.n), ELEMENTS[product.dtype].dtype)
    c.view(np.uint32).fill(word)
    return prepared[0], prepared[1], c


def _product(product: Product, c: Array) -> Array:
    """Return C after the work of the host."""
    step = product.entry.host_step
    if step is None or step.c is None:
        return c
    shape = product.shape
    target = np.empty((shape.batch, shape.m, shape.n), c.dtype)
    step.c(c, target)
    return target


def check(product: Product, source: Path | None = None, folder: Path = BUILDS) -> Run:
    """Run a product in all modes; return the counted run.

    Raise KernelFault for a fault, for a wrong product, and for counts that differ from theory. In
    every mode a product must equal the reference
    with rounded products or with fused FMAs, bit for bit: a kernel may call fmaf(). If sums are not
    in the order of k, the error bound applies. On tensor cores all modes must also agree bit for
    bit.
    """
    kernel = kernel_of(product)
    named = shown(source or ROOT / str(kernel.source))
    run = Run([], [])
    first: Array | None = None
    for mode in MODES:
        c, found = execute(product, mode, source, folder)
        if mode == "counted":
            run = found
        _compare(named, product, c, run, mode, folder)
        if kernel.tensor_cores:
            first = c if first is None else first
            _compare_products(named, product, c, run, mode, first)
        if mode == "counted" and product.has_theory:
            _compare_counts(named, product.variant, run, predict(product))
    return run


def _compare(named: str, product: Product, c: Array, run: Run, mode: Mode, folder: Path) -> None:
    """Compare a product with what its kernel declares: bit for bit, or with the error bound."""
    if kernel_of(product).in_order:
        _compare_references(named, product, c, run, mode, folder)
    else:
        _evaluate_product(named, product, c, run)


def check_largest(product: Product, source: Path | None = None, folder: Path = BUILDS) -> None:
    """Run the last block of the largest product that 32-bit indices can address.

    The matrices contain small integers in some of the terms of each sum, and zeros, which take no
    memory. Raise KernelFault if an element that the block stores is wrong, or for an address out of
    bounds. A product that no GPU can launch is not run.
    """
    batch = product.shape.batch
    edge = isqrt(MOST_ELEMENTS // batch)
    large = replace(product, shape=Shape(batch, edge, edge, edge))
    kernel, launch, seen = kernel_of(product), large.launch, large.operands
    elements = (seen.a_elements, seen.b_elements, seen.c_elements)
    shared = launch.dynamic_shared_bytes
    if launch.threads_per_block > MAX_THREADS or shared > MAX_SHARED_BYTES:
        return
    if max(elements) > MOST_ELEMENTS:
        return
    build = build_for(large)
    assert build is not None
    source = source or ROOT / build.source
    library = build_kernel(kernel.kernel, source, build.defines, "large", folder)
    compiled = Compiled(library, source, kernel.kernel, counted=False)
    a, b, c = (zeros(count, ELEMENTS[large.dtype].dtype) for count in elements)
    views = a.reshape(batch, seen.m, seen.k), b.reshape(batch, seen.k, seen.n)
    rng = np.random.default_rng(SEED)
    terms = np.union1d(rng.integers(0, seen.k, _TERMS), np.arange(seen.k - _TERMS, seen.k))
    filled = np.arange(seen.m)[-large.tile[0] :], np.arange(seen.n)[-large.tile[1] :]
    # The last block need not compute the last tile: the first run finds what it stores, with a
    # short sum if the kernel takes one.
    first = large
    if kernel.shapes != "square":
        first = replace(large, shape=Shape(batch, edge, edge, large.tile[2]))
    for each in (first, large):
        for matrix, places in zip(views, ((filled[0], terms), (terms, filled[1])), strict=True):
            sizes = (batch, *map(len, places))
            matrix[np.ix_(np.arange(batch), *places)] = rng.integers(1, 4, sizes)
        arguments: list[Array | int] = [a, b, c, *each.arguments]
        run = compiled.run_last_block(launch.grid, launch.threads, arguments, shared)
        stored = np.unravel_index(np.sort(run.bytes) // c.itemsize, (batch, seen.m, seen.n))
        is_filled = np.isin(stored[1], filled[0]).all() and np.isin(stored[2], filled[1]).all()
        if each is large and is_filled:
            break
        filled = np.unique(stored[1]), np.unique(stored[2])
    if product.entry.host_step is None and step_build(large) is None:
        _compare_stored(shown(source), large, run, views, terms, c)


def zeros(count: int, dtype: npt.DTypeLike) -> Array:
    """Return zeros that take memory only where they are overwritten; raise NotSupported."""
    flags, size = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, np.dtype(dtype).itemsize
    try:
        memory = mmap.mmap(-1, count * size, flags)
    except OSError as error:
        needed = f"needs 3 × {count * size / 2**30:.0f} GiB of addresses ({error.strerror})"
        raise NotSupported(f"the largest product {needed}; raise `ulimit -v`") from None
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype)


def _compare_stored(
    named: str,
    product: Product,
    run: LastBlock,
    operands: tuple[Array, Array],
    terms: npt.NDArray[np.int64],
    c: Array,
) -> None:
    """Compare the elements that the last block stored; only `terms` of the sums are not zero."""
    shape = product.shape
    flat = np.sort(run.bytes) // c.itemsize
    batches, rows, columns = np.unravel_index(flat, (shape.batch, shape.m, shape.n))
    for batch in np.unique(batches):
        own = batches == batch
        (over, row), (down, column) = (
            np.unique(each[own], return_inverse=True) for each in (rows, columns)
        )
        a = operands[0][batch][np.ix_(over, terms)].astype(np.float64)
        b = operands[1][batch][np.ix_(terms, down)].astype(np.float64)
        expected, found = (a @ b)[row, column], c[flat[own]]
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            first = wrong[0]
            raise KernelFault(
                run.cause
                or f"{named}:{','.join(map(str, run.lines))}: {product.variant} at size {shape}: "
                f"stores C({over[row[first]]}, {down[column[first]]}) = {found[first]:.9g}; "
                f"expected {expected[first]:.9g}: does an index exceed 32 bits?"
            )


def sums(run: Run) -> dict[str, Total]:
    """Return the totals of a counted run by operation, as `predict` does."""
    found = dict.fromkeys(OPERATIONS, Total())
    for count in run.counts:
        found[count.operation] += Total(
            count.accesses, count.requests, count.transactions, count.ideal, count.lines
        )
    return found


def _evaluate_product(named: str, product: Product, c: Array, run: Run) -> None:
    """Compare a product with its error bound; `run` has the source line of each store."""
    verdict = _verdict(product, c)
    if not verdict.passed:
        place = 0, verdict.worst_row, verdict.worst_column
        line = _stored_by(product, run, *place)
        if cause := _cause(product, run, "counted", place, c[place]):
            raise KernelFault(cause)
        raise KernelFault(f"{named}:{line}: {product.variant}: {verdict.reason}")


def _verdict(product: Product, c: Array) -> Verdict:
    """Compare a product with its float64 reference and error bound."""
    k = product.shape.k
    multiple = product.entry.roundoffs(k) / k
    return evaluate(c, *float64_reference(*inputs_of(product)), multiple)


def _compare_references(
    named: str, product: Product, c: Array, run: Run, mode: Mode, folder: Path
) -> None:
    """Compare a product with both references; `run` has the source line of each store."""
    fused = mode == "fused"
    expected = expected_product(product, fused, folder)
    if len(_differing(c, expected)):
        other = expected_product(product, not fused, folder)
        if len(_differing(c, other)):
            says = OTHER_ORDER if _verdict(product, c).passed else WRONG
            _compare_products(named, product, c, run, mode, expected, says)


def _differing(c: Array, expected: Array) -> npt.NDArray[np.int64]:
    """Return the flat indices of elements that are not the same bit for bit."""
    differs = (c.view(np.uint8) != expected.view(np.uint8)).reshape(c.size, c.itemsize)
    return np.flatnonzero(differs.any(axis=1))


def _compare_products(
    named: str,
    product: Product,
    c: Array,
    run: Run,
    mode: Mode,
    expected: Array,
    says: str = WRONG,
) -> None:
    """Compare a product bit for bit; `run` has the source line of each store.

    `says` ends the message.
    """
    wrong = _differing(c, expected)
    if not len(wrong):
        return
    place = np.unravel_index(int(wrong[0]), c.shape)
    batch, row, column = (int(index) for index in place)
    element = f"C({row}, {column})" if product.shape.batch == 1 else f"C({batch}, {row}, {column})"
    line = _stored_by(product, run, batch, row, column)
    if cause := _cause(product, run, mode, (batch, row, column), c[place]):
        raise KernelFault(cause)
    if line:
        text = f"stores {element} = {c[place]:.9g}"
    else:
        stores = [count.line for count in run.counts if count.operation == "global_store"]
        line, text = min(stores, default=0), f"does not store {element}"
    raise KernelFault(
        f"{named}:{line}: {product.variant}, {mode}: {text}; expected bit for bit "
        f"{expected[place]:.9g}; {len(wrong)} of {c.size} elements {says}"
    )


def expected_product(product: Product, fused: bool, folder: Path = BUILDS) -> Array:
    """Return the expected C, bit for bit, shape (batch, m, n).

    Each slice of a tile shape has its own sums, which are added in order.
    """
    tile = product.block_size
    slices = tile.slices if isinstance(tile, TileShape) else 1
    if slices == 1:
        return _expected(product.dtype, product.shape, fused, folder)
    a, b = inputs_of(product)
    steps = product.tile[2]
    of_slice = np.arange(product.shape.k) % steps // (steps // slices)
    parts = []
    for number in np.unique(of_slice):
        own = of_slice == number
        rows, columns = (np.ascontiguousarray(part) for part in (a[:, :, own], b[:, own]))
        parts.append(reference(rows, columns, fused, folder))
    return sum(parts[1:], start=parts[0])


@lru_cache(maxsize=16)
def _expected(dtype: str, shape: Shape, fused: bool, folder: Path) -> Array:
    """Return the reference for a shape, cached: it takes longer than some runs."""
    return reference(*Inputs([(dtype, shape)], SEED).pair(dtype, shape), fused, folder)


def _stored_by(product: Product, run: Run, batch: int, row: int, column: int) -> int:
    """Return the source line of the last store to an element of C; 0 if there was none."""
    return int(run.stored_by[2][_word(product, batch, row, column)])


def _cause(
    product: Product, run: Run, mode: Mode, place: tuple[int, int, int], value: np.generic
) -> str | None:
    """Return the read of uninitialised shared memory that made an element of C wrong, or None.

    Uninitialised words of a counted run are NaN: other wrong numbers have another cause.
    """
    word = _word(product, *place)
    is_poisoned = np.isnan(value) if value.dtype.kind == "f" and mode == "counted" else True
    return run.cause(2, word) if is_poisoned and run.stored_by[2][word] else None


def _word(product: Product, batch: int, row: int, column: int) -> int:
    """Return the number of the first word of an element of C."""
    seen = product.operands
    words = ELEMENTS[product.dtype].bytes // 4
    return ((batch * seen.m + row) * seen.n + column) * words


def _compare_counts(named: str, name: str, run: Run, theory: dict[str, Total]) -> None:
    counted = sums(run)
    for operation in OPERATIONS:
        if counted[operation] != theory[operation]:
            raise KernelFault(
                f"{named}:{_lines(run, operation)}: {name}: {operation}: accesses, requests, "
                f"transactions, ideal, lines: counted {astuple(counted[operation])}, by theory "
                f"{astuple(theory[operation])}"
            )


def _lines(run: Run, operation: str) -> str:
    """Return the source lines of an operation; "0" if there are none."""
    lines = sorted({count.line for count in run.counts if count.operation == operation})
    return ",".join(map(str, lines)) or "0"
