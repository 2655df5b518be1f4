"""The three answers of the report, for the terminal."""

from pathlib import Path

from analysis.data.devices import Device, devices
from analysis.data.store import Store
from analysis.render.numbers import ABSENT, text
from analysis.render.query import Row, rows
from analysis.schema import COUNT, Unit, column


def answers(tables_dir: Path | str, focus: str | None = None) -> str:
    """Return the three answers for the GPU in focus and for devices measured on this host.

    Raise StoreError if a table is missing or `focus` was not measured.
    """
    store = Store(tables_dir)
    measured = devices(store, focus)
    found = rows(store, "answers")
    texts = []
    for device in measured.all:
        label = device.label if device.is_gpu else None
        row = found.where(recording=device.recording, gpu=label).first
        if row and (device is measured.focus or device.live):
            texts.append(_of(device, row))
    return "\n\n".join(texts)


def _of(device: Device, row: Row) -> str:
    fastest = f"{row['variant']}, N = {row['n']}" if row["variant"] else ""
    fastest += f", {row['host_memory']} memory" if row["host_memory"] else ""
    lines = [("fastest implementation", _number(row, "total_s"), fastest)]
    if device.is_gpu:
        baseline = f"over {row['cpu_best_variant']} on {row['cpu_best_threads']} threads"
        speedup = _number(row, "speedup")
        lines.append(("speedup over the CPU", speedup, baseline if row["speedup"] else ""))
        memory = row["break_even_host_memory"]
        copies = f"{memory} memory, copies included" if memory else ""
        lines.append(("break-even size", _break_even(row), copies))
    aligned = [f"  {name:24}{value:14}{detail}".rstrip() for name, value, detail in lines]
    return "\n".join([device.title, *aligned])


def _break_even(row: Row) -> str:
    match row["break_even_location"]:
        case "measured":
            return f"N = {_number(row, 'break_even_n', COUNT)}"
        case "below":
            return f"below N = {_number(row, 'break_even_least_n')}"
        case "above":
            return f"above N = {_number(row, 'break_even_largest_n')}"
    return ABSENT


def _number(row: Row, name: str, unit: Unit | None = None) -> str:
    unit = unit or column("answers", name).unit
    space = "" if unit.name == "×" else " "
    return ABSENT if row[name] is None else f"{text(row, name, unit)}{space}{unit.name}".strip()
