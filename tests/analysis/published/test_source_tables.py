"""Tables 1–6: the published numbers as printed, and measured numbers with intervals."""

import pytest

from analysis.data import published
from analysis.data import recordings as data
from analysis.published.source_tables import source_tables
from base.errors import StudyError
from tests.support.report_data import only

CSV = data.ROOT / "data" / "published" / "times.csv"


@pytest.fixture(scope="module")
def printed():
    return source_tables(published.read(CSV), [])


def test_measured_speedups_have_intervals(gpu_recording):
    tables = source_tables(published.read(CSV), data.sources({"card": gpu_recording}))
    own = tables[(tables["source"] == "card") & tables["speedup"].notna()]
    assert set(own["table"]) == {1, 2, 3, 4, 5, 6}
    assert own["speedup"].between(own["speedup_low"], own["speedup_high"]).all()


def at(tables, table, n, entry, source="published"):
    return only(tables, table=table, n=n, entry=entry, source=source)


def test_published_times_are_in_their_tables_and_agree_with_printed_throughputs(printed):
    row = at(printed, 2, 2048, "naive")
    assert row["flop_per_s"] / 1e9 == pytest.approx(13.2, abs=0.05)
    assert row["speedup"] == pytest.approx(79.2, abs=0.05)
    assert row["machine"] == "Intel Core i7-4770 + GeForce GTX 770"
    first = printed[printed["table"] == 1]
    assert set(first["machine"]) == {"Intel Core 2 Duo E6300 + GeForce GTS 450"}
    for table, n, entry, speedup in (
        (3, 1024, "buffered_column", 0.27),
        (4, 1024, "buffered_row", 1.75),
        (5, 2048, "block_32", 1.3 / 0.137),
        (6, 256, "block_unroll4_16", 110),
    ):
        assert at(printed, table, n, entry)["speedup"] == pytest.approx(speedup, abs=0.005)
    bounds = ["time_low_s", "time_high_s", "speedup_low", "speedup_high"]
    assert printed[bounds].isna().all(axis=None)
    assert printed.loc[printed["entry"] == "cpu_naive", "speedup"].isna().all()
    columns = ["table", "n", "time_s"]
    times = (frame[columns].sort_values(columns) for frame in (printed, published.read(CSV)))
    assert len({tuple(frame.to_numpy().ravel()) for frame in times}) == 1
    rates = printed.dropna(subset="flop_per_s")
    flop = 2.0 * rates["n"] ** 3 / rates["time_s"]
    assert rates["flop_per_s"].to_numpy() == pytest.approx(flop.to_numpy())


def test_a_wrong_or_missing_file_of_published_numbers_is_a_one_line_error(tmp_path):
    path = tmp_path / "times.csv"
    for text, words in (
        (CSV.read_text().replace(",0.135,", ",fast,", 1), "could not convert string to float"),
        (CSV.read_text().replace("time_s", "seconds", 1), "the columns are"),
        (CSV.read_text() + "1,2,3,4,5,6,7,8,9\n", "Error tokenizing data"),
        ("", "No columns to parse"),
    ):
        path.write_text(text)
        with pytest.raises(StudyError, match=rf"times\.csv: {words}.*; restore it"):
            published.read(path)
    with pytest.raises(StudyError, match=r"none\.csv: No such file"):
        published.read_statements(tmp_path / "none.csv")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match=r"times\.csv: .*decode"):
        published.read(path)
