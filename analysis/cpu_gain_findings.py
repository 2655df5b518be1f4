"""What GPUs gain over the CPU of their host, in sentences whose numbers are computed."""

from collections.abc import Iterator

import pandas as pd

from analysis.cpu.split import GPU, WHOLE
from analysis.cpu_views import PARTS
from analysis.data.published import SOURCE as PUBLISHED
from analysis.findings import Findings, Sentence
from analysis.results import (
    LIBRARIES,
    PERCENT,
    TIMES,
    Results,
    Subject,
    compared_memory,
    rows_of,
    subjects,
)
from analysis.wording import (
    NOT_MEASURED,
    STATED,
    Part,
    cell,
    measured,
    order,
    variant,
    verdict,
)

_OVER = {
    "naive": "the naive loop on one thread, the yardstick of the source",
    "own": "this study's best C on one thread",
    "blas": "BLAS on one thread",
    "blas_all": "BLAS on all threads",
}
_STARTS = {
    "naive": "the naive loop",
    "source": "a CPU program optimised for its cache as the source's was",
}


def gain_findings(results: Results) -> list[Findings]:
    """Return these findings on every GPU, in the order of recordings.csv."""
    return [
        Findings(subject, (*_yardsticks(results, subject), *_split(results, subject)))
        for subject in subjects(results)
        if subject.is_gpu
    ]


def published_split(results: Results) -> list[Sentence]:
    """Return what the published gains over CPUs are made up of."""
    frame = results.frame("cpu_split")
    return list(_wholes(results, frame[frame["recording"] == PUBLISHED]))


def _yardsticks(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Give the fastest variant's gain over each yardstick, at the largest order that has most."""
    frame = results.frame("gains")
    own = frame[(frame["source"] == subject.label) & frame["cpu_best_gain"].notna()]
    own = own[~own["variant"].isin(LIBRARIES)]
    if own.empty:
        yield Sentence("yardsticks", NOT_MEASURED, ("A gain over the CPU was not measured.",))
        return
    own = own[own["host_memory"] == compared_memory(own)]
    known = own[[f"cpu_{name}_gain" for name in _OVER]].notna().sum(axis=1)
    own = own[known == known.max()]
    own = own[own["n"] == own["n"].max()]
    row = int(own["cpu_best_gain"].idxmax())
    parts: list[Part] = [*variant(results, "gains", row), " at N\u00a0=\u00a0"]
    parts += [order(results, "gains", row), f", copies from and to {own.at[row, 'host_memory']} "]
    parts += ["memory included, gains "]
    there = {name: not pd.isna(own.at[row, f"cpu_{name}_gain"]) for name in _OVER}
    for position, name in enumerate(name for name, is_there in there.items() if is_there):
        gain = measured(results, "gains", row, f"cpu_{name}_gain", TIMES)
        parts += [", " if position else "", *gain, f" over {_OVER[name]}"]
    missing = [text for name, text in _OVER.items() if not there[name]]
    parts += [f". Not measured: {'; '.join(missing)}." if missing else "."]
    ends = [float(own.at[row, f"cpu_best_gain{end}"]) for end in ("", "_low", "_high")]
    yield Sentence("yardsticks", verdict(*ends), tuple(parts))


def _split(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Say what the card's gains over the source's two CPU programs are made up of.

    Over the naive loop from each kind of host memory, over the better one from that of the source.
    """
    frame = results.frame("cpu_split")
    own = frame[frame["gpu"] == subject.label]
    if own.empty:
        text = "What a gain over the naive CPU loop is made up of was not measured."
        yield Sentence("split_naive", NOT_MEASURED, (text,))
        return
    compared = own["host_memory"] == compared_memory(own)
    yield from _wholes(results, own[compared])
    yield from _wholes(results, own[~compared & (own["start"] == "naive")])


def _wholes(results: Results, own: pd.DataFrame) -> Iterator[Sentence]:
    """Split a gain into its factors, for each program that it can be counted from."""
    for start, text in _STARTS.items():
        rows = own[own["start"] == start]
        whole, steps = rows[rows["part"] == WHOLE], rows[rows["part"] != WHOLE]
        if whole.empty:
            continue
        row = rows_of(whole)[0]
        parts: list[Part] = ["At N\u00a0=\u00a0", order(results, "cpu_split", row), " "]
        memory = results.text("cpu_split", row, "host_memory")
        copies = f"with its copies from and to {memory} memory" if memory else "with its copies"
        parts += [*variant(results, "cpu_split", row), f" {copies} gains "]
        parts += [*_factor(results, row), f" over {text}"]
        if len(steps) > 1:
            for position, step in enumerate(rows_of(steps)):
                name = PARTS[results.text("cpu_split", step, "part")]
                parts += [", then " if position else ": ", *_factor(results, step), f" by {name}"]
            parts += [". ", *_shares(results, steps)]
        yield Sentence(f"split_{start}", STATED, (*parts, "."))


def _factor(results: Results, row: int) -> list[Part]:
    """Return a factor with its interval; a published one has none."""
    if results.text("cpu_split", row, "recording") == PUBLISHED:
        return [cell(results, "cpu_split", row, "factor", TIMES)]
    return measured(results, "cpu_split", row, "factor", TIMES)


def _shares(results: Results, steps: pd.DataFrame) -> list[Part]:
    """Say which shares of the logarithm are the GPU's, the CPU code's and the cores'."""
    on_gpu, on_all = steps["part"] == GPU, steps["part"] == "all_threads"
    parts: list[Part] = ["Of its logarithm "]
    for text, chosen in (
        ("the GPU has ", on_gpu),
        ("the code that the CPU runs ", ~on_gpu & ~on_all),
        ("its other cores ", on_all),
    ):
        if chosen.any():
            share = results.derived("cpu_split", rows_of(steps[chosen]), "share.sum()", PERCENT)
            parts += [", " if len(parts) > 1 else "", text, share]
    return parts
