"""The examination of this machine: its ceilings and settings. No setting is changed."""

import sys
import tempfile
from pathlib import Path

from cpu_reference.library import build_library, find_gcc
from kernels.cubins.build import INSTRUMENTS
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.toolchain import find_nvcc
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
from measurement.devices.observers import Reading, observed, results
from measurement.devices.surroundings import surroundings
from measurement.health.machine import Gpu, Machine, ceilings_of
from measurement.recorder.hardware import Host
from measurement.recorder.provenance import host as host_facts
from measurement.recording.throttling import THROTTLE_REASONS

_PURPOSE = "an examination by gemm-study doctor"


def examine(hardware: Host, wanted: str | int, nvcc: str | None = None) -> Machine:
    """Measure the ceilings of this host and the GPUs that `wanted` selects; about two minutes.

    Raise StudyError if a compiler or a GPU is missing or a GPU is locked.
    """
    devices = hardware.select(wanted)
    inputs, around = Inputs([("float32", Shape.square(64))], 0), surroundings()
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as name:
        folder = Path(name)
        gpus = [_gpu(hardware, device, inputs, folder, nvcc) for device in devices]
        print("measuring the CPU", file=sys.stderr, flush=True)
        with hardware.open_cpu(build_library(find_gcc(), folder), inputs) as session:
            cpu = ceilings_of(session.ceilings())
    return Machine("this machine", host_facts(), tuple(gpus), cpu, around)


def _gpu(hardware: Host, device: CudaDevice, inputs: Inputs, folder: Path, nvcc: str | None) -> Gpu:
    print(f"measuring GPU {device.index}, {device.name}", file=sys.stderr, flush=True)
    name = architecture(device.compute_capability)
    builds = build_all(find_nvcc(nvcc), list(INSTRUMENTS), name, folder)
    with (
        only_run(device, hardware.lock_file(device), _PURPOSE),
        hardware.open_gpu(device, inputs, builds, folder, None) as session,
    ):
        with observed(session.observers.runs):
            ceilings = session.ceilings()
        reading = Reading(**results(session.observers.runs))
        state = hardware.state(device) | {
            "sm_clock_hz": reading.sm_clock_hz,
            "memory_clock_hz": reading.memory_clock_hz,
            "power_w": reading.power_w,
            "temperature_celsius": reading.temperature_celsius,
            "throttled": _reasons(reading.throttle_reasons),
        }
    return Gpu(hardware.describe(device), ceilings_of(ceilings), state)


def _reasons(mask: int | None) -> list[str]:
    return [name for bit, name in THROTTLE_REASONS.items() if (mask or 0) & bit]
