"""Which NVIDIA GPUs this host has, and PyCUDA to use them: asked in one place."""

import os
from dataclasses import dataclass
from types import ModuleType

import pynvml

from base.errors import StudyError


@dataclass(frozen=True)
class CudaDevice:
    """One GPU: its CUDA index, its name, its compute capability such as ``9.0``."""

    index: int
    name: str
    compute_capability: str


def driver() -> ModuleType:
    """Return `pycuda.driver`, initialised; raises StudyError where PyCUDA or libcuda is missing."""
    # NVML numbers GPUs by bus; CUDA's own default order puts the fastest first.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        import pycuda.driver as cuda
    except ImportError as error:
        if "libcuda" in str(error):
            raise StudyError(
                "libcuda.so.1: not found; install the NVIDIA driver, or remove the live GPU from "
                "the config's gpus"
            ) from None
        raise StudyError(
            "PyCUDA: not installed; run `make setup`, or `pip install --require-hashes -r "
            "requirements-gpu.lock` with nvcc on PATH"
        ) from None
    try:
        cuda.init()
    except cuda.Error as error:
        raise StudyError(f"CUDA: the driver does not start ({error}); check `nvidia-smi`") from None
    return cuda


def cuda_devices() -> list[CudaDevice]:
    """Return the GPUs of this host that CUDA may use; none without an NVIDIA driver.

    Raises StudyError where there is a GPU but PyCUDA or libcuda is missing.
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
    """Return the GPUs that a config's `device` names: ``auto`` is all of them, also none.

    Another text is a part of their name, in capitals or not. Raises StudyError for an index or a
    name that is not there.
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
            f"GPU {wanted}: not on this host, which has: {here}; set the entry's device to one of "
            "them, or to auto"
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
