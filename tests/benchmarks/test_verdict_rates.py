"""Rates of verdicts: counts by kind, and sources with planted work."""

from dataclasses import replace

import pytest

from base.errors import StudyError
from base.paths import ROOT
from benchmarks.verdict_rates import KINDS, evaluated_splits, false_verdicts, found, planted_text
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import Kernel
from kernels.cubins.build import Build
from tests.support.simulated import FEW

KERNELS = {v.kernel for v in VARIANTS.values() if isinstance(v, Kernel)}


def longer(recording, factor):
    kernels = recording.kernels.assign(kernel_s=recording.kernels["kernel_s"] * factor)
    return replace(recording, kernels=kernels)


@pytest.mark.slow
def test_both_orders_of_a_pair_count_and_a_planted_slowdown_is_found(make_recording, tmp_path):
    options = {"holdout": (), "noise": 0.001, "variants": FEW, "kernel_only": True}
    made = make_recording(tmp_path / "a", sizes=(256, 1024), **options)
    counts, pairs, ones = false_verdicts([made, longer(made, 1.1)])
    assert (pairs, ones) == (2, 1), "slower in one order, faster in the other"
    assert counts["slower"].tolist() == counts["faster"].tolist()
    assert counts.loc[list(KINDS[:2]), "slower"].sum() > 0
    assert counts.loc[list(KINDS[2:]), "slower"].sum() == 0
    other = made.builds.assign(cubin_sha256="0" * 64)
    shares = found([made], replace(longer(made, 1.1), builds=other))
    assert set(shares["mean"]) == {1.0}


@pytest.mark.slow
def test_rates_are_those_of_the_sessions_that_took_no_part_in_the_fit(make_recording, tmp_path):
    options = {"holdout": (), "noise": 0.001, "variants": FEW, "kernel_only": True}
    made = [
        make_recording(tmp_path / str(seed), sizes=(1024, 2048), seed=seed, **options)
        for seed in range(4)
    ]
    table = evaluated_splits([*made[:3], longer(made[3], 1.1)])
    assert len(table) == 12
    with_last = [3 in pair for pair in table["pair"]]
    assert not any(
        set(half) & set(pair) for half, pair in zip(table["half"], table["pair"], strict=True)
    )
    assert table.loc[[not each for each in with_last], "status 1"].sum() == 0
    assert table.loc[with_last, "status 1"].sum() == 3, "slower in one order, faster in the other"
    honest = evaluated_splits(made)
    assert honest["status 1"].sum() == 0
    assert honest["5% from 20 µs"].mean() > 0.95


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_planted_work_calls_the_kernel_with_its_arguments(name):
    text = (ROOT / Build(name, None, "float32", False).source).read_text()
    planted = planted_text(text, name, 20)
    assert planted.count(f"{name}_planted(") == 2
    assert f"    {name}_planted(a, b" in planted
    assert planted.count('extern "C" __global__') == text.count('extern "C" __global__')
    assert "* 20 / 1000" in planted
    with pytest.raises(StudyError, match="nothing: no kernel"):
        planted_text(text, "nothing", 20)
