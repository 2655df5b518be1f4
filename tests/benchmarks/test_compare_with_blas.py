"""The benchmark of `packed` and NumPy's BLAS."""

import os
import subprocess
import sys

import numpy as np
import pytest

from base.errors import StudyError
from benchmarks import compare_with_blas as against
from benchmarks.compare_with_blas import SIZES, blas_code, compare, table
from tests.support import ROOT

pytestmark = pytest.mark.exhaustive


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


class FakeLibrary:
    """Variants that multiply by NumPy and log their calls."""

    def __init__(self, log, wrong=None):
        self.log, self.wrong = log, wrong

    def prepare(self, name, a, b, c, block_size=None, threads=1):
        def run():
            self.log.append((name, threads, len(a), os.sched_getaffinity(0)))
            np.matmul(a, b, out=c)
            if name == self.wrong:
                c[0, 0] += 1

        return run


def test_both_are_measured_alternately(patch):
    patch(against, SIZES=[3, 5], _WARM_UP_S=0)
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
