"""Agreement of recordings of one GPU model: pairs, shares, and cells that differ."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.data import recordings as data
from analysis.stats.significance import THRESHOLD
from analysis.trust import comparison, overheads
from measurement.recording.recording import CELL, read
from tests.support.simulated import FEW, recorded

pytestmark = pytest.mark.slow
SIZES = {"sizes": (256, 512), "holdout": (), "noise": 0.001, "variants": FEW}


@pytest.fixture(scope="module")
def one():
    """A GPU with throttled samples."""
    return read(recorded(throttled=2, **SIZES))


@pytest.fixture(scope="module")
def two():
    """A host with two such GPUs, without throttled samples."""
    return read(recorded(gpus=2, seed=1, **SIZES))


def named(recording, *names, cpu_model="Simulated CPU"):
    """Return the recording with these names of its GPUs."""
    provenance = recording.provenance
    pairs = zip(provenance["devices"], names, strict=True)
    devices = [device | {"name": name} for device, name in pairs]
    host = provenance["host"] | {"cpu_model": cpu_model}
    return replace(recording, provenance=provenance | {"devices": devices, "host": host})


def agreed(recordings):
    frames = {"summary": data.summary_table(found := data.sources(recordings))}
    frames["telemetry"] = overheads.telemetry_table(found)
    return comparison.agreement_tables(found, frames)


def test_only_common_cells_and_whole_runs_without_parts_are_compared(one, cpu_recording):
    samples = one.samples.copy()
    samples.loc[samples["variant"] == "block", "in_run_kernel_s"] = np.nan
    in_pieces = replace(one, samples=samples)
    shares, cells = agreed({"x": in_pieces, "y": in_pieces})
    whole, kernels = (shares[shares["quantity"] == name]["cells"] for name in ("total", "kernel"))
    assert 0 < kernels.max() < whole.max()
    assert set(shares["share"]) == {1.0}
    assert cells.empty
    small = one.samples[one.samples["n"] == 256]
    few = replace(one, samples=small)
    shares, cells = agreed({"x": few, "y": one})
    full, _ = agreed({"x": one, "y": one})
    assert full["cells"][0] > shares["cells"][0] > 0
    assert cells.empty
    for without_pairs in ({}, {"x": one, "host": cpu_recording}):
        for table in agreed(without_pairs):
            assert (table.empty, list(table)[:2]) == (True, ["recording_a", "gpu_a"])


def pairs(**made):
    return [(a.label, b.label) for a, b in comparison.pairs(data.sources(made))]


def test_gpus_of_one_name_in_two_recordings_are_pairs_by_index(one, two, cpu_recording):
    assert pairs(x=one, y=one, host=cpu_recording) == [("x", "y")]
    assert pairs(x=one, y=one, z=one) == [("x", "y"), ("x", "z"), ("y", "z")]
    assert pairs(x=named(one, "A"), y=named(one, "A 2")) == []
    assert pairs(two=two) == [], "GPUs of one recording are no pair"
    assert pairs(host=cpu_recording, other=cpu_recording) == []
    assert pairs(x=two, y=two) == [("x-gpu0", "y-gpu0"), ("x-gpu1", "y-gpu1")]
    assert pairs(x=one, y=two) == [("x", "y-gpu0")]
    assert pairs(x=one, y=named(two, "other", "Simulated GPU")) == [("x", "y-gpu1")]
    crossed = named(two, "A", "B"), named(two, "B", "A")
    assert pairs(x=crossed[0], y=crossed[1]) == [("x-gpu0", "y-gpu1"), ("x-gpu1", "y-gpu0")]
    mixed = named(two, "B", "A"), named(two, "A", "A")
    assert pairs(x=mixed[0], y=mixed[1]) == [("x-gpu1", "y-gpu1")]


def changed(recording, variant, factor):
    """Return the recording with all GPU times of a variant multiplied."""
    samples = recording.samples.copy()
    rows = (samples["variant"] == variant) & (samples["device"] != "cpu")
    samples.loc[rows, ["total_s", "in_run_kernel_s"]] *= factor
    return replace(recording, samples=samples)


def test_cells_beyond_the_tolerance_are_listed_with_the_state_of_both_gpus(one, two):
    other = changed(one, "buffered_row", 1.03)
    shares, cells = agreed({"x": one, "y": other})
    assert list(zip(shares["kind"], shares["quantity"], strict=True)) == [
        *((comparison.PINNED, "total"), (comparison.PINNED, "kernel")),
        *((comparison.PAGEABLE, "total"), (comparison.PAGEABLE, "kernel")),
        (comparison.ON_CPU, "total"),
    ]
    assert set(shares["tolerance"]) == {THRESHOLD} == {0.02}
    counts = shares["cells"] - shares["cells_agreeing"]
    assert counts.tolist() == [2, 2, 2, 2, 0], "two sizes of the variant"
    assert shares["share"].tolist() == (shares["cells_agreeing"] / shares["cells"]).tolist()
    gpu = one.samples[one.samples["device"] == "gpu0"]
    assert shares["cells"][0] == len(gpu.drop_duplicates(CELL)) / 2
    assert set(cells["variant"]) == {"buffered_row"}
    assert cells["block_size"].isna().all()
    assert cells["ratio"].tolist() == pytest.approx([1.03] * 8)
    assert shares.iloc[-1][["gpu_a", "gpu_b"]].isna().all()
    slower = changed(two, "buffered_row", 0.9)
    _, cells = agreed({"x": one, "y": slower})
    rows = cells[(cells["kind"] == comparison.PINNED) & (cells["quantity"] == "kernel")]
    assert set(rows["gpu_b"]) == {"y-gpu0"}
    assert rows["temperature_max_a_celsius"].tolist() == [42] * 2
    cells_of_a = data.sources({"x": one})[0].cells
    chosen = "variant == 'buffered_row' and n == 256 and host_memory == 'pinned'"
    (row,) = cells_of_a.query(chosen).to_dict("records")
    for bound in ("", "_low", "_high"):
        assert rows.iloc[0][f"median_a{bound}_s"] == row[f"kernel{bound}_s"]
