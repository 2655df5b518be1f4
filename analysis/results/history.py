"""``gemm-study history``: times of a benchmark program over its commits, and lasting changes.

A step is a change of the median of at least three entries before and after it, so one or two bad
days are no step. Series are split repeatedly (Scott and Knott, Biometrics 30 (1974) 507).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ValidationError
from scipy.special import stdtr

from analysis.drawing import style
from analysis.drawing.palette import BLUE, GREY, RED
from analysis.drawing.svg import label, render
from analysis.results.comparison import NORMAL
from analysis.results.readers import read
from analysis.stats.estimates import FloatArray
from analysis.stats.significance import FALSE_DISCOVERIES, FASTER, SLOWER
from base.command_line import annotation
from base.errors import StudyError
from base.files import alone_in, write_atomic

SHORTEST, _NAMED = 3, 8  # least entries on each side of a step; benchmarks drawn in colour


class Entry(BaseModel):
    """A line of a history: its name, and by benchmark the median of the sessions' minima in s."""

    label: str
    times_s: dict[str, float]


def history(
    file: Path, results: Sequence[Path], name: str, threshold: float, form: str, svg: Path | None
) -> int:
    """Append the times of `results` as entry `name`, print the steps, and return the exit status.

    The status is 1 if a step to slower is new. Raise StudyError for unreadable files.
    """
    if results:
        table = pd.concat([read(path) for path in results]).query("time_s > 0")
        least = table.groupby(["benchmark", "session"], observed=True)["time_s"].min()
        times = least.groupby("benchmark").median().to_dict()
        entries = _appended(file, Entry(label=name, times_s=times))
    elif not (entries := _entries(file)):
        raise StudyError(f"{file}: is empty or missing; name result files to append")
    labels, status = [entry.label for entry in entries], 0
    log_s = np.log(pd.DataFrame([entry.times_s for entry in entries]).T)
    lasting, before = (steps(part, labels, threshold) for part in (log_s, log_s.iloc[:, :-1]))
    for step in lasting.itertuples():
        near = before.query("benchmark == @step.benchmark and abs(at - @step.at) < 2")
        is_new = step.verdict == SLOWER and near.empty
        text = f"{step.benchmark}: {abs(step.ratio - 1):.1%} {step.verdict} since {step.label}"
        print(annotation("error" if is_new else "notice", text) if form == "github" else text)
        status |= is_new
    print(f"{len(lasting)} steps of {len(log_s)} benchmarks in {len(entries)} entries", flush=True)
    if svg:
        write_atomic(svg, drawn(log_s, labels, lasting))
    return status


def _appended(file: Path, entry: Entry) -> list[Entry]:
    """Append an entry, while no other process writes to the folder; return all entries."""
    with alone_in(file.resolve().parent):
        entries = [*_entries(file), entry]
        write_atomic(file, "".join(each.model_dump_json() + "\n" for each in entries))
        return entries


def _entries(file: Path) -> list[Entry]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    entries: list[Entry] = []
    try:
        entries.extend(map(Entry.model_validate_json, lines))
    except ValidationError:
        raise StudyError(f"{file}: line {len(entries) + 1} is not an entry; restore it") from None
    return entries


def steps(log_s: pd.DataFrame, labels: Sequence[str], threshold: float) -> pd.DataFrame:
    """Return the steps of each benchmark: benchmark, at, label, ratio and verdict.

    `log_s` has a row per benchmark and a column per entry; `at` is the first entry after the step,
    ratio is the median after it over that before. Steps below half the threshold are omitted.
    """
    rows = []
    least, largest_p = np.log(1 + threshold / 2), FALSE_DISCOVERIES / max(len(log_s), 1)
    for name, series in zip(log_s.index, log_s.to_numpy(dtype=float), strict=True):
        measured = np.flatnonzero(np.isfinite(series))
        for place, distance in sorted(_splits(series[measured], least, largest_p)):
            at, verdict = int(measured[place]), SLOWER if distance > 0 else FASTER
            rows.append((name, at, labels[at], float(np.exp(distance)), verdict))
    columns = ["benchmark", "at", "label", "ratio", "verdict"]
    return pd.DataFrame(rows, columns=columns).astype({"at": int})


def _splits(values: FloatArray, least: float, largest_p: float) -> Iterator[tuple[int, float]]:
    """Yield the indices that split a series, and the differences of the medians on both sides."""
    places = range(SHORTEST, len(values) - SHORTEST + 1)
    if not places:
        return
    place = min(places, key=lambda at: _rest(values, at).sum())
    parts = np.split(values, [place])
    before, after = map(np.median, parts)
    is_after = np.abs(values - after) < np.abs(values - before)
    if min(is_after[place:].sum(), (~is_after[:place]).sum()) < SHORTEST:
        return  # the step would be two bad days next to a good one
    scales = np.median(_rest(values, place)), np.median(np.abs(np.diff(values))) / 2**0.5
    scale = NORMAL * max(*scales, 1e-6)
    # Variance of the median of n normal values, relative to that of one; exact for n = 1.
    share = sum(np.pi / (2 * len(part) + np.pi - 2) for part in parts)
    distance = after - before
    p_value = 2 * len(places) * stdtr(len(values) - 2, -abs(distance) / scale / share**0.5)
    if abs(distance) > least and p_value <= largest_p:
        yield place, distance
        yield from _splits(parts[0], least, largest_p)
        yield from ((place + at, then) for at, then in _splits(parts[1], least, largest_p))


def _rest(values: FloatArray, place: int) -> FloatArray:
    return np.concatenate([np.abs(part - np.median(part)) for part in np.split(values, [place])])


def drawn(log_s: pd.DataFrame, labels: Sequence[str], lasting: pd.DataFrame) -> str:
    """Return an SVG of all benchmarks relative to their first entry; those with steps in colour."""
    last = lasting.drop_duplicates("benchmark", keep="last")
    largest = last.sort_values("ratio", key=lambda ratio: -np.log(ratio).abs())[:_NAMED]
    ratios = np.exp(log_s.sub(log_s.bfill(axis=1).iloc[:, 0], axis=0)).T
    places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), 8)).astype(int))
    ends = largest.assign(x=places[-1], y=ratios.ffill().iloc[-1][largest["benchmark"]].to_numpy())
    ends = ends.assign(colour=ends["verdict"].map({SLOWER: RED, FASTER: BLUE}))
    with style.theme():
        figure, (axes,) = style.new_figure()
        axes.plot(ratios, "." if len(labels) < 2 else "-", color=GREY, linewidth=0.6, alpha=0.5)
        for step in ends.itertuples():
            axes.plot(ratios[step.benchmark], color=step.colour)
            axes.plot(step.at, ratios[step.benchmark][step.at], "o", color=step.colour)
        axes.set_xticks(places, [label(labels[place]) for place in places])
        axes.set_ylabel("time / time of the first entry")
        if len(ends):
            style.name_ends(figure, axes, ends.rename(columns={"benchmark": "text"}), 7)
        white = 'style="--pico-background-color:#fff;background:#fff;'
        return render(figure, "history").replace('style="', white, 1)
