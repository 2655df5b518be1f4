"""gemm-study doctor: a machine among the recorded ones, sick machines, and this machine."""

import json
import re
import shutil
from contextlib import nullcontext
from dataclasses import replace

import pytest

from base.errors import StudyError
from measurement.devices import surroundings
from measurement.health import command, examination
from measurement.health import machine as health_machine
from measurement.health.command import lines
from measurement.health.diagnosis import findings, link_bytes_per_s, rows
from measurement.health.machine import Machine, in_folder
from tests.support import ROOT
from tests.support.fakes import CONFIG, FakeHardware

FOLDER = ROOT / "data" / "recordings"
STATE = {"pcie_generation": 5, "pcie_width": 16, "default_power_limit_w": 700.0, "throttled": []}
STATE |= {"sm_clock_hz": 1.98e9, "memory_clock_hz": 3.2e9, "iommu_domain": None}
CAPPED, LOW_LIMIT = {"throttled": ["sw_power_cap"]}, {"power_limit_w": 350.0}
PAGEABLE = "h2d_bytes_per_s pageable"
VIRTUAL = {"virtual_machine": True, "numa_nodes": 2, "load": 0.1}


@pytest.fixture(scope="module")
def recorded():
    return in_folder(FOLDER)


@pytest.fixture(scope="module")
def host(recorded):
    """A recorded host of an H200, and the recordings without it."""
    (own,) = (one for one in recorded if one.label == "h200-sxm-9")
    gpu = replace(own.gpus[0], state=STATE)
    others = [one for one in recorded if one != own]
    return replace(own, gpus=(gpu,), surroundings=VIRTUAL), others


def sick(machine, state=(), facts=(), **factors):
    """Return the machine with other states and facts; `factors` by the start of a ceiling."""
    (gpu,) = machine.gpus
    values = {
        key: value * next((f for start, f in factors.items() if key.startswith(start)), 1)
        for key, value in gpu.ceilings.items()
    }
    changed = {"state": STATE | dict(state), "facts": {**gpu.facts, **dict(facts)}}
    return replace(machine, gpus=(replace(gpu, ceilings=values, **changed),))


def found(machine, others):
    return {one.what.split(":")[0]: one.causes for one in findings(machine, rows(machine, others))}


def test_a_recorded_host_has_no_unusual_value(host):
    assert found(*host) == {}
    assert {row.verdict for row in rows(*host)} == {"as recorded"}
    faster = sick(host[0], **{PAGEABLE: 2.0})
    assert {row.verdict for row in rows(faster, host[1])} == {"as recorded", "better"}
    assert found(faster, host[1]) == {}
    # Seen on an H200 after its tensor cores were measured, with every ceiling as recorded.
    assert found(sick(host[0], CAPPED), host[1]) == {}
    unknown = {"pcie_generation": None, "pcie_width": None}
    assert found(sick(host[0], unknown), host[1]) == {}
    said = "\n".join(lines(sick(host[0], {"power_w": 300.0}), [], []))
    assert said.endswith("gemm-study doctor --offload measures it")
    assert "after load: 300 of 700 W, SM clock 1.98 of 1.98 GHz" in said


UP, DOWN = "h2d_bytes_per_s pinned", "d2h_bytes_per_s pinned"
TO_GPU, FROM_GPU = "copy to the GPU, pinned", "copy from the GPU, pinned"
MEMORY, LATENCY = "memory bandwidth, GPU", "launch latency (empty run)"
LIMITED = "a setting limits the GPU; no value is low"
LINK, POWER = "the PCIe link runs at generation", "the power limit is"
NODE, OTHER_NODE = {"on_other_node": True}, "the GPU is on another NUMA node .*"
IOMMU, SLOWED = {"iommu_domain": "DMA-FQ"}, {"throttled": ["hw_slowdown"]}
HOT, LATE = {"throttled": ["hw_thermal_slowdown"]}, {"empty_total_s": 3}
CLOCK = r"the memory clock is 1\.60 GHz, the highest 3\.20 GHz"
SICK = [
    ({UP: 0.25, DOWN: 0.25}, {"pcie_width": 4}, {}, TO_GPU, f"{LINK} 5, 4 lanes; .* 16 lanes: .*"),
    ({UP: 0.8}, NODE, {}, TO_GPU, OTHER_NODE),
    ({DOWN: 0.8}, IOMMU, {}, FROM_GPU, "the IOMMU translates every copy.*"),
    ({"fp32": 0.6}, CAPPED, LOW_LIMIT, "FMA peak, float32", f"{POWER} 350 W, the default 700 W.*"),
    ({"fp16_tensor": 0.6}, SLOWED, {}, "tensor peak, float16", "the GPU reports hw_slowdown"),
    ({"device_copy": 0.75}, {"memory_clock_hz": 1.6e9}, {}, MEMORY, CLOCK),  # as an H100
    ({"device_copy": 0.75}, {}, {}, MEMORY, "ECC is on: it reduces.*"),
    ({"h2d_duplex": 0.1}, NODE, {}, "to the GPU, both at once", OTHER_NODE),
    ({PAGEABLE: 0.1}, {}, {}, "copy to the GPU, pageable", "the driver copies pageable memory .*"),
    (LATE, {}, {"persistence_mode": 1}, LATENCY, "a virtual machine: interrupts .*"),
    (LATE, {}, {"persistence_mode": 0}, LATENCY, "persistence mode is off"),
    ({}, {"pcie_generation": 3}, {}, LIMITED, f"{LINK} 3, .*"),
    ({}, HOT, {}, LIMITED, "the GPU reports hw_thermal_slowdown"),
    ({}, {}, {"power_limit_w": 400.0}, LIMITED, f"{POWER} 400 W.*"),
    ({}, {}, {"ecc": False}, "ECC is off", "memory errors stay unnoticed.*"),
]


@pytest.mark.parametrize(("factors", "state", "facts", "what", "cause"), SICK)
def test_an_unusual_host_is_diagnosed_with_possible_causes(
    host, factors, state, facts, what, cause
):
    machine, others = host
    causes = found(sick(machine, state, facts, **factors), others)
    assert list(causes) == [what]
    assert re.fullmatch(cause, causes[what][0])


def test_a_gpu_model_without_recordings_is_compared_with_the_speed_of_its_link(host):
    machine, others = host
    slow = sick(machine, {"pcie_width": 8}, {"name": "Unknown"}, h2d_bytes_per_s=0.5)
    assert list(found(slow, others)) == ["copies reach 44% of the link that the GPU supports"]
    verdicts = {row.verdict for row in rows(slow, others) if row.device == "gpu0"}
    assert verdicts == {"other hardware"}
    assert link_bytes_per_s(5, 16) == pytest.approx(63e9, rel=0.01)
    assert link_bytes_per_s(None, 16) is link_bytes_per_s(4, None) is None


def test_the_diagnosis_of_a_slow_cpu_names_possible_causes(host):
    machine, others = host
    slow = {key: value * (0.4 if "all" in key else 1) for key, value in machine.cpu.items()}
    around = {"virtual_machine": False, "numa_nodes": 2, "granted_cpus": 6.0, "load": 3.0}
    around["governor"] = "powersave"
    causes = found(replace(machine, cpu=slow, surroundings=around), others)
    threads = machine.host["usable_threads"]
    assert list(causes) == [
        f"{threads} threads reach 5.6 times the peak of one thread",
        *("CPU peak, all threads", "memory bandwidth, all threads"),
    ]
    loaded = "other processes use the CPU (load 3.0)", "the control group grants 6 CPUs"
    loaded += ("the frequency governor is powersave",)
    assert causes["CPU peak, all threads"] == loaded
    memory = causes["memory bandwidth, all threads"]
    assert memory == ("fewer memory channels in use", "memory of another NUMA node", *loaded)
    busy = replace(machine, surroundings={"load": 12.0})
    load = ("other processes use the CPU (load 12.0)",)
    assert found(busy, others) == {"other processes ran during the examination": load}


def test_an_error_names_a_wrong_folder_of_recordings(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for name in ("empty", "broken/b", "mixed/.git"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copytree(FOLDER / "h100-sxm-5", tmp_path / "mixed" / "a")
    (tmp_path / "broken" / "b" / "provenance.json").touch()
    assert [one.label for one in in_folder(tmp_path / "mixed")] == ["a"]
    for path in ("none", "file", "empty", "mixed/a"):
        with pytest.raises(StudyError, match="contains no recordings; name"):
            in_folder(tmp_path / path)
    with pytest.raises(StudyError, match=r"recording .*/broken/b: MANIFEST.sha256 is missing"):
        in_folder(tmp_path / "broken")

    def read(folder):
        return Machine(folder.name, {}, (), {}, facts={"at_once": folder.name != "h200-sxm-10"})

    monkeypatch.setattr(health_machine, "recorded", read)
    labels = [one.label for one in in_folder(FOLDER)]
    assert labels == ["h200-sxm-10"], "GPUs measured at once are no reference"


@pytest.mark.slow
def test_an_examination_measures_each_gpu_and_the_cpu(tmp_path, monkeypatch, capsys):
    locked = []
    for name, value in {
        "only_run": lambda device, *_: nullcontext(locked.append(device.index)),
        "build_all": lambda *_, **__: [],
        **dict.fromkeys(("find_nvcc", "find_gcc", "build_library"), lambda *_: None),
    }.items():
        monkeypatch.setattr(examination, name, value)
    monkeypatch.setattr(FakeHardware, "open_gpu", lambda self, *_: self.open_cpu(None, None))
    monkeypatch.setattr(FakeHardware, "state", lambda *_: {"pcie_width": 8})
    (tmp_path / "config.yaml").write_text(CONFIG)
    recordings = tmp_path / "recordings"
    shutil.copytree(FOLDER / "h100-sxm-5", recordings / "h100-sxm-5")
    hardware = FakeHardware(tmp_path, gpus=2)
    command.doctor(tmp_path / "config.yaml", "auto", recordings, True, hardware)
    answer = json.loads(capsys.readouterr().out)
    assert [gpu["state"]["pcie_width"] for gpu in answer["gpus"]] == [8, 8]
    assert answer["gpus"][0]["state"]["throttled"] == examination._reasons(None) == []
    assert examination._reasons(4) == ["sw_power_cap"]
    assert locked == [0, 1]
    peaks = [row for row in answer["ceilings"] if row["quantity"] == "FMA peak, float32"]
    assert [row["value"] for row in peaks] == [1.0, 1.0]


def test_the_settings_of_a_host_are_read_from_linux(tmp_path):
    for node in (0, 1):
        (tmp_path / f"sys/devices/system/node/node{node}").mkdir(parents=True)
    (tmp_path / "sys/class/iommu/dmar0").mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_bytes(b"name: \xff\nflags\t: fpu hypervisor sse\n")
    found = surroundings.surroundings(tmp_path)
    assert (found["virtual_machine"], found["numa_nodes"], found["iommu"]) == (True, 2, True)
    assert surroundings.surroundings(tmp_path / "none")["virtual_machine"] is False
