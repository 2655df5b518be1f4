"""``gemm-study doctor --offload``: from which size this machine's GPU is faster, measured here.

The measurement is a small study of a BLAS library on the GPU and all libraries on the CPU. It
covers square products and products with a vector, with A on the host or on the GPU.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data import recordings
from analysis.decide.break_even import ABOVE, BELOW
from analysis.decide.locations import location_break_even_table
from base.command_line import print_json, table
from base.errors import StudyError
from kernels.catalog.locations import LOCATIONS
from measurement.recorder.hardware import Host
from measurement.recorder.record import record
from study.config import Config, validate

_SQUARE = [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]
_VECTOR = [f"{n}x{n}x1" for n in (128, 256, 512, 1024, 2048, 4096, 8192)]
_KERNELS = ["cublas_sgemm", "register_tile_async"]
_SERIES = {"dtypes": ["float32"], "block_sizes": [32]}
_LOCATIONS = ["pinned", "pageable", "a_resident"]
_PROTOCOL = {"gpu_cell_budget_s": 0.05, "cpu_cell_budget_s": 0.1, "cold_starts": 0}
_HEADS = ("product", "data", "GPU", "faster from", "95 % interval", "CPU at this size")


def offload(config: Config, device: str | int, as_json: bool, hardware: Host | None = None) -> None:
    """Measure the break-even sizes of a GPU of this host and print them; raise StudyError."""
    hardware = hardware or Host()
    if not hardware.select(device):
        raise StudyError("--offload: no NVIDIA GPU on this host; check `nvidia-smi`")
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as folder:
        out = Path(folder) / "here"
        record(small_study(config), device, out, None, hardware=hardware)
        sources = recordings.sources(recordings.load({"here": [out]}))
        names = {source.label: source.gpu_name for source in sources}
        sizes = location_break_even_table(sources)
    thresholds = [_plain(row, names) for row in sizes.to_dict("records")]
    if not thresholds:
        raise StudyError("--offload: too few sizes were measured; see the messages above")
    if as_json:
        print_json({"thresholds": thresholds})
    else:
        print("\n".join(_lines(thresholds)))


def small_study(config: Config) -> Config:
    """Return a configuration that measures only what break-even sizes need."""
    plain = config.study.plain()
    placed = _SERIES | {"variants": _KERNELS, "host_memory": _LOCATIONS}
    vector = placed | {"variants": _KERNELS[:1], "shapes": _VECTOR}
    plain |= {"sizes": _SQUARE, "holdout_sizes": [], "variants": _KERNELS, "scope": "full"}
    plain |= {"series": [placed | {"shapes": _SQUARE}, vector]}
    plain["cpu"] |= {"variants": ["packed", "blas", "mkl", "blis"], "size_limits": []}
    plain["cpu"] |= {"sizes": _SQUARE, "shapes": _VECTOR}
    plain["protocol"] |= _PROTOCOL
    for key in ("interference", "energy", "throughput", "quick"):
        plain.pop(key, None)
    return validate({**config.plain(), "study": plain}, config.name, config.study.catalog)


def _plain(row: dict[str, Any], names: dict[str, str | None]) -> dict[str, Any]:
    """Return a break-even size as plain values; `n` is None if the GPU is never faster.

    `n` is the longest edge. If the GPU is faster at all measured sizes, it is the least.
    """
    location = row["location"]
    n = {BELOW: row["least_n"], ABOVE: None}.get(location, row["n"])
    bounds = [None if pd.isna(row[name]) else float(row[name]) for name in ("n_low", "n_high")]
    return {
        "gpu": names[row["gpu"]],
        "shape": row["family"],
        "host_memory": row["host_memory"],
        "implementation": row["variant"],
        "n": None if n is None else int(n),
        "low": bounds[0],
        "high": bounds[1],
        "is_faster_everywhere": location == BELOW,
        "largest_n": int(row["largest_n"]),
        "cpu_implementation": row["cpu_variant"],
        "cpu_threads": int(row["cpu_threads"]),
    }


def _lines(thresholds: list[dict[str, Any]]) -> Iterator[str]:
    yield from table([_HEADS, *(_cells(row) for row in thresholds)])
    yield "Sizes are N of N×N products, and of N×N times a vector; copies of the data included."


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if row["n"] is None:
        size, interval = f"not up to {row['largest_n']}", "-"
    else:
        size = f"all sizes ≥ {row['n']}" if row["is_faster_everywhere"] else f"N = {row['n']}"
        interval = _interval(row["low"], row["high"])
    cpu = f"{row['cpu_implementation']}, {row['cpu_threads']} threads"
    data = LOCATIONS[row["host_memory"]].title
    return (row["shape"], data, row["implementation"], size, interval, cpu)


def _interval(low: float | None, high: float | None) -> str:
    ends = (
        "?" if bound is None else "∞" if bound == float("inf") else f"{bound:.0f}"
        for bound in (low, high)
    )
    return " to ".join(ends)
