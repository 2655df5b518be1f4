"""Rates of verdicts: counts by kind, and sources with planted work."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis.trust.comparison import compare
from base.errors import StudyError
from base.paths import ROOT
from benchmarks import verdict_rates
from benchmarks.verdict_rates import (
    KINDS,
    comparable,
    evaluated,
    false_verdicts,
    fitted,
    found,
    planted_text,
)
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import Kernel
from kernels.cubins.build import Build
from measurement.devices import discovery
from measurement.recorder import record as recorder
from measurement.recording.recording import read
from study import narrow
from study.config import validate
from tests.support.compilers import stand_in
from tests.support.fakes import CONFIG, FakeHardware
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
def test_rates_of_a_pair_are_by_models_that_were_fitted_without_it(make_recording, tmp_path):
    options = {"holdout": (), "noise": 0.001, "variants": FEW, "kernel_only": True}
    made = [
        make_recording(tmp_path / str(seed), sizes=(1024, 2048), seed=seed, **options)
        for seed in range(6)
    ]
    made[2] = longer(made[2], 1.1)
    for at in (4, 5):
        other = made[at].provenance["configuration"] | {"sizes": [7]}
        made[at] = replace(made[at], provenance=made[at].provenance | {"configuration": other})
    assert comparable(made) == [[0, 1, 2, 3], [4, 5]]
    table = evaluated(made).set_index(["model", "pair"])
    assert len(table) == 3 * (12 + 2)
    slow = table[[2 in pair for _, pair in table.index]]
    honest = table.drop(slow.index)
    assert honest["status 1"].sum() == 0
    assert slow.loc["other groups", "status 1"].sum() == 3, (
        "slower in one order, faster in the other"
    )
    assert honest.loc["present model", "5% from 20 µs"].mean() > 0.9


def test_a_variance_has_the_freedom_of_its_sessions_and_contains_outliers():
    rng = np.random.default_rng(4)
    facts = {"side": "GPU", "host_memory": "pinned", "median_a_s": 1e-3, "median_b_s": 1e-3}
    facts |= {"noise_a": 1e-8, "noise_b": 1e-8, "explained_low": 1.0, "explained_high": 1.0}
    facts |= {"blocks": 10**6, "sessions_a": 1, "sessions_b": 1}
    distance = 0.005 * 2**0.5 * rng.standard_normal(2000)
    distance[::100] *= 8
    rows = pd.DataFrame({"ratio": np.exp(distance)}).assign(**facts)
    model = fitted(dict.fromkeys([(0, 1), (0, 2), (1, 2), (5, 6)], rows))["kernel"]
    assert model.freedom == 3, "five sessions in two groups"
    assert model.relative == pytest.approx(distance.std() / 2**0.5, rel=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("stand_ins")
def test_sessions_with_and_without_planted_work_are_recorded(tmp_path, monkeypatch, capsys):
    """With fake GPUs and a compiler whose cubin is the source."""
    (tmp_path / "hardware").mkdir()
    hardware = FakeHardware(tmp_path / "hardware", gpus=1)
    script = 'for file in $arguments; do case $file in *.cu) cat $file > "$out";; esac; done'
    monkeypatch.setattr(verdict_rates, "find_nvcc", lambda _: stand_in(tmp_path / "nvcc", script))
    monkeypatch.setattr(discovery, "select", hardware.select)
    monkeypatch.setattr(recorder, "Host", lambda: hardware)
    monkeypatch.setattr(narrow, "asked", lambda *_: validate(yaml.safe_load(CONFIG), "config.yaml"))
    out = tmp_path / "sessions"
    line = ["verdict_rates", "record", "--start", "one", "--out", str(out), "--sessions", "2"]
    monkeypatch.setattr("sys.argv", [*line, "--planted", "10", "20", "50", "--device", "0"])
    assert verdict_rates.main() == 0
    names = ["one-1", "one-2", *(f"one-planted-{each}" for each in (10, 20, 50))]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "cubins"])
    measured = len(hardware.lines())
    assert verdict_rates.main() == 0
    assert len(hardware.lines()) == measured, "nothing is measured twice"
    first, second, *planted = (read(out / name) for name in names)
    assert compare(first, second, 0.02)["same_code"].all()
    for one in planted:
        shares = found([first, second], one)
        assert set(shares["mean"]) == {0.0}
        assert set(shares["median"]) == {1.0}, "a fake GPU does not execute what was planted"
    monkeypatch.setattr("sys.argv", ["", "rates", *map(str, (out / "one-1", out / "one-2"))])
    sys.argv += ["--planted", f"20={out / 'one-planted-20'}"]
    assert verdict_rates.main() == 0
    assert "planted 2 %, kernel from 20 µs: 0.0% of" in capsys.readouterr().out


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
