"""Tables 1–6: the published numbers as printed, and measured numbers in the same layout."""

import csv
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from analysis.data import published
from analysis.data import recordings as data
from analysis.published.source_tables import LAYOUTS, build, tables
from analysis.schema import TABLES
from base.errors import StudyError

CSV = data.ROOT / "data" / "published" / "times.csv"


@pytest.fixture(scope="module")
def printed():
    return tables(published.read(CSV), [])


@pytest.fixture(scope="module")
def measured(gpu_recording):
    return tables(published.read(CSV), data.sources({"card": gpu_recording}))


def at(table, n, source="published"):
    return table[(table["source"] == source) & (table["n"] == n)].iloc[0]


def entry_of(row):
    """Return the name of the columns of a published row."""
    name = row["implementation"].removeprefix("gpu_")
    if row["table"] in "12":
        return row["implementation"].split("_")[0]
    return f"{name}_{row['block_size']}" if row["block_size"] else name


def test_printed_times_stand_in_their_tables_and_give_the_printed_rates(printed):
    row = at(printed[2], 2048)
    assert row["gpu_flop_per_s"] == pytest.approx(2 * 2048**3 / 1.3)
    assert row["gpu_flop_per_s"] / 1e9 == pytest.approx(13.2, abs=0.05)
    assert row["cpu_flop_per_s"] / 1e9 == pytest.approx(0.17, abs=0.005)
    assert row["speedup"] == pytest.approx(79.2, abs=0.05)
    assert row["machine"] == "Intel Core i7-4770 + GeForce GTX 770"
    assert set(printed[1]["machine"]) == {"Intel Core 2 Duo E6300 + GeForce GTS 450"}
    assert at(printed[3], 1024)["buffered_column_speedup"] == pytest.approx(0.27, abs=0.005)
    assert at(printed[4], 1024)["buffered_row_speedup"] == pytest.approx(1.75)
    assert at(printed[5], 2048)["block_32_speedup"] == pytest.approx(1.3 / 0.137)
    assert at(printed[6], 256)["block_unroll4_16_speedup"] == pytest.approx(110)
    assert printed[5].set_index("n").loc[1024, ["block_1_time_s", "block_1_speedup"]].isna().all()
    assert np.isnan(at(printed[5], 2048)["block_2_speedup"]), "blanks of the source stay blank"
    assert list(printed[3]["n"]) == [256, 512, 1024]
    intervals = [c for c in printed[5] if c.endswith(("_low", "_high", "_low_s", "_high_s"))]
    assert len(intervals) == 7 * 2 + 6 * 2
    assert printed[5][intervals].isna().all(axis=None)
    rows = list(csv.DictReader(CSV.read_text().splitlines()))
    assert len(rows) == 76
    for row in rows:
        place = at(printed[int(row["table"])], int(row["n"]))
        assert place[f"{entry_of(row)}_time_s"] == float(row["time_s"]), row
    times = [table.filter(regex="_time_s$").notna().sum(axis=None) for table in printed.values()]
    assert sum(times) == 76
    differing = []
    for row in (row for row in rows if row["gflops_printed"]):
        rate = at(printed[int(row["table"])], int(row["n"]))[f"{entry_of(row)}_flop_per_s"]
        text = Decimal(row["gflops_printed"])
        half_a_digit = 10.0 ** int(text.as_tuple().exponent) / 2
        if abs(rate / 1e9 - float(text)) > half_a_digit:
            differing.append((row["table"], row["implementation"], row["n"], float(text)))
    assert differing == [("2", "cpu_naive", "512", 0.66)]  # 2·512³/0.41 s is 0.65


def test_measured_rows_have_the_columns_sizes_and_intervals(printed, measured):
    for number, table in measured.items():
        assert list(table) == list(printed[number]) == list(TABLES[f"table{number}"].columns)
        pd.testing.assert_frame_equal(table[table["source"] == "published"], printed[number])
        own = table[table["source"] == "card"]
        assert set(own["machine"]) == {"Simulated CPU + Simulated GPU"}
        assert list(own["n"]) == [256, 512, 1024, 1536, 2048]
    assert np.isnan(at(measured[4], 2048, "card")["buffered_row_time_s"]), "not launchable"
    assert np.isnan(at(measured[2], 2048, "card")["cpu_time_s"]), "not measured"
    table = measured[5][measured[5]["source"] == "card"]
    for block in (1, 2, 4, 8, 16, 32):
        speedup = table[f"block_{block}_speedup"]
        assert (table[f"block_{block}_speedup_low"] < speedup).all()
        assert (speedup < table[f"block_{block}_speedup_high"]).all()
        expected = table["naive_time_s"] / table[f"block_{block}_time_s"]
        np.testing.assert_allclose(speedup, expected, rtol=1e-14)


def test_measured_times_are_pageable_totals_or_of_a_host(measured, gpu_recording, cpu_recording):
    samples = gpu_recording.samples
    cell = samples.query("variant == 'naive' and n == 512 and block_size == 32")
    medians = cell.groupby("host_memory")["total_s"].median()
    assert at(measured[5], 512, "card")["naive_time_s"] == medians["pageable"]
    assert at(measured[2], 512, "card")["gpu_time_s"] == medians["pageable"]
    pinned = samples[samples["host_memory"].isna() | (samples["host_memory"] == "pinned")]
    only_pinned = replace(gpu_recording, samples=pinned)
    table = tables(published.read(CSV), data.sources({"card": only_pinned}))[5]
    assert at(table, 512, "card")["naive_time_s"] == medians["pinned"]
    found = tables(published.read(CSV), data.sources({"host": cpu_recording}))
    own = found[2][found[2]["source"] == "host"]
    assert list(own["n"]) == [256, 512]
    assert own["cpu_time_s"].notna().all()
    assert own[["gpu_time_s", "speedup", "speedup_low"]].isna().all(axis=None)
    assert set(own["machine"]) == {"Simulated CPU"}
    assert "host" not in set(found[5]["source"])
    # Neither the order of rows nor the unit of time changes a speedup.
    times = data.published_times(published.read(CSV), 5)
    table = build(LAYOUTS[5], times)
    pd.testing.assert_frame_equal(build(LAYOUTS[5], times.sample(frac=1, random_state=1)), table)
    scaled = build(LAYOUTS[5], times.assign(time_s=times["time_s"] * 1024))
    speedups = [c for c in table if c.endswith("_speedup")]
    pd.testing.assert_frame_equal(scaled[speedups], table[speedups])


WRONG = {
    "table": ("7", "row 3, column table: is '7'; it must be 1 to 6"),
    "machine": ("vax", "row 3, column machine: is 'vax'"),
    "implementation": ("gpu_best", "row 3, column implementation: is 'gpu_best'"),
    "n": ("2.5", "row 3, column n: is '2.5'; it must be a whole number above 0"),
    "block_size": ("32", "row 3, column block_size: is '32'; it must be empty"),
    "time_s": ("-1", "row 3, column time_s: is '-1'"),
    "gflops_printed": ("fast", "row 3, column gflops_printed: is 'fast'"),
}


def lines_with(row, column, value):
    lines = CSV.read_text().splitlines()
    values = lines[row - 1].split(",")
    values[published.COLUMNS.index(column)] = value
    return "\n".join([*lines[: row - 1], ",".join(values), *lines[row:]]) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((lines_with(3, column, value), message) for column, (value, message) in WRONG.items()),
        ("", "row 1: the columns are []"),
        (CSV.read_text().replace("time_s", "seconds", 1), "row 1: the columns are"),
        (CSV.read_text().rsplit(",", 1)[0] + "\n", "row 77: has 7 values; it must have 8"),
        (lines_with(41, "time_s", "nan"), "row 41, column time_s"),
        (lines_with(41, "time_s", "inf"), "row 41, column time_s"),
        (lines_with(41, "block_size", ""), "row 41, column block_size: is ''"),
        (lines_with(5, "n", "256"), "row 5, column table: repeats row 3; keep one of them"),
    ],
)
def test_a_wrong_value_is_named_with_file_row_and_column(tmp_path, text, message):
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(StudyError) as error:
        published.read(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_wrong_statements_and_missing_or_binary_files_are_one_line(tmp_path):
    path, refused = tmp_path / "statements.csv", "row 2: n, value and factor must be numbers above"
    for row, words in (
        *((",2048,fast,1,x", refused), (",2048,-1,1,x", refused)),
        *((",2048,1", "row 2: has 3 values; it must have 5"), (",2048,1,1,x", "row 'speedup_over")),
    ):
        path.write_text(f"statement,n,value,factor,said\nbest_flop_per_s{row}\n")
        with pytest.raises(StudyError, match=rf"statements\.csv.*{words}"):
            published.read_statements(path)
    with pytest.raises(StudyError, match=r"none\.csv"):
        published.read_statements(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    for name, words in (("none", "No such file"), ("b", "not valid UTF-8")):
        with pytest.raises(StudyError, match=rf"{name}\.csv: {words}"):
            published.read(tmp_path / f"{name}.csv")
