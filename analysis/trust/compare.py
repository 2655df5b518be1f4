"""Agreement of two recordings: the ratio of medians of every common cell, and a verdict on it.

Three things must hold before a time of B counts as slower (or faster) than that of A, because
three things move a median that is not:

*Chance.* The Mann–Whitney test asks whether the two samples come from one distribution. It is exact
down to 6 samples a side and needs no shape of the noise, and the noise here has none: times have
two or three modes, where tests that lean on the standard error of a median (Welch's on bootstrap
errors, for one) reject tens of times too often. Against a pure shift it tests the medians;
against unequal spread alone it can reject as well (Chung and Romano, Ann. Statist. 41, 2013), hence
a rejection is not a verdict by itself. Benjamini and Hochberg (J. R. Statist. Soc. B 57, 1995) keep
false rejections among all comparisons of a recording at `judgement.FALSE_DISCOVERIES`.

*Smallness.* The ratio must exceed the threshold. Recordings of one GPU differ by up to 1 % where
nothing else disturbs them.

*The state of the machine.* Samples of a recording share its clocks, its neighbours on the host and
the places of its matrices in memory, so an interval says how well that recording's median is known
and not what the next recording finds (Kalibera and Jones, ISMM 2013). Recordings of the same
kernels, taken minutes apart on one host, differed by half in CPU times and by a tenth in pageable
totals. One recording a side leaves that variance unknown, but its samples show how far the machine
wanders. So the two must be separate: the intervals in which each recording predicts one more sample
of its own have nothing in common. A change smaller than the scatter of a cell's own samples remains
undecided; so does one no larger than sessions of one GPU lie apart, where GPUs with several
sessions tell that (`analysis.stats.sessions.Known`).

*The host.* A kernel's time without the host in it is the GPU's. A whole run is that of a GPU and
its host, a CPU's product that of the host alone: where what was measured of the hosts themselves
differs by more than the threshold (`analysis.trust.host_factors`), there is no verdict on those.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import cpu_reference.catalog
import kernels.catalog.entries
from analysis.data.kernel_times import kernel_times
from analysis.domain import KERNEL_ONLY
from analysis.stats.estimates import (
    CONFIDENCE,
    FloatArray,
    bootstrap_medians,
    ratio_intervals,
    seeded,
)
from analysis.stats.sessions import Known
from analysis.stats.significance import FASTER, SLOWER, VERDICTS, evaluated, p_same, within
from analysis.trust.host_factors import bearing, host_factors, note
from base.command_line import aligned
from base.errors import StudyError
from base.intervals import interval_ranks
from kernels.products.shape import Shape
from measurement.recording.recording import CELL, KERNEL, Recording

_KEY = [*CELL, "quantity"]
_TYPES = {
    "samples_a": "Int64",
    "samples_b": "Int64",
    "median_a_s": "float64",
    "median_b_s": "float64",
    "ratio": "float64",
    "ratio_low": "float64",
    "ratio_high": "float64",
    "separate": "bool",
    "p_differs": "float64",
    "p_same": "float64",
}
# What a time is a property of, and the verdict on one whose hosts differ.
CARD, HOST = "card", "host"
OTHER_HOST = "other host"
_UNITS = ((1, "s"), (1e3, "ms"), (1e6, "µs"))
_DETAILS = ("packages", "limits")  # of software and GPUs: too long for a line
CELL_TITLES = ("device", "variant", "dtype", "shape", "block", "memory", "threads")
_TITLES = (
    *(*CELL_TITLES, "time", "samples"),
    *("A", "B", "B/A", "95 % interval", "adjusted p", "verdict"),
)


def compare(
    a: Recording, b: Recording, threshold: float, known: Known | None = None
) -> pd.DataFrame:
    """Return one row for every cell and quantity ("total", "kernel") that both recordings timed.

    Devices are matched by their order and named as in `a`. Columns: `CELL`, quantity, the numbers
    of samples, medians in seconds, ratio (B/A, with its 95 % bootstrap interval), reach (the ratio
    to which two sessions of one GPU lie apart in 95 % of cases, as far as it is `known`), separate
    (whether the two `prediction_interval` are, and the ratio is beyond reach), p_differs and
    p_same, both after Benjamini–Hochberg as q_differs and q_same, side (whether the time is that of
    the `CARD` alone), verdict (`OTHER_HOST` for slower and faster where the hosts differ). Below 6
    samples a side there is no interval, p or q (NaN), and separate is false. Rows are sorted by
    cell. Raises StudyError if there is no common cell.
    """
    rows = [
        _comparison(key, samples_a, samples_b, threshold)
        for key, samples_a, samples_b in _paired(a, b)
    ]
    if not rows:
        raise StudyError(
            f"recordings {a.path} and {b.path}: no cell was timed in both; "
            "compare recordings of one study"
        )
    types = a.samples[CELL].dtypes.to_dict() | {"quantity": "string"} | _TYPES
    frame = pd.DataFrame(rows, columns=list(types)).astype(types)
    frame = frame.sort_values(CELL, kind="stable", ignore_index=True)
    frame["reach"] = np.nan if known is None else _reach(frame, a.samples, known)
    frame["separate"] &= ~(np.abs(np.log(frame["ratio"])) <= np.log(frame["reach"]))
    held = not (a.kernels.empty or b.kernels.empty)
    of_card = held & (frame["quantity"] == "kernel")
    factors = bearing(host_factors(a, b), frame)
    frame = evaluated(frame.assign(side=np.where(of_card, CARD, HOST)), threshold)
    withheld = ~of_card & frame["verdict"].isin([SLOWER, FASTER])
    withheld &= factors.notna() & ~within(factors, threshold)
    return frame.assign(verdict=frame["verdict"].mask(withheld, OTHER_HOST))


def _reach(frame: pd.DataFrame, samples: pd.DataFrame, known: Known) -> pd.Series:
    """Return the ratio that two sessions of one GPU stay within in 95 % of cases, NaN: unknown."""
    works = samples.loc[samples["host_s"].notna(), CELL].drop_duplicates()
    found = frame[CELL].merge(works, how="left", on=CELL, indicator="work")["work"] == "both"
    rows = frame.assign(
        host_work=found.to_numpy() & (frame["quantity"] == "total").to_numpy(),
        time_s=frame["median_a_s"],
    )
    told = known.at(rows)
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, told["degrees_of_freedom"])
    return np.exp(quantile * np.sqrt(2 * told["variance"]))


def prediction_interval(times: FloatArray) -> tuple[float, float]:
    """Return where one more of these times (seconds, at least 2) would lie in 95 of 100 cases.

    Student's interval of the logarithms (Hahn and Meeker, Statistical Intervals, 1991, chapter
    4): where samples are few it is wider than their range, since few have seen little.
    """
    logarithms = np.log(times)
    count = len(times)
    spread = float(logarithms.std(ddof=1)) * (1 + 1 / count) ** 0.5
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread
    middle = float(logarithms.mean())
    return float(np.exp(middle - reach)), float(np.exp(middle + reach))


def notes(a: Recording, b: Recording) -> list[str]:
    """Return a line for each thing but time that differs: GPUs, host, software, flags, sources."""
    first, second = a.provenance, b.provenance
    lines = []
    for one, other in zip(first["devices"], second["devices"], strict=False):
        other = {**other, "device": one["device"]}
        lines += _differing(f"the GPUs at {one['device']}", one, other)
    if len(first["devices"]) != len(second["devices"]):
        lines.append(f"GPUs: {len(first['devices'])} in A, {len(second['devices'])} in B")
    names = {"host": "the hosts", "software": "software versions", "compile": "compiler flags"}
    for item, name in names.items():
        lines += _differing(name, first[item], second[item])
    factors = note(host_factors(a, b))
    lines += [factors] if factors else []
    changed = changed_sources(first["sources"], second["sources"])
    return [*lines, f"the sources differ of {', '.join(changed)}"] if changed else lines


def changed_sources(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return ``NAME (PATH)`` of every source in both whose SHA-256 is not the same."""
    kernel = {v.source: v.kernel for v in kernels.catalog.entries.VARIANTS.values() if v.source}
    names = {source: f"{name} ({source})" for source, name in kernel.items()}
    cpu = cpu_reference.catalog.VARIANTS.values()
    names |= {v.source: f"{v.name} ({v.source})" for v in cpu if v.source}
    common = sorted(set(first) & set(second))
    return [names.get(path, path) for path in common if first[path] != second[path]]


def sessions_note(frame: pd.DataFrame) -> str:
    """Return a line on what verdicts allow for: how far sessions of one GPU lie apart."""
    told = int(frame["reach"].notna().sum())
    rest = "; of the others, slower may be the host or the day" if told < len(frame) else ""
    return f"how far sessions of one GPU lie apart is known of {told} of {len(frame)} times{rest}"


def table(frame: pd.DataFrame, everything: bool) -> str:
    """Return rows as text sorted by ratio, the slowest last; those that are the same on demand."""
    rows = frame if everything else frame[frame["verdict"] != "same"]
    rows = rows.sort_values(["ratio", *_KEY], kind="stable")
    return "\n".join(aligned([_TITLES, *(_cells(row) for row in rows.to_dict("records"))]))


def summary(frame: pd.DataFrame, threshold: float) -> str:
    """Return lines: how many times of GPU and host had each verdict, how many medians agree."""
    lines = []
    for side, rows in frame.groupby("side", sort=True):
        counts = rows["verdict"].value_counts()
        known = [*VERDICTS, *([OTHER_HOST] if OTHER_HOST in counts else [])]
        text = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in known)
        lines.append(f"{side}: {text}")
    agrees = within(frame["ratio"], threshold)
    shares = [
        f"{100 * agrees[rows].mean():.0f} % of {len(rows)} cells ({quantity} time)"
        for quantity, rows in frame.groupby("quantity", sort=False).groups.items()
    ]
    lines.append(f"medians agree within {threshold * 100:g} % in {' and '.join(shares)}")
    return "\n".join(lines)


def matched(samples: pd.DataFrame, a: Recording, b: Recording) -> pd.DataFrame:
    """Return samples of `b` with its devices named as those in `a`, matched by their order.

    Devices of `b` beyond those of `a` are left out.
    """
    labels = [[d["device"] for d in recording.provenance["devices"]] for recording in (a, b)]
    of_a = dict(zip(labels[1], labels[0], strict=False))
    samples = samples[~samples["device"].isin(set(labels[1]) - set(of_a))]
    return samples.assign(device=samples["device"].map(lambda d: of_a.get(d, d)))


def _paired(
    a: Recording, b: Recording
) -> Iterator[tuple[tuple[object, ...], FloatArray, FloatArray]]:
    """Yield (key, times of A, times of B), in seconds, of every common cell and quantity."""
    held = not (a.kernels.empty or b.kernels.empty)
    times_of = {"total": [a.samples, b.samples]}
    times_of["kernel"] = [_kernel_times(recording, held) for recording in (a, b)]
    for quantity, (of_a, of_b) in times_of.items():
        sides = [of_a.assign(side="a"), matched(of_b, a, b).assign(side="b")]
        for key, cell in pd.concat(sides).groupby(CELL, dropna=False, sort=True):
            is_b = cell["side"].to_numpy() == "b"
            times = cell[f"{quantity}_s"].to_numpy()
            if is_b.any() and not is_b.all() and not np.isnan(times).any():
                yield (*key, quantity), times[~is_b], times[is_b]


def _kernel_times(recording: Recording, held: bool) -> pd.DataFrame:
    """Return `kernel_times`; those of kernels alone stand once, with the first host memory."""
    times = kernel_times(recording, held)
    alone = times["kernel_timing"] == KERNEL_ONLY
    first = times.groupby(KERNEL, dropna=False)["host_memory"].transform("max")  # pinned
    return times[~alone.fillna(False) | (times["host_memory"] == first).fillna(False)]


def _comparison(
    key: tuple[object, ...], times_a: FloatArray, times_b: FloatArray, threshold: float
) -> dict[str, object]:
    """Return the row of one cell and quantity, but for what depends on the others."""
    medians = [float(np.median(values)) for values in (times_a, times_b)]
    row: dict[str, object] = dict(zip(_KEY, key, strict=True))
    row |= {
        "samples_a": len(times_a),
        "samples_b": len(times_b),
        "median_a_s": medians[0],
        "median_b_s": medians[1],
        "ratio": medians[1] / medians[0],
        "separate": False,
    }
    if interval_ranks(min(len(times_a), len(times_b)), CONFIDENCE) is None:
        return row
    draws_a = bootstrap_medians(times_a, seeded("A", *key))
    draws_b = bootstrap_medians(times_b, seeded("B", *key))
    low, high = ratio_intervals(draws_b, draws_a)
    low_a, high_a = prediction_interval(times_a)
    low_b, high_b = prediction_interval(times_b)
    return row | {
        "ratio_low": float(low),
        "ratio_high": float(high),
        "separate": high_a < low_b or high_b < low_a,
        "p_differs": float(stats.mannwhitneyu(times_a, times_b).pvalue),
        "p_same": p_same(draws_b / draws_a, threshold),
    }


def _differing(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return one line that names every item that is not the same in both, or none."""
    items = [
        f"{item} {first.get(item)} / {second.get(item)}"
        for item in sorted(set(first) | set(second))
        if first.get(item) != second.get(item) and item not in _DETAILS
    ]
    return [f"{name} differ: {', '.join(items)}"] if items else []


def duration(seconds: float) -> str:
    """Return seconds with four digits in the largest unit of which there is at least one."""
    factor, unit = next((f, u) for f, u in _UNITS if seconds * f >= 1 or u == "µs")
    return f"{seconds * factor:#.4g} {unit}"


def cell_texts(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the cell (`CELL`) that a row is of as text, in the order of `CELL_TITLES`."""
    shape = Shape(*(int(row[edge]) for edge in ("batch", "m", "n", "k")))
    parts = (row["device"], row["variant"], row["dtype"], shape)
    rest = (row["block_size"], row["host_memory"], row["threads"])
    return tuple("" if pd.isna(part) else str(part) for part in (*parts, *rest))


def _cells(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return a row of the table as text, in the order of `_TITLES`."""
    known = not np.isnan(row["q_differs"])
    return (
        *(*cell_texts(row), str(row["quantity"])),
        f"{row['samples_a']}, {row['samples_b']}",
        duration(row["median_a_s"]),
        duration(row["median_b_s"]),
        f"{row['ratio']:.3f}",
        f"[{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]" if known else "",
        f"{row['q_differs']:.1g}" if known else "",
        row["verdict"],
    )
