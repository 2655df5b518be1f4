"""Energy per product, from the GPU's energy counter."""

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, with_gpu
from analysis.domain import SHAPE
from analysis.stats.estimates import Groups
from measurement.recording.recording import KERNEL

_MEASURED = ("launches", "duration_s", "launch_s", "power_w", "idle_power_w", "energy_j")


def energy_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per kernel with measured energy; values are medians over sessions.

    energy_j: joules per product of the whole GPU; flop_per_j: 2·batch·m·n·k over energy_j.
    idle_power_w: power of the GPU with an open context and no running kernel.
    """
    return stacked("energy", [labelled(source, _energy(source)) for source in with_gpu(found)])


def _energy(source: MeasuredSource) -> pd.DataFrame:
    own = source.own(source.recording.energy)
    kernels = Groups.of(own, KERNEL)
    medians = {name: kernels.medians(own[name].astype(float))[0] for name in _MEASURED}
    rows = kernels.keys.assign(**medians)
    flop = 2.0 * rows[list(SHAPE)].astype(float).prod(axis=1)
    return rows.assign(launches=rows["launches"].round(), flop_per_j=flop / rows["energy_j"])
