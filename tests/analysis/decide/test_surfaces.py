"""Predictions at shapes, locations, products and streams that were not measured."""

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.decide import surface_tables
from analysis.decide.advise import advise, break_even_text, is_elsewhere
from analysis.decide.lookup import Prediction
from analysis.decide.questions import ByShape, Question, measured_break_even, size_of, within
from analysis.decide.surfaces import Limit, Run, Surfaces, break_even_row, limits
from base.errors import StudyError
from kernels.catalog.locations import LOCATIONS, bounding
from kernels.products.shape import Shape
from tests.support import simulated_shapes as truth


def rows_of(texts):
    """Return the tables of these CSV texts, and empty ones, as `advise` reads them."""
    rows = {name: list(csv.DictReader(io.StringIO(text))) for name, text in texts.items()}
    return rows | {
        name: [] for name in ("predicted_times", "locations", "location_break_even", "throughput")
    }


@pytest.fixture(scope="module")
def tables():
    return rows_of(truth.tables())


def shapes(rng, count):
    """Return random shapes with edges of 64 to 8192 and at most 4096³ FMAs."""
    drawn = []
    while len(drawn) < count:
        shape = Shape(1, *(int(edge) for edge in np.exp(rng.uniform(*np.log([64, 8192]), 3))))
        drawn += [shape] if shape.flop < 2 * 4096**3 else []
    return drawn


def runs(rng, count):
    """Return random locations, one product each, and as many batches from pinned memory."""
    places = [Run(str(place)) for place in rng.choice([*LOCATIONS], count)]
    streams = rng.choice([1, 2, 3, 4, 8, 16], count)
    batches = [Run("pinned", int(rng.integers(2, 150)), int(s), s % 2 == 0) for s in streams]
    return [*places, *batches]


def log_ratios(tables, rng, count):
    """Return log(predicted/true) and the half-widths at random questions."""
    (library,) = Surfaces(tables).on_gpu("card")
    asked = runs(rng, count)
    for shape, run in zip(shapes(rng, len(asked)), asked, strict=True):
        if run.products == 1:
            true_s = truth.run_s(shape, run.location)
        else:
            same_a = not run.independent
            true_s = truth.batch_s(shape, run.products, run.streams, same_a, multiplies=True)
        (time_s,), (half_width,) = library.predict(edges_of(shape), run)
        yield run, math.log(time_s / true_s), half_width


def edges_of(shape):
    return np.array([[shape.m, shape.n, shape.k]], float)


@pytest.mark.exhaustive
def test_intervals_cover_shapes_locations_and_batches_that_were_not_measured(tables):
    found = list(log_ratios(tables, np.random.default_rng(4), 150))
    inside = np.array([abs(error) < width for _, error, width in found])
    widths = np.array([2 * math.sinh(width) for *_, width in found])
    assert 0.90 <= inside.mean() <= 0.99
    is_batch = np.array([run.products > 1 for run, *_ in found])
    assert np.median(widths[~is_batch]) <= 0.20
    assert np.median(widths) <= 0.25
    for chosen in (
        [run.products > 1 for run, *_ in found],
        [run.products == 1 for run, *_ in found],
    ):
        assert inside[chosen].mean() >= 0.88


@pytest.mark.exhaustive
def test_intervals_are_too_narrow_if_no_random_shapes_were_measured(gpu_recording, patch):
    """The check above can fail: the families of shapes alone do not predict others."""
    families = [
        shape
        for shape in truth.shapes_of_the_study()
        if shape.is_square or shape.n == 1 or shape.largest % min(shape.m, shape.n, shape.k) == 0
    ]
    patch(truth, shapes_of_the_study=lambda: families)
    recording = truth.recorded_shapes(gpu_recording, seed=0)
    found = list(log_ratios(rows_of(truth.csv_of(recording)), np.random.default_rng(4), 150))
    resident = [abs(error) < width for run, error, width in found if run.location == "resident"]
    assert np.mean(resident) < 0.9


def test_fitted_coefficients_recover_the_bandwidths_of_the_link(tables):
    (library,) = Surfaces(tables).on_gpu("card")
    rates = 1 / library.runs["pinned"].coefficients[2:4]
    assert rates == pytest.approx([truth._IN, truth._OUT], rel=0.05)
    resident = library.runs["resident"].coefficients
    assert (resident[1:] == 0).all()
    assert resident[0] == pytest.approx(6e-6, rel=0.5)


def test_a_matrix_that_is_shared_or_resident_is_copied_less_often(tables):
    (library,) = Surfaces(tables).on_gpu("card")
    edges = edges_of(Shape(1, 4096, 64, 4096))
    pinned, resident = (library.predict(edges, Run(name))[0] for name in ("pinned", "a_resident"))
    assert (pinned - resident) * truth._IN == pytest.approx(4 * 4096**2, rel=0.1)
    same, other = (
        library.predict(edges, Run("pinned", 100, 4, independent))[0]
        for independent in (False, True)
    )
    assert other / same > 5
    over_four, one_by_one = (library.predict(edges, Run("pinned", 100, s))[0] for s in (4, 1))
    assert over_four < one_by_one
    assert library.predict(edges, Run("pinned", 1, 4))[0] == pinned


def test_a_location_with_fewer_copies_is_never_predicted_slower(tables):
    assert bounding("pinned") == ["pinned"]
    assert bounding("a_resident") == ["a_resident", "pinned"]
    assert bounding("resident") == ["resident", "pinned", "a_resident", "c_stays"]
    assert bounding("pageable") == ["pageable"]
    rng = np.random.default_rng(5)
    for shape, products in zip(shapes(rng, 20), [1, 300] * 10, strict=True):
        pinned, a_resident, resident = (
            ByShape(Question("card", shape, Run(location, products)), tables, "card").on_gpu[0].time
            for location in ("pinned", "a_resident", "resident")
        )
        assert resident.time_s <= a_resident.time_s <= pinned.time_s, shape


def test_a_measured_time_is_the_answer_and_no_interval_exceeds_the_highest_throughput(tables):
    shape = Shape(1, 500, 600, 700)
    row = {"gpu": "card", "variant": "cublas_sgemm", "host_memory": "pinned", "cpu_s": "0.5"}
    row |= {"m": "500", "n": "600", "k": "700", "total_s": "0.001", "total_high_s": "0.0011"}
    row["total_low_s"] = "0.0008"
    highest = {"gpu": "card", "fp32_flop_per_s": str(shape.flop / 0.00099)}
    highest["tensor_flop_per_s"] = ""
    changed = tables | {"locations": [row], "predictors": [highest]}
    found = ByShape(Question("card", shape, Run("pinned")), changed, "card")
    (one,) = found.on_gpu
    assert (one.time.time_s, found.on_cpu("best").time.time_s) == (0.001, 0.5)
    assert one.time.bounds == pytest.approx((0.00099, 0.0011))


def test_a_measured_batch_replaces_the_prediction_of_the_same_batch(tables):
    batch = {"gpu": "card", "m": "600", "n": "500", "k": "400", "streams": "4", "products": "10"}
    times = {"block_size": "", "run_s": "0.002", "run_low_s": "0.001", "run_high_s": "0.003"}
    batch |= times | {"same_a": "True", "variant": "cublas_sgemm"}
    measured = tables | {"throughput": [batch, batch | {"streams": "2", "run_s": "9"}]}

    def answered(asked):
        return ByShape(Question("card", Shape(1, 600, 500, 400), asked), measured, "card").on_gpu

    (one,) = answered(Run("pinned", 10, 4))
    assert (one.name, one.time.time_s) == ("cublas_sgemm, measured", 0.02)
    assert one.time.bounds == pytest.approx((0.01, 0.03)), "as in the table of batches"
    ratio = Prediction(0.04, 0.0).over(one.time)
    assert ratio.bounds == pytest.approx((0.04 / 0.03, 0.04 / 0.01))
    for other in (Run("pinned", 11, 4), Run("pinned", 10, 4, True), Run("a_resident", 10)):
        assert "measured" not in answered(other)[0].name


def test_long_runs_are_limited_to_the_sustained_share_of_the_highest_throughput(tables):
    rates = {"gpu": "card", "fp32_flop_per_s": "1e12", "tensor_flop_per_s": ""}
    shares = [{"gpu": "card", "variant": "cublas_sgemm", "sustained_share": "0.8"}]
    shares.append({"gpu": "other", "variant": "cublas_sgemm", "sustained_share": "0.1"})
    limited = tables | {"predictors": [rates], "sustained": shares}
    limit = limits(limited, "card")[False]
    shape = Shape(1, 1000, 1000, 1000)
    asked, soon = Question("card", shape, Run("resident", 10)), Prediction(0.001, 1.0)
    for outside, raised_s in ((False, 0.02), (True, 0.025)):
        time = within(soon, asked, limit, outside, 0.0)
        assert (time.time_s, time.bounds[0]) == pytest.approx((raised_s, 0.02))
    assert within(soon, asked, limits(limited, "card")[True], True, 0.0) == soon
    short, long = (
        ByShape(Question("card", shape, Run("resident", count)), limited, "card").on_gpu[0].time
        for count in (2, 1000)
    )
    assert (short.least_s, long.least_s) == (pytest.approx(0.004), pytest.approx(2.0))
    assert long.bounds[0] < 2.5 <= long.time_s


@pytest.mark.parametrize(
    ("shape", "kernel_s", "widened"),
    [
        (Shape.square(1001), 0.5, 1.25),
        (Shape.square(1001), 3.0, 1.5),
        (Shape.square(1002), 0.0, 1.0),
        (Shape.square(1000), 0.5, 1.0),
        (Shape.square(127), 0.5, 1.0),
        (Shape(1, 1001, 1001, 1000), 0.5, 1.0),
    ],
)
def test_sizes_that_cannot_be_aligned_have_a_wider_interval(shape, kernel_s, widened):
    limit = Limit(1e15, 1.0, math.log(1.5), frozenset({127}))
    asked = Question("card", shape, Run("resident"))
    time = within(Prediction(1.0, 0.0), asked, limit, False, kernel_s)
    assert time.bounds[1] == pytest.approx(widened, rel=1e-4)


def test_the_last_session_is_compared_with_predictions_from_the_others(gpu_recording):
    first, second = (truth.recorded_shapes(gpu_recording, seed) for seed in (0, 1))
    for factor, covers in ((1, True), (2, False)):
        samples = second.samples.assign(total_s=factor * second.samples["total_s"])
        both = {
            name: pd.concat([getattr(first, name), frame.assign(session=1)], ignore_index=True)
            for name, frame in (("samples", samples), ("kernels", second.kernels))
        }
        sources = data.sources({"card": replace(first, **both)})
        found = surface_tables.unseen_sessions_table(sources).set_index("host_memory")
        assert set(found.index) == {*LOCATIONS}
        assert (found["inside_share"] > 0.7).all() == covers
        assert (found["median_error"] < 0.1).all() == covers
    assert surface_tables.unseen_sessions_table(data.sources({"card": first})).empty


def test_a_break_even_size_comes_from_the_locations_that_bound_it():
    def row(memory, n):
        size = {"location": "measured", "n": n, "family": "square", "cpu_baseline": "best"}
        return {"gpu": "card", "host_memory": memory} | size

    tables = {"break_even": [row("pinned", "161"), row("pageable", "90")]}
    tables["location_break_even"] = [row("resident", "203"), row("managed", "100")]
    found = measured_break_even(tables, "card", "resident", "square")
    assert min(found, key=size_of)["n"] == "161"
    assert [one["n"] for one in measured_break_even(tables, "card", "managed", "square")] == ["100"]


def test_recordings_of_square_products_predict_only_square_products(gpu_recording, patch):
    squares = [shape for shape in truth.shapes_of_the_study() if shape.is_square]
    patch(truth, shapes_of_the_study=lambda: squares)
    recording = truth.recorded_shapes(gpu_recording, seed=0)
    without = replace(recording, throughput=recording.throughput.head(0))
    tables = rows_of(truth.csv_of(without))
    assert not tables["batches"]
    for shape, has_answer in ((Shape.square(700), True), (Shape(1, 700, 300, 100), False)):
        found = ByShape(Question("card", shape, Run("pinned", 5)), tables, "card")
        assert bool(found.on_gpu) == has_answer


def test_break_even_sizes_are_for_products_with_the_proportions_of_the_shape():
    def on_gpu(time_s, half):
        return lambda shapes: (np.full(len(shapes), time_s), np.full(len(shapes), half))

    def on_cpu(shapes):
        assert (shapes[:, 1] == np.maximum(np.floor(shapes[:, 0] / 8 + 0.5), 1)).all()
        return shapes.prod(axis=1) * 1e-9, np.full(len(shapes), 0.4)

    shape, ranges = np.array([800.0, 100, 1]), [(16, 4096), (1, 5000)]
    row = break_even_row(shape, on_gpu(1e-3, 0.3), on_cpu, ranges)
    assert (row["location"], row["n"]) == ("measured", "2828")  # 2828 · 354 ≥ 1e6
    for column, sign in (("n_low", -1), ("n_high", 1)):
        edge, area = float(row[column]), 1e6 * math.exp(sign * math.hypot(0.3, 0.4))
        before, there = (side * math.floor(side / 8 + 0.5) for side in (edge - 1, edge))
        assert before < area <= there
    row = break_even_row(shape, on_gpu(1e-3, 99), on_cpu, ranges)  # no interval
    assert (row["n"], row["n_low"], row["n_high"]) == ("2828", "0", "inf")
    row = break_even_row(shape, on_gpu(1e-12, 0.3), on_cpu, ranges)
    assert (row["location"], row["n"], row["least_n"]) == ("below", "", "16")


def test_impossible_questions_to_advise_are_one_line_errors(computed):
    fails = {
        "--streams 2": Run("pageable", 2, 2),
        "--streams 0": Run("pinned", 2, 0),
        "--products 0": Run("pinned", 0),
    }
    for named, run in fails.items():
        with pytest.raises(StudyError, match=f"^{named}: "):
            advise(computed, Question("card", Shape.square(64), run))
    with pytest.raises(StudyError, match="no fit for this shape and pinned memory"):
        advise(computed, Question("card", Shape(1, 64, 65, 66), Run("pinned")))


def test_a_question_for_one_arithmetic_excludes_implementations_with_another(tables):
    shape = Shape(1, 500, 600, 700)
    strict, tensor = (
        ByShape(Question("card", shape, Run("pinned"), arithmetic), tables, "card")
        for arithmetic in ("fp32", "tensor")
    )
    assert [one.variant for one in strict.on_gpu] == ["cublas_sgemm"]
    assert tensor.on_gpu == []
    twice = Question("card", shape, Run("pageable", 2))
    one, two = (
        ByShape(replace(twice, run=replace(twice.run, products=count)), tables, "card")
        for count in (1, 2)
    )
    cpu = [found.on_cpu("best").time.time_s for found in (one, two)]
    assert cpu[1] == 2 * cpu[0]


def test_a_break_even_size_of_runs_that_copy_more_is_called_a_bound():
    row = {"host_memory": "pinned", "location": "measured", "least_n": "16", "largest_n": "4096"}
    row |= {"n": "161", "n_low": "132", "n_high": "711"}
    assert is_elsewhere(row, "resident")
    assert not is_elsewhere(row, "pinned")
    assert break_even_text(row, is_bound=True) == "at most N = 161 (132 to 711)"
    above = row | {"location": "above"}
    assert break_even_text(above, is_bound=True).startswith("none up to N = 4096")


def test_a_break_even_size_names_the_location_of_the_run_that_decides_it(tables):
    asked = Question("card", Shape(1, 500, 600, 700), Run("resident"))
    row = ByShape(asked, tables, "card").break_even()["best"]
    assert row["location"] == "measured"
    assert not is_elsewhere(row, "resident")
    others = [one for one in tables["surfaces"] if one["host_memory"] != "resident"]
    row = ByShape(asked, tables | {"surfaces": others}, "card").break_even()["best"]
    assert row["location"] == "measured"
    assert is_elsewhere(row, "resident"), "runs that copy more decide it, so it is a bound"
