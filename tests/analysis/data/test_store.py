"""The tables as files: written and read with the types of the schema; faults are named."""

import math

import pandas as pd
import pytest

from analysis.data import store
from analysis.data.store import Store, StoreError
from analysis.schema import TABLES, column
from tests.support.report_data import cpu_cell, gpu_cell, recording, tables

DTYPES = {"text": "str", "flag": "boolean", "count": "Int64", "number": "float64"}


def test_columns_have_their_types_and_names_that_look_like_numbers_stay_text(tmp_path):
    cells = [gpu_cell("card", "block", 64, 0.5, spread=None), cpu_cell("card", "naive", 64, 3)]
    read = tables(tmp_path, recordings=[recording("card")], summary=cells)
    summary = read["summary"]
    kinds = {name: DTYPES[column("summary", name).kind] for name in TABLES["summary"].columns}
    assert summary.dtypes.astype(str).to_dict() == kinds
    assert (list(summary.index), summary["block_size"].tolist()) == ([0, 1], [32, pd.NA])
    assert summary["total_s"].tolist() == [0.5, 3]
    assert math.isnan(summary["total_low_s"][0])
    assert pd.isna(summary["gpu"][1])
    assert read["recordings"]["simulated"].tolist() == [False]
    labels = ["4090", "NA", "None", "1e3", "nan", "True"]
    read = tables(tmp_path, recordings=[recording(label) for label in labels])
    for path in tmp_path.glob("*.csv"):
        if path.stem != "recordings":
            path.unlink()
    recordings = read["recordings"]
    assert recordings["gpu"].tolist() == labels
    (tmp_path / "recordings.csv").unlink()
    assert read["recordings"] is recordings


HEAD = ",".join(TABLES["recordings"].columns).encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is missing; make it with"),
        (b"", "cannot be read"),
        (b"a\n\xff\xfe\n", "cannot be read"),
        (b"a,b\n1,2,3\n4,5,6,7\n", "cannot be read|other columns"),
        (b"recording,gpu\nx,y\n", r"other columns than this version writes \(at_once\)"),
        (HEAD + b",more\n", r"other columns than this version writes \(more\)"),
        (HEAD.replace(b"recording,gpu", b"gpu,recording") + b"\n", r"\(their order\)"),
        (HEAD + b"\n" + b"x," * HEAD.count(b",") + b"\n", "cannot be read"),
        (HEAD + b"\nx,y\n", r"has 2 cells instead of \d+ in line 2"),
        (HEAD + b"\nx;y\n", "has 1 cells instead of"),
        (HEAD, "is truncated"),
    ],
)
def test_an_unreadable_table_is_a_one_line_error_with_the_remedy(tmp_path, content, words):
    if content is not None:
        (tmp_path / "recordings.csv").write_bytes(content)
    with pytest.raises(StoreError, match=words) as error:
        Store(tmp_path)["recordings"]
    message = str(error.value)
    assert message.startswith(f"{tmp_path}/recordings.csv ")
    assert "`make report`" in message
    assert "\n" not in message


def test_numbers_are_written_with_six_digits_but_counts_with_all(tmp_path):
    frames = {name: pd.DataFrame(columns=list(table.columns)) for name, table in TABLES.items()}
    numbers = [1234567.0, 1234567.5, 0.000123456789, 1 / 3, math.inf, math.nan]
    rows = {"multiprocessors": [10**9 + 1] * 6, "launch_s": numbers}
    frames["predictors"] = pd.DataFrame(rows).reindex(columns=TABLES["predictors"].columns)
    store.write(frames, tmp_path)
    read = Store(tmp_path)["predictors"]
    assert read["launch_s"].tolist()[:5] == [1234567, 1234570, 0.000123457, 0.333333, math.inf]
    assert math.isnan(read["launch_s"][5])
    assert set(read["multiprocessors"]) == {10**9 + 1}
    speedups = frames["speedups"]
    lacking = {name: frame for name, frame in frames.items() if name != "speedups"}
    others = ({"other": speedups}, {"speedups": speedups.drop(columns="n")})
    for wrong in (lacking, *(frames | o for o in (*others, {"speedups": speedups.assign(more=1)}))):
        with pytest.raises(ValueError, match=r"speedups|other"):
            store.write(wrong, tmp_path)
