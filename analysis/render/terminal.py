"""The three answers, as the terminal shows them at the end of a run."""

from pathlib import Path

from analysis.data.devices import Device, devices
from analysis.data.store import Store
from analysis.render.numbers import ABSENT, text
from analysis.render.query import Row, rows
from analysis.schema import Unit, column


def answers(tables_dir: Path | str, focus: str | None = None) -> str:
    """Return the three answers on the GPU in focus, and on what was measured on this host.

    Raises StoreError where a table is missing or `focus` was not measured.
    """
    store = Store(tables_dir)
    measured = devices(store, focus)
    shown = [device for device in measured.all if device is measured.focus or device.live]
    found = rows(store, "answers")
    texts = []
    for device in shown:
        label = device.label if device.is_gpu else None
        row = found.where(recording=device.recording, gpu=label).first
        if row is not None:
            texts.append(_of(device, row))
    return "\n\n".join(texts)


def _of(device: Device, row: Row) -> str:
    way, speedup, break_even = _number(row, "total_s"), _number(row, "speedup"), ABSENT
    places = {"measured": f"N = {_number(row, 'break_even_n', Unit(1.0, '', 0))}"}
    places |= {"below": f"below N = {_number(row, 'break_even_least_n')}"}
    places |= {"above": f"above N = {_number(row, 'break_even_largest_n')}"}
    break_even = places.get(row["break_even_location"], ABSENT)
    memory = f", {row['host_memory']} memory" if row["host_memory"] else ""
    lines = [device.title]
    lines.append(f"  fastest way       {way:14s}{row['variant'] or ''}, N = {row['n']}{memory}")
    if device.is_gpu:
        rival = f"{row['cpu_best_variant']} on {row['cpu_best_threads']} threads"
        lines.append(
            f"  speedup over its CPU {speedup:14s}{f'over {rival}' if row['gain'] else ''}"
        )
        lines.append(f"  worth it from     {break_even:14s}{_with(row['break_even_host_memory'])}")
    return "\n".join(lines)


def _with(memory: str | None) -> str:
    return f"{memory} memory, copies included" if memory else ""


def _number(row: Row, name: str, unit: Unit | None = None) -> str:
    unit = unit or column("answers", name).unit
    return ABSENT if row[name] is None else f"{text(row, name, unit)} {unit.name}".strip()
