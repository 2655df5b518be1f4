"""Comparing predictions with measurements at held-out sizes, which no fit uses."""

from collections.abc import Iterator, Mapping

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import is_library, whole
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.break_even import break_even_table
from analysis.decide.curves import curve_rows, unaligned
from analysis.decide.predictors import Predictor, predictor, within_reach
from analysis.decide.surfaces import HIGHEST
from analysis.decide.tabulated import predicted_times_table
from analysis.decide.transfer_tables import transfer_tables
from analysis.schema import bounded, renaming
from kernels.catalog.entries import VARIANTS

# Largest acceptable median error of predictions at held-out sizes, as a share of the measured time.
ERROR_BOUND = 0.15


def decision_tables(found: list[MeasuredSource]) -> dict[str, pd.DataFrame]:
    """Return the tables of break-even sizes and predictions by name."""
    transfers, points = transfer_tables(found)
    tables = {
        "predictors": predictors_table(found),
        "transfers": transfers,
        "transfer_points": points,
        "break_even": break_even_table(found),
    }
    fits = tables | {"curves": curve_rows(found)}
    tables["predicted_times"] = predicted_times_table(found, fits)
    tested = tables | {"curves": curve_rows(found, held_out=False)}
    return tables | {"predictions": predictions_table(found, tested)}


def predictors_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU: the parameters, besides the fits, that predictions need.

    launch_s: time of an empty kernel between two events, the least possible. fp32_flop_per_s,
    tensor_flop_per_s: the highest throughput of a kernel in strict FP32 and on tensor cores.
    least_n, largest_n: range of the measured sizes. unaligned_sizes, unaligned_half_width: see
    `analysis.decide.curves.unaligned`. error_bound: acceptable error of predictions.
    """
    rows = []
    for source in with_gpu(found):
        ceilings = source.own(source.recording.ceilings)
        empty = ceilings.loc[ceilings["quantity"] == "empty_kernel_s", "value"]
        cells = source.gpu_square_cells
        row: dict[str, object] = {"recording": source.recording_id, "gpu": source.label}
        row |= {name: source.gpu[name] for name in ("multiprocessors", "memory_bytes")}
        row |= {"gpu_name": source.gpu_name, "launch_s": empty.median() if len(empty) else None}
        if len(cells):
            row |= {"least_n": cells["n"].min(), "largest_n": cells["n"].max()}
            highest = _highest_flop_per_s(source.gpu_squares)
            row |= dict(zip(HIGHEST, highest, strict=True)) | unaligned(source)
        rows.append(row | {"error_bound": ERROR_BOUND})
    return from_rows("predictors", rows)


def _highest_flop_per_s(cells: pd.DataFrame) -> Iterator[float | None]:
    """Yield the highest kernel throughput in strict FP32 and on tensor cores."""
    tensor = cells["variant"].isin([name for name, one in VARIANTS.items() if one.tensor_cores])
    rates = 2 * cells["n"].astype(float) ** 3 / cells["kernel_s"]
    for chosen in (~tensor, tensor):
        yield rates[chosen].max() if rates[chosen].notna().any() else None


def predictions_table(
    found: list[MeasuredSource], fits: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return one row per GPU cell at a held-out size: measured, and predicted from other sizes.

    error_share: predicted over measured, minus 1. inside: whether the prediction interval contains
    the measured median. Intervals exclude the variation between sessions, which is common to the
    fitted and the held-out sizes. is_fastest, is_predicted_fastest: whether the kernel is the
    fastest of this study at this size with this kind of host memory.
    """
    recorded = {**fits, "curves": fits["curves"].assign(half_width=0.0)}
    frames = []
    for source in with_gpu(found):
        cells = source.gpu_square_cells
        cells = cells[cells["n"].isin(source.holdout_sizes) & cells["total_s"].notna()]
        for memory, own in cells.groupby("host_memory", sort=True):
            gpu = predictor(source.label, str(memory), recorded)
            if gpu is None:
                continue
            names = {"recording": source.recording_id, "gpu": source.label, "host_memory": memory}
            rows = list(_rows(gpu, own))
            if rows:
                frames.append(_with_fastest(pd.DataFrame(rows).assign(**names)))
    return stacked("predictions", frames)


def _rows(gpu: Predictor, cells: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield a row for each cell that has a prediction."""
    places = {(one.variant, one.block_size): place for place, one in enumerate(gpu.kernels)}
    ranges = [kernel.measured.sizes for kernel in gpu.kernels]
    for row in cells.assign(is_library=is_library(cells)).to_dict("records"):
        block, n = whole(row["block_size"]), int(row["n"])
        place = places.get((row["variant"], block))
        if place is None or not within_reach(ranges, n)[place, 0]:
            continue
        time_s, low_s, high_s = (each[0] for each in gpu.predict(gpu.kernels[place], n).bounds)
        yield {
            "variant": row["variant"],
            "block_size": block,
            "n": n,
            **{name: row[column] for column, name in renaming("total_s", "time_s").items()},
            **bounded("predicted_s", time_s, low_s, high_s),
            "error_share": time_s / row["total_s"] - 1,
            "inside": bool(low_s <= row["total_s"] <= high_s),
            "is_library": bool(row["is_library"]),
        }


def _with_fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a GPU and host memory, with the measured and predicted fastest marked."""
    own = rows[~rows["is_library"].astype(bool)]
    marks = {"is_fastest": "time_s", "is_predicted_fastest": "predicted_s"}
    found = {
        name: rows.index.isin(fastest(own, column, ["n"]).index) for name, column in marks.items()
    }
    return rows.assign(**found)
