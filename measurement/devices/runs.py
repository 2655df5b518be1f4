"""End-to-end runs whose copies and kernel are not simply enqueued one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cpu_reference.cores import CORES
from kernels.catalog.product import Product
from kernels.catalog.variant import AS_GRAPH, MAPPED, ON_TWO_GPUS, STAGED
from kernels.cubins.build import step_build
from measurement.devices.buffers import Work
from measurement.devices.flows import Division, Graph, Launcher, Pieces, duplex
from measurement.devices.launching import Launches
from measurement.devices.pieces import Setting, Trial, settings_of, try_out
from measurement.devices.placement import to_gpu
from measurement.devices.staging import Staged
from measurement.devices.two_gpus import TwoGpus
from study.cells import Cell

# A function that gets a stream and returns a launch of the work on B.
_Prepare = Callable[[Any], Callable[[], None]]


class Runs:
    """Executes runs of one session that are in pieces, in a graph or on two GPUs.

    `launches` are the launches of this GPU; `open_two` opens both GPUs of a run on two. `settings`
    says into which pieces runs are divided.
    """

    def __init__(
        self,
        cuda: Any,
        context: Any,
        stream: Any,
        launches: Launches,
        open_two: Callable[[], TwoGpus],
    ) -> None:
        self._cuda, self._context, self._stream = cuda, context, stream
        self._launches, self._open_two = launches, open_two
        launches.moved = self._close_graphs
        self.settings: dict[Cell, Setting] = {}
        self._graphs: dict[tuple[Cell, Setting | None, bool], Graph] = {}
        self._pieces: Pieces | None = None
        self._staged: Staged | None = None
        self._two: TwoGpus | None = None

    def close(self) -> None:
        """End all threads; destroy the graphs and the other GPU's context."""
        self._close_graphs()
        # This breaks a cycle, which would outlive the context because garbage collection is off.
        self._launches.moved = _nothing
        if self._staged:
            self._staged.close()
        if self._two:
            self._two.close()

    def _close_graphs(self) -> None:
        for graph in self._graphs.values():
            graph.close()
        self._graphs.clear()

    def fill_c(self, word: int, words: int) -> None:
        """Fill C on each GPU with a 32-bit word, `words` times."""
        self._cuda.memset_d32(self._launches.on_device[2], word, words)
        if self._two:
            lane = self._two.lanes[1]
            with lane.current():
                self._cuda.memset_d32(lane.launches.on_device[2], word, words)

    def of(self, cell: Cell, work: Work) -> Callable[[], None]:
        """Return a function that executes a run of the cell and waits for its end."""
        flow = cell.product.entry.flow
        if flow == AS_GRAPH:
            launch = self._launches.of(cell.product)
            on_device = self._launches.on_device

            def queue() -> None:
                to_gpu(self._cuda, self._stream, on_device, work)
                launch()
                self._cuda.memcpy_dtoh_async(work.c, on_device[2], self._stream)

            return self._graph((cell, None, True), lambda: queue)
        if flow == MAPPED:
            addresses = [matrix.ctypes.data for matrix in (work.a, work.b, work.c)]
            launch = self._launches.of(cell.product, on_device=addresses)

            def run() -> None:
                launch()
                self._stream.synchronize()

            return run
        setting = self.settings.get(cell) or settings_of(cell.product, len(CORES))[0]
        return self._in_pieces(cell, work, setting)

    def trials(self, cell: Cell, work: Work) -> list[Trial]:
        """Time a cell's run in pieces, and its copies only, in all settings."""
        # The first setting has the largest pieces: memory for prepared operands moves only once,
        # before there are other graphs.
        settings = sorted(settings_of(cell.product, len(CORES)), key=lambda each: each.pieces)
        runs = {setting: self._in_pieces(cell, work, setting) for setting in settings}
        copies = {each: self._in_pieces(cell, work, each, multiplies=False) for each in settings}
        trials = try_out({setting: (copies[setting], runs[setting]) for setting in settings})
        self._close_graphs()
        return trials

    def _in_pieces(
        self, cell: Cell, work: Work, setting: Setting, multiplies: bool = True
    ) -> Callable[[], None]:
        """Return a function that executes a run in pieces; without `multiplies`, only copies."""
        product, shape = cell.product, cell.product.shape
        pieces = product.pieces(setting.pieces)
        if product.entry.flow == ON_TWO_GPUS:
            if self._two is None:
                self._two = self._open_two()
            every = [
                _kernels(lane.launches, product, division, multiplies)
                for lane, division in zip(self._two.lanes, pieces, strict=True)
            ]
            return self._two.ready(shape, work, pieces, *zip(*every, strict=True))
        (rows,) = pieces
        launcher, prepare = _kernels(self._launches, product, rows, multiplies)
        division = Division(shape, work, self._launches.on_device, rows, launcher)
        if product.entry.flow == STAGED:
            if self._staged is None:
                self._staged = Staged(self._cuda, self._context, self._stream)
            return self._staged.ready(division, prepare, setting)
        if multiplies and not step_build(product):
            if self._pieces is None:
                self._pieces = Pieces(self._cuda)
            return self._pieces.ready(division)
        key = (cell, setting, multiplies)
        return self._graph(key, lambda: duplex(self._cuda, self._stream, division, prepare))

    def _graph(
        self, key: tuple[Cell, Setting | None, bool], ready: Callable[[], Callable[[], None]]
    ) -> Callable[[], None]:
        """Return the launch of a graph; `ready` returns the function that enqueues its work."""
        if key not in self._graphs:
            self._graphs[key] = Graph(self._stream, ready())
        return self._graphs[key].run


def _kernels(
    launches: Launches, product: Product, rows: Sequence[tuple[int, int]], multiplies: bool
) -> tuple[Launcher, _Prepare]:
    """Return what launches the kernel of a piece, and what prepares B before all pieces.

    Unless `multiplies`, these launches do nothing, so that only the copies are timed.
    """

    def piece(count: int) -> Product:
        return replace(product, shape=replace(product.shape, m=count))

    def launcher(count: int, a_device: int, c_device: int, stream: Any) -> Callable[[], None]:
        on_device = (a_device, launches.on_device[1], c_device)
        return launches.of(piece(count), stream, on_device, whole=False)

    def prepare(stream: Any) -> Callable[[], None]:
        # The first piece is the largest, and all pieces use the memory of its operands.
        return launches.prepare(piece(rows[0][1]), launches.on_device, stream, rows=False)[0]

    if not multiplies:
        return (lambda *_: _nothing), (lambda _: _nothing)
    return launcher, prepare if step_build(product) else (lambda _: _nothing)


def _nothing() -> None:
    pass
