"""Theory, host execution and hardware counters compared."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.kernels.counts import counts_table, read
from base.errors import StudyError
from kernels.host_execution.counts import COLUMNS, table
from measurement.recording import recording
from measurement.recording.recording import TABLES
from tests.support.products import product_of
from tests.support.report_data import only
from tests.support.simulated import FEW, recorded

SIZE = 512
KERNELS = [
    *(("naive", 32), ("naive_coalesced", 32), ("buffered_row", None), ("block", 8)),
    *(("block", 32), ("block_strided", 32), ("block_unroll4", 32)),
]
METRICS = {
    "requests": "smsp__sass_inst_executed_op_shared_{}.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum",
}
# Counters of an H100 at SIZE that differ from theory; block_unroll4: except the conflicts.
MEASURED = {
    ("block", 8, "shared_store"): (1048576, 1136030, 87454),
    ("block", 32, "shared_load"): (5242880, 6295704, 4248),
    ("block", 32, "shared_store"): (262144, 289255, 27111),
    ("block_strided", 32, "shared_store"): (262144, 8395757, 8133613),
    ("block_unroll4", 32, "shared_load"): (2097152, 3145888, 160),
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A table of counts: block in blocks of 32 run at 64; the others as if run at SIZE."""
    file = tmp_path_factory.mktemp("counts") / "counts.csv"
    others = [product_of(name, n, block) for name, block in KERNELS for n in (SIZE, 1024)]
    file.write_text(table([product_of("block", 64, 32)], others))
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    at_size = frame["n"] == str(SIZE)
    frame.loc[at_size, "count"] = frame.loc[at_size, "theory"]
    frame.to_csv(file, index=False)
    return [file]


def counters(counted, device="gpu0", changes=MEASURED):
    """Return counters.csv of a GPU: theory except for `changes`."""
    frame = read(counted)
    frame = frame[(frame["n"] == SIZE) & frame["ncu_metric"].notna()]
    frame = frame.assign(device=device, metric=frame["ncu_metric"])
    frame["value"] = frame["theory"].astype(float)
    for (name, block, operation), values in changes.items():
        for metric, value in zip(METRICS.values(), values, strict=True):
            row = (frame["variant"] == name) & (frame["block_size"] == block)
            row &= frame["metric"] == metric.format("ld" if operation.endswith("load") else "st")
            assert row.sum() == 1
            frame.loc[row, "value"] = value
    return frame[list(TABLES["counters.csv"])]


@pytest.fixture(scope="module")
def gpus(counted):
    """A recording of two GPUs; only the second one has hardware counters."""
    made = recording.read(recorded(gpus=2, sizes=(256,), holdout=(), samples=6, variants=FEW))
    return replace(made, counters=counters(counted, "gpu1").assign(session=0))


@pytest.fixture(scope="module")
def found(gpus, counted):
    return counts_table(read(counted), data.sources({"two": gpus}))


def one(found, name, block, n, quantity):
    return only(found, variant=name, block_size=block, n=n, quantity=quantity)


@pytest.mark.slow
def test_counts_agree_only_if_equal_and_agreement_may_be_unknown(found, counted, gpus):
    assert one(found, "buffered_row", None, SIZE, "global_load_sectors")["agrees"]
    assert one(found, "block", 32, 64, "global_load_accesses")["agrees"]
    assert pd.isna(one(found, "block", 32, 1024, "global_load_sectors")["agrees"])
    assert not one(found, "block", 32, SIZE, "shared_store_wavefronts")["agrees"]
    off = read(counted)
    row = off["line"].isna() & (off["quantity"] == "global_load_accesses") & (off["n"] == SIZE)
    off.loc[row, "count"] += 1
    assert not one(counts_table(off, []), "naive", 32, SIZE, "global_load_accesses")["agrees"]
    second = counters(counted, "gpu0", {})
    several = second.assign(value=second["value"] + 2.0)
    foreign = second.assign(dtype="float64", value=1.0)
    # As of several sessions, whose counters are combined.
    two = replace(gpus, counters=pd.concat([gpus.counters, second, several, several, foreign]))
    found = counts_table(read(counted), data.sources({"two": two}))
    row = found.query("variant == 'naive' and n == @SIZE and quantity == 'global_load_sectors'")
    assert list(row["gpu"]) == ["two-gpu0", "two-gpu1"]
    assert list(row["counter"]) == [138412034, 138412032], "the median of three, and one"
    assert list(row["agrees"]) == [False, True]
    assert list(row["counter_over_theory"]) == [138412034 / 138412032, 1.0]


def test_the_table_of_counts_is_empty_without_counts():
    assert list(read([])) == COLUMNS
    made = counts_table(read([]), [])
    assert made.empty
    assert {"variant", "n", "block_size", "host"} <= set(made)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("quantity", "what", "its columns are"),
        (",64,64,64,32,", ",64,64,64,wide,", "wide"),
        (None, None, "No such file"),
    ],
)
def test_an_unreadable_table_of_counts_is_a_one_line_error(counted, tmp_path, old, new, words):
    file = tmp_path / "counts.csv"
    if old:
        file.write_text(counted[0].read_text().replace(old, new, 1))
    with pytest.raises(StudyError, match=r"gemm-study count") as error:
        read([file])
    assert re.fullmatch(f"counts {file}: invalid table.*{words}.*", str(error.value))
