"""``gemm-study doctor``: compare this machine with the recorded machines."""

import operator
from collections.abc import Iterator, Sequence
from pathlib import Path

from base.command_line import ABSENT, print_json, table
from measurement.health.diagnosis import Finding, Row, findings, plain, rows
from measurement.health.examination import examine
from measurement.health.machine import Machine, in_folder
from measurement.recorder.hardware import Host
from study.config import load

_HEADS = ("", "ceiling", "unit", "here", "recorded", "verdict")


def doctor(
    config: Path, device: str | int, recordings: Path, as_json: bool, hardware: Host | None = None
) -> None:
    """Examine this machine and print its diagnosis; raise StudyError."""
    study = load(config)
    recorded = in_folder(recordings)  # read first, because the path may be wrong
    machine = examine(hardware or Host(), device, study.toolchain.nvcc)
    report(machine, recorded, as_json)


def report(machine: Machine, recorded: Sequence[Machine], as_json: bool = False) -> None:
    """Print the diagnosis of a machine, compared with recorded ones."""
    placed = rows(machine, recorded)
    unusual = findings(machine, placed)
    if as_json:
        print_json(plain(machine, placed, unusual))
    else:
        print("\n".join(lines(machine, placed, unusual)), flush=True)


def lines(machine: Machine, placed: Sequence[Row], unusual: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of a diagnosis."""
    host = machine.host
    yield f"{host['cpu_model']}, {host['usable_threads']} threads"
    for gpu in machine.gpus:
        power = gpu.state.get("power_w"), gpu.facts["power_limit_w"]
        clock = gpu.state.get("sm_clock_hz"), gpu.facts["sm_clock_max_hz"]
        state = (f"{_of(power, 1, 'W')}, SM clock {_of(clock, 1e9, 'GHz')}") if gpu.state else ""
        yield f"{gpu.facts['device']}: {gpu.facts['name']}; after load: {state or 'unknown'}"
    if not machine.gpus:
        yield "no NVIDIA GPU: only the CPU is examined"
    names = [(row.device, row.quantity, row.unit) for row in placed]
    values = [(f"{row.value:.3g}", *_known(row)) for row in placed]
    yield from table([_HEADS, *map(operator.add, names, values)])
    for one in unusual:
        yield f"unusual: {one.device}: {one.what}"
        yield from (f"  - {cause}" for cause in one.causes)
    if not unusual:
        yield "nothing unusual"
    if machine.gpus:
        yield "from which size the GPU is faster: gemm-study doctor --offload measures it"


def _known(row: Row) -> tuple[str, str]:
    ends = ABSENT if row.low is None else f"{row.low:.3g} to {row.high:.3g}"
    return ends, row.verdict


def _of(values: tuple[float | None, float | None], scale: float, unit: str) -> str:
    shown = [ABSENT if value is None else f"{value / scale:.3g}" for value in values]
    return f"{shown[0]} of {shown[1]} {unit}"
