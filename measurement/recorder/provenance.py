"""The provenance of a recording: host, GPUs, software, sources.

The provenance is published, so it contains no host name, user name, serial number or UUID. The UUID
of a GPU enters only a hash, together with a random number that is new at each start of the host.
"""

import hashlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pynvml

import cpu_reference.catalog
import cpu_reference.library
import kernels.cubins.compile
from base.errors import StudyError
from base.paths import ROOT, shown
from cpu_reference.blas import NumpyBlas
from cpu_reference.cores import caches, usable_threads
from kernels.catalog.source import code_sha256
from kernels.catalog.variant import Variant
from kernels.cubins.build import Build
from measurement.devices import cublas
from measurement.devices.discovery import CudaDevice, driver
from measurement.devices.gpu import attributes, read_limits
from measurement.recording.provenance_schema import USER_SUPPLIED, check_lines
from measurement.recording.schema import check_text

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_CPUS = Path("/proc/cpuinfo")
# Keys of /proc/cpuinfo by name in a recording; virtual machines often hide the model's name.
_CPU_IDENTITY = {"cpu_family": "cpu family", "cpu_number": "model", "cpu_stepping": "stepping"}
_PACKAGES = ["numpy", "scipy", "pandas", "pycuda", "nvidia-ml-py", "mkl", "torch", "blis"]


def utc_now() -> str:
    """Return the current UTC time in ISO 8601, to the second."""
    return utc(time.time())


def utc(unix_s: float) -> str:
    """Return a UNIX time as UTC in ISO 8601, to the second."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def host() -> dict[str, Any]:
    """Return the facts of this host and its CPU."""
    return {
        "cpu_model": _cpu_fact("model name") or platform.machine(),
        **{name: _number(_cpu_fact(key)) for name, key in _CPU_IDENTITY.items()},
        "logical_cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "usable_threads": usable_threads(),
        "caches": caches(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "os": f"{platform.system()} {platform.release()}",
    }


def _cpu_fact(key: str) -> str | None:
    """Return the value that /proc/cpuinfo gives for the key of the first CPU; None if missing."""
    for line in _CPUS.read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def machine_start(uuid: str = "") -> str | None:
    """Return a hash that changes with each start of the host; None if the system has no boot ID.

    With the `uuid` of a GPU, the hash is that of this GPU. See `boot_id` in random(4) of Linux.
    """
    try:
        started = _BOOT.read_text().strip()
    except OSError:
        return None
    return hashlib.sha256(f"{started} {uuid}".encode()).hexdigest()


def gpu(device: CudaDevice) -> dict[str, Any]:
    """Return the facts of one GPU: name, size, limits, clocks and link."""
    cuda = driver()
    gpu = cuda.Device(device.index)
    limits = asdict(read_limits(cuda, gpu)) | attributes(
        cuda,
        gpu,
        max_threads_per_multiprocessor="MAX_THREADS_PER_MULTIPROCESSOR",
        max_blocks_per_multiprocessor="MAX_BLOCKS_PER_MULTIPROCESSOR",
        registers_per_multiprocessor="MAX_REGISTERS_PER_MULTIPROCESSOR",
        shared_bytes_per_multiprocessor="MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
        l2_cache_bytes="L2_CACHE_SIZE",
    )
    del limits["compute_capability"]  # already a fact of the GPU
    return {
        "device": device.label,
        "name": device.name,
        "compute_capability": device.compute_capability,
        "multiprocessors": gpu.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT),
        "memory_bytes": limits.pop("memory_bytes"),
        **_nvml_facts(gpu.pci_bus_id()),
        "limits": limits,
    }


def _nvml_facts(pci_bus_id: str) -> dict[str, Any]:
    """Return the facts of a GPU that NVML reports; unsupported facts are None."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        mhz = 1_000_000

        def ask(function: Any, *arguments: Any) -> Any:
            try:
                return function(handle, *arguments)
            except pynvml.NVMLError:
                return None

        sm_mhz = ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM)
        memory_mhz = ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_MEM)
        ecc = ask(pynvml.nvmlDeviceGetEccMode)
        power_mw = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)
        return {
            "sm_clock_max_hz": sm_mhz and sm_mhz * mhz,
            "memory_clock_max_hz": memory_mhz and memory_mhz * mhz,
            "ecc": None if ecc is None else bool(ecc[0]),
            "pcie_generation": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
            "pcie_width": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
            "power_limit_w": power_mw and power_mw / 1000,
            "persistence_mode": ask(pynvml.nvmlDeviceGetPersistenceMode),
            "machine_start": machine_start(ask(pynvml.nvmlDeviceGetUUID) or pci_bus_id),
        }
    finally:
        pynvml.nvmlShutdown()


def drivers() -> dict[str, str | None]:
    """Return the versions of the NVIDIA driver, of the CUDA it supports, and of cuBLAS."""
    pynvml.nvmlInit()
    try:
        version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
            "cublas": cublas.version(),
        }
    finally:
        pynvml.nvmlShutdown()


def blas() -> dict[str, Any]:
    """Return the facts of NumPy's BLAS; all None if threadpoolctl does not support it."""
    try:
        return NumpyBlas().facts()
    except StudyError:
        return dict.fromkeys(("blas", "blas_version", "blas_architecture"))


def packages() -> dict[str, str | None]:
    """Return the versions of the Python packages used to measure; None for one not installed."""
    versions: dict[str, str | None] = dict.fromkeys(_PACKAGES)
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def compile_flags() -> dict[str, list[str]]:
    """Return the flags of each compiler."""
    return {"nvcc_flags": kernels.cubins.compile.FLAGS, "gcc_flags": cpu_reference.library.FLAGS}


def sources(
    builds: Iterable[Build], calls: Iterable[Variant], cpu_variants: Iterable[str]
) -> dict[str, str]:
    """Return the `code_sha256` of every measured source file, by its path in the project.

    A user-supplied file is named ``brought/NAME.cu`` or .py, because its path may be private.
    """
    files = {path: ROOT / file for path, file in _files(builds, calls).items()}
    named = [cpu_reference.catalog.variant(name).source for name in cpu_variants]
    cpu_paths = [source for source in named if source] + [cpu_reference.library.CEILINGS]
    files |= {path: ROOT / path for path in cpu_paths}
    return {path: code_sha256(file.read_text()) for path, file in sorted(files.items())}


def texts(builds: Iterable[Build], calls: Iterable[Variant]) -> dict[str, list[str]]:
    """Return the lines of every user-supplied file, named as in `sources`.

    Raise StudyError if a file is too long for a recording or contains unprintable characters.
    """
    files = _files(builds, calls)
    return {path: _lines(file) for path, file in files.items() if file.is_absolute()}


def _files(builds: Iterable[Build], calls: Iterable[Variant]) -> dict[str, Path]:
    """Return the files of kernels and Python functions by their names in a recording."""
    named = [(build.variant, build.source) for build in builds]
    named += [(entry.name, str(entry.source)) for entry in calls]
    files = [(name, Path(source)) for name, source in named]
    return {
        f"{USER_SUPPLIED}/{name}{file.suffix}" if file.is_absolute() else str(file): file
        for name, file in files
    }


def _lines(file: Path) -> list[str]:
    lines = file.read_text().split("\n")
    try:
        for line in check_lines(lines):
            check_text(line)
    except ValueError as error:
        raise StudyError(f"{shown(file)}: cannot be recorded: {error}; change it") from None
    return lines
