"""The systems that the sources describe: their variants here, and how their checks ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import cpu_reference.catalog
from analysis.data.best import fastest
from analysis.data.frames import stacked
from analysis.data.published import read_csv
from analysis.domain import CPU, SHAPE, STATUSES
from base.errors import StudyError
from kernels.catalog.entries import VARIANTS

SIDES = ("gpu", "cpu")
FIELDS = ["source", "system", "side", "variant"]
_BEST = ["best_flop_per_s", "dtype", *SHAPE, "block_size", "host_memory", "threads"]


@dataclass(frozen=True)
class System:
    """A system of a source, with its variant in this study; `side` is one of `SIDES`."""

    source: str
    system: str
    side: str
    variant: str

    @property
    def listed_in(self) -> str:
        """The path of the variant's source file, or the name of its library."""
        catalog = cpu_reference.catalog.VARIANTS if self.side == "cpu" else VARIANTS
        entry = catalog[self.variant]
        return entry.source or entry.title


def read(path: Path) -> list[System]:
    """Read the list of systems; raise StudyError naming a variant that is in no catalog."""
    rows = read_csv(path, dict.fromkeys(FIELDS, "str")).itertuples(index=False)
    systems = [System(*row) for row in rows]
    catalogs = {"gpu": set(VARIANTS), "cpu": set(cpu_reference.catalog.VARIANTS)}
    for one in systems:
        if one.variant not in catalogs.get(one.side, ()):
            raise StudyError(
                f"{path}: {one.side} {one.variant!r} is not in the catalog; correct side or variant"
            )
    return systems


def systems_table(systems: list[System], frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per system and GPU (CPU systems: per recording).

    `frames` contains recordings, checks and summary. Cells are counted by the outcome of their
    check. best_flop_per_s is the highest throughput of any cell (on a GPU, of its kernel), and
    other columns name that cell; blank without times. Without recordings, a system has one row.
    """
    devices = frames["recordings"]
    gpus = devices[devices["gpu"].notna()]
    hosts = devices.drop_duplicates("recording").assign(gpu=None, device=CPU)
    sides = {"gpu": gpus, "cpu": hosts}
    on = ["recording", "device", "variant"]
    counts = frames["checks"].groupby([*on, "status"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=STATUSES, fill_value=0).add_prefix("cells_")
    summary = frames["summary"]
    rate = summary["kernel_flop_per_s"].where(summary["device"] != CPU, summary["flop_per_s"])
    best = fastest(summary.assign(best_flop_per_s=rate), "best_flop_per_s", on, most=True)
    rows = []
    for system in systems:
        named = {name: getattr(system, name) for name in (*FIELDS, "listed_in")}
        where = sides[system.side][["recording", "gpu", "device"]]
        rows.append(where.assign(**named) if len(where) else pd.DataFrame([named]))
    table = pd.concat(rows).reindex(columns=[*on[:2], "gpu", *FIELDS, "listed_in"])
    table = table.merge(counts.reset_index(), how="left", on=on)
    counted = table["recording"].notna()
    table.loc[counted, list(counts)] = table.loc[counted, list(counts)].fillna(0)
    return stacked("systems", [table.merge(best[[*on, *_BEST]], how="left", on=on)])
