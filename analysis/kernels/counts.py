"""Memory accesses of every kernel: by theory, counted on the host, by a GPU's hardware counters.

The rules by which a counter that is not theory's is explained are those of `explanations`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.data.frames import concatenated, stacked
from analysis.data.recordings import Source
from analysis.domain import CPU
from base.errors import StudyError
from kernels.catalog.product import Product
from kernels.host_execution.counts import COLUMNS
from kernels.products.shape import Shape
from measurement.recording.recording import KERNEL

# What a counter that differs from theory is explained by.
WIDE = "merged loads: one request reads neighbouring words, 16 bytes at most"
ARBITRATION = "arbitration: cycles in which other requests held the data stage"
NOT_EXPLAINED = "not explained"

_KERNEL = [name for name in KERNEL if name != "device"]
_TYPES = {
    **dict.fromkeys(("variant", "dtype", "build", "quantity", "ncu_metric"), "string"),
    **dict.fromkeys(("batch", "m", "n", "k", "block_size"), "Int64"),
    **dict.fromkeys(("line", "count", "theory", "merged"), "Int64"),
    **dict.fromkeys(("per_thread", "per_request"), "Float64"),
}
_WAYS = ("theory", "merged", "host", "counter")


@dataclass(frozen=True)
class Launch:
    """What theory counts of one launch, by quantity such as global_load_sectors.

    `merged` is with neighbouring loads merged, `build` the one that runs it.
    """

    build: str
    theory: dict[str, float]
    merged: dict[str, float]


def launches(counts: pd.DataFrame) -> dict[Product, Launch]:
    """Return what theory counts of each launch in `counts_table`."""
    totals = counts.drop_duplicates([*_KERNEL, "quantity"])
    blocks = totals["block_size"].astype(object).where(totals["block_size"].notna(), None)
    values = totals[["theory", "merged"]].astype(float)
    found: dict[Product, Launch] = {}
    for variant, dtype, *edges, block, build, quantity, theory, merged in zip(
        *(totals[name] for name in _KERNEL[:-1]),
        *(blocks, totals["build"], totals["quantity"], values["theory"], values["merged"]),
        strict=True,
    ):
        product = Product(variant, dtype, Shape(*edges), block)
        launch = found.setdefault(product, Launch(build, {}, {}))
        launch.theory[quantity], launch.merged[quantity] = theory, merged
    return found


def read(paths: Iterable[Path]) -> pd.DataFrame:
    """Return the tables of counts (see `kernels.host_execution.counts`) one below the other.

    Raises StudyError naming the first that cannot be read.
    """
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
                f"counts {path}: cannot be read ({reason}); make them again with "
                "`python -m kernels count`"
            ) from None
    return concatenated(frames)


def counts_by_line_table(counted: pd.DataFrame) -> pd.DataFrame:
    """Return what was counted on the host, by line of the kernel's source."""
    lines = counted[counted["line"].notna()].rename(columns={"count": "host"})
    return stacked("counts_by_line", [lines])


def counts_table(counted: pd.DataFrame, found: Iterable[Source]) -> pd.DataFrame:
    """Return every total of a launch: theory, the host's count and a GPU's counter.

    `merged` is theory where the compiler merges loads along rows of shared memory to 16 bytes.

    One row a kernel (`_KERNEL`), quantity and GPU that has a counter of it; where no
    GPU has one, a single row without recording, gpu and counter. Counters of kernels that
    `counted` lacks are left out. `agrees`: whether all that was counted, on the host or by the
    GPU, is theory's exactly; empty where nothing was. `explanation`: of a counter that is not
    theory's, see `explanations`.
    """
    totals = counted[counted["line"].isna()].rename(columns={"count": "host"})
    table = totals.merge(counters(found), how="left", on=[*_KERNEL, "ncu_metric"])
    table[["operation", "measure"]] = table["quantity"].str.extract(_QUANTITY)
    table["counter_over_theory"] = table["counter"] / table["theory"].where(table["theory"] > 0)
    for way in _WAYS:
        table[f"{way}_per_request"] = _per_request(table, way)
    differs = [(table[way] != table["theory"]).fillna(False) for way in ("host", "counter")]
    known = table["host"].notna() | table["counter"].notna()
    table["agrees"] = (~(differs[0] | differs[1])).astype("boolean").mask(~known)
    table["explanation"] = _explained(table)
    return stacked("counts", [table])


_QUANTITY = r"^((?:global|shared)_(?:load|store))_(.*)$"


def counters(found: Iterable[Source]) -> pd.DataFrame:
    """Return the counters of every GPU, one row a launch and counter.

    Columns: recording, gpu, `KERNEL` without the device, ncu_metric, counter: the median of several
    of one launch.
    """
    keys = [*_KERNEL, "metric"]
    types = {**{name: _TYPES[name] for name in _KERNEL}, "metric": "string", "value": "Float64"}
    labels = {"recording": "string", "gpu": "string"}
    frames = [pd.DataFrame(columns=[*labels, *types]).astype(labels | types)]
    for source in found:
        own = source.own(source.recording.counters)
        own = own[own["device"] != CPU]
        medians = own.groupby(keys, dropna=False)["value"].median().reset_index()
        labelled = medians.assign(recording=source.recording_id, gpu=source.label)
        frames.append(labelled.astype(labels | types)[list(frames[0])])
    return concatenated(frames).rename(columns={"metric": "ncu_metric", "value": "counter"})


def _per_request(table: pd.DataFrame, way: str) -> pd.Series:
    """Return the values of a column over those of the requests that they belong to."""
    keys = [*_KERNEL, "operation", *(("recording", "gpu") if way == "counter" else ())]
    requests = table.loc[table["measure"] == "requests", [*keys, way]].drop_duplicates(keys)
    own = table[keys].merge(requests, how="left", on=keys)[way]
    return (table[way] / own.where(own > 0)).astype("Float64")


def _explained(table: pd.DataFrame) -> pd.Series:
    """Return the explanation of every row whose counter is not theory's."""
    found = pd.Series(pd.NA, table.index, dtype="string")
    counted = table[table["counter"].notna()]
    for _, rows in counted.groupby([*_KERNEL, "gpu", "operation"], dropna=False):
        by_measure = rows.set_index("measure")
        ways = (by_measure[way].astype(float).to_dict() for way in ("theory", "merged", "counter"))
        texts = explanations(*ways)
        for index, measure in rows["measure"].items():
            found[index] = texts.get(measure, pd.NA)
    return found


def explanations(
    theory: Mapping[str, float], merged: Mapping[str, float], counter: Mapping[str, float]
) -> dict[str, str]:
    """Return what explains each of one operation's counters that is not theory's.

    The arguments hold requests and, of shared memory, wavefronts and bank_conflicts: by theory, by
    theory with merged loads, and counted. A rule is kept only where its numbers bear it out to the
    last one; what is left is `NOT_EXPLAINED`. Loads are merged where the requests are those of
    `merged` and not those of the source.
    """
    nothing = float("nan")
    requests = counter.get("requests", nothing)
    wide = requests == merged.get("requests") != theory.get("requests")
    expected = merged if wide else theory
    # Cycles beyond those of the program's own conflicts. The counter of bank conflicts includes
    # cycles in which the data stage was taken by other requests, and every one of them is counted
    # as a wavefront too: the sum has to come out.
    others = counter.get("bank_conflicts", nothing) - expected.get("bank_conflicts", nothing)
    waiting = counter.get("wavefronts", nothing) - expected.get("wavefronts", nothing)
    arbitrated = requests == expected.get("requests") and waiting == others > 0
    found = {}
    for name in (name for name, value in counter.items() if value != theory[name]):
        reasons = [WIDE] if expected[name] != theory[name] else []
        if counter[name] != expected[name]:
            reasons = [*reasons, ARBITRATION] if arbitrated else []
        found[name] = "; ".join(reasons) or NOT_EXPLAINED
    return found
