"""Memory accesses of every kernel: predicted by theory, counted on the host, and on the GPU."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.data.frames import concatenated, stacked
from analysis.data.recordings import MeasuredSource
from analysis.domain import CPU
from base.errors import StudyError
from kernels.catalog.product import Product
from kernels.host_execution.counts import COLUMNS
from measurement.recording.recording import KERNEL

_KERNEL = [name for name in KERNEL if name != "device"]
_TYPES = {
    **dict.fromkeys(("variant", "dtype", "build", "quantity", "ncu_metric"), "string"),
    **dict.fromkeys(("batch", "m", "n", "k", "block_size"), "Int64"),
    **dict.fromkeys(("line", "count", "theory", "merged"), "Int64"),
    **dict.fromkeys(("per_thread", "per_request"), "Float64"),
}
_QUANTITY = r"^((?:global|shared)_(?:load|store))_(.*)$"
_SOURCES = ("theory", "merged", "host", "counter")


@dataclass(frozen=True)
class Launch:
    """The theoretical counts of one launch by quantity, for example global_load_sectors.

    `merged` has the counts if adjacent loads are merged; `build` is the kind of build that runs.
    """

    build: str
    theory: dict[str, float]
    merged: dict[str, float]


def launches(counts: pd.DataFrame) -> dict[Product, Launch]:
    """Return the theoretical counts of each launch in a `counts_table`."""
    totals = counts.drop_duplicates([*_KERNEL, "quantity"])
    values = totals[["theory", "merged"]].astype(float)
    by_product: dict[Product, Launch] = {}
    kernels = totals[_KERNEL].astype(object).where(totals[_KERNEL].notna(), None)
    for row, build, quantity, theory, merged in zip(
        kernels.to_dict("records"),
        *(totals["build"], totals["quantity"], values["theory"], values["merged"]),
        strict=True,
    ):
        launch = by_product.setdefault(Product.of(row), Launch(build, {}, {}))
        launch.theory[quantity], launch.merged[quantity] = theory, merged
    return by_product


def read(paths: Iterable[Path]) -> pd.DataFrame:
    """Return several tables of `kernels.host_execution.counts` as one; raise StudyError."""
    frames = [pd.DataFrame(columns=COLUMNS).astype(_TYPES)]
    for path in paths:
        try:
            frame = pd.read_csv(path, dtype="string", keep_default_na=False)
            if list(frame.columns) != COLUMNS:
                raise ValueError(f"its columns are {list(frame.columns)}")
            frames.append(frame.replace("", pd.NA).astype(_TYPES))
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise StudyError(
                f"counts {path}: invalid table ({reason}); write it again with `gemm-study count`"
            ) from None
    return concatenated(frames)


def counts_table(counted: pd.DataFrame, sources: Iterable[MeasuredSource]) -> pd.DataFrame:
    """Return totals of launches: by theory, by host execution and by hardware counters.

    Each row is a kernel (`_KERNEL`), a quantity and a GPU that has a counter; without a counter,
    there is one row with empty recording, gpu and counter. Counters of kernels missing in `counted`
    are dropped. merged: theory if the compiler merges loads along rows of shared memory to 16
    bytes. agrees: whether all counts equal theory exactly; empty without counts.
    """
    totals = counted[counted["line"].isna()].rename(columns={"count": "host"})
    table = totals.merge(counters(sources), how="left", on=[*_KERNEL, "ncu_metric"])
    table[["operation", "measure"]] = table["quantity"].str.extract(_QUANTITY)
    table["counter_over_theory"] = table["counter"] / table["theory"].where(table["theory"] > 0)
    for source in _SOURCES:
        table[f"{source}_per_request"] = _per_request(table, source)
    differs = [(table[source] != table["theory"]).fillna(False) for source in ("host", "counter")]
    is_counted = table["host"].notna() | table["counter"].notna()
    table["agrees"] = (~(differs[0] | differs[1])).astype("boolean").mask(~is_counted)
    return stacked("counts", [table])


def counters(sources: Iterable[MeasuredSource]) -> pd.DataFrame:
    """Return the counters of every GPU, one row per launch and counter.

    Columns: recording, gpu, `KERNEL` without the device, ncu_metric, counter (median of repeats).
    """
    keys = [*_KERNEL, "metric"]
    types = {**{name: _TYPES[name] for name in _KERNEL}, "metric": "string", "value": "Float64"}
    labels = {"recording": "string", "gpu": "string"}
    frames = [pd.DataFrame(columns=[*labels, *types]).astype(labels | types)]
    for source in sources:
        counted = source.own(source.recording.counters)
        counted = counted[counted["device"] != CPU]
        medians = counted.groupby(keys, dropna=False)["value"].median().reset_index()
        labelled = medians.assign(recording=source.recording_id, gpu=source.label)
        frames.append(labelled.astype(labels | types)[list(frames[0])])
    return concatenated(frames).rename(columns={"metric": "ncu_metric", "value": "counter"})


def _per_request(table: pd.DataFrame, source: str) -> pd.Series:
    """Return the values of a column divided by the number of requests of the same operation."""
    keys = [*_KERNEL, "operation", *(("recording", "gpu") if source == "counter" else ())]
    requests = table.loc[table["measure"] == "requests", [*keys, source]].drop_duplicates(keys)
    of_requests = table[keys].merge(requests, how="left", on=keys)[source]
    return (table[source] / of_requests.where(of_requests > 0)).astype("Float64")
