"""`advise`: predictions for any size, their accuracy at held-out sizes, and its errors."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.recordings import ROOT
from analysis.decide import advise as advising
from analysis.decide import lookup, predictors, questions
from analysis.decide.advise import TABLES, advise
from analysis.decide.curves import curve_rows
from analysis.decide.predictions import predictions_table, predictors_table
from analysis.decide.questions import IN_SEQUENCE, Question
from analysis.decide.surfaces import Run
from analysis.decide.transfer_tables import transfer_tables
from kernels.products.shape import Shape
from measurement.recording.recording import read
from study.cells import cell
from tests.support.reports import made
from tests.support.simulated import FEW, kernel_time_s, recorded

COPIES = ("512 1 2e-4", "512 1 1e-4", "1024 1 3e-4", "1024 2 1e-5")  # N, GPUs, seconds
LARGEST = math.isqrt(2**34 // 12)


@pytest.fixture
def run(command):
    def advise(tables, n, *more):
        size = [] if n is None else ["--n", n]
        done = command("advise", "--gpu", "card", *size, "--tables", tables, *more)
        return done.returncode, done.stdout, done.stderr

    return advise


@pytest.fixture
def edited(computed, tmp_path):
    def copy(name, change):
        for each in TABLES:
            shutil.copy(computed / f"{each}.csv", tmp_path)
        frame = pd.read_csv(computed / f"{name}.csv", dtype=str)
        change(frame).to_csv(tmp_path / f"{name}.csv", index=False)
        return tmp_path

    return copy


def asked(gpu, n, memory):
    """Return a question about one square product."""
    return Question(gpu, Shape.square(n), Run(memory))


def answers_of(tables, question):
    """Return the answers to a question."""
    read_tables = {name: advising.read_table(tables / f"{name}.csv") for name in TABLES}
    return questions.answers(question, read_tables, "card")


# At N = 1536 with copies, the simulated times of these kernels differ by less than their noise.
NEARLY_EQUAL = ("register_tile_async", "register_tile_conflict_free")


def truth_s(variant, block, n, memory):
    """Return the time of a run on the simulated GPU; see `tests.support.simulated`."""
    bytes_per_s = {"pinned": 24e9, "pageable": 6e9}[memory]
    one = cell("gpu0", variant, "float32", Shape.square(n), block, memory)
    return 12 * n**2 / bytes_per_s + kernel_time_s(one) + 5e-6


def fits_of(found, held_out=False):
    """Return the fits of sources that `predictor` reads."""
    transfers, _ = transfer_tables(found)
    fits = {"predictors": predictors_table(found), "transfers": transfers}
    return fits | {"curves": curve_rows(found, held_out)}


def predictors_of(gpu_recording, held_out):
    fits = fits_of(data.sources({"card": gpu_recording}), held_out)
    return {each: predictors.predictor("card", each, fits) for each in ("pinned", "pageable")}


@pytest.fixture(scope="module")
def fitted(gpu_recording):
    return predictors_of(gpu_recording, held_out=False)


def block_of(found):
    """Return the kernel block with B = 16."""
    return next(k for k in found.kernels if (k.variant, k.block_size) == ("block", 16))


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
@pytest.mark.parametrize("n", [256, 300, 768, 1024, 1536, 2048])
def test_a_run_between_measured_sizes_is_predicted_from_its_curve(fitted, memory, n):
    block = block_of(found := fitted[memory])
    predicted = found.predict(block, n)
    truth = truth_s("block", 16, n, memory)
    (time_s,), (low_s,), (high_s,) = predicted.bounds
    assert low_s <= truth <= high_s
    assert time_s == pytest.approx(truth, rel=0.15)
    assert found.predict(replace(block, runs=None), n).time_s == pytest.approx(truth, rel=0.15)


def test_the_floor_that_advise_states_is_interpolated_between_measured_copies():
    key = {"gpu": "card", "host_memory": "pinned"}
    rows = [
        key | dict.fromkeys("mnk", n) | {"gpus": gpus, "copies_s": time_s}
        for n, gpus, time_s in (line.split() for line in COPIES)
    ]
    kernel = SimpleNamespace(variant="sgemm_tensor_pieces")
    floors = {(512, "pinned"): 1e-4, (1024, "pinned"): 3e-4, (861, "pinned"): 3**0.75 * 1e-4}
    floors |= dict.fromkeys([(511, "pinned"), (1025, "pinned"), (512, "pageable")])
    for (n, memory), expected in floors.items():
        floor_s = advising._copies_s(asked("card", n, memory), kernel, {"pieces": rows})
        assert floor_s == (expected and pytest.approx(expected, rel=1e-3)), (n, memory)


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_tabulated_times_differ_from_the_predictor_only_by_interpolation(
    gpu_recording, computed, memory
):
    found = predictors_of(gpu_recording, held_out=True)[memory]
    rng = np.random.default_rng(7)
    kernels = {(kernel.variant, kernel.block_size): kernel for kernel in found.kernels}
    for n in np.exp(rng.uniform(0, math.log(LARGEST), 40)).astype(int).tolist():
        one = answers_of(computed, asked("card", n, memory)).on_gpu[0]
        predicted = found.predict(kernels[one.variant, one.block_size], n)
        assert one.time.time_s == pytest.approx(predicted.time_s[0], rel=0.03), n
        assert one.time.half_width == pytest.approx(predicted.half_width[0], abs=0.03), n


def contradictions(tables, gpu, memory):
    """Yield the sizes whose speedups are above 1 below a break-even size, or below 1 above it."""
    question = asked(gpu, 512, memory)
    found, _, read_tables = advising._looked_up(tables, question)
    on_cpu = {name: one.rows for name, one in found._on_cpu.items()}
    sides = [one.rows for one in questions.runs_on_gpu(question, read_tables)]
    gpu_s = [min(side.fastest(n).time.time_s for side in sides) for n in range(16, 4097)]
    for baseline, row in found.break_even().items():
        start = {"below": 0.0, "above": math.inf}.get(row["location"]) or float(row["n"] or 0)
        for n, time_s in enumerate(gpu_s, 16):
            cpu = on_cpu[baseline].fastest(n)
            if cpu and (cpu.time.time_s > time_s) != (n >= start):
                yield gpu, memory, baseline, n, start


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_predicted_speedup_never_contradicts_the_break_even_size(computed, memory):
    assert list(contradictions(computed, "card", memory)) == []


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_no_speedup_predicted_for_the_recorded_gpu_contradicts_its_break_even_size(memory):
    assert list(contradictions(made("measured") / "tables", "h200", memory)) == []


def tabulated(variant, n, time_s, **facts):
    """Return a row of `predicted_times` with an interval of 10 %."""
    row = {"gpu": "card", "variant": variant, "block_size": "", "n": str(n), "time_s": str(time_s)}
    row |= {"time_high_s": str(time_s * 1.1), "candidates": "2"}
    row |= dict.fromkeys(("h2d_s", "kernel_s", "d2h_s", "overhead_s"), "")
    return row | {"least_n": "256", "largest_n": "1024"} | facts


def test_between_two_tabulated_sizes_log_time_is_linear_in_log_n():
    rows = [tabulated("block", 100, 1e-3), tabulated("block", 400, 4e-3, time_high_s="inf")]
    rows.append(tabulated("naive", 100, 1e-4))
    rows.append(tabulated("tile", 200, 1e-4, time_high_s=""))  # for the explorer only
    found = lookup.Rows(rows)
    (one,) = found.at(200).values()
    assert one.time.time_s == pytest.approx(2e-3)
    assert one.time.bounds == (0, math.inf)
    assert {each.variant for each in found.at(100).values()} == {"block", "naive"}
    assert found.at(99) == found.at(401) == {}
    rows = [tabulated("a", n, n) for n in (128, 256, 512)]
    rows += [tabulated("b", n, n * n / 250) for n in (128, 256, 512)]
    fastest = {n: lookup.Rows(rows).fastest(n).variant for n in (128, 256, 300)}
    assert fastest == {128: "a", 256: "a", 300: "a"}, "below N = 256, as at the nearest size"
    on_cpu = [row | {"gpu": "", "variant": v} for row, v in zip(rows[:2], "ab", strict=True)]
    assert lookup.Rows(on_cpu).fastest(200).time.time_s == pytest.approx(200), "of a baseline"


def test_variants_that_were_measured_at_larger_sizes_only_are_named():
    rows = [tabulated("a", n, n, least_n="64") for n in (64, 128, 256, 512)]
    rows += [tabulated("b", n, n * n, least_n="128") for n in (128, 256, 512)]
    rows += [tabulated("c", n, 300, least_n="200") for n in (256, 512)]
    assert lookup.Rows(rows).measured_later == {"c": 200}, "b is never the fastest"


def test_held_out_sizes_are_not_fitted_but_lie_inside_their_prediction_intervals(computed):
    frame = pd.read_csv(computed / "predictions.csv")
    assert set(frame["n"]) == {1536}
    assert frame["error_share"].abs().median() < 0.05
    assert frame["inside"].mean() >= 0.95
    by_hand = frame["predicted_s"] / frame["time_s"] - 1
    assert frame["error_share"].to_numpy() == pytest.approx(by_hand.to_numpy(), abs=2e-5)
    inside = frame["time_s"].between(frame["predicted_low_s"], frame["predicted_high_s"])
    assert (frame["inside"] == inside).all()
    for _, own in frame.groupby("host_memory"):
        fastest = list(own.loc[own["is_predicted_fastest"], "variant"])
        assert (len(fastest), own["is_fastest"].sum()) == (1, 1)
        assert fastest[0] in NEARLY_EQUAL
        assert not own.loc[own["is_fastest"], "is_library"].any()

    def predicted(made):
        found = data.sources({"card": made})
        fits = fits_of(found)
        return fits, predictions_table(found, fits)

    made = read(recorded(samples=7, variants=FEW))
    tables_before, before = predicted(made)
    samples = made.samples.copy()
    times = ["total_s", "in_run_kernel_s", "h2d_s", "d2h_s"]
    samples.loc[samples["n"] == 1536, times] *= 1.7
    kernels = made.kernels.copy()
    kernels.loc[kernels["n"] == 1536, "kernel_s"] *= 1.7
    tables_after, after = predicted(replace(made, samples=samples, kernels=kernels))
    pd.testing.assert_series_equal(before["predicted_s"], after["predicted_s"])
    for name in ("curves", "predictors"):
        pd.testing.assert_frame_equal(tables_before[name], tables_after[name])
    assert (after["error_share"] < before["error_share"]).all()


def test_advise_prints_time_speedups_and_break_even_size_for_any_size(run, computed):
    status, out, err = run(computed, 1536)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Simulated GPU (card), two float32 matrices, N = 1536, pageable memory"
    times = r"([\d.]+) ms \(([\d.]+) ms to ([\d.]+) ms\)"
    first, second = (re.fullmatch(rf"(\w+): {times}, .* TFLOP/s", line) for line in lines[2:4])
    assert float(first[2]) <= float(second[2]), "the faster one of both sides is the first"
    (own,) = {first[1], second[1]} - {"cublas_sgemm"}
    assert own in NEARLY_EQUAL
    truth = 1e3 * truth_s(first[1], None, 1536, "pageable")
    value, low, high = map(float, first.groups()[1:])
    assert low <= truth <= high
    assert value == pytest.approx(truth, rel=0.05)
    assert lines[4].startswith(f"{first[1]}: copies in 3.")
    assert lines[5].endswith(" implementations compared, each with its block size")
    one, every, own = "one thread", "several threads", "fastest of this study"
    names = [f"naive loop, {one}", f"{own}, {one}", f"{own}, {every}"]
    names += [f"library, {one}", f"library, {every}", "fastest of all"]
    assert [line.split("  ")[0] for line in lines[8:14]] == names
    speedup = float(re.search(r"  ([\d.]+) \(", lines[12]).group(1))
    assert speedup == pytest.approx(2e-11 * 1536**3 / 3.2 / (truth / 1e3), rel=0.1)
    assert "* extrapolated: N = 1536 is outside the sizes of its fit, N = 256 to 1024" in out
    assert re.findall("note: (.*) about", out) == ["Starting a process adds"]
    assert "pinned memory" in run(computed, 1536, "--host-memory", "pinned")[1]
    status, out, _ = run(computed, 1)
    assert (status, out.count("not predicted  –  ")) == (0, 6), "a clamped time is no number"
    assert re.search(r"Not predicted: less than [\d.]+ µs, the shortest time measured", out)
    assert "not predicted" not in run(computed, LARGEST)[1]


def test_several_square_products_can_be_predicted_as_consecutive_runs(run, computed):
    (one, *_), (seven, *_) = (
        answers_of(computed, Question("card", Shape.square(1536), Run("pinned", products))).on_gpu
        for products in (1, 7)
    )
    assert seven.name == one.name + ", one run after the other"
    assert seven.time.time_s == pytest.approx(7 * one.time.time_s)
    assert seven.time.half_width == one.time.half_width
    assert (bool(one.parts), seven.parts) == (True, {})
    single, several = (
        run(computed, 1536, "--host-memory", "pinned", "--products", count)[1] for count in (1, 7)
    )
    sizes = [
        re.findall(r"N = \d+(?= \()|N = \d+$", text, re.MULTILINE) for text in (single, several)
    ]
    assert sizes[0] == sizes[1]
    resident = answers_of(computed, Question("card", Shape.square(900), Run("resident", 7)))
    bounding = resident.on_gpu[0]
    assert bounding.name == f"{bounding.variant}{IN_SEQUENCE}, as from pinned memory"
    assert resident.on_cpu("best").time.time_s == pytest.approx(7 * 2e-11 * 900**3 / 3.2, rel=0.1)


def test_an_extrapolated_answer_states_the_measured_sizes(run, computed, edited):
    inside = run(computed, 512)[1]
    assert "extrapolated: N = 512" not in inside
    assert "note: extrapolated" not in inside
    outside = run(computed, 5000)[1]
    said = "note: extrapolated: N = 5000 is outside the sizes of its fit, N = 256 to 2048"
    assert said in outside
    assert "note: the tiles of register_tile_conflict_free do not divide N = 5000" in outside
    assert outside.count("* extrapolated: N = 5000") == 1
    only = SimpleNamespace(least_n=512, largest_n=512)
    assert questions._outside(only, 600) == "N = 600 differs from the only size of its fit, N = 512"

    def narrower(rows):
        return rows.assign(
            largest_n=rows["largest_n"].mask(rows["cpu_baseline"] == "naive", "1000")
        )

    lines = run(edited("predicted_times", narrower), 5000)[1].splitlines()
    marked = [line for line in lines if line.startswith("* extrapolated")]
    assert len(marked) == 2
    assert marked[0].startswith("* extrapolated (naive loop, one thread): N = 5000 is outside")
    assert "library, one thread; library, several threads" in marked[1]
    unbounded = edited("predicted_times", lambda rows: rows.assign(time_high_s="inf"))
    status, out, _ = run(unbounded, 5000)
    assert status == 0
    assert out.count("(no interval)") > 2
    tables = edited("predicted_times", lambda rows: rows[rows["cpu_baseline"].isna()])
    assert "No CPU baseline has enough measured sizes" in advise(
        tables, asked("card", 512, "pinned")
    )


def fails_with(result, *words):
    status, out, err = result
    assert (status, out, err[:7], err.count("\n")) == (2, "", "error: ", 1), err
    assert all(word in err for word in words), err


def test_a_user_error_is_reported_in_one_line(run, computed):
    fails_with(run(computed, 512, "--gpu", "h999"), "'h999'", "use one of: card")
    for n in (0, -3, 10**400):
        fails_with(run(computed, n), f"--n {str(n)[:5]}", "use 1 to 1000000")
    fails_with(run(computed, 46341), "shape 46341: has a matrix of", "(size 46340)")
    fails_with(run(computed, LARGEST + 1), f"use {LARGEST} or less")
    for n, *more in (["half"], ["1.5"], [None], [512, "--host-memory", "x"]):
        status, _, err = run(computed, n, *more)
        assert (status, "Traceback" in err) == (2, False)


def test_tables_without_any_gpu_are_an_error_that_names_the_remedy(run, tmp_path):
    for name in TABLES:
        (tmp_path / f"{name}.csv").write_text("broken\n")
    fails_with(run(tmp_path, 512), "predictors.csv has no GPU); delete them and use `make report`")


def test_a_gpu_without_fit_or_a_missing_or_invalid_table_is_a_one_line_error(run, edited):
    for name in TABLES:
        path = edited(name, lambda frame: frame) / f"{name}.csv"
        path.unlink()
        fails_with(run(path.parent, 512), f"error: {path} is missing; make it with `make report`\n")
    tables = edited("predicted_times", lambda rows: rows[rows["host_memory"] != "pinned"])
    fails_with(run(tables, 512, "--host-memory", "pinned"), "has no fit for pinned memory")
    assert run(tables, 512)[0] == 0
    head, *rows = (tables / "predicted_times.csv").read_text().splitlines()
    short = [row.rsplit(",", 3)[0] for row in rows]
    for text in ("n,m\n1,2\n", "\n".join([head, *short, ""]), "\n".join([head, *rows])):
        (tables / "predicted_times.csv").write_text(text)
        fails_with(run(tables, 512), "the tables are invalid")


def test_advise_imports_no_slow_library(computed):
    arguments = ["advise", "--gpu", "card", "--n", "512", "--tables", str(computed)]
    script = (
        f"import sys, runpy; sys.argv[1:] = {arguments}\n"
        "try: runpy.run_module('workflow', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "import json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    options = {"env": os.environ | {"PYTHONPATH": str(ROOT)}, "cwd": ROOT, "text": True}
    done = subprocess.check_output([sys.executable, "-c", script], **options)
    loaded = json.loads(done.splitlines()[-1])
    assert "numpy" in loaded
    assert not {"pandas", "scipy", "matplotlib", "seaborn", "pydantic", "jinja2"} & set(loaded)
