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
    shown = [one for one in measured.all if one is measured.focus or one.live]
    return "\n\n".join(_of(device, store) for device in shown)


def _of(device: Device, store: Store) -> str:
    label = device.label if device.is_gpu else None
    of_device = rows(store, "answers").where(recording=device.recording, gpu=label)
    fastest = of_device.where(role="fastest").first
    lines = [("fastest implementation", _number(fastest, "total_s"), _place(fastest))]
    if device.is_gpu:
        speedup = rows(store, "speedups").where(source=label, is_answer=True).first
        over = (
            speedup
            and f"over {speedup['baseline_variant']} on {speedup['baseline_threads']} threads"
        )
        same = {"host_memory": "pageable", "cpu_baseline": "best"}
        strict = rows(store, "choices").where(gpu=label, kernels="strict FP32", **same).first
        if strict:
            detail = f"pageable memory, over {strict['cpu_variant']}, N = {strict['n']}"
            lines.append(("speedup, strict FP32", _number(strict, "speedup"), detail))
        lines.append(("speedup over the CPU", _number(speedup, "speedup"), over or ""))
        even = rows(store, "break_even").where(gpu=label, is_answer=True).first
        copies = even and f"{even['host_memory']} memory, copies included"
        lines.append(("break-even size", _break_even(even), copies or ""))
    aligned = [f"  {name:24}{value:14}{detail}".rstrip() for name, value, detail in lines]
    return "\n".join([device.title, *aligned])


def _place(row: Row | None) -> str:
    if row is None:
        return ""
    memory = f", {row['host_memory']} memory" if row["host_memory"] else ""
    return f"{row['variant']}, N = {row['n']}{memory}"


def _break_even(row: Row | None) -> str:
    match row and row["location"]:
        case "measured":
            return f"N = {_number(row, 'n', COUNT)}"
        case "below":
            return f"below N = {_number(row, 'least_n')}"
        case "above":
            return f"above N = {_number(row, 'largest_n')}"
    return ABSENT


def _number(row: Row | None, name: str, unit: Unit | None = None) -> str:
    if row is None:
        return ABSENT
    unit = unit or column(row.place[0], name).unit
    space = "" if unit.name == "×" else " "
    return f"{text(row, name, unit)}{space}{unit.name}".strip()
