"""The source's claims on CPUs, each by its rule, on every host and every GPU."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.cpu.split import cpu_split_table
from analysis.data import published
from analysis.data import recordings as data
from analysis.published import cpu_claims
from analysis.published.claims import claims_table
from tests.support.report_data import PUBLISHED, only

PRINTED = published.read(PUBLISHED)
ON_GPU = [cpu_claims.OVER_NAIVE.text, cpu_claims.OVER_CACHE.text]


def claims_of(recordings):
    found = data.sources(recordings)
    return claims_table(cpu_claims.on_cpus(found, cpu_split_table(PRINTED, found)))


def one(claims, claim, recording="card"):
    return only(claims, claim=claim.text, recording=recording)


@pytest.fixture(scope="module")
def claims(gpu_recording, cpu_recording):
    return claims_of({"card": gpu_recording, "host": cpu_recording})


def claims_with(recording, factor, chosen="variant == 'naive'"):
    """Return the claims with the times of some CPU cells multiplied."""
    samples = recording.samples.copy()
    samples.loc[samples.query(f"device == 'cpu' and {chosen}").index, "total_s"] *= factor
    return claims_of({"card": replace(recording, samples=samples)})


def test_cache_optimisation_compares_the_best_program_with_the_naive_loop(claims, gpu_recording):
    row = one(claims, cpu_claims.CACHE_SPEEDUP)
    assert row["measured"].startswith("total time of naive over that of blocked (B = ")
    assert row["value"] == pytest.approx(10, rel=0.02)
    assert row["value_low"] < row["value"] < row["value_high"]
    assert (row["expected"], row["verdict"], row["n"]) == (35, "does not hold", 1024)
    assert one(claims, cpu_claims.CACHE_SPEEDUP, "host")["n"] == 512
    row = one(claims, cpu_claims.CACHE_RATE)
    (source,) = data.sources({"card": gpu_recording})
    cells = source.square_cells
    cells = cells[(cells["device"] == "cpu") & (cells["n"] == 1024)]
    time_s = cells.loc[cells["variant"] == "blocked", "total_s"].min()
    assert row["value"] == pytest.approx(2e-9 * 1024**3 / time_s)
    assert row["value_low"] < row["value"] < row["value_high"]
    assert (row["expected"], row["verdict"]) == (5.5, "does not hold")


def test_the_claimed_cpu_speedup_of_35_holds_within_a_tolerance(cpu_recording):
    for factor, verdict in ((3.5, ""), (2.85, ""), (2.7, "does not "), (4.5, "does not ")):
        row = one(claims_with(cpu_recording, factor), cpu_claims.CACHE_SPEEDUP)
        assert row["value"] == pytest.approx(10 * factor, rel=0.03)
        assert row["verdict"] == (f"{verdict}hold" if verdict else "holds")


def test_block_size_matters_from_a_factor_of_two_and_one_sample_decides_nothing(cpu_recording):
    samples = cpu_recording.samples.query("variant != 'naive' or round == 0")
    made = replace(cpu_recording, samples=samples)
    row = one(claims_of({"card": made}), cpu_claims.CACHE_SPEEDUP)
    assert row["value"] == pytest.approx(10, rel=0.03)
    assert (pd.isna(row["value_low"]), row["verdict"]) == (True, "undecided")
    row = one(claims_with(cpu_recording, 2.2, "block_size == 16"), cpu_claims.BLOCKING)
    assert row["block_size"] == 64
    assert (row["value"], row["verdict"]) == (pytest.approx(2.2, rel=0.03), "holds")
    assert one(claims_of({"card": cpu_recording}), cpu_claims.BLOCKING)["verdict"] == "undecided"


def test_the_claimed_speedup_over_the_cpu_equals_the_product_of_its_parts(claims, gpu_recording):
    split = cpu_split_table(PRINTED, data.sources({"card": gpu_recording}))
    wholes = split[(split["part"] == "whole") & (split["host_memory"] == "pageable")]
    for start, claim in (("naive", cpu_claims.OVER_NAIVE), ("source", cpu_claims.OVER_CACHE)):
        row = one(claims, claim)
        whole = wholes[(wholes["start"] == start) & (wholes["gpu"] == "card")].iloc[0]
        for bound in ("", "_low", "_high"):
            assert row[f"value{bound}"] == whole[f"factor{bound}"]
        assert (row["host_memory"], row["n"]) == ("pageable", whole["n"])
        assert row["measured"].startswith("total time of the CPU's ")
    assert one(claims, cpu_claims.OVER_NAIVE)["verdict"] == "does not hold"
    assert one(claims, cpu_claims.OVER_CACHE)["verdict"] == "does not hold"


def test_the_claimed_speedup_of_2000_over_the_naive_loop_can_hold_or_be_untested(gpu_recording):
    row = one(claims_with(gpu_recording, 2.5), cpu_claims.OVER_NAIVE)
    assert (row["value_low"] > 2000, row["verdict"]) == (True, "holds")
    samples = gpu_recording.samples
    gone = (samples["device"] == "cpu") & samples["variant"].isin(["naive", "blocked"])
    claims = claims_of({"card": replace(gpu_recording, samples=samples[~gone])})
    for claim in (cpu_claims.CACHE_SPEEDUP, cpu_claims.BLOCKING, cpu_claims.OVER_NAIVE):
        assert one(claims, claim)["verdict"] == "not measured"
    assert "column_buffered" in one(claims, cpu_claims.CACHE_RATE)["measured"], "the program left"
    only_gpu = replace(gpu_recording, samples=samples[samples["device"] != "cpu"])
    claims = claims_of({"card": only_gpu})
    assert (list(claims["claim"]), set(claims["verdict"])) == (ON_GPU, {"not measured"})
    assert claims_of({}).empty
