"""Hosts, clocks, the CPU's ladder and ceilings, and speedups split into their parts."""

from dataclasses import replace

import pytest

from analysis.cpu.hosts import clock_table
from analysis.cpu.ladder import cpu_ladder_table
from analysis.cpu.split import WHOLE, cpu_split_table
from analysis.data import published
from analysis.data import recordings as data
from tests.support.report_data import PUBLISHED, only
from tests.support.simulated import ALL_THREADS, CPU_S_PER_FMA, PARALLEL_EFFICIENCY

PRINTED = published.read(PUBLISHED)


@pytest.fixture(scope="module")
def gpu(gpu_recording):
    return data.sources({"card": gpu_recording})


@pytest.fixture(scope="module")
def both(gpu_recording, cpu_recording):
    return data.sources({"card": gpu_recording, "host": cpu_recording})


def without(recording, chosen, name="card"):
    """Return the sources of a recording without the chosen samples."""
    samples = recording.samples
    kept = replace(recording, samples=samples.drop(samples.query(chosen).index))
    return data.sources({name: kept})


def test_samples_with_a_changed_clock_are_counted(cpu_recording):
    before_hz = cpu_recording.samples["cpu_clock_before_hz"]
    after_hz = before_hz * [1.03, 0.97, *[1.01] * (len(before_hz) - 2)]
    samples = cpu_recording.samples.assign(cpu_clock_after_hz=after_hz)
    clocks = clock_table(data.sources({"host": replace(cpu_recording, samples=samples)}))
    assert clocks["samples"].sum() == before_hz.notna().sum()
    assert clocks["samples_clock_changed"].sum() == before_hz[:2].notna().sum() == 2


def test_each_step_of_the_cpu_ladder_has_a_speedup_and_an_efficiency(both, cpu_recording):
    ladder = cpu_ladder_table(both)
    steps = ladder[ladder["recording"] == "card"]
    assert (len(steps), set(ladder.loc[ladder["recording"] == "host", "n"])) == (8 * 3, {256, 512})
    cells = both[0].square_cells.set_index(["variant", "threads", "n"])
    for row in steps.to_dict("records"):
        own = cells.loc[[(row["variant"], row["threads"], row["n"])]]
        assert row["time_s"] == own["total_s"].min(), "the fastest block size"
        expected = CPU_S_PER_FMA[row["after_variant"]] / CPU_S_PER_FMA[row["variant"]]
        threads = row["threads"] / row["after_threads"]
        expected *= threads * PARALLEL_EFFICIENCY if threads > 1 else 1
        assert row["speedup"] == pytest.approx(expected, rel=0.02)
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
        assert row["verdict"] == ("faster" if expected > 1 else "slower")
    rows = ladder[ladder["efficiency"].notna()]
    pairs = set(zip(rows["variant"], rows["after_variant"], strict=True))
    assert pairs == {("packed", "packed"), ("blas", "blas")}
    assert set(rows["threads"]) == {ALL_THREADS}
    for bound in ("", "_low", "_high"):
        assert (rows[f"efficiency{bound}"] == rows[f"speedup{bound}"] / ALL_THREADS).all()
    assert list(rows["efficiency"]) == pytest.approx([PARALLEL_EFFICIENCY] * len(rows), rel=0.02)
    steps = cpu_ladder_table(without(cpu_recording, "threads > 1"))  # a host of one core
    assert len(steps) == 5 * 2
    assert steps["efficiency"].isna().all()
    assert cpu_ladder_table([]).empty


def one(table, variant, threads=1, recording="card"):
    return only(table, variant=variant, threads=threads, recording=recording)


@pytest.fixture(scope="module")
def split(gpu):
    return cpu_split_table(PRINTED, gpu)


def split_of(recording, chosen):
    return cpu_split_table(PRINTED, without(recording, chosen))


def parts_of(split, start="naive", memory="pageable"):
    rows = split[(split["gpu"] == "card") & (split["start"] == start)]
    return rows[rows["host_memory"] == memory].set_index("part")


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize(("start", "first"), [("naive", ["source"]), ("source", [])])
def test_the_factors_of_the_split_multiply_to_the_whole_speedup(split, start, first, memory):
    rows = parts_of(split, start, memory)
    assert list(rows.index) == [*first, "one_thread", "all_threads", "gpu", WHOLE]
    steps = rows.drop(index=WHOLE)
    assert steps["factor"].prod() == pytest.approx(rows.at[WHOLE, "factor"])
    assert rows["factor"].between(rows["factor_low"], rows["factor_high"]).all()


def test_parts_of_the_split_are_time_ratios_of_fastest_variants(split, gpu, gpu_recording):
    rows = parts_of(split)
    rate = CPU_S_PER_FMA
    expected = {"source": rate["naive"] / rate["blocked"]}
    expected["one_thread"] = rate["blocked"] / rate["blas"]
    expected["all_threads"] = ALL_THREADS * PARALLEL_EFFICIENCY
    assert rows.loc[list(expected), "factor"].to_dict() == pytest.approx(expected, rel=0.02)
    assert (rows.at["gpu", "after_variant"], rows.at["gpu", "after_threads"]) == ("blas", 4)
    assert rows.at[WHOLE, "after_variant"] == "naive"
    own = "n == 1024 and host_memory == 'pageable' and variant != 'cublas_sgemm'"
    own = gpu[0].square_cells.query(own).sort_values("total_s").iloc[0]
    assert rows.at[WHOLE, "variant"] == own["variant"]
    assert set(rows["n"]) == {1024}, "the largest size of the CPU, not the source's"
    chosen = "device == 'cpu' and (variant in ['blas', 'packed'] or threads > 1)"
    rows = parts_of(split_of(gpu_recording, chosen))
    assert list(rows.index) == ["source", "gpu", WHOLE], "loop_order is not faster than blocked"
    assert rows.at["gpu", "after_variant"] == "blocked"
    assert rows["factor"].drop(WHOLE).prod() == pytest.approx(rows.at[WHOLE, "factor"])
    split = split_of(gpu_recording, "device == 'cpu' and variant == 'naive'")
    starts = set(split.loc[split["gpu"] == "card", "start"])
    assert starts == {"source"}, "without the naive loop"
    rows = parts_of(split_of(gpu_recording, "device == 'cpu' and variant == 'naive' and round > 0"))
    assert rows.loc[["source", WHOLE], "factor"].notna().all(), "of a single sample"
    assert rows.loc[["source", WHOLE], "factor_low"].isna().all()
    assert rows.loc[["one_thread", "all_threads", "gpu"], "factor_low"].notna().all()


def test_the_published_speedup_is_split_by_the_cpu_speedup_that_the_source_claims():
    split = cpu_split_table(PRINTED, [])
    rows = split[split["start"] == "naive"].set_index("part")
    expected = {"source": 35, "gpu": 103 / 0.058 / 35, WHOLE: 103 / 0.058}
    assert rows["factor"].to_dict() == pytest.approx(expected)
    assert tuple(rows.loc[WHOLE, ["variant", "block_size"]]) == ("block_unroll4", 32)
    assert rows["factor_low"].isna().all()
    assert only(split, start="source", part=WHOLE)["factor"] == pytest.approx(103 / 0.058 / 35)
    changed = cpu_split_table(PRINTED.replace({"time_s": {0.058: 0.05}}), [])
    assert only(changed, start="naive", part=WHOLE)["factor"] == pytest.approx(103 / 0.05)
