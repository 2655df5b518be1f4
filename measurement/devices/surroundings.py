"""Settings of this host and of its GPUs that affect speed, read from Linux and NVML."""

import os
from pathlib import Path
from typing import Any

import pynvml

from cpu_reference.cores import granted_cpus
from measurement.devices.discovery import CudaDevice, driver

_ROOT = Path("/")


def surroundings(root: Path = _ROOT) -> dict[str, Any]:
    """Return the settings of this host that affect speed; `root` is its root folder."""
    nodes = list((root / "sys/devices/system/node").glob("node[0-9]*"))
    governor = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return {
        "virtual_machine": " hypervisor" in _text(root / "proc/cpuinfo"),
        "numa_nodes": max(1, len(nodes)),
        "iommu": any((root / "sys/class/iommu").glob("*")),
        "governor": _text(governor).strip() or None,
        "granted_cpus": granted_cpus(root),
        "load": os.getloadavg()[0],
    }


def gpu_state(device: CudaDevice, root: Path = _ROOT) -> dict[str, Any]:
    """Return the current link, power limits and NUMA node of a GPU; None where not reported."""
    bus = driver().Device(device.index).pci_bus_id()
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        asked = {
            "pcie_generation": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
            "pcie_width": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
            "default_power_limit_mw": pynvml.nvmlDeviceGetPowerManagementDefaultLimit,
        }
        link: dict[str, Any] = {}
        for name, ask in asked.items():
            try:
                link[name] = ask(handle)
            except pynvml.NVMLError:
                link[name] = None
    finally:
        pynvml.nvmlShutdown()
    limit_mw = link.pop("default_power_limit_mw")
    folder = root / "sys/bus/pci/devices" / bus.lower()[-12:]
    node = _text(folder / "numa_node").strip()
    cpus = {path.name for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*")}
    process_cpus = {f"cpu{index}" for index in os.sched_getaffinity(0)} & cpus
    near = {path.name for path in (root / f"sys/devices/system/node/node{node}").glob("cpu[0-9]*")}
    return link | {
        "default_power_limit_w": limit_mw and limit_mw / 1000,
        "iommu_domain": _text(folder / "iommu_group/type").strip() or None,
        "on_other_node": bool(near) and not process_cpus & near,
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
