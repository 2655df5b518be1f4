"""The systems of the sources, one by one: which variant each is, where it stands, how it fares."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import cpu_reference.catalog
from analysis.data.frames import stacked
from analysis.data.published import numbered_rows
from analysis.domain import CPU, SHAPE, STATUSES
from base.errors import StudyError
from kernels.catalog.entries import VARIANTS

SIDES = ("gpu", "cpu")
FIELDS = ["source", "system", "side", "variant"]
_BEST = ["best_flop_per_s", "dtype", *SHAPE, "block_size", "host_memory", "threads"]


@dataclass(frozen=True)
class System:
    """A system of a source and the variant that it is here; `side` is one of `SIDES`."""

    source: str
    system: str
    side: str
    variant: str

    @property
    def listed_in(self) -> str:
        """Path of its source file, or the name of the library."""
        catalog = cpu_reference.catalog.VARIANTS if self.side == "cpu" else VARIANTS
        entry = catalog[self.variant]
        return entry.source or entry.title


def read(path: Path) -> list[System]:
    """Read the list of systems; raises StudyError naming the row that is none."""
    found = []
    for number, line in numbered_rows(path, FIELDS):
        system = System(*line.values())
        known = {"gpu": set(VARIANTS), "cpu": set(cpu_reference.catalog.VARIANTS)}
        if system.variant not in known.get(system.side, ()):
            raise StudyError(
                f"{path}: row {number}: {system.side} {system.variant!r} is in no catalog; correct "
                "side or variant"
            )
        found.append(system)
    return found


def systems_table(systems: list[System], frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row a system and GPU (for those of a CPU: recording).

    `frames` are the tables recordings, checks and summary. Cells are counted by the outcome of
    their check. best_flop_per_s is the highest rate of any cell (of its kernel, on a GPU), with
    that cell; empty where none was timed. Without a recording there is one row a system.
    """
    devices = frames["recordings"]
    gpus = devices[devices["gpu"].notna()]
    places = {"gpu": gpus, "cpu": devices.drop_duplicates("recording").assign(gpu=None, device=CPU)}
    on = ["recording", "device", "variant"]
    counts = frames["checks"].groupby([*on, "status"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=STATUSES, fill_value=0).add_prefix("cells_")
    summary = frames["summary"]
    rate = summary["kernel_flop_per_s"].where(summary["device"] != CPU, summary["flop_per_s"])
    timed = summary.assign(best_flop_per_s=rate)[rate.notna()]
    best = timed.loc[timed.groupby(on)["best_flop_per_s"].idxmax()]
    rows = []
    for system in systems:
        named = {name: getattr(system, name) for name in (*FIELDS, "listed_in")}
        where = places[system.side][["recording", "gpu", "device"]]
        rows.append(where.assign(**named) if len(where) else pd.DataFrame([named]))
    table = pd.concat(rows).reindex(columns=[*on[:2], "gpu", *FIELDS, "listed_in"])
    table = table.merge(counts.reset_index(), how="left", on=on)
    counted = table["recording"].notna()
    table.loc[counted, list(counts)] = table.loc[counted, list(counts)].fillna(0)
    return stacked("systems", [table.merge(best[[*on, *_BEST]], how="left", on=on)])
