"""The measured devices, and the one in focus of the report."""

from dataclasses import replace

import pytest

from analysis.data.devices import devices, slug
from analysis.data.store import StoreError
from tests.support.report_data import recording, tables


def labels(found):
    return [device.label for device in found]


def test_devices_are_listed_with_the_gpu_in_focus_first(tmp_path):
    cards = [recording("two") | {"gpu": f"two-gpu{k}", "device": f"gpu{k}"} for k in range(2)]
    other = recording("b200", gpu_name="b200", simulated=True, live=True)
    rows = [recording("host", gpu=False), *cards, other]
    rows[0] |= {"stale": True, "stale_sources": "kernels/block.cu;cpu_reference/naive.c"}
    missing = [{"recording": "node", "reason": "needs Slurm"}]
    store = tables(tmp_path / "all", recordings=rows, missing=missing)
    found = devices(store)
    assert labels(found.all) == ["host", "two-gpu0", "two-gpu1", "b200"]
    assert labels(found.hosts) == ["host", "two-gpu0", "b200"]
    assert found.focus.label == "two-gpu0", "the first GPU"
    assert labels(devices(store, "b200").gpus) == ["b200", "two-gpu0", "two-gpu1"]
    known = {"two-gpu1": "two-gpu1", "two": "two-gpu0", "host": "host"}
    for asked, label in (known | dict.fromkeys(["node", "node-gpu1"], "two-gpu0")).items():
        assert devices(store, asked).focus.label == label
    said = r"^report\.focus: h300 was not measured; allowed: host, two-gpu0, two-gpu1, b200$"
    with pytest.raises(StoreError, match=said):
        devices(store, "h300")
    with pytest.raises(StoreError, match="allowed: nothing was measured"):
        devices(tables(tmp_path), "h300")
    hosts = [recording("a", gpu=False), recording("b", gpu=False)]
    found = devices(tables(tmp_path / "hosts", recordings=hosts))
    assert (found.focus.label, found.gpus) == ("a", ())
    found = devices(tables(tmp_path / "none"))
    assert (found.focus, found.all, found.hosts) == (None, (), ())
    host, card, _, simulated = devices(store).all
    assert (card.title, card.short) == ("Card (two-gpu0)", "two-gpu0")
    assert (simulated.title, simulated.short) == ("SIMULATED b200", "SIMULATED b200")
    beside = replace(card, at_once=True)
    assert (beside.title, beside.short) == ("AT ONCE Card (two-gpu0)", "AT ONCE two-gpu0")
    assert beside.host == "two", "its CPU was measured alone"
    assert replace(host, at_once=True).mark == ""
    assert host.title == "Host CPU (host)"
    assert host.stale_sources == ("kernels/block.cu", "cpu_reference/naive.c")
    assert card.stale_sources == ()
    assert [device.live for device in (card, simulated)] == [False, True]
    anchors = {"H200 (SXM)": "h200-sxm", "–": "unnamed", '"><b>': "b"}
    assert {text: slug(text) for text in anchors} == anchors
