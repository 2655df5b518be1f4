"""Finding the NVIDIA GPUs of this host, and importing PyCUDA."""

import os
from dataclasses import dataclass
from types import ModuleType

import pynvml

from base.errors import StudyError
from base.paths import remedy


@dataclass(frozen=True)
class CudaDevice:
    """One GPU: its CUDA index, its name and its compute capability (for example ``9.0``)."""

    index: int
    name: str
    compute_capability: str

    @property
    def label(self) -> str:
        """The GPU's name in a recording, for example ``gpu0``."""
        return f"gpu{self.index}"


def driver() -> ModuleType:
    """Return `pycuda.driver`, initialised; raise StudyError if PyCUDA or libcuda is missing."""
    # NVML numbers GPUs in PCI bus order; CUDA's default order starts with the fastest.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        import pycuda.driver as cuda
    except ImportError as error:
        if "libcuda" in str(error):
            raise StudyError(
                "libcuda.so.1: not found; install the NVIDIA driver, or remove this host's GPU "
                "from `gpus` in config.yaml"
            ) from None
        raise StudyError(f"PyCUDA: not installed; run {remedy('make setup', 'pycuda')}") from None
    try:
        cuda.init()
    except cuda.Error as error:
        raise StudyError(f"CUDA: the driver does not start ({error}); check `nvidia-smi`") from None
    return cuda


def cuda_devices() -> list[CudaDevice]:
    """Return the GPUs of this host that CUDA can use; empty without an NVIDIA driver.

    Raise StudyError if there is a GPU but PyCUDA or libcuda is missing.
    """
    if not _nvml_finds_gpu():
        return []
    cuda = driver()
    devices = (cuda.Device(index) for index in range(cuda.Device.count()))
    return [
        CudaDevice(index, device.name(), ".".join(map(str, device.compute_capability())))
        for index, device in enumerate(devices)
    ]


def select(wanted: str | int) -> list[CudaDevice]:
    """Return the GPUs that the value `device` of a config selects; ``auto`` selects all, or none.

    An integer is a CUDA index; another text is part of a GPU's name, in any case. Raise StudyError
    if no GPU matches.
    """
    devices = cuda_devices()
    if wanted == "auto":
        return devices
    chosen = [
        device
        for device in devices
        if device.index == wanted
        or (isinstance(wanted, str) and wanted.casefold() in device.name.casefold())
    ]
    if not chosen:
        here = ", ".join(f"{d.index} ({d.name})" for d in devices) or "none"
        raise StudyError(
            f"GPU {wanted}: not found on this host (GPUs: {here}); set the device to one of them "
            "or to auto"
        )
    return chosen


def _nvml_finds_gpu() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    try:
        return bool(pynvml.nvmlDeviceGetCount() > 0)
    finally:
        pynvml.nvmlShutdown()
