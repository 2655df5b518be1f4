"""Running kernels on the host, and comparing their products and counts with expected ones."""

import mmap
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from base.errors import StudyError
from base.paths import ROOT, shown
from kernels.catalog.product import Product
from kernels.catalog.variant import MAX_THREADS, Kernel
from kernels.cubins.build import Build, build_for, step_build
from kernels.host_execution.binding import Array, KernelFault, Run, has_fma, reference
from kernels.host_execution.binding import Kernel as Compiled
from kernels.host_execution.compiler import BUILDS, MODES, Mode, NotSupported, build_kernel
from kernels.products.elements import ELEMENTS
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import POISON_WORD, Inputs
from kernels.products.matrices import reference as float64_reference
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total, totals
from kernels.theory.tiles import TileShape

MAX_SHARED_BYTES = 227 * 1024  # limit per block on any GPU
MAX_GRID = (2**31 - 1, 65_535, 65_535)
SEED = 1
# What C and shared memory contain before a launch, by mode: a kernel that depends on it differs.
FILLS: dict[Mode, int] = {"counted": POISON_WORD, "separate": 0, "fused": 1}
_MAP_NORESERVE = 0x4000  # a flag of Linux for which Python has no name
# How a message about elements that differ from the reference ends.
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


def predict(product: Product, merged: bool = False) -> dict[str, Total]:
    """Return the totals per operation that theory predicts; raise StudyError without theory.

    `merged`: loads are merged as in machine code (`kernels.theory.cost.totals`).
    """
    kernel_of(product)
    if not product.has_theory:
        raise StudyError(
            f"{product.variant}: has no theory of its memory accesses; use another kernel"
        )
    launch = product.launch
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
    """Run a product on `matrices`, or on seeded ones; return C, (batch, m, n), and the run.

    Host steps before and after the kernel are included. `source` replaces the catalog's source
    file. Elements that the kernel does not store keep the value of `FILLS` (NaN in a counted run of
    a floating-point type). Raise KernelFault, also if A or B is overwritten; StudyError if the
    kernel cannot be built.
    """
    kernel, launch = kernel_of(product), product.launch
    build = build_for(product)
    assert build is not None
    source = source or ROOT / build.source
    if mode == "fused" and not has_fma(folder):
        raise StudyError("this CPU has no FMA3, which the kernel check needs; use another host")
    compiled = _compiled(kernel.kernel, build, source, mode, folder)
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


def _compiled(kernel: str, build: Build, source: Path, mode: Mode, folder: Path) -> Compiled:
    library = build_kernel(kernel, source, build.defines, mode, folder)
    return Compiled(library, source, kernel, mode == "counted")


def _prepare(product: Product, a: Array, b: Array, mode: Mode, folder: Path) -> tuple[Array, Array]:
    """Run the kernel that prepares the operands on the GPU; return the prepared operands.

    Raise KernelFault, also if a word of the operands is not stored.
    """
    build, step = step_build(product), product.device_step
    assert build
    assert step
    source, (m, n, k) = ROOT / build.source, (product.shape.m, product.shape.n, product.shape.k)
    compiled = _compiled(step.kernel, build, source, mode, folder)
    prepared = np.full(product.prepared_bytes // 4, np.nan, np.float32)
    grid = (step.blocks(m, k) + step.blocks(n, k), 1, 1)
    run = compiled.run(grid, (step.threads, 1), [a, b, prepared, m, n, k])
    if mode == "counted" and not run.stored_by[2].all():
        raise KernelFault(f"{shown(source)}: {step.kernel}: leaves words of its result unwritten")
    return prepared[step.bytes(n, k) // 4 :], prepared[: step.bytes(n, k) // 4]


def _operands(
    product: Product, word: int, matrices: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Return A and B as the host prepares them for the kernel, and a C filled with `word`."""
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
    """Return the C that the host extracts from the kernel's result."""
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
    every mode a product must equal the reference with rounded products or with fused FMAs, bit for
    bit: a kernel may call fmaf(). If sums are not in the order of k, the error bound applies. On
    tensor cores all modes must agree bit for bit.
    """
    kernel = kernel_of(product)
    named = shown(source or ROOT / str(kernel.source))
    run = Run([], [])
    products: list[Array] = []
    for mode in MODES:
        c, of_mode = execute(product, mode, source, folder)
        if mode == "counted":
            run = of_mode
        compared = _Compared(named, product, run, mode, c)
        if kernel.in_order:
            compared.with_references(folder)
        else:
            compared.with_bound()
        if kernel.tensor_cores:
            products.append(c)
            compared.with_product(products[0])
        if mode == "counted" and product.has_theory:
            _compare_counts(named, product.variant, run, predict(product))
    return run


@dataclass(frozen=True)
class _Compared:
    """The product C of one mode; `run` is the counted run, which has the lines of stores.

    All methods raise KernelFault.
    """

    named: str  # the source file, as messages name it
    product: Product
    run: Run
    mode: Mode
    c: Array

    def with_bound(self) -> None:
        """Compare C with the float64 reference, within its error bound."""
        verdict = self._verdict()
        if not verdict.passed:
            self._refuse((0, verdict.worst_row, verdict.worst_column), str(verdict.reason))

    def with_references(self, folder: Path) -> None:
        """Compare C with references with and without FMAs; it must equal one bit for bit."""
        fused = self.mode == "fused"
        expected = expected_product(self.product, fused, folder)
        if not len(_differing(self.c, expected)):
            return
        if len(_differing(self.c, expected_product(self.product, not fused, folder))):
            self.with_product(expected, OTHER_ORDER if self._verdict().passed else WRONG)

    def with_product(self, expected: Array, says: str = WRONG) -> None:
        """Compare C with `expected` bit for bit; the text `says` ends the error message."""
        c, wrong = self.c, _differing(self.c, expected)
        if not len(wrong):
            return
        batch, row, column = (int(index) for index in np.unravel_index(int(wrong[0]), c.shape))
        place = (batch, row, column)
        element = f"C({row}, {column})" if len(c) == 1 else f"C{place}"
        is_stored = self.run.stored_by[2][self._word(place)]
        text = f"stores {element} = {c[place]:.9g}" if is_stored else f"does not store {element}"
        self._refuse(
            place,
            f"{text}; expected bit for bit {expected[place]:.9g}; {len(wrong)} of {c.size} "
            f"elements {says}",
            f", {self.mode}",
        )

    def _verdict(self) -> Verdict:
        k = self.product.shape.k
        multiple = self.product.entry.roundoffs(k) / k
        return evaluate(self.c, *float64_reference(*inputs_of(self.product)), multiple)

    def _refuse(self, place: tuple[int, int, int], reason: str, mode: str = "") -> NoReturn:
        """Raise the fault of a wrong element, or the read of uninitialised memory that caused it.

        Uninitialised words of a counted run are NaN, so other wrong numbers have another cause.
        """
        word, value = self._word(place), self.c[place]
        line = int(self.run.stored_by[2][word])
        is_poisoned = self.mode != "counted" or value.dtype.kind != "f" or np.isnan(value)
        if line and is_poisoned and (cause := self.run.cause(2, word)):
            raise KernelFault(cause)
        if not line:
            line = int(_lines(self.run, "global_store").split(",")[0])
        raise KernelFault(f"{self.named}:{line}: {self.product.variant}{mode}: {reason}")

    def _word(self, place: tuple[int, int, int]) -> int:
        """Return the number of the first word of an element of C."""
        seen, (batch, row, column) = self.product.operands, place
        words = ELEMENTS[self.product.dtype].bytes // 4
        return ((batch * seen.m + row) * seen.n + column) * words


def zeros(count: int, dtype: npt.DTypeLike) -> Array:
    """Return zeros whose pages take memory only once they are written; raise NotSupported."""
    flags, size = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, np.dtype(dtype).itemsize
    try:
        memory = mmap.mmap(-1, count * size, flags)
    except OSError as error:
        needed = f"needs 3 × {count * size / 2**30:.0f} GiB of addresses ({error.strerror})"
        raise NotSupported(f"the largest product {needed}; raise `ulimit -v`") from None
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype)


def sums(run: Run) -> dict[str, Total]:
    """Return the totals per operation that a counted run counted, in the form of `predict`."""
    found = dict.fromkeys(OPERATIONS, Total())
    for count in run.counts:
        found[count.operation] += count
    return found


def _differing(c: Array, expected: Array) -> npt.NDArray[np.int64]:
    """Return the flat indices of the elements whose bits differ."""
    differs = (c.view(np.uint8) != expected.view(np.uint8)).reshape(c.size, c.itemsize)
    return np.flatnonzero(differs.any(axis=1))


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
    """Return the reference product for a shape; it is cached, because it can take long."""
    return reference(*Inputs([(dtype, shape)], SEED).pair(dtype, shape), fused, folder)


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
    """Return the source lines that did an operation, as text; "0" if there are none."""
    lines = sorted({count.line for count in run.counts if count.operation == operation})
    return ",".join(map(str, lines)) or "0"
