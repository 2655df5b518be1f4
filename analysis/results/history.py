"""``gemm-study history``: times of a benchmark program over its commits, and lasting changes.

A step is a change of the median of at least three entries before and after it, so one or two bad
days are no step. Splits are found one by one (binary segmentation, Scott and Knott, Biometrics 30
(1974) 507); each is tested with Student's distribution, and p-values count splits and benchmarks.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr

from analysis.drawing import style
from analysis.drawing.palette import BLUE, GREY, RED
from analysis.drawing.svg import INK, label, render
from analysis.results.readers import read
from analysis.results.variation import NORMAL, SIDES, located
from analysis.stats import significance
from analysis.stats.estimates import FloatArray
from base.command_line import annotation
from base.errors import StudyError
from base.files import write_atomic

SHORTEST = 3  # entries on each side of a step
_NAMED = 8  # benchmarks with a line in colour
_SHIFTS = (-1, 0, 1)  # of a step, as entries are added
_COLUMNS = ["benchmark", "at", "label", "ratio", "verdict"]


def history(
    file: Path, results: Sequence[Path], name: str, threshold: float, form: str, svg: Path | None
) -> int:
    """Append the times of `results` as entry `name`, and print the steps; 1 after a new slower one.

    New is a step that the entries before do not show. Raise StudyError for unreadable files.
    """
    entries = _entries(file)
    if results:
        entries.append({"label": name} | _times(results))
        write_atomic(file, "".join(json.dumps(each) + "\n" for each in entries))
    if not entries:
        raise StudyError(f"{file}: is empty; name result files to append")
    log_s, labels = _steadiest(entries), [str(each["label"]) for each in entries]
    found, before = (steps(part, labels, threshold) for part in (log_s, log_s.iloc[:, :-1]))
    known = {(step.benchmark, step.at + shift) for step in before.itertuples() for shift in _SHIFTS}
    fails = False
    for step in found.itertuples():
        is_new = (step.benchmark, step.at) not in known and step.verdict == significance.SLOWER
        text = f"{step.benchmark}: {abs(step.ratio - 1):.1%} {step.verdict} since {step.label}"
        print(annotation("error" if is_new else "notice", text) if form == "github" else text)
        fails |= is_new
    print(f"{len(found)} steps of {len(log_s)} benchmarks in {len(entries)} entries", flush=True)
    if svg:
        write_atomic(svg, drawn(log_s, labels, found))
    return int(fails)


def _entries(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
            for name in SIDES:
                {key: float(value) for key, value in entries[-1][name].items()}
            str(entries[-1]["label"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StudyError(
                f"{file}: line {number} is not an entry; delete or restore it"
            ) from None
    return entries


def _times(results: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return the location of each benchmark in seconds, by location; sessions by their median."""
    table = pd.concat([read(path) for path in results])
    table = table[table["time_s"] > 0].astype({"benchmark": object, "session": object})
    return {
        name: np.exp(sessions.log_s.median(axis=1)).to_dict()
        for name, sessions in located(table).items()
    }


def _steadiest(entries: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return log times of the location that differs least from entry to entry, by benchmark."""
    tables = [np.log(pd.DataFrame([each[name] for each in entries]).T) for name in SIDES]
    return min(tables, key=lambda table: np.nan_to_num(table.diff(axis=1).abs().median().median()))


def steps(log_s: pd.DataFrame, labels: Sequence[str], threshold: float) -> pd.DataFrame:
    """Return the steps of each benchmark in order of entries, with `_COLUMNS`.

    `log_s` has a row per benchmark and a column per entry; `at` is the first entry after the step,
    ratio that of the medians after and before. Steps below half the threshold do not count.
    """
    rows = []
    for name, series in zip(log_s.index, log_s.to_numpy(dtype=float), strict=True):
        measured = np.flatnonzero(np.isfinite(series))
        limits = np.log(1 + threshold / 2), significance.FALSE_DISCOVERIES / len(log_s)
        for place, distance in sorted(_splits(series[measured], *limits)):
            verdict = significance.SLOWER if distance > 0 else significance.FASTER
            at = int(measured[place])
            rows.append((name, at, labels[at], float(np.exp(distance)), verdict))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _splits(values: FloatArray, least: float, largest_p: float) -> Iterator[tuple[int, float]]:
    """Yield the places that split a series, and the differences of the medians."""
    count = len(values)
    if count < 2 * SHORTEST:
        return
    places = range(SHORTEST, count - SHORTEST + 1)
    rests = [np.abs(_without_medians(values, place)) for place in places]
    best = int(np.argmin([rest.sum() for rest in rests]))
    place, rest = places[best], rests[best]
    parts = values[:place], values[place:]
    before, after = map(np.median, parts)
    is_after = np.abs(values - after) < np.abs(values - before)
    if min(is_after[place:].sum(), (~is_after[:place]).sum()) < SHORTEST:
        return  # two bad days beside a good one
    scale = NORMAL * max(np.median(rest), np.median(np.abs(np.diff(values))) / 2**0.5)
    # Variance of the median of n normal values, relative to one value; exact for n = 1.
    share = sum(np.pi / (2 * len(part) + np.pi - 2) for part in parts)
    p_value = (
        2 * len(places) * stdtr(count - 2, -abs(after - before) / max(scale, 1e-6) / share**0.5)
    )
    if abs(after - before) > least and p_value <= largest_p:
        yield place, after - before
        yield from _splits(parts[0], least, largest_p)
        for later, distance in _splits(parts[1], least, largest_p):
            yield place + later, distance


def _without_medians(values: FloatArray, place: int) -> FloatArray:
    return np.concatenate([part - np.median(part) for part in np.split(values, [place])])


def drawn(log_s: pd.DataFrame, labels: Sequence[str], found: pd.DataFrame) -> str:
    """Return an SVG of all benchmarks relative to their first entry; those with steps in colour."""
    with style.theme():
        figure, (axes,) = style.new_figure()
        last = found.drop_duplicates("benchmark", keep="last").set_index("benchmark")
        named = last.index[np.argsort(-np.abs(np.log(last["ratio"].to_numpy())))][:_NAMED]
        ratios = np.exp(log_s.sub(log_s.bfill(axis=1).iloc[:, 0], axis=0))
        for name, values in ratios.iterrows():
            if name not in named:
                axes.plot(values.to_numpy(), color=GREY, linewidth=0.6, alpha=0.5)
        for name in named:
            slower = last.at[name, "verdict"] == significance.SLOWER
            values, at = ratios.loc[name].to_numpy(), int(last.at[name, "at"])
            axes.plot(values, color=RED if slower else BLUE, marker="o", markersize=3)
            axes.annotate(
                label(name),
                (at, values[at]),
                xytext=(3, 6),
                textcoords="offset points",
                fontsize=7,
                color=INK,
            )
        places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), 8)).astype(int))
        axes.set_xticks(places, [label(labels[place]) for place in places])
        axes.set_ylabel("time / time of the first entry")
        return render(figure, "history")
