"""Predictions compared with measurements at held-out sizes, which no fit uses."""

import csv
import io
from collections.abc import Iterator, Mapping

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import is_library, whole
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.break_even import break_even_table
from analysis.decide.curves import curves_table
from analysis.decide.predictors import CsvRow, Predictor, predictor
from analysis.decide.tabulated import predicted_times_table
from analysis.decide.transfer_tables import transfer_tables
from analysis.schema import bounded, renaming

# Largest acceptable median error of predictions at held-out sizes, as a share of the measured time.
ERROR_BOUND = 0.15


def decision_tables(found: list[MeasuredSource]) -> dict[str, pd.DataFrame]:
    """Return the tables of break-even sizes and predictions by name."""
    transfers, points = transfer_tables(found)
    tables = {
        "predictors": predictors_table(found),
        "transfers": transfers,
        "transfer_points": points,
        "curves": curves_table(found),
        "break_even": break_even_table(found),
    }
    texts = {name: as_text(tables[name]) for name in ("predictors", "transfers", "curves")}
    tables["predicted_times"] = predicted_times_table(found, texts)
    return tables | {"predictions": predictions_table(found, tables)}


def predictors_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return the parameters of each GPU that predictions need besides the fits.

    launch_s: time of an empty kernel between two events, the minimum of a kernel time. least_n,
    largest_n: range of the fitted sizes. error_bound: acceptable error of predictions.
    """
    rows = []
    for source in with_gpu(found):
        ceilings = source.own(source.recording.ceilings)
        empty = ceilings.loc[ceilings["quantity"] == "empty_kernel_s", "value"]
        cells = source.gpu_square_cells
        sizes = cells.loc[~cells["n"].isin(source.holdout_sizes), "n"]
        row: dict[str, object] = {"recording": source.recording_id, "gpu": source.label}
        row |= {name: source.gpu[name] for name in ("multiprocessors", "memory_bytes")}
        row |= {"gpu_name": source.gpu_name, "launch_s": empty.median() if len(empty) else None}
        if len(sizes):
            row |= {"least_n": sizes.min(), "largest_n": sizes.max()}
        rows.append(row | {"error_bound": ERROR_BOUND})
    return from_rows("predictors", rows)


def as_text(frame: pd.DataFrame) -> list[CsvRow]:
    """Return the rows of a table as text, as in its CSV file."""
    return list(csv.DictReader(io.StringIO(frame.to_csv(index=False))))


def predictions_table(
    found: list[MeasuredSource], tables: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return one row per GPU cell at a held-out size: measured, and predicted from `tables`.

    error_share: predicted over measured, minus 1. inside: whether the prediction interval contains
    the measured median. Intervals exclude the variation between sessions, which is common to the
    fitted and the held-out sizes. is_fastest, is_predicted_fastest: whether the kernel is the
    fastest of this study at this size with this kind of host memory.
    """
    recorded = {**tables, "curves": tables["curves"].assign(half_width=0.0)}
    texts = {name: as_text(recorded[name]) for name in ("predictors", "transfers", "curves")}
    frames = []
    for source in with_gpu(found):
        cells = source.gpu_square_cells
        cells = cells[cells["n"].isin(source.holdout_sizes) & cells["total_s"].notna()]
        for memory, own in cells.groupby("host_memory", sort=True):
            gpu = predictor(source.label, str(memory), *texts.values())
            if gpu is None:
                continue
            names = {"recording": source.recording_id, "gpu": source.label, "host_memory": memory}
            rows = list(_rows(gpu, own))
            if rows:
                frames.append(_with_fastest(pd.DataFrame(rows).assign(**names)))
    return stacked("predictions", frames)


def _rows(gpu: Predictor, cells: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the rows of the cells that have a prediction."""
    kernels = {(kernel.variant, kernel.block_size): kernel for kernel in gpu.kernels}
    for row in cells.assign(is_library=is_library(cells)).to_dict("records"):
        block = whole(row["block_size"])
        kernel = kernels.get((row["variant"], block))
        if kernel is None or kernel not in gpu.candidates(int(row["n"])):
            continue
        predicted = gpu.predict(kernel, int(row["n"]))
        yield {
            "variant": row["variant"],
            "block_size": block,
            "n": int(row["n"]),
            **{name: row[column] for column, name in renaming("total_s", "time_s").items()},
            **bounded("predicted_s", predicted.time_s, predicted.low_s, predicted.high_s),
            "error_share": predicted.time_s / row["total_s"] - 1,
            "inside": bool(predicted.low_s <= row["total_s"] <= predicted.high_s),
            "is_library": bool(row["is_library"]),
        }


def _with_fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of one GPU and kind of host memory with the fastest at each size marked."""
    own = rows[~rows["is_library"].astype(bool)]
    marks = {"is_fastest": "time_s", "is_predicted_fastest": "predicted_s"}
    found = {
        name: rows.index.isin(fastest(own, column, ["n"]).index) for name, column in marks.items()
    }
    return rows.assign(**found)
