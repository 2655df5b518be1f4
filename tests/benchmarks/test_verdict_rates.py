"""Rates of verdicts: counts by kind, and kernels with planted work."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from base.errors import StudyError
from benchmarks import verdict_rates
from benchmarks.short_sessions import with_waiting
from benchmarks.verdict_rates import LONG_KERNELS, SHORT_KERNELS, Sessions, compared, evaluated

pytestmark = pytest.mark.exhaustive


def longer(recording, factor, **facts):
    kernels = recording.kernels.assign(kernel_s=recording.kernels["kernel_s"] * factor)
    return replace(recording, kernels=kernels, **facts)


def started(recording, start, name="session"):
    """Return the recording as a session named `name` since a start of the host."""
    gpus = [gpu | {"machine_start": start * 64} for gpu in recording.provenance["devices"]]
    facts = recording.provenance | {"machine_start": start * 64, "devices": gpus}
    return replace(recording, provenance=facts, path=recording.path.with_name(name))


@pytest.fixture(scope="module")
def sessions(make_recording, tmp_path_factory):
    """Four starts of three sessions, and in two of them one with planted work, 5 % slower."""
    options = {"sizes": (1024,), "holdout": (), "noise": 0.001, "variants": ("block",)}
    folder, recordings = tmp_path_factory.mktemp("sessions"), []
    for at, start in enumerate("abcd"):
        for seed in range(3 * at, 3 * at + 3):
            made = make_recording(folder / str(seed), seed=seed, complete=True, **options)
            recordings.append(started(made, start))
        if start in "ac":
            builds = made.builds.assign(cubin_sha256="0" * 64)
            slow = started(longer(made, 1.05, builds=builds), start, f"{start}-planted-50")
            recordings.append(slow)
    return Sessions.of(recordings)


def test_starts_of_the_machine_alternate_between_the_two_halves(sessions):
    halves = dict(zip(sessions.starts, map(sessions.half, range(14)), strict=True))
    assert [halves[start * 64] for start in "abcd"] == [0, 1, 0, 1]
    assert [at for at, planted in enumerate(sessions.planted) if planted] == [3, 10]
    pairs = sessions.pairs()
    assert len(pairs) == 12 * 11 // 2 + 2 * 12
    assert not any(sessions.planted[a] for a, _ in pairs)
    unknown = [started(sessions.recordings[0], "", name) for name in "ab"]
    assert Sessions.of(unknown).half(0) is None


def test_verdicts_on_one_half_use_the_variation_of_the_other_half(sessions):
    frames = compared(sessions)
    honest, slowed = evaluated(frames, sessions)
    assert honest.groupby("one_start").size().to_dict() == {True: 4 * 3, False: 2 * 9}
    assert honest["status 1"].sum() == 0
    assert honest[f"5% simulated, {LONG_KERNELS}"].mean() > 0.9
    assert np.isnan(honest[f"5% simulated, {SHORT_KERNELS}"]).all(), "no kernel is short"
    kernels = slowed[slowed["kind"] == LONG_KERNELS]
    assert kernels["slowdown"].between(0.03, 0.07).all(), "measured in the other start"
    table = verdict_rates.power(slowed).set_index(["one_start", "slowdown", "kind"])
    assert table.loc[(True, "4–7 %", LONG_KERNELS), "slower"] > 0.9


def test_kinds_depend_on_the_length_of_the_time():
    rows = [("GPU", "pinned", 1e-5), ("GPU", "pinned", 1e-4), ("host", "pinned", 2e-4)]
    rows += [("host", "pinned", 5e-5), ("host", "pageable", 1.0), ("host", pd.NA, 1.0)]
    frame = pd.DataFrame(rows, columns=["side", "host_memory", "median_a_s"])
    assert tuple(verdict_rates.kinds_of(frame)) == verdict_rates.KINDS


def test_degrees_of_freedom_count_starts_instead_of_pairs():
    rng = np.random.default_rng(4)
    facts = {"side": "GPU", "host_memory": "pinned", "median_a_s": 1e-3, "median_b_s": 1e-3}
    facts |= {"noise_a": 1e-8, "noise_b": 1e-8, "explained_low": 1.0, "explained_high": 1.0}
    facts |= {"sessions_a": 1, "sessions_b": 1, "offset_s": 0.0, "clock_factor": 1.0}
    distance = 0.005 * 2**0.5 * rng.standard_t(5, 2000)
    distance[::40] *= 8
    rows = pd.DataFrame({"ratio": np.exp(distance), "one_start": False}).assign(**facts)
    names = list("abcdefgg")
    sessions = Sessions([], names, ["x"] * 5 + ["y"] * 3, [0] * 8)
    pairs = dict.fromkeys([(0, 1), (0, 2), (1, 2), (3, 4), (5, 6), (5, 7)], rows)
    found = verdict_rates.fitted(pairs | {(6, 7): rows.assign(one_start=True)}, sessions)
    assert set(found) == {"kernel"}, "two sessions of one start have too few degrees of freedom"
    assert found["kernel"].freedom == 5, "seven starts in two configurations"
    usual = np.hypot(found["kernel"].relative, found["kernel"].absolute_s / 1e-3)
    assert usual == pytest.approx(0.005, rel=0.05)
    assert found["kernel"].outlier > 4 * usual


def test_planted_work_waits_for_a_share_of_the_time_of_each_thread():
    text = 'before\nextern "C" __global__ void __launch_bounds__(64) f(const float *a, int n) {}\n'
    changed = with_waiting(text, "f", 50)
    assert "static __device__ __forceinline__ void f_work(const float *a, int n) {}" in changed
    assert "void __launch_bounds__(64) f(const float *a, int n) {" in changed
    assert "f_work(a, n);" in changed
    assert "* 50 / 1000;" in changed
    with pytest.raises(StudyError, match="g: no kernel"):
        with_waiting(text, "g", 50)
