"""Comparing recordings by the ratio of medians of every configuration that both contain.

`compare` gives a verdict on each configuration of two recordings; docs/explanation/methods.md ("Two
recordings") gives its conditions and their reasons.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.data.kernel_times import kernel_times
from analysis.data.recordings import l2_bytes
from analysis.domain import CPU
from analysis.stats import between, significance
from analysis.stats.estimates import CONFIDENCE, FloatArray, Groups, median_variance
from analysis.stats.sessions import DEVICE_MEMORY, matrices_in
from analysis.trust.host_factors import explained, host_factors
from base.errors import StudyError
from measurement.recording.code import codes
from measurement.recording.consistency import fingerprint
from measurement.recording.recording import CELL, KERNEL, Recording

# The hardware that a time depends on, and the verdict on a time that its ceilings explain.
GPU, HOST = "GPU", "host"
OTHER_HARDWARE = "other hardware"
# The timer and the launch are a larger share of short kernels, so *same* has a wider margin.
SHORT_S, SHORT_MARGIN = 20e-6, 0.05
# State of a GPU: columns of the table telemetry, and their names for one side.
STATE = {
    "sm_clock_hz": "sm_clock_{}_hz",
    "temperature_max_celsius": "temperature_max_{}_celsius",
    "power_w": "power_{}_w",
    "samples_throttled": "samples_throttled_{}",
}


def once_per_kernel(rows: pd.DataFrame, by: list[str] = KERNEL) -> pd.DataFrame:
    """Return each kernel-only time once: host memories share it, and the row of pinned is kept."""
    first = rows.groupby(by, dropna=False)["host_memory"].transform("max")
    return rows[~(rows["host_memory"] != first).fillna(False)]


# ---- Two recordings


def compare(
    a: Recording,
    b: Recording,
    threshold: float,
    more: tuple[Sequence[Recording], Sequence[Recording]] = ((), ()),
) -> pd.DataFrame:
    """Return one row per configuration and quantity ("total", "kernel") timed on both sides.

    `more` contains further sessions of A and of B; the time of a side is the geometric mean of the
    medians of its sessions. Devices are matched by position and named as in `a`. Columns: `CELL`,
    quantity, numbers of sessions and samples, medians in seconds, variances of log medians (noise),
    offset_s of launches in B, ratio B/A without it, the ratios from explained_low to explained_high
    that ceilings of GPUs and hosts explain; side, `GPU` for kernel-only times, else `HOST`;
    one_start, whether all sessions used one GPU and host since one start; build and same_code,
    whether all ran the same code; and those of `decided` and `significance.with_intervals`. Below 6
    samples per session, intervals, p and q are NaN. Rows are sorted by `CELL`. Raise StudyError if
    nothing was timed in both.
    """
    sides = ([a, *more[0]], [b, *more[1]])
    rows = [dict(zip([*CELL, "quantity"], key, strict=True)) | row for key, row in _paired(*sides)]
    if not rows:
        raise StudyError(
            f"recordings {a.path} and {b.path}: no configuration was timed in both; "
            "compare recordings of one study"
        )
    frame = pd.DataFrame(rows).astype(a.samples[CELL].dtypes.to_dict())
    frame = frame.sort_values(CELL, kind="stable", ignore_index=True)
    run = pd.concat([matched(codes(each), a, each) for side in sides for each in side])
    code = run.groupby([*CELL, "build"], dropna=False)["code"]
    code = code.agg(same_code=lambda s: s.notna().all() and s.nunique() == 1).reset_index()
    code = frame[CELL].merge(code.astype(frame.dtypes[CELL].to_dict()), how="left", on=CELL)
    same = code["same_code"].fillna(False).astype(bool)
    on_gpu = frame["quantity"] == "kernel"
    frame = frame.assign(side=np.where(on_gpu, GPU, HOST), build=code["build"], same_code=same)
    frame = _without_session(frame, on_gpu)
    caches = {gpu["device"]: l2_bytes(gpu) for gpu in a.provenance["devices"]}
    exceeds = matrices_in(frame, frame["device"].map(caches)) == DEVICE_MEMORY
    exceeds &= frame["threads"].isna()
    kernels = frame.loc[on_gpu, [*KERNEL, "median_a_s"]]
    kernel_a_s = frame[KERNEL].merge(kernels, how="left", on=KERNEL)["median_a_s"]
    hardware = frame.assign(on_host=~on_gpu, exceeds_l2=exceeds, kernel_a_s=kernel_a_s)
    low, high = explained(host_factors(*sides), hardware)
    starts = _starts(*sides)
    one = [all(starts.get(key, False) for key in {CPU, d}) for d in frame["device"]]
    frame = frame.assign(explained_low=low, explained_high=high, one_start=one)
    frame = decided(frame, threshold, between.KNOWN)
    parts = _variances(frame, between.KNOWN)
    return significance.with_intervals(frame, threshold, parts, _unexplained(frame))


def _without_session(frame: pd.DataFrame, on_gpu: pd.Series) -> pd.DataFrame:
    """Return `frame` with the ratio B/A without what all kernels of a session share.

    Per GPU, offset_s is the seconds by which each launch takes longer in B, and clock_factor the
    factor by which kernels of identical code do; NaN if unknown, 0 and 1 for times of hosts.
    """
    offset_s, factor = pd.Series(0.0, frame.index), pd.Series(1.0, frame.index)
    for _, kernels in frame[on_gpu].groupby("device"):
        is_short = kernels["median_a_s"] < SHORT_S
        short, long = kernels[is_short], kernels[~is_short & kernels["same_code"]]
        offset_s[kernels.index] = between.offset(short["median_a_s"], short["median_b_s"])
        factor[kernels.index] = between.clock_factor(long["median_b_s"] / long["median_a_s"])
    b_s = frame["median_b_s"].sub(offset_s, fill_value=0) / factor.fillna(1.0)
    return frame.assign(offset_s=offset_s, clock_factor=factor, ratio=b_s / frame["median_a_s"])


def _starts(a: Sequence[Recording], b: Sequence[Recording]) -> dict[str, bool]:
    """Return for `CPU` and each GPU of A whether all sessions ran since one start of the host.

    A resumed session may contain two starts of the host, so it does not count as one.
    """
    every = [each.provenance for each in (*a, *b)]
    whole = all(each.get("attempts") == 1 for each in every)
    starts = {CPU: {each.get("machine_start") for each in every}}
    for at, gpu in enumerate(every[0]["devices"]):
        gpus = [each["devices"][at : at + 1] for each in every]
        starts[gpu["device"]] = {group[0].get("machine_start") if group else None for group in gpus}
    return {name: whole and len(group) == 1 and None not in group for name, group in starts.items()}


def kinds(frame: pd.DataFrame) -> pd.Series:
    """Return the kind of each comparison, which selects a variation between sessions in `KNOWN`."""
    kind = frame["host_memory"].astype(object).map(between.kind_of, na_action="ignore")
    kind = kind.fillna(between.ON_CPU).mask(frame["side"] == GPU, between.KERNEL)
    return kind.mask(frame["one_start"], kind + between.ONE_START)


def decided(
    frame: pd.DataFrame, threshold: float, by_kind: dict[str, between.Between]
) -> pd.DataFrame:
    """Return `frame` with verdicts, which take the variation between sessions into account.

    Columns: p_differs and p_same; q_differs and q_same, which are adjusted separately for each side
    and for same and other code; margin, the threshold for *same*; verdict.
    """
    on_gpu = frame["side"] == GPU
    parts = _variances(frame, by_kind)
    alike = _variances(frame.assign(explained_low=1.0, explained_high=1.0), by_kind)
    distance, rest = np.log(frame["ratio"]), _unexplained(frame)
    short = on_gpu & (frame["median_a_s"] < SHORT_S)
    margin = pd.Series(threshold, frame.index).mask(short, np.maximum(threshold, SHORT_MARGIN))
    tests = significance.tests(distance, margin, parts, rest)
    # Times of the CPU and from pageable memory vary most; they are adjusted together.
    kind = kinds(frame.assign(one_start=False)).replace(between.ON_CPU, between.PAGEABLE)
    groups = frame.assign(ratio=np.exp(rest), **tests).groupby([kind, "same_code"])
    parts_judged = [significance.evaluated(rows, threshold / 2) for _, rows in groups]
    judged = pd.concat(parts_judged).sort_index()
    differs = 2 * between.beyond(distance.abs(), alike) <= 1 - CONFIDENCE
    other = (judged["verdict"] == significance.UNDECIDED) & differs & (_explained(frame) != 0)
    verdict = judged["verdict"].mask(other, OTHER_HARDWARE)
    return judged.assign(ratio=frame["ratio"], margin=margin, verdict=verdict)


def _explained(frame: pd.DataFrame) -> pd.Series:
    """Return the largest part of each log ratio that differences of ceilings can explain.

    Few kernels depend fully on the latency of device memory, so for kernels their variance contains
    this part instead.
    """
    low, high = np.log(frame["explained_low"]), np.log(frame["explained_high"])
    return np.log(frame["ratio"]).clip(low, high)


def _unexplained(frame: pd.DataFrame) -> pd.Series:
    """Return the part of each log ratio that ceilings cannot explain; for kernels, all of it."""
    return np.log(frame["ratio"]) - _explained(frame).mask(frame["side"] == GPU, 0)


def _variances(frame: pd.DataFrame, model_of: dict[str, between.Between]) -> pd.DataFrame:
    kind = kinds(frame)
    kind = kind.where(kind.isin(model_of), kind.str.removesuffix(between.ONE_START))
    return between.variances(frame.assign(kind=kind), model_of)


def identical(a: Recording, b: Recording) -> bool:
    """Return whether two recordings contain the same samples, as a recording and its copy do.

    Names, order and dates of the samples are ignored.
    """
    one, other = (np.sort(fingerprint(each.samples)) for each in (a, b))
    return a.samples.equals(b.samples) or (len(one) > 0 and np.array_equal(one, other))


def status(frame: pd.DataFrame, hardware: bool = False) -> int:
    """Return exit status 0, 1 or 3 of `compare`; times of same code count only with `hardware`."""
    frame = frame if hardware else frame[~frame["same_code"]]
    return 0 if frame.empty else significance.exit_status(frame["verdict"])


def matched(samples: pd.DataFrame, a: Recording, b: Recording) -> pd.DataFrame:
    """Return samples of `b` with the device names of `a` by position; others are dropped."""
    labels = [[d["device"] for d in recording.provenance["devices"]] for recording in (a, b)]
    of_a = dict(zip(labels[1], labels[0], strict=False))
    samples = samples[~samples["device"].isin(set(labels[1]) - set(of_a))]
    return samples.assign(device=samples["device"].map(lambda d: of_a.get(d, d)))


def _paired(
    a: Sequence[Recording], b: Sequence[Recording]
) -> Iterator[tuple[tuple[object, ...], dict[str, float]]]:
    """Yield key (`CELL`, quantity), and for each side its sessions, samples, median and noise."""
    every = [*a, *b]
    kernels = [once_per_kernel(kernel_times(each)) for each in every]
    for quantity, tables in {"total": [each.samples for each in every], "kernel": kernels}.items():
        parts = [
            matched(samples, a[0], each).assign(at=at)
            for at, (samples, each) in enumerate(zip(tables, every, strict=True))
        ]
        frame = pd.concat(parts, ignore_index=True)
        groups = Groups.of(frame, CELL)
        values = zip(groups.split(frame[f"{quantity}_s"]), groups.split(frame["at"]), strict=True)
        for key, (times, at) in zip(groups.names(), values, strict=True):
            sides = [np.unique(at[at < len(a)]), np.unique(at[at >= len(a)])]
            if all(map(len, sides)) and not np.isnan(times).any():
                row: dict[str, float] = {}
                for name, numbers in zip("ab", sides, strict=True):
                    row |= _side(name, [times[at == number] for number in numbers])
                yield (*key, quantity), row


def _side(name: str, sessions: list[FloatArray]) -> dict[str, float]:
    """Return the numbers of samples and sessions, median and noise of the side `name`."""
    count, medians = len(sessions), np.array([np.median(times) for times in sessions])
    noise = sum(float(median_variance(np.log(times))) for times in sessions)
    return {
        f"sessions_{name}": count,
        f"samples_{name}": sum(map(len, sessions)),
        # This is exact for one session.
        f"median_{name}_s": medians[0] * np.exp(np.log(medians / medians[0]).mean()),
        f"noise_{name}": noise / count**2,
    }
