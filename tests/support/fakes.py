"""Fake devices with faults on demand, which implement `DeviceSession`.

Sessions are opened in worker processes, so everything here can be pickled.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import yaml

from base.errors import StudyError
from base.files import sha256
from kernels.catalog.limits import DeviceLimits, not_launchable
from kernels.catalog.variant import UserCall
from kernels.cubins.build import build_for
from kernels.cubins.compile import BuildResult
from kernels.products.elements import exact
from kernels.products.matrices import POISON_WORD
from kernels.theory.tiles import number_of
from measurement.devices import ceilings, cpu_ceilings
from measurement.devices.calls import load_call
from measurement.devices.ceilings import Ceiling
from measurement.devices.cold_start import ColdStart
from measurement.devices.discovery import CudaDevice
from measurement.devices.errors import CellError, DeviceError
from measurement.devices.observers import Observer, Observers, Reading, observed
from measurement.devices.pieces import Setting, Trial
from measurement.devices.second_check import SAME, step_bytes
from measurement.devices.session import DeviceSession, KernelTime, Timing
from measurement.recorder.hardware import Host
from study.plan import builds
from tests.support.studies import CPU, config_text

CONFIG = config_text(
    {
        "seed": 11,
        "holdout_sizes": [70],
        "variants": ["naive", "buffered_row", "block"],
        "block_sizes": [4, 32],
        # These GPUs cannot launch the baseline.
        "block_size_limits": [{"block_size": 32, "largest_size": 1}],
        "series": [
            {"variants": ["bmm_tile"], "dtypes": ["float64", "int32"]}
            | {"block_sizes": [8], "shapes": ["2x3x5x4"]}
        ],
        "host_memory": ["pinned", "pageable"],
        "cpu": CPU | {"variants": ["naive", "blocked"], "sizes": [8, 12], "block_sizes": [4, 8]},
        "interference": {"variant": "block", "block_size": 4},
        "energy": {"sizes": [8], "length_s": 0.5},
    },
    {"gpu_cell_budget_s": 10, "cpu_cell_budget_s": 10, "single_run_s": 10}
    | {"cold_starts": 2, "hang_limit_s": 20},
)
# Of 64 threads per block: buffered_row runs at n = 8 and not at n = 70.
NVML_FACTS = ("sm_clock_max_hz", "memory_clock_max_hz", "ecc", "pcie_generation", "pcie_width")
NVML_FACTS += ("power_limit_w", "persistence_mode")
LIMITS = DeviceLimits(64, 49152, 65536, 2**31 - 1, 65535, 65535, 32, 2**30, 49152, (9, 0))
SETTINGS = (Setting(3, 6, 2**21), Setting(2, 6, 2**21))  # the second is the fastest
TIMING = Timing(4e-3, None, 1e-3, 2e-3, 5e-4)
# A user-supplied function that calls PyTorch.
CALLED = """import torch


def multiply(a, b, c, stream):
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        left, right, product = (torch.as_tensor(each, device="cuda") for each in (a, b, c))
        torch.matmul(left, right, out=product)
"""
SETTLE_S = 2e-4  # fake traffic starts immediately
KERNEL_S = 1.8e-3  # kernel-only time
READING = Reading(1_500_000_000, 2_000_000_000, 50, 100.0, 0)
PARTS = ("total", "h2d", "kernel", "d2h")


def unwritten(cell):
    return np.empty((cell.shape.batch, cell.shape.m, cell.shape.n), exact(cell.dtype))


@dataclass(frozen=True)
class Fault:
    """A fault of a variant at size n, in its `number`th run in a process (from 1).

    wrong, nan, unwritten: the product · later: every product from this run · refused: an error
    without effect on other cells · illegal: an error after which all calls fail · crash · hang ·
    lost: a crash after which the device cannot be opened · stopped: the driver ends the kernel.
    """

    kind: str
    variant: str = "block"
    n: int = 8
    number: int = 1


def make_cubins(folder, study):
    """Write fake prebuilt cubins of a `Study`; return their folder."""
    (folder / "sm_86").mkdir(parents=True)
    for build in builds(study):
        cubin = folder / "sm_86" / f"{build.stem}.cubin"
        cubin.write_text(build.stem)
        facts = (build.variant, build.dtype, number_of(build.block_size), build.kind)
        result = BuildResult("sm_86", *facts, 32, 0, 0, 0, 0, "13.9.7", sha256(cubin))
        cubin.with_suffix(".json").write_text(json.dumps(asdict(result)))
    return folder


class FakeTelemetry(Observer):
    """Knows its readings only after something was observed."""

    readings = None

    def after(self):
        self.readings = asdict(READING)

    def results(self):
        return self.readings


class FakeEnergy(Observer):
    """500 W under load, whose first readings are discarded, and 100 W without load."""

    def __init__(self, discard_s):
        self.power_w = 500.0 if discard_s else 100.0

    def results(self):
        return {"duration_s": 0.5, "power_w": self.power_w, "sm_clock_hz": 1_400_000_000}


class FakeDevice(DeviceSession):
    """Multiplies by NumPy, with the faults of its hardware."""

    def __init__(self, hardware, label, inputs):
        energy = FakeEnergy if hardware.has_energy else None
        self.observers = Observers((FakeTelemetry(),), energy)
        self.hardware, self.label, self.inputs = hardware, label, inputs
        self.c, self.runs, self.broken = {}, {}, False

    def __enter__(self):
        if (self.hardware.folder / "lost").exists():
            raise StudyError(f"{self.label}: cannot create a context")
        self.hardware.log(f"open {self.label}")
        return self

    def __exit__(self, *_):
        self.hardware.log(f"close {self.label}")

    def not_launchable(self, cell):
        return None if self.label == "cpu" else not_launchable(cell.product, LIMITS)

    def build(self, cell):
        build = None if self.label == "cpu" else build_for(cell.product)
        return build.kind if build else None

    def poison(self, cell):
        self.c[cell] = unwritten(cell)
        self.c[cell].view(np.uint32).fill(POISON_WORD)

    def run(self, cell, change=SAME, observers=(), later=0):
        with observed(observers):
            return self.multiplied(cell, change, later)

    def multiplied(self, cell, change, later):
        if self.broken:
            raise DeviceError("an illegal memory access was encountered (earlier)")
        self.hardware.log(f"run {cell} on core {','.join(map(str, os.sched_getaffinity(0)))}")
        if self.hardware.run_s:
            time.sleep(self.hardware.run_s)
        self.runs[cell] = self.runs.get(cell, 0) + 1
        if cell.product.is_user_supplied and isinstance(entry := cell.product.entry, UserCall):
            with suppress(CellError):  # without PyTorch
                load_call(Path(entry.file), entry.call)
        c = self.c.setdefault(cell, unwritten(cell))
        begins = [begin + later for begin in change.begins]
        a, b = self.inputs.rounded(cell.dtype, cell.shape, begins)
        np.matmul(a, b, out=c)
        for fault in self.hardware.faults:
            planned = (fault.variant, fault.n, fault.number)
            if planned == (cell.variant, cell.shape.n, self.runs[cell]):
                self.fail(fault.kind, c[0])
            if fault.kind == "later" and planned[:2] == (cell.variant, cell.shape.n):
                c[:] *= self.runs[cell] < fault.number
        return TIMING if self.label != "cpu" else Timing(TIMING.total_s)

    def fail(self, kind, c):
        match kind:
            case "wrong" | "nan":
                c[1, 2] = c[1, 2] + 1 if kind == "wrong" else np.nan
            case "unwritten":
                c[3] = np.nan
            case "refused":
                raise CellError("too many resources requested for launch")
            case "stopped":
                raise DeviceError("the launch timed out and was terminated")
            case "illegal":
                self.broken = True
                raise DeviceError("an illegal memory access was encountered")
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "lost":
                (self.hardware.folder / "lost").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(1e6)
            case _:
                assert kind == "later"

    def trials(self, cell):
        self.run(cell)
        return [Trial(s, number, 1e-3, s.pieces * 1e-3) for s in SETTINGS for number in (1, 2)]

    def use(self, settings):
        assert set(settings.values()) == {SETTINGS[1]}
        for cell in settings:
            self.hardware.log(f"use {cell}")

    def product(self, cell, kernel_only=False):
        return self.c[cell]

    def kernel_time(self, cell, flushed, change=SAME, observers=()):
        self.run(cell, change, observers, later=5 * step_bytes(cell))
        return KernelTime(5, KERNEL_S)

    def load(self, cell, ramp_s, length_s, observers):
        return KERNEL_S

    def idle(self, length_s, observers):
        pass

    def ceilings(self):
        self.busy_s += 0.5
        rounds = range(1, 7)
        return [Ceiling("fp32_flop_per_s", None, None, number, 1e12) for number in rounds]


@dataclass(frozen=True)
class FakeHardware(Host):
    """Fake GPUs of one model, and a fake or the real CPU.

    `folder` contains a log of all calls. A run takes `run_s`.
    """

    folder: Path
    faults: tuple[Fault, ...] = ()
    gpus: int = 2
    run_s: float = 0.0
    real_cpu: bool = False
    has_energy: bool = True

    def log(self, line):
        with (self.folder / "log").open("a") as stream:
            stream.write(line + "\n")

    def lines(self, beginning=""):
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(beginning)]

    def select(self, wanted):
        devices = [CudaDevice(index, "Stand-in", "8.6") for index in range(self.gpus)]
        return devices if wanted == "auto" else [devices[wanted]]

    def lock_file(self, device):
        return self.folder / f"gpu{device.index}.lock"

    def describe(self, device):
        facts = {"device": f"gpu{device.index}", "name": device.name, "multiprocessors": 1}
        facts |= {"compute_capability": device.compute_capability, "memory_bytes": 2**30}
        facts["limits"] = {"max_threads_per_block": LIMITS.max_threads_per_block}
        return facts | dict.fromkeys(NVML_FACTS)

    def drivers(self):
        return {"driver": "600.1", "cuda_driver": "13.9", "cublas": None}

    def open_gpu(self, device, inputs, builds, cubins, partner, primary=False):
        assert {(b.architecture, b.nvcc) for b in builds} == {("sm_86", "13.9.7")}
        assert (cubins / "sm_86" / "block-b4-float32-exact.cubin").is_file()
        return FakeDevice(self, f"gpu{device.index}", inputs)

    def open_cpu(self, library, inputs):
        if self.real_cpu:  # with ceilings of a few milliseconds
            cpu_ceilings._LEAST_BYTES = cpu_ceilings._MOST_BYTES = 2**16
            cpu_ceilings._CACHE_TRAFFIC_BYTES = 2**20
            ceilings.ROUNDS = 1
            return super().open_cpu(library, inputs)
        return FakeDevice(self, "cpu", inputs)

    def cold_start(self, device, cell, cubins, seed, limit_s):
        self.log(f"cold {cell}")
        return ColdStart(0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3, 1e-3, 0.223)


def record(root, out, cubins):
    """Record with fake GPUs, slowly enough to be killed; runs in a separate process."""
    from measurement.recorder import record as recorder  # not needed in worker processes
    from study.config import validate
    from tests.support.builds import cpu_library

    recorder.CACHE, recorder.build_library = root / "references", cpu_library
    config = validate(yaml.safe_load(CONFIG), "config.yaml")
    recorder.record(config, "auto", out, cubins, None, FakeHardware(root, run_s=0.002))


def record_warm(root, out, cubins):
    """Do the same with workers forked from a server with all imports."""
    from measurement.sampling import interference, supervisor
    from tests.support import warm

    warm.CONTEXT.set_forkserver_preload(["tests.support.fakes"])
    supervisor._SPAWN, interference._SETTLE_S = warm.CONTEXT, SETTLE_S
    record(root, out, cubins)


if __name__ == "__main__":  # FOLDER OUT CUBINS
    record(*map(Path, sys.argv[1:]))
