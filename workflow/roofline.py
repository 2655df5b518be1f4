"""Where a user-supplied kernel is on the roofline of a recorded GPU, and what to try next."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.command_line import ABSENT, table
from base.errors import StudyError
from base.paths import ROOT
from kernels.catalog.entries import VARIANTS
from kernels.launches.accesses import Counted
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total
from study.config import Config

if TYPE_CHECKING:
    import pandas as pd

_HIGHER = 1.15  # a kernel whose limit is less than this factor higher is not suggested
_BOUNDS = {"compute": "FMAs", "l1": "L1", "shared": "shared memory", "pipe": "L1 + shared memory"}
_BOUNDS |= {"l2": "L2", "issue": "issue slots", "dram": "memory"}
_MERGED = "  > assumes that nvcc merges no loads of shared memory; merged loads raise it"


def focus(study: Config) -> Path | None:
    """Return the recording of the report's main GPU, or else the study's first one, if any."""
    entries = [gpu for gpu in study.gpus if gpu.folders]
    entries.sort(key=lambda gpu: gpu.id != study.report.focus)
    return ROOT / entries[0].folders[0] if entries else None


def position(
    counted: Counted, after: str | None, recording: Path
) -> tuple[list[str], Sequence[str]]:
    """Return a table of kernels and their neighbours on a GPU's roofline, and these names."""
    from analysis.data.recordings import load as load_recordings  # imports pandas: slow
    from analysis.data.recordings import sources, with_gpu
    from analysis.kernels.standing import largest_size, standing

    measured = with_gpu(sources(load_recordings({recording.name: [recording]})))
    if not measured:
        raise StudyError(f"--gpu: {recording}: contains no GPU; name another recording")
    size = largest_size(measured[0])
    pairs = list(counted.items())
    extended = {
        replace(small, shape=Shape.square(size)): {
            operation: _extended(totals[operation], twice[operation], small.shape.n, size)
            for operation in OPERATIONS
        }
        for (small, totals), (_, twice) in zip(pairs[::2], pairs[1::2], strict=True)
    }
    names = ("kernel", "B", "flop/byte", "nearest ceiling", "attainable TFLOP/s", "measured")
    rows = [[*names, "share"]]
    frame = standing(measured[0], extended, [after] if after else [])
    rows += [_standing_texts(row) for row in frame.to_dict("records")]
    note = [_MERGED] if (frame["bound"].isin(["shared", "pipe"]) & frame["is_own"]).any() else []
    title = f"on the roofline of {measured[0].gpu_name} at N = {size}, from the counts at "
    title += " and ".join(str(product.shape) for product, _ in pairs[:2])
    near = [name for name in frame["variant"] if name not in {p.variant for p in counted}]
    return [title, *table(rows), *note, *_steps(frame)], near


def _steps(frame: "pd.DataFrame") -> list[str]:
    """Return a line per kernel: what limits it, and the catalog's kernel that raises this limit."""
    lines = []
    others = frame[~frame["is_own"]].dropna(subset="bound_flop_per_s")
    for row in frame[frame["is_own"]].to_dict("records"):
        higher = others[others["bound_flop_per_s"] > _HIGHER * row["bound_flop_per_s"]]
        line = f"{row['variant']} is limited by {_BOUNDS[row['bound']]}"
        if len(higher):
            step = higher.loc[higher["bound_flop_per_s"].idxmin()]
            attainable = f"{step['bound_flop_per_s'] / 1e12:.3g} TFLOP/s"
            entry = VARIANTS.variant(step["variant"])
            line += f"; a step to {attainable}: {entry.idea} (as in {entry.source})"
        lines.append(line)
    return lines


def _standing_texts(row: Mapping[str, Any]) -> list[str]:
    """Return the texts of a row of the roofline table; a library has no bound."""
    has_bound, timed = not isnan(row["flop_per_byte_of_sectors"]), not isnan(row["kernel_s"])
    bound = (
        f"{row['flop_per_byte_of_sectors']:.3g}",
        _BOUNDS[row["bound"]],
        f"{row['bound_flop_per_s'] / 1e12:.3g}",
    )
    return [
        f"> {row['variant']}" if row["is_own"] else str(row["variant"]),
        ABSENT if isnan(row["block_size"]) else str(int(row["block_size"])),
        *(bound if has_bound else [ABSENT] * len(bound)),
        f"{row['kernel_flop_per_s'] / 1e12:.3g}" if timed else ABSENT,
        f"{row['share_of_bound']:.0%}" if timed and has_bound else ABSENT,
    ]


def _extended(small: Total, twice: Total, size: int, wanted: int) -> Total:
    """Return a total at size `wanted`, extrapolated as a·N³ + b·N² from `size` and twice `size`."""

    def at(low: int, high: int) -> int:
        cubic = (high - 4 * low) / (4 * size**3)
        square = low / size**2 - cubic * size
        return round(cubic * wanted**3 + square * wanted**2)

    pairs = zip(vars(small).values(), vars(twice).values(), strict=True)
    return Total(*(at(low, high) for low, high in pairs))
