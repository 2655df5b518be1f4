"""The systems of the sources, one by one: which variant each is, where it stands, how it fares."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import cpu_reference.catalog
from analysis.data.published import numbered_rows
from analysis.data.recordings import Source
from analysis.domain import CPU
from kernels.catalog import VARIANTS
from measurement.errors import StudyError

SIDES = ("gpu", "cpu")
FIELDS = ["source", "system", "side", "variant"]
_STATUSES = ("passed", "failed", "not_launchable")
_CELL = ["dtype", "batch", "m", "n", "k", "block_size", "host_memory", "threads"]
COLUMNS = [
    *(*FIELDS, "stands_at", "recording", "gpu"),
    *(f"cells_{status}" for status in _STATUSES),
    *("best_flop_per_s", *_CELL),
]


@dataclass(frozen=True)
class System:
    """A system of a source and the variant that it is here; `side` is one of `SIDES`."""

    source: str
    system: str
    side: str
    variant: str

    @property
    def stands_at(self) -> str:
        """Path of its source file, or the name of the library."""
        catalog = cpu_reference.catalog.VARIANTS if self.side == "cpu" else VARIANTS
        entry = catalog[self.variant]
        return entry.source or entry.title


def read(path: Path) -> list[System]:
    """Read the list of systems; raises StudyError naming the row that is none."""
    found = []
    for number, line in numbered_rows(path, "systems", FIELDS):
        system = System(*line.values())
        known = {"gpu": set(VARIANTS), "cpu": set(cpu_reference.catalog.VARIANTS)}
        if system.variant not in known.get(system.side, ()):
            raise StudyError(
                f"{path}: row {number}: {system.side} {system.variant!r} is in no catalog; correct "
                "side or variant"
            )
        found.append(system)
    return found


def systems_table(systems: list[System], found: list[Source]) -> pd.DataFrame:
    """Return one row a system and GPU (for those of a CPU: recording).

    Cells are counted by the outcome of their check. best_flop_per_s is the highest rate of any cell
    (of its kernel, on a GPU), with that cell; empty where none was timed. Without a source there is
    one row a system.
    """
    rows: list[dict[str, object]] = []
    for system in systems:
        named = {name: getattr(system, name) for name in (*FIELDS, "stands_at")}
        own = list(_rows(system, found))
        rows += [named | row for row in own or [{}]]
    integers = [f"cells_{s}" for s in _STATUSES] + ["batch", "m", "n", "k", "block_size", "threads"]
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(integers, "Int64"))


def _rows(system: System, found: list[Source]) -> Iterator[dict[str, object]]:
    """Yield what is known of a system on each GPU, or on the CPU of each recording."""
    on_cpu = system.side == "cpu"
    seen: set[str] = set()
    for source in found:
        if source.recording_id in seen if on_cpu else source.device is None:
            continue
        seen.add(source.recording_id)
        row: dict[str, object] = {
            "recording": source.recording_id,
            "gpu": None if on_cpu else source.label,
        }
        checks, cells = (
            frame[((frame["device"] == CPU) == on_cpu) & (frame["variant"] == system.variant)]
            for frame in (source.checks, source.cells)
        )
        row |= {f"cells_{s}": int((checks["status"] == s).sum()) for s in _STATUSES}
        time_s = cells["total_s" if on_cpu else "kernel_s"]
        rate = 2 * cells[["batch", "m", "n", "k"]].astype(float).prod(axis=1) / time_s
        if rate.notna().any():
            best = rate.idxmax()
            row |= {"best_flop_per_s": rate[best]} | cells.loc[best, _CELL].to_dict()
        yield row
