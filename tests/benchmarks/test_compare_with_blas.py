"""The benchmark of `packed` and NumPy's BLAS."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from base.errors import StudyError, exit_status
from benchmarks import compare_with_blas as against
from benchmarks.compare_with_blas import SIZES, blas_code, bound, compare, table, vectors
from cpu_reference.library import find_gcc
from tests.support import ROOT

pytestmark = pytest.mark.slow


def test_bounds_are_those_that_are_promised():
    least = dict.fromkeys([(1, 1024, True), (1, 2048, True)], 0.90)
    least |= dict.fromkeys([(1, 1024, False), (1, 2048, False)], 0.80)
    least |= dict.fromkeys([(1, 255, True), (1, 1023, False), (16, 1024, True)], 0.60)
    least |= dict.fromkeys([(16, 2048, True), (16, 2048, False)], 0.85)
    assert {each: bound(*each) for each in least} == least


def test_ratios_are_of_pairs():
    """flop/s come from medians of times, the ratio from pairs."""
    blas_s = [1e-3, 2e-3, 8e-3, 1e-3, 5e-3, 3e-3]
    shares = [0.80, 0.85, 0.95, 0.90, 1.00, 0.75]
    packed_s = [time / share for time, share in zip(blas_s, shares, strict=True)]
    found = compare(1, 1024, packed_s, blas_s, wide=True)
    assert found.pairs == 6
    assert found.ratio == pytest.approx(0.875)
    assert (found.ratio_low, found.ratio_high) == pytest.approx((0.75, 1.0))
    assert found.blas_flop_per_s == pytest.approx(2 * 1024**3 / 2.5e-3)
    assert not found.within
    assert compare(1, 1024, packed_s, blas_s, wide=False).within
    _, line = table([found]).splitlines()
    assert line.split()[-6:] == ["0.875", "0.750", "–", "1.000", "0.90", "NO"]


def test_blas_runs_code_for_the_vectors_that_the_compiler_may_use():
    wide = {"SkylakeX": None, "SapphireRapids": None, "Haswell": "SkylakeX", "Zen": "SkylakeX"}
    code = {("__AVX512F__", chosen): made for chosen, made in (wide | {None: None}).items()}
    code |= {("__AVX2__", "SkylakeX"): "Haswell", ("__AVX2__", "Haswell"): None}
    code["", "Haswell"] = "Nehalem"
    assert {each: blas_code(*each) for each in code} == code
    gcc = find_gcc()
    assert vectors(gcc, ["-D__AVX512F__"]) == "__AVX512F__"
    assert vectors(gcc, ["-O3", "-U__AVX512F__", "-D__AVX2__"]) == "__AVX2__"
    assert vectors(gcc, ["-U__AVX512F__", "-U__AVX2__"]) == ""
    with pytest.raises(StudyError, match=r"--flags: .*no-such-flag"):
        vectors(gcc, ["--no-such-flag"])


class FakeLibrary:
    """Variants that multiply by NumPy and log their calls."""

    def __init__(self, log, wrong=None):
        self.log, self.wrong = log, wrong
        facts = {"blas": "b", "blas_version": "1", "blas_architecture": "SkylakeX"}
        self.blas = SimpleNamespace(facts=lambda: facts)
        self.fma_flop_per_s, self.clock_hz = lambda: 2e11, lambda: 3e9

    def prepare(self, name, a, b, c, block_size=None, threads=1):
        def run():
            self.log.append((name, threads, len(a), os.sched_getaffinity(0)))
            np.matmul(a, b, out=c)
            if name == self.wrong:
                c[0, 0] += 1

        return run


FAKES = {"Library": lambda _: FakeLibrary([]), "NumpyBlas": lambda: FakeLibrary([]).blas}


@pytest.fixture
def small(patch):
    patch(against, SIZES=[3, 5], _WARM_UP_S=0)


@pytest.mark.usefixtures("small")
def test_both_are_measured_alternately():
    log, cpus = [], os.sched_getaffinity(0)
    found = against.measure(FakeLibrary(log), [1, 2], 6, wide=True)
    expected = [(threads, n, 6) for threads in (1, 2) for n in (3, 5)]
    assert [(c.threads, c.n, c.pairs) for c in found] == expected
    assert all({entry[3] == cpus} == {True} for entry in log if entry[1] == 2)
    assert all(len(entry[3]) == 1 for entry in log if entry[1] == 1)
    assert os.sched_getaffinity(0) == cpus
    timed = [entry[0] for entry in log if entry[1:3] == (1, 3)][2:]  # after the gate
    # Each twice, the first time untimed; the order is swapped each round.
    assert timed == (["blas"] * 2 + ["packed"] * 4 + ["blas"] * 2) * 3
    with pytest.raises(StudyError, match="packed, N=3, 1 threads: 1 of 9 elements wrong"):
        against.measure(FakeLibrary([], wrong="packed"), [1], 6, wide=True)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("ratio", "status"), [(0.61, 0), (0.59, 1)])
def test_outcome_is_printed_and_written(tmp_path, patch, capsys, ratio, status):
    def fixed(threads, n, packed_s, blas_s, wide):
        assert wide
        return against.Comparison(threads, n, len(packed_s), 1e9, 1e9, ratio, 0.5, 0.7, 0.6)

    patch(against, **FAKES, vectors=lambda gcc, flags: "__AVX512F__")
    patch(against, compare=fixed, usable_threads=lambda: 4)
    out = tmp_path / "new" / "out.json"
    patch(sys, argv=["against", "--flags=-O3", "--rounds", "2", "--out", str(out)])
    assert exit_status(against.main) == status
    said = capsys.readouterr().out
    assert "code for SkylakeX" in said
    assert "one core: 200.0 GFLOP/s" in said
    written = json.loads(out.read_text())
    compared = [(c["threads"], c["n"]) for c in written["comparisons"]]
    assert compared == [(1, 3), (1, 5), (4, 3), (4, 5)]
    assert (written["flags"], written["usable_threads"]) == (["-O3"], 4)


def test_it_restarts_with_the_blas_restricted(monkeypatch, patch):
    started = []

    def execv(path, command):
        started.append((path, command, os.environ["OPENBLAS_CORETYPE"]))
        raise SystemExit

    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")  # ignored
    patch(os, execv=execv)
    patch(against, **FAKES, vectors=lambda gcc, flags: "__AVX2__")
    patch(sys, argv=["against", "--flags=-O1 -g", "--rounds", "3"])
    with pytest.raises(SystemExit):
        against.main()
    ((path, command, code),) = started
    assert path == command[0] == sys.executable
    assert command[1:] == ["-m", against.__name__, "--flags=-O1 -g", "--rounds", "3"]
    assert code == "Haswell"
    with pytest.raises(StudyError, match="does not support Haswell here"):
        against.main()


def test_one_command_prints_the_ratios():
    """The real command, in nine rounds, without the large sizes, which take most of the time."""
    script = f"import sys; import {against.__name__} as against; del against.SIZES[3:]\n"
    script += "against._COMMAND = sys.orig_argv[:3]; sys.exit(against.main())"  # for a restart
    command = [sys.executable, "-c", script, "--rounds", "9"]  # one disturbed pair is no median
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[3:]]
    assert {int(row[1]) for row in rows} == set(SIZES[:3])
    assert all(0.2 < float(row[5]) < 20 for row in rows if row[0] == "1")
