"""The devices of a host, as the recorder accesses them."""

from pathlib import Path

from cpu_reference.library import Library
from kernels.cubins.build import build_for
from kernels.cubins.compile import BuildResult, architecture
from kernels.products.matrices import Inputs
from measurement.devices.cold_start import ColdStart, cold_start
from measurement.devices.cpu import CpuSession
from measurement.devices.discovery import CudaDevice, driver, select
from measurement.devices.gpu import GpuSession
from measurement.devices.locks import lock_file
from measurement.devices.observers import CpuTelemetry, Observers, gpu_observers
from measurement.devices.session import DeviceSession
from measurement.devices.surroundings import gpu_state
from measurement.recorder import provenance
from study.cells import Cell


class Host:
    """The GPUs and the CPU of this host, opened in worker processes; tests derive fake hosts."""

    select = staticmethod(select)
    lock_file = staticmethod(lock_file)
    describe = staticmethod(provenance.gpu)
    state = staticmethod(gpu_state)
    drivers = staticmethod(provenance.drivers)

    def open_gpu(
        self,
        device: CudaDevice,
        inputs: Inputs,
        builds: list[BuildResult],
        cubins: Path,
        partner: CudaDevice | None,
        primary: bool = False,
    ) -> DeviceSession:
        """Return the session of a GPU, with the parameters of `GpuSession`."""
        session = GpuSession(device, inputs, builds, cubins, primary, partner)
        session.observers = gpu_observers(driver().Device(device.index).pci_bus_id())
        return session

    def open_cpu(self, library: Path, inputs: Inputs) -> DeviceSession:
        """Return the session of this host's CPU."""
        compiled = Library(library)
        session = CpuSession(compiled, inputs)
        session.observers = Observers((CpuTelemetry(compiled.clock_hz),))
        return session

    def cold_start(
        self, device: CudaDevice, cell: Cell, cubins: Path, seed: int, limit_s: float
    ) -> ColdStart:
        """Run a cell once in a new process and return its cold-start times; raise CellError."""
        build = build_for(cell.product)
        assert build is not None  # cold starts are measured only for compiled kernels
        cubin = cubins / architecture(device.compute_capability) / f"{build.stem}.cubin"
        return cold_start(device.index, cubin, cell, seed, limit_s)
