"""The tables as files: written and read as the schema says, and what is wrong with one, named."""

import math

import pandas as pd
import pytest

from analysis.data import store
from analysis.data.store import Store, StoreError
from analysis.schema import TABLES, column
from tests.support.report_data import cpu_cell, gpu_cell, recording, tables

DTYPES = {"text": "str", "flag": "boolean", "count": "Int64", "number": "float64"}


def test_columns_are_typed_and_blank_cells_are_missing(tmp_path):
    cells = [gpu_cell("card", "block", 64, 0.5, spread=None), cpu_cell("card", "naive", 64, 3)]
    read = tables(tmp_path, recordings=[recording("card")], summary=cells)
    summary = read["summary"]
    kinds = {name: column("summary", name).kind for name in summary}
    assert {name: summary[name].dtype == DTYPES[kind] for name, kind in kinds.items()} == (
        dict.fromkeys(TABLES["summary"].columns, True)
    )
    assert list(summary.index) == [0, 1]
    assert summary["block_size"].tolist() == [32, pd.NA]
    assert summary["total_s"].tolist() == [0.5, 3]
    assert math.isnan(summary["total_low_s"][0])
    assert pd.isna(summary["gpu"][1])
    assert read["recordings"]["simulated"].tolist() == [False]


@pytest.mark.parametrize("label", ["4090", "NA", "None", "1e3", "nan", "True"])
def test_names_that_look_like_numbers_or_blanks_stay_text(tmp_path, label):
    read = tables(tmp_path, recordings=[recording(label)])
    assert read["recordings"]["gpu"].tolist() == [label]


def test_a_table_is_read_when_it_is_first_asked_for_and_once(tmp_path):
    read = tables(tmp_path)
    for path in tmp_path.glob("*.csv"):
        if path.stem != "speedups":
            path.unlink()
    speedups = read["speedups"]
    (tmp_path / "speedups.csv").unlink()
    assert read["speedups"] is speedups


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
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_with_the_remedy(tmp_path, content, words):
    if content is not None:
        (tmp_path / "recordings.csv").write_bytes(content)
    with pytest.raises(StoreError, match=words) as error:
        Store(tmp_path)["recordings"]
    message = str(error.value)
    assert message.startswith(f"{tmp_path}/recordings.csv ")
    assert "python -m analysis tables" in message
    assert "\n" not in message


@pytest.fixture
def frames():
    return {name: pd.DataFrame(columns=list(table.columns)) for name, table in TABLES.items()}


def test_numbers_are_written_with_six_digits_and_counts_with_all(frames, tmp_path):
    numbers = [1234567.0, 1234567.5, 0.000123456789, 1 / 3, math.inf, math.nan]
    rows = {"multiprocessors": [10**9 + 1] * 6, "launch_s": numbers}
    frames["predictors"] = pd.DataFrame(rows).reindex(columns=TABLES["predictors"].columns)
    store.write(frames, tmp_path)
    read = Store(tmp_path)["predictors"]
    assert read["launch_s"].tolist()[:5] == [1234567, 1234570, 0.000123457, 0.333333, math.inf]
    assert math.isnan(read["launch_s"][5])
    assert set(read["multiprocessors"]) == {10**9 + 1}


@pytest.mark.parametrize("change", ["lacks a table", "has another", "lacks a column", "has more"])
def test_frames_that_are_not_the_schemas_are_a_mistake_of_the_program(frames, tmp_path, change):
    match change:
        case "lacks a table":
            del frames["speedups"]
        case "has another":
            frames["other"] = frames["speedups"]
        case "lacks a column":
            frames["speedups"] = frames["speedups"].drop(columns="n")
        case "has more":
            frames["speedups"] = frames["speedups"].assign(more=1)
    with pytest.raises(ValueError, match=r"speedups|other"):
        store.write(frames, tmp_path)
