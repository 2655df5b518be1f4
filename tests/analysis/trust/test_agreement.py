"""Agreement of recordings of one GPU model: pairs and shares."""

from dataclasses import replace

import pytest

from analysis.data import recordings as data
from analysis.stats.significance import THRESHOLD
from analysis.trust import comparison
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
    found = data.sources(recordings)
    return comparison.agreement_table(found, data.summary_table(found))


def test_only_configurations_of_both_recordings_are_compared(one, cpu_recording):
    in_pieces = replace(one, kernels=one.kernels[one.kernels["variant"] != "block"])
    shares = agreed({"x": in_pieces, "y": in_pieces})
    whole, kernels = (shares[shares["quantity"] == name]["cells"] for name in ("total", "kernel"))
    assert 0 < kernels.max() < whole.max()
    assert set(shares["share"]) == {1.0}
    small = one.samples[one.samples["n"] == 256]
    few = replace(one, samples=small)
    shares, full = agreed({"x": few, "y": one}), agreed({"x": one, "y": one})
    assert full["cells"][0] > shares["cells"][0] > 0
    for without_pairs in ({}, {"x": one, "host": cpu_recording}):
        table = agreed(without_pairs)
        assert (table.empty, list(table)[:2]) == (True, ["recording_a", "gpu_a"])


def pairs(**made):
    return [(a.label, b.label) for a, b in comparison.pairs(data.sources(made))]


def test_gpus_of_one_model_in_two_recordings_are_paired_by_index(one, two, cpu_recording):
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
    samples, kernels = recording.samples.copy(), recording.kernels.copy()
    rows = (samples["variant"] == variant) & (samples["device"] != "cpu")
    samples.loc[rows, "total_s"] *= factor
    kernels.loc[kernels["variant"] == variant, "kernel_s"] *= factor
    return replace(recording, samples=samples, kernels=kernels)


def test_medians_that_differ_by_more_than_the_tolerance_do_not_agree(one):
    other = changed(one, "buffered_row", 1.03)
    shares = agreed({"x": one, "y": other})
    assert list(zip(shares["kind"], shares["quantity"], strict=True)) == [
        (comparison.GPU_KERNEL, "kernel"),
        *((comparison.PINNED, "total"), (comparison.PAGEABLE, "total")),
        (comparison.ON_CPU, "total"),
    ]
    assert set(shares["tolerance"]) == {THRESHOLD} == {0.02}
    counts = shares["cells"] - shares["cells_agreeing"]
    assert counts.tolist() == [2, 2, 2, 0], "two sizes of the variant"
    assert shares["share"].tolist() == (shares["cells_agreeing"] / shares["cells"]).tolist()
    gpu = one.samples[one.samples["device"] == "gpu0"]
    assert shares["cells"][0] == len(gpu.drop_duplicates(CELL)) / 2
    assert shares.iloc[-1][["gpu_a", "gpu_b"]].isna().all()
