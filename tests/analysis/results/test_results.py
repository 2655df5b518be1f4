"""Result files of other tools: readers, verdicts with the user's own variation, history."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from xml.etree.ElementTree import fromstring

import numpy as np
import pandas as pd
import pytest

from analysis.results.command import compare_files, sessions
from analysis.results.comparison import MOST, Builds, compare, judged, located, ratios, scale
from analysis.results.history import Entry, _appended, history, steps
from analysis.results.history import drawn as draw_history
from analysis.results.readers import read
from analysis.stats.significance import junit
from base.errors import StudyError
from tests.support import for_test_all

TIMES = [0.010, 0.012, 0.011]


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def pytest_file(path, times):
    runs = [{"fullname": name, "stats": {"data": [*map(float, of)]}} for name, of in times.items()]
    return write(path, {"machine_info": {}, "benchmarks": runs})


def table(sessions, seed=1, benchmarks=6, slower=(), factor=1.2, shared=0.003):
    """Return samples of `sessions`; in those of `slower`, benchmark b0 takes `factor` as long."""
    random = np.random.default_rng(seed)
    rows = []
    for session in sessions:
        common = random.normal(0, shared)
        for number in range(benchmarks):
            log_s = common + random.normal(0, 0.003) + random.normal(0, 0.005, 12)
            times = 1e-3 * np.exp(log_s) * (factor if session in slower and number == 0 else 1)
            rows += [(f"b{number}", session, at, time) for at, time in enumerate(times)]
    return pd.DataFrame(rows, columns=["benchmark", "session", "sample", "time_s"])


def google(path, unit="ms", scale=1e3):
    runs = [
        {"name": name, "run_type": "iteration", "real_time": 9, "cpu_time": 9, "time_unit": unit}
        | {clock: time * scale}
        for name, clock in (("f/8", "cpu_time"), ("g/real_time", "real_time"))
        for time in TIMES
    ]
    mean = runs[0] | {"name": "f/8_mean", "run_type": "aggregate"}
    return write(path, {"context": {}, "benchmarks": [*runs, mean]})


def nvbench(path, size=3):
    folder = path.with_name(f"{path.name}-bin")
    folder.mkdir()
    np.array(TIMES, "<f4").tofile(folder / "0.bin")
    data = {"filename": f"{folder.name}/0.bin", "size": str(size)}
    data = [{"name": name, "value": value} for name, value in data.items()]
    summary = {"tag": "nv/json/bin:nv/cold/sample_times", "data": data}
    states = [
        {"name": "Device=0 n=1", "is_skipped": False, "summaries": [summary]},
        {"name": "Device=0 n=2", "is_skipped": True, "summaries": None},
    ]
    return write(path, {"devices": [], "benchmarks": [{"name": "copy", "states": states}]})


def test_result_files_of_every_tool_are_read_as_one_table_in_seconds(tmp_path):
    hyperfine = write(tmp_path / "h.json", {"results": [{"command": "ls", "times": TIMES}]})
    lines = "".join(f"f,{time},{at % 2}\n" for at, time in enumerate(TIMES))
    files = {
        google(tmp_path / "g.json"): ["f/8", "g/real_time"],
        google(tmp_path / "ns.json", "ns", 1e9): ["f/8", "g/real_time"],
        pytest_file(tmp_path / "p.json", {"t::a": TIMES}): ["t::a"],
        nvbench(tmp_path / "n.json"): ["copy Device=0 n=1"],
        hyperfine: ["ls"],
        write(tmp_path / "c.csv", f"name,time_s,session\n{lines}"): ["f"],
    }
    for path, names in files.items():
        found = read(path)
        assert [*found] == ["benchmark", "session", "sample", "time_s", "made_s"]
        assert [*found["benchmark"].unique()] == names
        expected = sorted(TIMES * len(names))
        assert sorted(found["time_s"]) == pytest.approx(expected, rel=1e-6), path
    assert read(tmp_path / "c.csv")["session"].nunique() == 2
    hyperfine.write_bytes(b"\xef\xbb\xbf" + hyperfine.read_bytes().replace(b'"ls"', b'"l\\u001bs"'))
    assert [*read(hyperfine)["benchmark"].unique()] == ["l s"], "byte order mark, control letter"


def test_sessions_are_ordered_by_the_dates_in_their_files(tmp_path):
    files = [google(tmp_path / f"{name}.json") for name in "cab"]
    dates = "2026-02-01T09:00:00+02:00", "2026-02-01T08:00:00+00:00"
    for path, date in zip(files, dates, strict=False):
        write(path, json.loads(path.read_text()) | {"context": {"date": date}})
    os.utime(files[2], (0, 0))  # of a file without a date
    table, _ = sessions(files[:1], files[1:2], files[2:])
    assert [*table["session"].unique()] == [str(tmp_path / f"{name}.json") for name in "bca"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not a complete result file"),
        ('{"machine_info": {}, "benchm', "not a complete result file"),
        ("[" * 100_000, "not a complete result file"),
        ('{"a": 1}', "no known format"),
        ('{"results": [{"command": null, "times": [1]}]}', "not a complete"),
        ('{"results": [{"command": "a", "times": [1' + 400 * "0" + "]}]}", "too large to convert"),
        ('{"machine_info": {}, "benchmarks": null}', "not a complete"),
        ('{"machine_info": {}, "benchmarks": []}', "contains no times"),
        ('{"machine_info": {}, "benchmarks": [{"stats": {}}]}', "--benchmark-json"),
        ('{"results": [{"command": "a", "times": [1, NaN]}]}', "a time of a is negative or not"),
        ('{"results": [{"command": "a", "times": [-1]}]}', "a time of a is negative"),
        ('{"results": [{"command": "a", "times": ["x"]}]}', "could not convert"),
        ('{"results": [{"command": "a"}]}', r"file \(lacks 'times'\)"),
        ('{"results": [{"command": "a", "times": 5}]}', "not a complete"),
        ('{"results": [{"command": "a", "times": [[1, 2], [3, 4]]}]}', "not a complete"),
        ('{"results": [{"command": {"a": 1}, "times": [1]}]}', "not a complete"),
        ('{"results": [{"command": "a", "times": [1]}, {"command": "a", "times": [2]}]}', "a more"),
    ],
)
def test_an_invalid_file_is_a_one_line_error(tmp_path, content, reason):
    with pytest.raises(StudyError, match=reason):
        read(write(tmp_path / "x.json", content))


def test_a_truncated_or_missing_binary_file_is_an_error(tmp_path):
    with pytest.raises(StudyError, match="3 of 4 times"):
        read(nvbench(tmp_path / "n.json", size=4))
    (tmp_path / "n.json-bin" / "0.bin").unlink()
    with pytest.raises(StudyError, match="copy it together"):
        read(tmp_path / "n.json")


def test_sessions_with_many_samples_are_thinned_and_too_large_files_are_refused(tmp_path):
    times = np.random.default_rng(1).permutation(100_001) + 1.0
    thinned = read(pytest_file(tmp_path / "p.json", {"t": times}))["time_s"]
    assert [*thinned] == [*range(1, 10**5 + 2, 100)]
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(257 * 10**6)
    with pytest.raises(StudyError, match="missing, or larger than 256 MB; name"):
        read(tmp_path / "large.json")


@pytest.mark.parametrize("content", ["name,time_ms\na,1\n", "name,time_s\na,1,2,3\na,1\n"])
def test_a_csv_file_names_its_columns(tmp_path, content):
    with pytest.raises(StudyError, match="columns are not name, time_s"):
        read(write(tmp_path / "x.csv", content))


REPEATS = [f"r{number}" for number in range(10)]


def test_only_the_changed_benchmark_is_slower():
    found = compare(table([*REPEATS, "a", "b"], slower=["b"]), Builds(["a"], ["b"], REPEATS), 0.05)
    verdicts = found.verdicts.set_index("benchmark")["verdict"]
    assert verdicts["b0"] == "slower"
    assert {*verdicts.drop("b0")} == {"same"}
    assert found.same_build_slower == [0] * 20


def test_without_repeated_sessions_there_is_no_verdict_and_no_rate_of_false_ones():
    comparison = compare(table(["a", "b"], slower=["b"]), Builds(["a"], ["b"], ["a"]), 0.05)
    assert {*comparison.verdicts["verdict"]} == {"undecided"}
    assert not comparison.same_build_slower
    assert comparison.verdicts["found"].isna().all()
    with pytest.raises(StudyError, match="--repeat: no benchmark of A and B"):
        compare(table(["a", "b"]), Builds(["a"], ["b"], ["other"]), 0.05)


SIDES = [f"{side}{number}" for number in range(3) for side in "ab"]


def verdicts(samples, a, b):
    comparison = compare(samples, Builds(a, b, REPEATS), 0.05)
    return comparison.verdicts.set_index("benchmark")["verdict"], comparison.notes


@pytest.mark.exhaustive
def test_a_shift_of_all_benchmarks_gives_one_verdict_from_three_sessions_on():
    samples = table([*REPEATS, *SIDES])
    samples["time_s"] *= 1 + 0.2 * samples["session"].str.startswith("b")
    single, notes = verdicts(samples, ["a0"], ["b0"])
    assert {*single} == {"undecided"}, "a session may be disturbed as a whole"
    assert notes == [
        f"{MOST} moved: it is the machine or the build as a whole; alternate 3 or more"
        " sessions of each build"
    ]
    several, _ = verdicts(samples, SIDES[::2], SIDES[1::2])
    assert several[MOST] == "slower"
    assert {*several.drop(MOST)} == {"undecided"}
    samples.loc[samples["benchmark"].isin(["b4", "b5"]), "time_s"] = 1e-3
    majority, _ = verdicts(samples, SIDES[::2], SIDES[1::2])
    assert majority[MOST] == "slower"
    assert {*majority[["b4", "b5"]]} == {"same"}, "others are slower, so these are not faster"


def test_a_slower_benchmark_is_found_even_if_all_benchmarks_shift():
    samples = table([*REPEATS, *SIDES], slower=SIDES[1::2], shared=0.02)
    samples["time_s"] *= 1 + 0.03 * samples["session"].str.startswith("b")
    said, _ = verdicts(samples, SIDES[::2], SIDES[1::2])
    assert said["b0"] == "slower"
    assert {*said.drop("b0")} == {"undecided"}, "3 % more are usual for this machine"


@pytest.mark.parametrize("factor", [for_test_all(1.0), 1.06])
def test_drift_of_the_machine_is_not_called_slower_and_cancels_if_builds_alternate(factor):
    samples = table([*REPEATS, *SIDES], shared=0)
    place = samples["session"].map({name: at for at, name in enumerate([*REPEATS, *SIDES])})
    late = [*SIDES[3:]]
    for b, drift in ((SIDES[1::2], 0.005), (late, 0.01)):
        times = samples["time_s"] * np.exp(drift * place)
        slowed = times.where(~samples["session"].isin(b), times * factor)
        a = [name for name in SIDES if name not in b]
        said, _ = verdicts(samples.assign(time_s=slowed), a, b)
        is_found = b is not late and factor > 1
        assert said[MOST] == ("slower" if is_found else "undecided" if b is late else "same")
        assert "slower" not in {*said.drop(MOST)}


def test_the_estimated_variation_equals_that_of_the_simulated_sessions():
    names = [f"r{number}" for number in range(40)]
    sessions_of_one_build = located(table(names, benchmarks=30))
    one = 0.003**2 + 0.003**2 + 1.35**2 * 0.005**2 / 12  # 1.35: of a lower quartile
    for size, share in ((1, 1), (3, 0.449)):  # variance of the median of 3 normal values
        builds = Builds(names[:size], names[size : 2 * size], names)
        deviation = scale(ratios(sessions_of_one_build, builds))
        assert (deviation**2).mean() == pytest.approx(2 * one * share, rel=0.25)


@pytest.mark.exhaustive
def test_a_disturbed_repeated_session_widens_intervals_but_makes_no_side_slower():
    samples = table([*REPEATS, "a", "b"], slower=["b"])
    builds = Builds(["a"], ["b"], REPEATS)
    calm = compare(samples, builds, 0.05).verdicts
    is_disturbed = (samples["session"] == "r3") & (samples["benchmark"] == "b0")
    disturbed = samples["time_s"].where(~is_disturbed, samples["time_s"] * 1.3)
    busy = compare(samples.assign(time_s=disturbed), builds, 0.05).verdicts
    assert calm["verdict"][0] == "slower"
    assert busy["verdict"][0] == "undecided"
    assert busy["found"][0] > 1.3


def test_a_benchmark_whose_samples_vary_more_than_repeated_ones_is_undecided():
    samples = table([*REPEATS, "a", "b"], slower=["b"])
    factors = 1 + 0.5 * (samples["sample"] % 3) * (samples["session"] == "b")
    found = compare(
        samples.assign(time_s=samples["time_s"] * factors), Builds(["a"], ["b"], REPEATS), 0.05
    )
    assert {*found.verdicts["verdict"]} == {"undecided"}


def test_one_disturbed_session_does_not_make_a_side_slower():
    sessions = [f"{side}{number}" for side in "ab" for number in range(5)]
    samples = table([*REPEATS, *sessions], slower=["b3"], factor=1.5)
    builds = Builds(sessions[:5], sessions[5:], REPEATS)
    assert "slower" not in {*compare(samples, builds, 0.05).verdicts["verdict"]}


def test_a_slowdown_of_the_size_stated_as_detectable_is_detected():
    least = compare(table([*REPEATS, "a", "b"]), Builds(["a"], ["b"], REPEATS), 0.02)
    factor = float(least.verdicts["found"].max())
    hits = 0
    for seed in range(10):
        samples = table([*REPEATS, "a", "b"], seed, slower=["b"], factor=factor)
        frame = judged(located(samples), Builds(["a"], ["b"], REPEATS), 0.02)
        hits += frame["verdict"][0] == "slower"
    assert hits >= 8


def test_equal_times_get_the_verdict_same_and_times_of_zero_are_noted():
    sessions = [*REPEATS, "a", "b"]
    rows = [("t", name, at, 0.001) for name in sessions for at in range(5)]
    rows += [("u", name, at, 0.002) for name in sessions for at in range(5)]
    rows += [("z", name, at, 0.0) for name in sessions for at in range(5)]
    samples = pd.DataFrame(rows, columns=["benchmark", "session", "sample", "time_s"])
    found = compare(samples, Builds(["a"], ["b"], REPEATS), 0.05)
    assert [*found.verdicts["verdict"]] == ["same", "same"]
    assert found.notes == ["time 0: z"]


def test_the_output_notes_missing_and_renamed_benchmarks():
    samples = table([*REPEATS, "a", "b"])
    renamed = (samples["session"] == "b") & (samples["benchmark"] == "b5")
    found = compare(
        samples.assign(benchmark=samples["benchmark"].mask(renamed, "c5")),
        Builds(["a"], ["b"], REPEATS),
        0.05,
    )
    assert [*found.verdicts["benchmark"]] == [*(f"b{number}" for number in range(5)), MOST]
    assert found.notes == ["only in A: b5", "only in B: c5"]


@pytest.mark.parametrize("form", ["text", *map(for_test_all, ("github", "json", "junit"))])
def test_the_command_compare_fails_for_a_slower_build(tmp_path, capsys, form):
    samples = table([*REPEATS, "a", "b"], slower=["b"])
    files = {
        name: pytest_file(tmp_path / f"{name}.json", of.groupby("benchmark")["time_s"].agg(list))
        for name, of in samples.groupby("session")
    }
    repeats = [files[name] for name in REPEATS]
    assert compare_files([files["a"]], [files["b"]], repeats, 0.05, form, None) == 1
    assert "b0" in capsys.readouterr().out
    assert compare_files(repeats[:1], repeats[1:2], repeats[2:], 0.05, form, None) == 0
    assert compare_files([files["a"]], [files["b"]], (), 0.05, form, None) == 3
    capsys.readouterr()
    assert compare_files([files["a"]], [files["b"]], repeats[:3], 0.05, form, None) == 1
    few = "3 repeated sessions bound neither the slowdown found nor the rate of false verdicts: run"
    text = capsys.readouterr().out
    assert (f"{few} the build of A 2 times more" in text) == (form != "json")
    assert "smallest slowdown" not in text
    with pytest.raises(StudyError, match="is a file of A and of B"):
        compare_files([files["a"]], [files["a"]], (), 0.05, form, None)


def test_junit_output_is_valid_xml_for_every_benchmark_name():
    one = pd.DataFrame({"verdict": ["same"], "ratio": [1.0]})
    (case, _) = fromstring(junit(one, [("", 'a\x1b<&"\ud800')], ""))
    assert case.get("name") == 'a?<&"?'


def test_a_lasting_change_is_a_step_and_a_single_bad_day_is_not():
    random = np.random.default_rng(3)
    log_s = pd.DataFrame(random.normal(0, 0.005, (20, 24)), [f"b{at}" for at in range(20)])
    log_s.loc["b3", 15:] += 0.1
    log_s.loc["b7", 12:13] += 0.5
    found = steps(log_s, [f"c{at}" for at in range(24)], 0.02)
    assert next(iter(found.itertuples(index=False, name=None)))[:3] == ("b3", 15, "c15")
    assert len(found) == 1


@pytest.mark.parametrize("runs", [1, 3, 12, 400])
def test_labels_of_a_drawn_history_do_not_overlap(runs):
    names, labels = [f"test_{at}" for at in range(12)], [f"c{at}" for at in range(runs)]
    log_s = pd.DataFrame(0.0, names, range(runs))
    log_s.iloc[:, runs // 2 :] = 0.1 + np.arange(12)[:, None] / 1e4
    rows = [(name, runs // 2, "", 1.1, "slower") for name in names[: 12 * (runs > 3)]]
    lasting = pd.DataFrame(rows, columns=["benchmark", "at", "label", "ratio", "verdict"])
    drawing = draw_history(log_s, labels, lasting)
    heights = re.findall(r' y="([\d.]+)">test_', drawing)
    assert len(heights) == 8 * (runs > 3)
    assert (np.diff(np.sort(np.array(heights, float))) > 8).all()


def test_history_appends_entries_and_fails_only_once_for_a_new_slowdown(tmp_path, capsys):
    file, svg, statuses = tmp_path / "h.jsonl", tmp_path / "h.svg", []
    for number in range(14):
        slower = ["s"] if number >= 8 else []
        samples = table(["s"], number, benchmarks=2, slower=slower, shared=0)
        result = pytest_file(tmp_path / "r.json", samples.groupby("benchmark")["time_s"].agg(list))
        statuses.append(history(file, [result], f"c{number}", 0.02, "github", svg))
    assert len(file.read_text().splitlines()) == 14
    assert statuses.count(1) == 1
    assert statuses.index(1) >= 10, "three entries are needed"
    assert "slower since c8" in capsys.readouterr().out
    assert svg.read_text().startswith("<svg")
    with ThreadPoolExecutor(8) as pool:
        append = partial(_appended, file, Entry(label="", times_s={}))
        assert sum(map(len, pool.map(lambda _: append(), range(8)))) == sum(range(15, 23))
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(StudyError, match="line 23 is not an entry"):
        history(file, (), "", 0.02, "text", None)
