"""The fitted ρ, and independently measured cost ratios of global to shared accesses."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource
from analysis.models.definitions import RHO
from analysis.schema import bounded
from analysis.stats.estimates import bootstrap_medians, percentile_interval, seeded
from analysis.stats.uncertainty import DETERMINED, NO_INTERVAL

# Basis of a ratio. Latency: chains of dependent loads; bandwidth: loads of the same number of bytes
# by many warps.
FIT, LATENCY, BANDWIDTH = "fit", "latency", "bandwidth"
MEMORIES = ("l1", "l2", "dram")
_SHARED = "shared"
_LATENCIES = {memory: f"{memory}_latency_s" for memory in (*MEMORIES, _SHARED)}
_BANDWIDTHS = {memory: f"{memory}_bytes_per_s" for memory in ("l1", "l2", _SHARED)}
_BANDWIDTHS["dram"] = "device_copy_bytes_per_s"


def ratios_table(sources: Sequence[MeasuredSource], models: pd.DataFrame) -> pd.DataFrame:
    """Return ratios of the cost of a global access to the cost of a shared access.

    `of` is the model that defines ρ (its fit to the most kernels), or the memory that serves the
    global access. Ratios of ceilings are of medians over their rounds, with bootstrap intervals.
    `models` is the table models.
    """
    rho = models[models["parameter"] == RHO]
    rho = rho.loc[rho.groupby(["source", "model"], sort=False)["cells"].idxmax()]
    frames = []
    for name, of_source in rho.groupby("source", sort=False):
        frames.append(of_source.assign(basis=FIT, of=of_source["model"]))
        frames += [_of_ceilings(source) for source in sources if source.label == name]
    return stacked("model_ratios", frames)


def _of_ceilings(source: MeasuredSource) -> pd.DataFrame:
    ceilings = source.recording.ceilings
    of_gpu = ceilings[(ceilings["device"] == source.device) & ceilings["host_memory"].isna()]
    rounds = {str(name): group["value"].to_numpy() for name, group in of_gpu.groupby("quantity")}
    rows = []
    for basis, names in ((LATENCY, _LATENCIES), (BANDWIDTH, _BANDWIDTHS)):
        for memory in MEMORIES:
            sides = [names[memory], names[_SHARED]]
            if basis == BANDWIDTH:
                sides.reverse()  # cost is the inverse of bandwidth
            if not set(sides) <= set(rounds):
                continue
            value = np.divide(*(np.median(rounds[name]) for name in sides))
            seeds = (seeded("ratios", source.label, name) for name in sides)
            draws = map(bootstrap_medians, (rounds[name] for name in sides), seeds)
            bounds = percentile_interval(np.divide(*draws))
            status = NO_INTERVAL if np.isnan(bounds).any() else DETERMINED
            row = {"basis": basis, "of": memory, "status": status}
            rows.append(row | bounded("value", value, *bounds))
    return pd.DataFrame(rows).assign(source=source.label, machine=source.machine)
