"""What a product takes of energy, by the GPU's own counter."""

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import Source, labelled, with_gpu
from analysis.domain import SHAPE
from analysis.stats.estimates import Groups
from measurement.recording.recording import KERNEL

_MEASURED = ("launches", "duration_s", "launch_s", "power_w", "idle_power_w", "energy_j")


def energy_table(found: list[Source]) -> pd.DataFrame:
    """Return one row a kernel whose energy was read, of several sessions their medians.

    energy_j is that of one product, flop_per_j 2·batch·m·n·k over it: operations a second and watt,
    of the whole GPU. idle_power_w is the GPU's with a context open and nothing running.
    """
    return stacked("energy", [labelled(source, _energy(source)) for source in with_gpu(found)])


def _energy(source: Source) -> pd.DataFrame:
    own = source.own(source.recording.energy)
    kernels = Groups.of(own, KERNEL)
    rows = kernels.keys.assign(
        **{name: kernels.medians(own[name].astype(float))[0] for name in _MEASURED}
    )
    flop = 2.0 * rows[list(SHAPE)].astype(float).prod(axis=1)
    return rows.assign(launches=rows["launches"].round(), flop_per_j=flop / rows["energy_j"])
