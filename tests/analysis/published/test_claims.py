"""The sources' claims, each compared by its rule with counts, builds and times."""

import numpy as np
import pytest

from analysis.data import recordings as data
from analysis.kernels.machine_code import machine_code_table
from analysis.published import claims as rules
from tests.support.products import product_of
from tests.support.report_data import frame, theory
from tests.support.simulated import SPEEDUP

NAN = np.nan
TILED = (("block", 8), ("block", 32), ("tile_conflict_free", 16), ("block_unroll4", 32))


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    kernels = [("naive", 32), ("naive_coalesced", 32), *TILED, ("block_padded", 32)]
    products = [product_of(name, n, block) for name, block in kernels for n in (512, 1000, 1024)]
    return theory(tmp_path_factory.mktemp("counts"), products)


def claims_of(recordings, counts):
    builds = data.builds_table(recordings), data.instructions_table(recordings)
    found, code = data.sources(recordings), machine_code_table(*builds, counts)
    on_code = *rules.on_registers(found, code), *rules.on_accesses(counts)
    return rules.claims_table([*rules.on_times(found), *on_code])


@pytest.fixture(scope="module")
def claims(gpu_recording, counts):
    return claims_of({"card": gpu_recording}, counts)


def one(claims, words, quantity=None):
    rows = claims[claims["claim"].str.contains(words, regex=False)]
    rows = rows[rows["quantity"].isna() if quantity is None else rows["quantity"] == quantity]
    assert len(rows) == 1, rows
    return rows.iloc[0]


YES, NO, NEITHER, OTHER = "holds", "does not hold", "undecided", np.nextafter(0.25, 1)


@pytest.mark.parametrize(
    ("rule", "expected", "cases"),
    [
        ("about", 2.0, {(1.9, 2.1): YES, (1.6, 2.5): YES, (1.5, 1.59): NO, (2.51, 2.6): NO}),
        ("about", 2.0, dict.fromkeys([(1.59, 2.5), (1.5, 1.6), (2.4, 2.6), (NAN, NAN)], NEITHER)),
        ("above", 1.0, {(1.01, 1.1): YES, (0.9, 1.0): NO}),
        ("above", 1.0, dict.fromkeys([(1.0, 1.1), (0.9, 1.1), (NAN, NAN)], NEITHER)),
        ("not_above", 1.0, {(1.01, 1.1): NO, (0.9, 1.0): YES}),
        ("not_above", 1.0, dict.fromkeys([(1.0, 1.1), (0.9, 1.1), (NAN, NAN)], NEITHER)),
        ("exactly", 0.25, {(0.25, 0.25): YES, (OTHER, OTHER): NO}),
    ],
)
def test_each_rule_gives_the_expected_verdict_for_an_interval(rule, expected, cases):
    for (low, high), word in cases.items():
        assert getattr(rules, rule.upper()).decide(low, high, expected) == word, (low, high)


def test_an_undecided_claim_names_the_bound_inside_its_interval():
    about, above = rules.ABOUT, rules.ABOVE
    assert about.reason(1.5, 1.7, 2.0) == "interval contains 1.6"
    assert above.reason(0.9, 1.1, 1.0) == "interval contains 1"
    assert above.reason(NAN, NAN, 1.0) == "no interval"
    assert above.reason(1.1, 1.2, 1.0) is None


def case(claim, verdict, quantity=None, gpu="card", n=64):
    row = {"gpu": gpu, "recording": gpu, "claim": claim, "quantity": quantity, "n": n}
    return row | {"source": "V", "value": 1.0, "verdict": verdict}


def test_each_claim_gets_one_verdict_per_gpu_model(gpu_recording, claims):
    cases = [
        case("both", "holds", "kernel", n=64),
        case("both", "holds", "total", n=128),
        case("copies", "holds", "kernel"),
        case("copies", "does not hold", "total"),
        case("counted", "holds", gpu=None),
    ]
    recordings = {"card": gpu_recording, "twin": gpu_recording}
    table = rules.claim_verdicts_table(frame("claims", cases), data.sources(recordings))
    assert list(table["gpu"]) == ["card"] * 3, "the twin is of the same model"
    row = table.set_index("claim")
    verdicts = {"both": "holds", "copies": "depends on the copies", "counted": "holds"}
    assert row["verdict"].to_dict() == verdicts
    assert (row.at["both", "kernel_n"], row.at["both", "total_n"]) == (64, 128)
    assert row.at["counted", "kernel_verdict"] == "holds"
    (source,) = data.sources({"card": gpu_recording})
    for quantity, memory in (("kernel", "pinned"), ("total", "pageable")):
        row = one(claims, "up to 1.75", quantity)
        cells = source.square_cells[source.square_cells["host_memory"] == memory]
        naive = cells[(cells["variant"] == "naive") & (cells["block_size"] == 32)]
        buffered = cells[cells["variant"] == "buffered_row"].set_index("n")[f"{quantity}_s"]
        speedups = naive.set_index("n")[f"{quantity}_s"] / buffered
        assert row["value"] == speedups.max()
        assert (row["n"], row["cases"]) == (speedups.idxmax(), speedups.notna().sum())
        assert row["host_memory"] == memory


def test_claims_about_accesses_are_decided_by_counted_loads(claims):
    for words, value, cases in (("does B/4 flop", 1.0, 9), ("to 1/32", 32.0, 2)):
        row = one(claims, words)
        assert (row["value"], row["verdict"], row["cases"]) == (value, "holds", cases)


@pytest.mark.parametrize(
    ("words", "value", "verdict"),
    [
        ("slow order", 1 / SPEEDUP["block_strided"], "holds"),
        ("four elements", 3.5 / 3.0, "does not hold"),
        ("in tiles of 16", 1.1 / 0.8, "holds"),
        ("in tiles of 32", 1.1 / 0.8, "holds"),
        ("register tiles", 80 / 70, "holds"),
        ("zero padding", 1.0, "undecided"),
    ],
)
def test_claims_about_two_kernels_use_the_ratio_of_their_times(claims, words, value, verdict):
    row = one(claims, words, "kernel")
    assert row["value"] == pytest.approx(value, rel=0.02)
    assert row["value_low"] < row["value"] < row["value_high"]
    assert (row["verdict"], row["gpu"]) == (verdict, "card")
    if words in ("in tiles of 16", "in tiles of 32"):
        assert row["other_blocks"] == f"holds: {48 - row['block_size']}"
    assert row["n"] == (250 if words == "zero padding" else 2048), "the largest"
    if words == "zero padding":  # the total contains the work of the host
        row = one(claims, words, "total")
        assert (row["verdict"], row["value_high"] < 1) == (NO, True)
