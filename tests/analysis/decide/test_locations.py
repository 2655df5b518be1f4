"""Times by location of the data: floors, speedups, break-even sizes; products over streams."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.recordings import summary_table
from analysis.decide.locations import location_break_even_table, locations_table, throughput_table
from measurement.recording.recording import TABLES

SHORTER = {"resident": 0.5, "managed": 3.0}  # times over those from pinned memory


def located(recording):
    """Return a recording whose block kernel also ran at other locations."""
    samples = recording.samples
    pinned = samples[(samples["variant"] == "block") & (samples["host_memory"] == "pinned")]
    others = [
        pinned.assign(host_memory=location, total_s=factor * pinned["total_s"])
        for location, factor in SHORTER.items()
    ]
    return replace(recording, samples=pd.concat([samples, *others], ignore_index=True))


@pytest.fixture
def source(gpu_recording):
    (source,) = data.sources({"card": located(gpu_recording)})
    return source


def test_products_at_other_locations_are_only_in_the_table_of_locations(source, gpu_recording):
    table = locations_table([source])
    assert set(table["host_memory"]) == {"pinned", "pageable", *SHORTER}
    assert set(table["variant"]) == {"block"}
    times = table.pivot_table("total_s", ["n", "block_size"], "host_memory")
    for location, factor in SHORTER.items():
        assert (times[location] / times["pinned"]).to_numpy() == pytest.approx(factor)
    (plain,) = data.sources({"card": gpu_recording})
    pd.testing.assert_frame_equal(summary_table([source]), summary_table([plain]))
    assert locations_table([plain]).empty


def test_the_floor_of_a_location_is_the_time_of_its_copies(source):
    table = locations_table([source]).query("n == 1024 and m == 1024")
    by_location = table.groupby("host_memory")["floor_s"].first()
    assert by_location["resident"] == 0
    assert by_location["managed"] == by_location["pinned"] > 0
    assert table.loc[table["host_memory"] == "resident", "over_floor"].isna().all()
    best = source.cells[(source.cells["device"] == "cpu") & (source.cells["n"] == 1024)]
    assert (table["cpu_s"] == best["total_s"].min()).all()
    assert (table["speedup"] * table["total_s"]).to_numpy() == pytest.approx(table["cpu_s"])


def test_resident_data_have_a_smaller_break_even_size(source):
    sizes = location_break_even_table([source]).query("family == 'square'")
    sizes = sizes.set_index("host_memory")
    assert set(sizes.index) == {"pinned", "pageable", *SHORTER}
    assert set(sizes["cpu_baseline"]) == {"best"}
    slower_at = sizes["slower_at"].fillna(0)
    assert slower_at["resident"] <= slower_at["pinned"] <= slower_at["managed"]


def test_batches_have_times_per_product_divided_by_the_copies_of_the_same_round(gpu_recording):
    key = {"device": "gpu0", "variant": "cublas_sgemm", "dtype": "float32", "batch": 1}
    key |= {"m": 8, "n": 8, "k": 8, "block_size": None, "products": 10, "same_a": 0}
    rows = [
        key | {"streams": streams, "round": number, "copies_s": number, "run_s": number * factor}
        for streams, factor in ((1, 2.0), (4, 1.1))
        for number in range(1, 7)
    ]
    types = TABLES["throughput.csv"] | {"session": "int64"}
    made = pd.DataFrame([row | {"session": 0} for row in rows])[list(types)].astype(types)
    table = throughput_table(data.sources({"card": replace(gpu_recording, throughput=made)}))
    assert list(table["over_floor"]) == pytest.approx([2.0, 1.1])
    assert list(table["copies_s"]) == pytest.approx([0.35, 0.35]), "of one product"
    assert list(table["rounds"]) == [6, 6]


def test_several_sessions_give_one_row_per_product_and_location(source):
    rows = source.recording.samples
    again = rows.assign(session=1, total_s=1.1 * rows["total_s"])
    twice = replace(source.recording, samples=pd.concat([rows, again], ignore_index=True))
    (both,) = data.sources({"card": twice})
    one, several = locations_table([source]), locations_table([both])
    assert len(several) == len(one)
    assert set(several["sessions"]) == {2}
    assert (several["total_s"] > one["total_s"]).all()
