"""Launching kernels on one GPU, from cubins that are loaded on first use."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.catalog.limits import DeviceLimits
from kernels.catalog.product import Product
from kernels.catalog.variant import Library, UserCall, UserKernel
from kernels.cubins.build import Build, build_for, step_build
from kernels.cubins.compile import BuildResult, architecture
from kernels.products.elements import ELEMENTS
from measurement.devices import cublas
from measurement.devices.calls import DeviceMatrix, Intact, load_call
from measurement.devices.errors import CellError
from measurement.devices.flows import has_context

if TYPE_CHECKING:
    from kernels.launches.program import Packed

# Format characters of the words in kernel arguments, by size in bytes.
_FORMATS = {8: "q", 4: "i", 2: "h", 1: "b"}
# A function that launches a kernel; its arguments are offsets in bytes (`Launches.of`).
Launch = Callable[..., None]


class Cubins:
    """The cubins for one GPU: their build results, and the folder of their files."""

    def __init__(self, builds: list[BuildResult], folder: Path, compute_capability: str) -> None:
        """Use the builds for this compute capability; `folder` contains ``sm_XX/STEM.cubin``."""
        name = architecture(compute_capability)
        self.results = {build.origin: build for build in builds if build.architecture == name}
        self._folder = folder / name

    def file(self, build: Build) -> str:
        """Return the path of a build's cubin."""
        return str(self._folder / f"{build.stem}.cubin")


class Launches:
    """Launches kernels and cuBLAS in one context, and keeps the operands they prepare.

    The context is the one that is current now. `on_device` are the buffers of A, B and C. `moved`
    is called before memory for prepared operands is freed, because older launches use that memory.
    """

    def __init__(
        self, cuda: Any, cubins: Cubins, limits: DeviceLimits, stream: Any, on_device: Sequence[Any]
    ) -> None:
        self._cuda, self._cubins, self._limits, self._stream = cuda, cubins, limits, stream
        self.on_device = on_device
        self.moved: Callable[[], None] = lambda: None
        self._calls: dict[str, Callable[..., None]] = {}
        self._intact: Intact | None = None
        self._functions: dict[tuple[Build, str], Any] = {}
        self._gemms: dict[int, cublas.Gemm] = {}  # cuBLAS handles by stream
        self._prepared: Any = None  # GPU memory for operands that a kernel prepares
        self._prepared_bytes = 0

    def close(self) -> None:
        """Close cuBLAS."""
        for gemm in self._gemms.values():
            gemm.close()

    def of(
        self,
        product: Product,
        stream: Any = None,
        on_device: Sequence[Any] | None = None,
        whole: bool = True,
    ) -> Launch:
        """Return a function that prepares a product's operands if needed, and launches its kernel.

        The function's arguments are offsets in bytes: of A and B, and of C, in their buffers. The
        default stream and buffers are the session's. If `whole` is false, B is already prepared.
        """
        shape, build, entry = product.shape, build_for(product), product.entry
        if isinstance(entry, UserCall):
            return self._call(product, entry, on_device or self.on_device)
        if build is not None and isinstance(entry, UserKernel):
            return self._supplied(product, build, stream, on_device or self.on_device)
        if build is None or isinstance(entry, Library):
            assert isinstance(entry, Library)
            multiply, sizes = self._library(entry, stream), (shape.m, shape.n, shape.k)
            addresses = on_device or self.on_device
            return lambda *later: multiply(*_later(addresses, *later), *sizes)
        launch, arguments = product.launch, product.arguments
        function = self.function(build, len(arguments))
        self._allow_shared(function, build, launch.dynamic_shared_bytes)
        addresses, before = on_device or self.on_device, None
        if step_build(product):
            before, operands = self.prepare(product, addresses, stream, columns=whole)
            addresses = (*operands, addresses[2])

        def into_stream(later: int = 0, c_later: int = 0) -> None:
            if before:  # none if A and B are prepared elsewhere
                before(later)
                later = 0
            function.prepared_async_call(
                launch.grid,
                (*launch.threads, 1),
                stream or self._stream,
                *_later(addresses, later, c_later),
                *arguments,
                shared_size=launch.dynamic_shared_bytes,
            )

        return into_stream

    def _allow_shared(self, function: Any, build: Build, dynamic_bytes: int) -> None:
        """Allow a kernel to use more shared memory than a block gets by default."""
        static_bytes = self._cubins.results[build].static_shared_bytes
        if dynamic_bytes + static_bytes > self._limits.max_shared_bytes_per_block:
            attribute = self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, dynamic_bytes)

    def _supplied(
        self, product: Product, build: Build, stream: Any, on_device: Sequence[Any]
    ) -> Launch:
        """Return a user-supplied kernel's launches; its code is evaluated once per address."""
        from kernels.launches.program import program  # only these kernels need it

        entry = product.entry
        assert isinstance(entry, UserKernel)
        addresses = [int(address) for address in on_device]
        size = program(entry).workspace_bytes(product.operands)
        workspace = self._reserve(size) if size else 0
        launches = [
            self._bound(build, packed, addresses)
            for packed in program(entry).packed(product.operands, addresses, workspace)
        ]

        def into_stream(later: int = 0, c_later: int = 0) -> None:
            moved = _later(addresses, later, c_later)
            for launch in launches:
                launch(stream or self._stream, moved)

        return into_stream

    def _bound(
        self, build: Build, packed: "Packed", addresses: Sequence[int]
    ) -> Callable[[Any, Sequence[int]], None]:
        """Return a function that launches a kernel with other addresses of A, B and C."""
        configured = packed.configured
        words = [word for argument in packed.arguments for word in _words(argument)]
        function = self._load(build, packed.symbol, "".join(form for form, _ in words))
        self._allow_shared(function, build, configured.dynamic_shared_bytes)
        values = [value for _, value in words]
        matrices = {
            place: addresses.index(value)
            for place, (form, value) in enumerate(words)
            if form == "q" and value in addresses
        }

        def launch(stream: Any, moved: Sequence[int]) -> None:
            arguments = [
                moved[matrices[place]] if place in matrices else value
                for place, value in enumerate(values)
            ]
            function.prepared_async_call(
                configured.grid,
                configured.block,
                stream,
                *arguments,
                shared_size=configured.dynamic_shared_bytes,
            )

        return launch

    def prepare(
        self,
        product: Product,
        on_device: Sequence[Any],
        stream: Any,
        rows: bool = True,
        columns: bool = True,
    ) -> tuple[Launch, tuple[int, int]]:
        """Return a launch of the product's `DeviceStep`, and the addresses of the prepared A and B.

        `rows`: prepare A; `columns`: prepare B.
        """
        build, step = step_build(product), product.device_step
        assert build
        assert step
        m, n, k = product.shape.m, product.shape.n, product.shape.k
        prepared = self._reserve(product.prepared_bytes)
        function = self.function(build, 3)
        blocks = rows * step.blocks(m, k) + columns * step.blocks(n, k)

        def into_stream(later: int = 0) -> None:
            function.prepared_async_call(
                (blocks, 1, 1),
                (step.threads, 1, 1),
                stream or self._stream,
                *_later(on_device[:2], later),
                prepared,
                *(m * rows, n, k),
                shared_size=0,
            )

        return into_stream, (prepared + step.bytes(n, k), prepared)

    def _reserve(self, size: int) -> int:
        """Return the address of `size` bytes for prepared operands; they may replace older ones."""
        if size > self._prepared_bytes:
            self.moved()
            self._prepared, self._prepared_bytes = None, 0
            self._prepared, self._prepared_bytes = self._cuda.mem_alloc(size), size
        return int(self._prepared)

    def _call(self, product: Product, entry: UserCall, on_device: Sequence[Any]) -> Launch:
        """Return a call of the user's Python function; its file is executed on first use."""
        if entry.name not in self._calls:
            self._intact = self._intact or Intact(self._cuda)
            self._calls[entry.name] = load_call(Path(entry.file), entry.call)
            self.verify(entry)
        m, n, k = product.shape.m, product.shape.n, product.shape.k
        shapes = ((m, k), (k, n), (m, n))
        dtype = ELEMENTS[product.dtype].dtype
        multiply = self._calls[entry.name]

        def call(later: int = 0, c_later: int = 0) -> None:
            addresses = zip(_later(on_device, later, c_later), shapes, strict=True)
            matrices = [DeviceMatrix(address, shape, dtype) for address, shape in addresses]
            multiply(*matrices, self._stream.handle)

        return call

    def verify(self, entry: UserCall) -> None:
        """Raise CellError if a call changed this program or computes on another GPU."""
        assert self._intact
        name = Path(entry.file).name
        self._intact.check(name)
        measured = self._cuda.Context.get_device().pci_bus_id()
        for index in range(self._cuda.Device.count()):
            if has_context(index) and self._cuda.Device(index).pci_bus_id() != measured:
                raise CellError(f"refused: {name} uses GPU {index}, which is not measured")

    def _library(self, entry: Library, stream: Any) -> Callable[..., None]:
        handle = (stream or self._stream).handle
        if handle not in self._gemms:
            self._gemms[handle] = cublas.Gemm(handle)
        return partial(self._gemms[handle].multiply, cublas.MODES[entry.mode])

    def module(self, build: Build) -> Any:
        """Return the loaded cubin of a build."""
        return self._cuda.module_from_file(self._cubins.file(build))

    def function(self, build: Build, arguments: int) -> Any:
        """Return the kernel of a build, which takes `arguments` integers; load it on first use."""
        return self._load(build, build.variant, "PPP" + "i" * arguments)

    def _load(self, build: Build, symbol: str, formats: str) -> Any:
        """Return the function `symbol` of a cubin, which takes arguments of these formats."""
        if (build, symbol) not in self._functions:
            try:
                function = self.module(build).get_function(symbol)
            except self._cuda.Error as error:
                raise CellError(f"{build.stem}.cubin: cannot be loaded: {error}") from error
            self._functions[build, symbol] = function.prepare(formats)
        return self._functions[build, symbol]


def _words(argument: bytes) -> list[tuple[str, int]]:
    """Return the format and value of each word of an argument; a structure has several."""
    size = next(size for size in _FORMATS if len(argument) % size == 0)
    return [
        (_FORMATS[size], int.from_bytes(argument[begin : begin + size], "little", signed=True))
        for begin in range(0, len(argument), size)
    ]


def _later(addresses: Sequence[Any], later: int = 0, c_later: int = 0) -> list[int]:
    """Return the addresses of A, B and, if given, C, plus offsets in bytes."""
    both = (later, later, c_later)
    return [int(address) + more for address, more in zip(addresses, both, strict=False)]
