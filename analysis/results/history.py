"""``gemm-study history``: times of a benchmark program over its commits, and lasting changes.

A step is a change of the median of at least three entries before and after it, so one or two bad
days are no step. Splits are found one by one (binary segmentation, Scott and Knott, Biometrics 30
(1974) 507); each is tested with the distribution of `analysis.stats.between`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.drawing import style
from analysis.drawing.palette import BLUE, GREY, RED
from analysis.drawing.svg import INK, label, render
from analysis.results.readers import read
from analysis.results.variation import LOCATIONS, NORMAL, located, median_share
from analysis.stats import between, significance
from analysis.stats.estimates import FloatArray
from base.command_line import annotation
from base.errors import StudyError
from base.files import write_atomic

SHORTEST = 3  # entries on each side of a step
_NAMED = 8  # benchmarks with a line in colour
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
    known = before.groupby("benchmark")["at"].agg(list)
    new = [
        all(abs(row.at - at) > 1 for at in known.get(row.benchmark, []))
        for row in found.itertuples()
    ]
    fails = (found["verdict"] == significance.SLOWER) & np.array(new, bool)
    for row, failing in zip(found.itertuples(), fails, strict=True):
        text = f"{row.benchmark}: {abs(row.ratio - 1):.1%} {row.verdict} since {row.label}"
        print(annotation("error" if failing else "notice", text) if form == "github" else text)
    print(f"{len(found)} steps of {len(log_s)} benchmarks in {len(entries)} entries", flush=True)
    if svg:
        write_atomic(svg, drawn(log_s, labels, found))
    return int(fails.any())


def _entries(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
            for name in LOCATIONS:
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
    found = {name: located(table, quantile).log_s for name, quantile in LOCATIONS.items()}
    return {name: np.exp(log_s.median(axis=1)).to_dict() for name, log_s in found.items()}


def _steadiest(entries: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return log times of the location that differs least from entry to entry, by benchmark."""
    tables = [np.log(pd.DataFrame([each[name] for each in entries]).T) for name in LOCATIONS]
    return min(tables, key=lambda table: np.nan_to_num(table.diff(axis=1).abs().median().median()))


def steps(log_s: pd.DataFrame, labels: Sequence[str], threshold: float) -> pd.DataFrame:
    """Return the steps of each benchmark in order of entries, with `_COLUMNS`.

    `log_s` has a row per benchmark and a column per entry; `at` is the first entry after the step,
    ratio that of the medians after and before. Steps below half the threshold do not count.
    """
    found = []
    pieces = [
        (name, values, np.flatnonzero(np.isfinite(values)))
        for name, values in zip(log_s.index, log_s.to_numpy(dtype=float), strict=True)
    ]
    while pieces:
        rows = [_split(values[entries]) for _, values, entries in pieces]
        frame = pd.DataFrame(rows, columns=["place", "ratio", "p_differs"]).assign(p_same=np.nan)
        frame = significance.evaluated(frame, threshold / 2)
        following = []
        for (name, values, entries), row in zip(pieces, frame.itertuples(), strict=True):
            if row.verdict in (significance.SLOWER, significance.FASTER):
                at = int(entries[int(row.place)])
                found.append((name, at, labels[at], row.ratio, row.verdict))
                parts = entries[: int(row.place)], entries[int(row.place) :]
                following += [(name, values, part) for part in parts]
        pieces = following
    return pd.DataFrame(found, columns=_COLUMNS).sort_values(["benchmark", "at"], ignore_index=True)


def _split(values: FloatArray) -> tuple[float, float, float]:
    """Return the best place to split a series, the ratio of the medians, and its p-value."""
    count = len(values)
    if count < 2 * SHORTEST:
        return np.nan, 1.0, np.nan
    places = np.arange(SHORTEST, count - SHORTEST + 1)
    medians = np.array([(np.median(values[:at]), np.median(values[at:])) for at in places])
    sizes = np.c_[places, count - places]
    share = median_share(sizes).sum(axis=1)
    distance = medians[:, 1] - medians[:, 0]
    rest = [
        np.abs(values - np.repeat(pair, size)) for pair, size in zip(medians, sizes, strict=True)
    ]
    best = int(np.argmin([each.sum() for each in rest]))
    before, after = (np.abs(values - median) for median in medians[best])
    is_after = after < before
    if min(is_after[places[best] :].sum(), (~is_after[: places[best]]).sum()) < SHORTEST:
        return np.nan, 1.0, np.nan  # two bad days beside a good one
    scales = [np.median(rest[best]), np.median(np.abs(np.diff(values))) / np.sqrt(2)]
    scale = max(NORMAL * max(scales), 1e-6)
    parts = {"between": scale**2 * share[best], "noise": 0.0, "outlier": 0.0}
    parts |= {"outliers": between.OUTLIERS, "freedom": count - 2}
    p_value = 2 * between.beyond(abs(distance[best]), parts) * len(places)
    return float(places[best]), float(np.exp(distance[best])), min(float(p_value), 1.0)


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
