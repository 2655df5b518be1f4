"""Agreement of two recordings: the ratio of medians of every common cell, and a verdict on it.

Three things must hold before a time of B counts as slower (or faster) than that of A, because
three things move a median that is not:

*Chance.* The Mann–Whitney test asks whether the two samples come from one distribution. It is exact
down to 6 samples a side and needs no shape of the noise, and the noise here has none: times have
two or three modes, where tests that lean on the standard error of a median (Welch's on bootstrap
errors, for one) reject tens of times too often. Against a pure shift it tests the medians;
against unequal spread alone it can reject as well (Chung and Romano, Ann. Statist. 41, 2013), hence
a rejection is not a verdict by itself. Benjamini and Hochberg (J. R. Statist. Soc. B 57, 1995) keep
false rejections among all comparisons of a recording at `FALSE_DISCOVERIES`.

*Smallness.* The ratio must exceed the threshold. Recordings of one card differ by up to 1 % where
nothing else disturbs them.

*The state of the machine.* Samples of a recording share its clocks, its neighbours on the host and
the places of its matrices in memory, so an interval says how well that recording's median is known
and not what the next recording finds (Kalibera and Jones, ISMM 2013). One recording a side leaves
that variance unknown, but each shows states that the machine visits. So the two sets of samples
must be separate: no sample of one as small as any of the other. A change smaller than the scatter
of a cell's own samples remains undecided.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import cpu_reference.catalog
import kernels.catalog
from analysis.statistics import (
    CONFIDENCE,
    DRAWS,
    FloatArray,
    bootstrap_medians,
    percentile_interval,
    ratio_intervals,
    seeded,
)
from measurement.errors import StudyError
from measurement.intervals import interval_ranks
from measurement.recording import CELL, Recording

FALSE_DISCOVERIES = 0.05
THRESHOLD = 0.02
VERDICTS = ("same", "faster", "slower", "undecided")
_KEY = [*CELL, "quantity"]
_TYPES = {
    **{"samples_a": "Int64", "samples_b": "Int64", "median_a_s": float, "median_b_s": float},
    **{"ratio": float, "ratio_low": float, "ratio_high": float, "separate": bool},
    **{"p_differs": float, "p_same": float},
}
_DETAILS = ("packages", "limits")  # of software and cards: too long for a line
_TO_THE_LEFT = ("device", "variant", "dtype", "memory", "time", "verdict")
_ABBREVIATED = {"n": "N", "block_size": "block", "host_memory": "memory", "quantity": "time"}


def compare(a: Recording, b: Recording, threshold: float) -> pd.DataFrame:
    """Return one row for every cell and quantity ("total", "kernel") that both recordings timed.

    Devices are matched by their order and named as in `a`. Columns: `CELL`, quantity, the numbers
    of samples, medians in seconds, ratio (B/A, with its 95 % bootstrap interval), separate (no
    sample of one as small as any of the other), p_differs and p_same, both after
    Benjamini–Hochberg as q_differs and q_same, verdict. p and q are NaN below 6 samples a side, the
    interval too. Rows are sorted by cell. Raises StudyError if there is no common cell.
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
    frame["q_differs"] = adjusted(frame["p_differs"])
    frame["q_same"] = adjusted(frame["p_same"])
    frame["verdict"] = verdicts(frame, threshold)
    return frame


def adjusted(p_values: pd.Series) -> pd.Series:
    """Return Benjamini–Hochberg's p-values; those that are NaN stay so and do not count."""
    known = p_values.dropna()
    values = stats.false_discovery_control(known) if len(known) else known
    return pd.Series(values, known.index, dtype=float).reindex(p_values.index)


def verdicts(frame: pd.DataFrame, threshold: float) -> pd.Series:
    """Return the verdict of every row from its ratio, separate, q_differs and q_same.

    The limits are 1 + threshold and its inverse, so that B is slower than A where A is faster
    than B.
    """
    limit = 1 + threshold
    moved = (frame["q_differs"] <= FALSE_DISCOVERIES) & frame["separate"]
    conditions = {
        "slower": moved & (frame["ratio"] > limit),
        "faster": moved & (frame["ratio"] < 1 / limit),
        "same": frame["q_same"] <= FALSE_DISCOVERIES,
    }
    chosen = np.select(list(conditions.values()), list(conditions), "undecided")
    return pd.Series(chosen, frame.index)


def notes(a: Recording, b: Recording) -> list[str]:
    """Return a line for each thing but time that differs: cards, host, software, flags, sources."""
    first, second = a.provenance, b.provenance
    lines = []
    for one, other in zip(first["devices"], second["devices"], strict=False):
        lines += _differing(f"the cards ({one['device']})", one, {**other, "device": one["device"]})
    if len(first["devices"]) != len(second["devices"]):
        lines.append(f"the cards: {len(first['devices'])} in A, {len(second['devices'])} in B")
    for item, name in (("host", "the hosts"), ("software", "the software"), ("compile", "flags")):
        lines += _differing(name, first[item], second[item])
    changed = changed_sources(first["sources"], second["sources"])
    if changed:
        lines.append(f"the sources differ: {', '.join(changed)}")
    return lines


def changed_sources(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return ``VARIANT (PATH)`` of every source in both whose SHA-256 is not the same."""
    variants = [*kernels.catalog.VARIANTS.values(), *cpu_reference.catalog.VARIANTS.values()]
    names = {variant.source: f"{variant.name} ({variant.source})" for variant in variants}
    common = sorted(set(first) & set(second))
    return [names.get(path, path) for path in common if first[path] != second[path]]


def table(frame: pd.DataFrame, everything: bool) -> str:
    """Return rows as text sorted by ratio, the slowest last; those that are the same on demand."""
    rows = frame if everything else frame[frame["verdict"] != "same"]
    rows = rows.sort_values(["ratio", *_KEY], kind="stable")
    columns = {
        _ABBREVIATED.get(name, name): rows[name].astype("string").fillna("") for name in _KEY
    }
    columns |= {
        "samples": rows["samples_a"].astype("string") + ", " + rows["samples_b"].astype("string"),
        "A": rows["median_a_s"].map(_milliseconds),
        "B": rows["median_b_s"].map(_milliseconds),
        "B/A": rows["ratio"].map("{:.3f}".format),
        "95 % interval": _intervals(rows),
        "adjusted p": rows["q_differs"].map("{:.1g}".format, na_action="ignore").fillna(""),
        "verdict": rows["verdict"],
    }
    return _aligned(columns)


def summary(frame: pd.DataFrame, threshold: float) -> str:
    """Return one line: how many times had each verdict, and how many medians agree."""
    counts = frame["verdict"].value_counts()
    text = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS)
    limit = 1 + threshold
    agrees = (frame["ratio"] <= limit) & (frame["ratio"] >= 1 / limit)
    shares = [
        f"{agrees[rows].mean():.0%} of {len(rows)} cells ({quantity} time)"
        for quantity, rows in frame.groupby("quantity", sort=False).groups.items()
    ]
    return f"{text}; medians agree within {threshold * 100:g} % in {' and '.join(shares)}"


def _paired(
    a: Recording, b: Recording
) -> Iterator[tuple[tuple[object, ...], FloatArray, FloatArray]]:
    """Yield (key, times of A, times of B), in seconds, of every common cell and quantity."""
    labels = [[d["device"] for d in recording.provenance["devices"]] for recording in (a, b)]
    of_a = dict(zip(labels[1], labels[0], strict=False))
    others = b.samples[~b.samples["device"].isin(set(labels[1]) - set(of_a))]
    both = pd.concat(
        [
            a.samples.assign(side="a"),
            others.assign(side="b", device=others["device"].map(lambda d: of_a.get(d, d))),
        ]
    )
    for key, cell in both.groupby(CELL, dropna=False, sort=True):
        sides = [cell[cell["side"] == side] for side in ("a", "b")]
        if any(rows.empty for rows in sides):
            continue
        for quantity in ("total", "kernel"):
            times = [rows[f"{quantity}_s"].to_numpy() for rows in sides]
            if not any(np.isnan(values).any() for values in times):
                yield (*key, quantity), times[0], times[1]


def _comparison(
    key: tuple[object, ...], times_a: FloatArray, times_b: FloatArray, threshold: float
) -> dict[str, object]:
    """Return the row of one cell and quantity, but for what depends on the others.

    p_same is that of two one-sided tests, ratio ≥ 1 + threshold and ratio ≤ 1/(1 + threshold), by
    the share of bootstrap draws beyond the limit (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987):
    it is small exactly where an interval of the ratio lies between the limits.
    """
    medians = [float(np.median(values)) for values in (times_a, times_b)]
    row: dict[str, object] = dict(zip(_KEY, key, strict=True))
    row |= {
        "samples_a": len(times_a),
        "samples_b": len(times_b),
        "median_a_s": medians[0],
        "median_b_s": medians[1],
        "ratio": medians[1] / medians[0],
        "separate": _separate(times_a, times_b),
    }
    if interval_ranks(min(len(times_a), len(times_b)), CONFIDENCE) is None:
        return row
    draws_a = bootstrap_medians(times_a, seeded("A", *key))
    draws_b = bootstrap_medians(times_b, seeded("B", *key))
    low, high = ratio_intervals(draws_b, draws_a)
    limit = 1 + threshold
    ratios = draws_b / draws_a
    beyond = max((ratios >= limit).sum(), (ratios <= 1 / limit).sum())
    return row | {
        "ratio_low": float(low),
        "ratio_high": float(high),
        "p_differs": float(stats.mannwhitneyu(times_a, times_b).pvalue),
        "p_same": float((1 + beyond) / (1 + DRAWS)),
    }


def _separate(times_a: FloatArray, times_b: FloatArray) -> bool:
    """Tell whether the middle 95 % of both samples (below 40: all) have nothing in common."""
    low_a, high_a = percentile_interval(times_a)
    low_b, high_b = percentile_interval(times_b)
    return bool(high_a < low_b or high_b < low_a)


def _differing(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return one line that names every item that is not the same in both, or none."""
    items = [
        f"{item} {first.get(item)} / {second.get(item)}"
        for item in sorted(set(first) | set(second))
        if first.get(item) != second.get(item) and item not in _DETAILS
    ]
    return [f"{name} differ: {', '.join(items)}"] if items else []


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:#.4g} ms"


def _intervals(rows: pd.DataFrame) -> pd.Series:
    low, high = (rows[name].map("{:.3f}".format) for name in ("ratio_low", "ratio_high"))
    return ("[" + low + ", " + high + "]").where(rows["ratio_low"].notna(), "")


def _aligned(columns: Mapping[str, pd.Series]) -> str:
    """Return columns of text below their titles, names to the left and numbers to the right."""
    lines = []
    widths = {title: max(map(len, [title, *texts])) for title, texts in columns.items()}
    for cells in [tuple(columns), *zip(*columns.values(), strict=True)]:
        padded = [
            cell.ljust(width) if title in _TO_THE_LEFT else cell.rjust(width)
            for cell, (title, width) in zip(cells, widths.items(), strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
