"""The text output of ``compare``: notes, the table of configurations, and a summary."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats import significance
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, within
from analysis.trust.comparison import GPU, OTHER_HARDWARE, STATE, matched
from analysis.trust.host_factors import host_factors, note
from analysis.trust.overheads import telemetry
from base.command_line import annotation, duration, excerpt
from kernels.products.shape import Shape
from measurement.recording.code import BUILD, build_facts, build_key, changed_sources
from measurement.recording.recording import CELL, Recording

_MOST = 10  # rows of the table that are printed
_LONG = ("packages", "limits", "machine_start")  # facts that are too long for one line
_CELL_TITLES = ("device", "variant", "dtype", "shape", "block", "memory", "threads")
_TITLES = (
    *_CELL_TITLES,
    "time",
    "samples",
    "A",
    "B",
    "B/A",
    "95 % interval",
    "adjusted p",
    "verdict",
)
_CAUSES = {"sm_clock_hz": ("MHz", 1e-6), "power_w": ("W", 1)}
_STATE_TITLES = ("SM clock in MHz", "at most °C", "power in W", "samples throttled")


def notes(
    a: Recording, b: Recording, frame: pd.DataFrame, more: tuple[list[Recording], list[Recording]]
) -> list[str]:
    """Return a line for each difference of GPUs, host, software, flags and sources.

    The first line gives the number of times of the same code. Of the further sessions `more` (see
    `compare`), only ceilings and sources are compared.
    """
    first, second = a.provenance, b.provenance
    same = int(frame["same_code"].sum())
    text = f"identical code in {same} of {len(frame)} times; they compare GPUs, hosts and days"
    lines = [text] * (same > 0)
    near = int(frame["one_start"].sum())
    text = f"{near} times are of one GPU and host since one start, which vary less"
    lines += [text] * (near > 0)
    offsets = frame[frame["side"] == GPU].groupby("device")["offset_s"].first()
    for device, offset_s in offsets[offsets.abs() >= 5e-9].items():
        longer = "longer" if offset_s > 0 else "shorter"
        text = f"a launch on {device} takes {abs(offset_s) * 1e6:.2f} µs {longer} in B"
        lines.append(f"{text}; ratios do not contain it")
    factors = frame[frame["side"] == GPU].groupby("device")["clock_factor"].first()
    for device, factor in factors[(factors - 1).abs() >= 1e-3].items():
        longer = "longer" if factor > 1 else "shorter"
        text = f"kernels of identical code on {device} take {abs(factor - 1):.1%} {longer} in B"
        lines.append(f"{text}, as with another clock; ratios do not contain it")
    for one, other in zip(first["devices"], second["devices"], strict=False):
        other = {**other, "device": one["device"]}
        lines += _differing(f"the GPUs at {one['device']}", one, other)
    if len(first["devices"]) != len(second["devices"]):
        lines.append(f"GPUs: {len(first['devices'])} in A, {len(second['devices'])} in B")
    names = {"host": "the hosts", "software": "software versions", "compile": "compiler flags"}
    for item, name in names.items():
        lines += _differing(name, first[item], second[item])
    factors = note(host_factors([a, *more[0]], [b, *more[1]]))
    lines += [factors] if factors else []
    changed = changed_sources(first["sources"], second["sources"])
    lines += [f"different sources: {', '.join(changed)}"] if changed else []
    for one, others in ((a, more[0]), (b, more[1])):
        for each in others:
            changed = changed_sources(one.provenance["sources"], each.provenance["sources"])
            text = f"{one.path} and {each.path} are on one side and have different sources"
            lines += [f"{text}: {', '.join(changed)}"] if changed else []
    return lines


def _differing(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    items = [
        f"{item} {first.get(item)} / {second.get(item)}"
        for item in sorted(set(first) | set(second))
        if first.get(item) != second.get(item) and item not in _LONG
    ]
    return [f"{name} differ: {', '.join(items)}"] if items else []


def with_state(frame: pd.DataFrame, a: Recording, b: Recording) -> pd.DataFrame:
    """Return `frame` with the state of the GPU in A and in B (`analysis.trust.overheads`)."""
    for side, samples in (("a", a.samples), ("b", matched(b.samples, a, b))):
        names = {column: name.format(side) for column, name in STATE.items()}
        state = telemetry(samples)[[*CELL, *STATE]].rename(columns=names)
        frame = frame.merge(state, how="left", on=CELL)
    return frame


def causes(frame: pd.DataFrame, a: Recording, b: Recording) -> list[str]:
    """Return one line per slower or faster kernel whose code differs: what changed from A to B."""
    rows = frame[frame["verdict"].isin([SLOWER, FASTER]) & ~frame["same_code"]]
    rows = with_state(rows[rows["build"].notna()].drop_duplicates(BUILD), a, b)
    facts, lines = [build_facts(each) for each in (a, b)] if len(rows) else [], []
    for row in rows.to_dict("records"):
        one, other = ({**each.get(build_key(row), {})} for each in facts)
        for name, (text, factor) in _CAUSES.items():
            for side, build in (("a", one), ("b", other)):
                build[text] = _number(row[STATE[name].format(side)], factor)
        values = ((name, one.get(name, 0), other.get(name, 0)) for name in {**one, **other})
        changed = [f"{name} {before} → {now}" for name, before, now in values if before != now]
        block = "" if pd.isna(row["block_size"]) else f" B={row['block_size']}"
        lines.append(f"{row['variant']} {row['dtype']}{block}: {', '.join(changed)}")
    return lines


def annotations(frame: pd.DataFrame, hardware: bool) -> list[str]:
    """Return annotations for GitHub Actions: the `_MOST` times that slowed most, and a summary."""
    rows = frame[(frame["verdict"] == SLOWER) & (hardware | ~frame["same_code"])]
    slowest = rows.nlargest(_MOST, "ratio").to_dict("records")
    lines = [
        annotation("error", f"{significance.slower(row['ratio'])}: {_cell(row)}") for row in slowest
    ]
    return [*lines, annotation("notice", summary(frame))]


def junit(frame: pd.DataFrame, hardware: bool) -> str:
    """Return JUnit XML: one test per time that counts."""
    rows = frame[hardware | ~frame["same_code"]]
    cases = [(row["side"], _cell(row)) for row in rows.to_dict("records")]
    return significance.junit(rows, cases, summary(frame))


def _cell(row: Mapping[Any, Any]) -> str:
    return " ".join(filter(None, _cells(row)[:8]))


def table(frame: pd.DataFrame) -> list[str]:
    """Return lines with the `_MOST` times that differ most; slower and faster ones come first."""
    rows = frame[frame["verdict"] != SAME]
    shown = rows.assign(
        undecided=~rows["verdict"].isin([SLOWER, FASTER]), distance=-np.abs(np.log(rows["ratio"]))
    )
    shown = shown.sort_values(["undecided", "distance", *CELL, "quantity"], kind="stable")[:_MOST]
    titles = _TITLES + _STATE_TITLES * (STATE["power_w"].format("a") in shown)
    return excerpt(titles, [_cells(row) for row in shown.to_dict("records")], len(rows))


def _cells(row: Mapping[Any, Any]) -> tuple[str, ...]:
    shape = Shape(*(int(row[edge]) for edge in ("batch", "m", "n", "k")))
    last = ("block_size", "host_memory", "threads", "quantity")
    parts = [row["device"], row["variant"], row["dtype"], shape, *(row[name] for name in last)]
    has_interval = not np.isnan(row["q_differs"])
    return (
        *["" if pd.isna(part) else str(part) for part in parts],
        f"{row['samples_a']}, {row['samples_b']}",
        duration(row["median_a_s"]),
        duration(row["median_b_s"]),
        f"{row['ratio']:.3f}",
        f"[{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]" if has_interval else "",
        f"{row['q_differs']:.1g}" if has_interval else "",
        row["verdict"],
        *(
            " / ".join(_number(row[name.format(side)], factor) for side in "ab")
            for name, factor in zip(STATE.values(), (1e-6, 1, 1, 1), strict=True)
            if name.format("a") in row
        ),
    )


def _number(value: float, factor: float) -> str:
    return "–" if pd.isna(value) else f"{value * factor:.0f}"


def summary(frame: pd.DataFrame, threshold: float = THRESHOLD) -> str:
    """Return lines with the number of each verdict by side and code, and of medians that agree."""
    lines = []
    sides = frame["side"].where(~frame["same_code"], frame["side"] + ", same code")
    for side, rows in frame.groupby(sides, sort=True):
        lines.append(f"{side}: {significance.counts(rows['verdict'], OTHER_HARDWARE)}")
    ratio = frame["median_b_s"] / frame["median_a_s"]
    agrees = within(ratio, threshold).groupby(frame["quantity"], sort=False)
    shares = [
        f"{rows.sum()} of {len(rows)} {quantity} times ({100 * rows.mean():.1f} %)"
        for quantity, rows in agrees
    ]
    lines += significance.needed(frame)
    lines.append(f"medians agree within {threshold * 100:g} %: {', '.join(shares)}")
    return "\n".join(lines)
