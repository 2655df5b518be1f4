"""The protocol on a device with scripted times and faults, median intervals, the time left."""

import itertools
from collections import Counter, defaultdict
from math import comb
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from base.intervals import interval_ranks, median_interval
from base.paths import ROOT
from kernels.catalog.product import Product
from kernels.catalog.user_supplied import catalog_of
from kernels.products.matrices import POISON_WORD, Inputs
from kernels.products.references import References
from kernels.products.shape import Shape
from measurement.devices.errors import CellError
from measurement.devices.observers import Reading
from measurement.devices.second_check import SAME
from measurement.devices.session import DeviceSession, Timing
from measurement.recording.recording import TABLES
from measurement.sampling import worker
from measurement.sampling.measure import cold_cell
from measurement.sampling.protocol import CellCheck, Protocol, Sample, gate, take
from measurement.sampling.time_left import TimeLeft
from measurement.sampling.worker import Opening, TimedRun, Worker
from study import cells as planning
from study.cells import Cell
from study.config import load
from tests.support.fakes import unwritten

PROBLEMS = [("float32", Shape.square(12)), ("int32", Shape.square(12))]
INPUTS = Inputs(PROBLEMS, seed=1)


def cell(variant="block", shape=4, memory="pinned", dtype="float32", block=4):
    return planning.cell("gpu0", variant, dtype, Shape.parse(shape), block, memory)


class FakeSession(DeviceSession):
    """Multiplies by NumPy; `times` are scripts by cell."""

    def __init__(self, times=None):
        self.times = times or {}
        self.log, self.c = [], {}

    def not_launchable(self, cell):
        return None

    def build(self, cell):
        return "exact"

    def poison(self, cell):
        self.log.append(("poison", cell))
        self.c[cell] = unwritten(cell)
        self.c[cell].view(np.uint32).fill(POISON_WORD)

    def run(self, cell, change=SAME, observers=()):
        self.log.append(("run", cell))
        a, b = INPUTS.pair(cell.dtype, cell.shape)
        np.matmul(a, b, out=self.c.setdefault(cell, unwritten(cell)))
        total_s = next(self.times[cell]) if cell in self.times else 1e-3
        return Timing(total_s, 5e-5, 1e-4, 2e-4, 3e-4)

    def product(self, cell, kernel_only=False):
        return self.c[cell]


NOWHERE = Path("/dev/null/references")  # an unwritable cache is ignored


def worker_of(session, warm_up_s=0.0, warm_run_s=0.0):
    """A worker in this process."""
    warm = (warm_up_s, warm_run_s)
    opening = Opening(lambda _: session, tuple(PROBLEMS), 1, NOWHERE, *warm, 0)
    return Worker(session, INPUTS, References(INPUTS, NOWHERE), opening)


def device_of(session):
    return SimpleNamespace(call=lambda verb, *own: worker_of(session).call(verb.__name__, *own))


def check(session, cells):
    """Run the gate; return checks and first runs."""
    announced = []
    results = list(gate(device_of(session), cells, announced.append))
    assert announced == [check.cell for check, _ in results]
    return [check for check, _ in results], [sample for _, sample in results if sample]


CELLS = [cell(name, n) for n in (4, 8) for name in ("naive", "block", "buffered_row")]


def test_the_gate_checks_every_cell_once_on_a_poisoned_c_and_keeps_the_run():
    session = FakeSession()
    cells = [*CELLS[::-1], cell(memory="pageable")]
    checks, runs = check(session, cells)
    assert [c.cell for c in checks] == [run.cell for run in runs]
    assert {(c.status, c.reason, c.build) for c in checks} == {("passed", None, "exact")}
    assert {(run.round, run.total_s) for run in runs} == {(0, 1e-3)}
    assert [run.position for run in runs] == list(range(7))
    for row in (c.row() for c in checks):
        assert 0 <= row["worst_error"] <= row["worst_bound"] < 1e-5
    assert sorted(map(str, (c.cell for c in checks))) == sorted(map(str, cells))
    assert [c.cell.shape.n for c in checks] == [4, 4, 4, 4, 8, 8, 8], "small sizes first"
    assert session.log == [(step, c.cell) for c in checks for step in ("poison", "run")]
    assert list(checks[0].row()) == list(TABLES["checks.csv"])
    assert list(runs[0].row()) == list(TABLES["samples.csv.gz"])
    timing = Timing(1 / 3, 1 / 7, None, 1e-10, 123456.7890123456)
    row = Sample(cell(), 2, 5, TimedRun(1.7e9 + 1 / 3, timing, Reading(throttle_reasons=4))).row()
    expected = {"throttle_reasons": 4, "sm_clock_hz": None, "total_s": 0.3333333333}
    expected |= {"host_s": 0.1428571429, "h2d_s": None, "kernel_s": 1e-10, "round": 2}
    expected |= {"position": 5, "time_unix_s": 1700000000.333333}
    assert {name: row[name] for name in expected} == expected


def test_the_first_call_of_a_python_function_which_may_compile_is_not_its_first_time():
    lines = ["def multiply(a, b, c, stream):", "    a.dot(b, out=c)"]
    catalog = catalog_of({"called.py": lines})
    called = Cell("gpu0", Product("called", "float32", Shape.square(4), catalog=catalog), "pinned")
    session = FakeSession({called: iter([2.9, 1e-3])})
    checks, (run,) = check(session, [called])
    assert [c.status for c in checks] == ["passed"]
    assert run.total_s == 1e-3
    assert session.log == [(step, called) for step in ("poison", "run", "poison", "run")]


def test_cells_of_one_product_are_checked_one_after_the_other():
    """Each reference is then needed once; the least work comes first."""
    shapes = ["2x3x5x4", 4, "3x4x5"]  # the work of 120, 64 and 60 multiplications
    forms = itertools.product(("int32", "float32"), ("bmm_naive", "bmm_tile"), shapes)
    cells = [cell(name, shape, dtype=dtype) for dtype, name, shape in forms]
    checks, passes = check(FakeSession(), cells)
    assert len(passes) == len(cells)
    together = [(str(c.cell.shape), c.cell.dtype) for c in checks]
    pairs = itertools.product(("3x4x5", "4", "2x3x5x4"), ("float32", "int32"))
    assert together == [pair for pair in pairs for _ in range(2)]
    assert {c.row()["worst_bound"] for c in checks if c.cell.dtype == "int32"} == {0.0}


def protocol(samples=12, budget=1e9, single=1e9, confidence=0.95):
    settings = load(ROOT / "config.yaml").study.protocol
    changes = {"samples": samples, "single_run_s": single, "confidence": confidence}
    return Protocol(settings.model_copy(update=changes), budget)


def test_the_time_budget_limits_samples_but_not_below_the_minimum():
    assert (protocol().fewest, protocol(confidence=0.5).fewest) == (6, 2)
    assert protocol(samples=20).samples(1.0) == 20
    assert protocol(samples=3).samples(1.0) == 6, "five have no interval"
    assert protocol(budget=8.0).samples(1.0) == 8
    assert protocol(budget=8.0).samples(9.0, 1.0) == 8, "by the pilot, not by the first run"
    assert protocol(budget=8.0).samples(9.0, 0.1) == 12
    assert protocol(budget=4.0).samples(9.0, 1.0) == 6


def test_a_pilot_is_run_only_if_the_first_run_leaves_the_number_of_samples_open():
    asked = protocol(budget=3.0)  # 12 samples of 0.25 s, or 6 of 0.5 s
    assert not asked.wants_pilot(0.25), "all samples fit, even if all are as slow"
    assert asked.wants_pilot(0.26)
    assert asked.wants_pilot(5.0), "a first run is slow: others may take a tenth of it"
    assert not asked.wants_pilot(5.01)
    assert asked.samples(5.01) == 6
    asked = protocol(budget=3.0, single=1.0)  # a longer run is the only sample
    assert (asked.wants_pilot(1.01), asked.samples(1.01)) == (False, 1)
    assert asked.wants_pilot(1.0)


@pytest.mark.parametrize(
    ("tick_s", "warm_up_s", "warm_run_s", "times_s", "runs"),
    [
        # Short runs are warmed up for 2.5 ms, long ones only once per process.
        (1e-3, 2.5e-3, 0.0, (1e-3, 2e-2), [(0, 3 + 1), (0, 3 + 1), (1, 3 + 1), (1, 1)]),
        # Caches are warmed by one run of the same cell, unless the run is longer than 50 ms.
        (2e-2, 1e-3, 5e-2, (2e-2, 6e-2), [(0, 2), (0, 2), (1, 2), (1, 1), (0, 2)]),
    ],
)
def test_cells_with_short_runs_are_warmed_up(
    monkeypatch, tick_s, warm_up_s, warm_run_s, times_s, runs
):
    cells = cell("naive"), cell("block")
    times = {one: itertools.repeat(time_s) for one, time_s in zip(cells, times_s, strict=True)}
    session = FakeSession(times)
    clock = itertools.count()
    monkeypatch.setattr(worker.time, "perf_counter", lambda: next(clock) * tick_s)
    device = worker_of(session, warm_up_s, warm_run_s)
    for which, count in runs:
        session.log.clear()
        assert device.sample(cells[which]).timing.total_s == times_s[which]
        assert session.log == [("run", cells[which])] * count
    total = sum(count for _, count in runs)
    assert device.busy_s == pytest.approx(total * 6e-4), "without the host's own work"


def rounds_of(counts, seed=1, most=20, taken=None, measure=lambda cell, last: None):
    """Measure one cell per count, `count` times; return the cells and each round's steps."""
    cells = [cell(f"v{index}") for index in range(len(counts))]
    rounds = defaultdict(list)
    wanted = dict(zip(cells, counts, strict=True))
    taken = Counter() if taken is None else taken
    for step in take(measure, wanted, taken, most, (seed,)):
        if isinstance(step, CellCheck):
            rounds["failed"].append(step)
        else:
            one, number, position, _ = step
            rounds[number].append((one, position))
    return cells, rounds


def test_samples_of_every_cell_have_the_wanted_number_and_are_spread_over_the_rounds():
    cells, rounds = rounds_of([20, 5, 1, 7, 20])
    found = {c: [n for n, visited in rounds.items() if c in dict(visited)] for c in cells}
    assert [len(numbers) for numbers in found.values()] == [20, 5, 1, 7, 20]
    assert (found[cells[1]], found[cells[2]]) == ([1, 5, 9, 13, 17], [1])
    assert set(np.diff(found[cells[3]])) == {2, 3}
    for visited in rounds.values():
        assert [position for _, position in visited] == list(range(len(visited)))
    cells, rounds = rounds_of([20] * 10)
    orders = {tuple(c for c, _ in visited) for visited in rounds.values()}
    assert len(orders) == 20, "shuffled again each round"
    assert tuple(cells) not in orders
    assert rounds_of([20] * 10)[1] == rounds
    assert rounds_of([20] * 10, seed=2)[1] != rounds


def test_sampling_resumes_where_it_was_interrupted():
    counts = [3, 7, 20, 9]
    whole = [(n, *step) for n, steps in rounds_of(counts)[1].items() for step in steps]
    for stop in range(1, len(whole)):
        done = Counter(c for _, c, _ in whole[:stop])
        left = rounds_of(counts, taken=done)[1]
        assert [(n, *step) for n, steps in left.items() for step in steps] == whole[stop:], stop


def test_a_cell_that_fails_is_not_measured_again():
    passes = Counter()

    def measure(one, last):
        passes[one] += 1
        if (one.variant, passes[one]) == ("v1", 3):
            raise CellError("no luck")

    cells, rounds = rounds_of([20, 20, 5], measure=measure)
    (check,) = rounds["failed"]
    assert (check.cell, check.status, check.reason) == (cells[1], "failed", "no luck")
    assert [passes[c] for c in cells] == [20, 3, 5]


def test_intervals_of_medians_equal_hand_values():
    ranks = {6: (0, 5), 8: (0, 7), 9: (1, 7), 20: (5, 14), 100: (39, 60)}
    ranks |= dict.fromkeys((0, 1, 5))
    assert {count: interval_ranks(count, 0.95) for count in ranks} == ranks
    values = np.array([9.0, 1.0, 5.0, 3.0, 7.0, 2.0])
    assert median_interval(values) == (4.0, 1.0, 9.0)
    assert median_interval(values, confidence=0.6)[1:] == (2.0, 7.0)
    median, low, high = median_interval(values[:5])
    assert median == 5.0
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize("count", [6, 20, 101])
def test_intervals_of_medians_have_their_nominal_coverage(count):
    rng = np.random.default_rng(count)
    repeats = 4000
    draws = rng.exponential(size=(repeats, count))
    bounds = np.array([median_interval(sample)[1:] for sample in draws])
    covered = np.mean((bounds[:, 0] <= np.log(2)) & (np.log(2) <= bounds[:, 1]))
    low, _ = interval_ranks(count, 0.95)
    exact = 1 - 2 * sum(comb(count, k) for k in range(low + 1)) / 2**count
    assert exact >= 0.95
    assert covered == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / repeats))


def test_the_time_of_a_first_run_is_estimated_from_the_nearest_product_of_its_variant():
    def cell(variant, n, block_size):
        product = Product(variant, "float32", Shape.square(n), block_size)
        return Cell("gpu0", product, "pinned")

    left = TimeLeft()
    known, near, other = (cell("block", n, 32) for n in (64, 128, 256))
    left.add(known, 1.0)
    left.add(near, 6.0)
    assert left.first_runs_s([other]) == 48.0, "eight times the work of N = 128"
    assert left.first_runs_s([cell("block", 256, 16)]) == 48.0
    assert left.first_runs_s([cell("naive", 64, 32)]) is None
    assert left.left_s({known: 3, near: 2, other: 5}) == 15.0


def test_cold_starts_use_the_smallest_product_with_the_largest_blocks():
    cells = [
        planning.cell("gpu0", name, "float32", Shape.square(n), block, memory)
        for name in ("naive", "block")
        for n, block in ((64, 32), (32, 8), (32, 32))
        for memory in ("pinned", "pageable")
    ]
    assert cold_cell(cells, "block") == cells[-1]
