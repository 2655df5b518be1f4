"""The figure about repeatability: variation between sessions."""

from matplotlib.figure import Figure

from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.drawing import rows, style
from analysis.stats.sessions import DEVICE_MEMORY, L2, LENGTHS

# Rows of the figure of sessions, by their columns of the table.
_TIMES = {
    **{("kernel", "pinned", at): f"kernel-only, data in {at}" for at in (L2, DEVICE_MEMORY)},
    **{
        ("total", memory, length): f"{memory}, {length}"
        for memory in ("pinned", "pageable")
        for length in LENGTHS
    },
}


def sessions(store: Store, devices: Devices) -> Figure | None:
    """Draw for each GPU and kind of time the factor within which a median is known.

    A line extends to the wider factor for the median of a new session.
    """
    frame = store["sessions"]
    frame = frame[~frame["host_work"].astype("boolean").fillna(False)]
    where = frame["matrices_in"].fillna(frame["length"])
    keys = zip(frame["quantity"], frame["host_memory"], where, strict=True)
    frame = frame.assign(kind=[_TIMES.get(key, "") for key in keys])
    frame = frame[frame["kind"] != ""]
    gpus = [gpu for gpu in devices.gpus[: style.MOST_COLOURS] if (frame["gpu"] == gpu.label).any()]
    if not gpus:
        return None
    kinds = [kind for kind in _TIMES.values() if (frame["kind"] == kind).any()]
    looks = style.looks_of(devices)
    figure, (axis,) = style.new_figure(height=1.2 + 0.34 * len(kinds))
    for number, gpu in enumerate(gpus):
        of_gpu = frame[frame["gpu"] == gpu.label]
        of_gpu = of_gpu.assign(low=of_gpu["mean_interval_factor"])
        y = of_gpu["kind"].map(kinds.index) + rows.offset(number, len(gpus))
        names = [f"{gpu.short}, {kind}" for kind in of_gpu["kind"]]
        columns = ("mean_interval_factor", "low", "new_session_interval_factor")
        rows.dots(axis, of_gpu, columns, list(y), looks[gpu.short], names, tell=style.times)
        rows.key(axis, looks[gpu.short], gpu.short)
    rows.name_rows(axis, kinds)
    style.factor_axis(axis, "x")
    axis.set_xlabel("factor within which a median is known")
    style.legend(figure, [axis])
    return figure


FIGURES = style.named(sessions)
