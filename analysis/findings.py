"""What was found, in sentences whose numbers are computed and whose wording follows the numbers.

A gain below 1 is called a loss, an interval that holds 1 leaves the question undecided, and what
was not measured is said not to be.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.data.recordings import CPU
from analysis.models.definitions import MODELLED_SET
from analysis.results import (
    COUNT,
    FACTOR,
    GFLOPS,
    MILLISECONDS,
    PERCENT,
    TIMES,
    Number,
    Results,
    Subject,
    compared_memory,
    is_library,
    order_cells,
    subjects,
)
from analysis.wording import (
    GAIN,
    LOSS,
    NO_INTERVAL,
    NOT_MEASURED,
    STATED,
    UNDECIDED,
    Part,
    cell,
    measured,
    opponent,
    order,
    variant,
    verdict,
)


@dataclass(frozen=True)
class Sentence:
    """One finding: its `topic`, its `verdict` in a word or two, and what it says."""

    topic: str
    verdict: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


@dataclass(frozen=True)
class Findings:
    """All sentences on one measured device."""

    subject: Subject
    sentences: tuple[Sentence, ...]


def findings(results: Results) -> list[Findings]:
    """Return the findings on every measured device, in the order of recordings.csv."""
    found = []
    for subject in subjects(results):
        sentences = _on_gpu(results, subject) if subject.is_gpu else _on_host(results, subject)
        found.append(Findings(subject, tuple(sentences)))
    return found


def _on_gpu(results: Results, subject: Subject) -> Iterator[Sentence]:
    summary = order_cells(results)
    cells = summary[(summary["gpu"] == subject.label) & (summary["device"] != CPU)]
    cells = cells[cells["total_s"].notna()]
    library, cells = cells[is_library(cells)], cells[~is_library(cells)]
    if cells.empty:
        name = results.text("recordings", subject.row, "gpu_name")
        yield Sentence("fastest", NOT_MEASURED, ("On ", name, " no cell was timed."))
        yield from _cpu_sentence(results, subject)
        return
    compared = cells[cells["host_memory"] == compared_memory(cells)]
    largest = compared[compared["n"] == compared["n"].max()]
    best = int(largest["total_s"].idxmin())
    yield _fastest(results, largest, best)
    yield _over_cpu(results, subject, compared)
    yield from _sizes_not_won(results, subject, compared)
    yield _kernel_rate(results, *(part[part["n"] == cells["n"].max()] for part in (cells, library)))
    yield _transfers(results, cells, best)
    yield from _cpu_sentence(results, subject)
    yield _model_sentence(results, subject.label)
    yield from _gate_sentence(results, subject)


def _on_host(results: Results, subject: Subject) -> Iterator[Sentence]:
    text = "No GPU was measured on this host; what follows is its CPU."
    yield Sentence("fastest", NOT_MEASURED, (text,))
    yield from _cpu_sentence(results, subject)
    yield from _gate_sentence(results, subject)


def _fastest(results: Results, cells: pd.DataFrame, best: int) -> Sentence:
    """Name the fastest variant with transfers, and say whether the next one is told apart."""
    row = cells.loc[best]
    n = order(results, "summary", best)
    parts: list[Part] = [
        *("Of the kernels of this study the fastest for two matrices of order ", n),
        f", copies from and to {row['host_memory']} host memory included, is ",
        *(*variant(results, "summary", best), ": "),
        *(*measured(results, "summary", best, "total_s", MILLISECONDS), ", "),
        *(cell(results, "summary", best, "flop_per_s", GFLOPS), "."),
    ]
    others = cells[cells["variant"] != row["variant"]]
    if others.empty:
        return Sentence("fastest", GAIN, tuple(parts))
    second = int(others["total_s"].idxmin())
    runner = cells.loc[second]
    numbers = measured(results, "summary", second, "total_s", MILLISECONDS)
    high, low = row["total_high_s"], runner["total_low_s"]
    if math.isnan(high) or math.isnan(low):
        word, said = NO_INTERVAL, "; whether that is a difference cannot be said without intervals."
    elif high < low:
        word, said = GAIN, "; the intervals do not overlap."
    else:
        word, said = UNDECIDED, "; the intervals overlap: which of the two is faster is undecided."
    parts += [" Next comes ", *variant(results, "summary", second), " with ", *numbers, said]
    return Sentence("fastest", word, tuple(parts))


def _over_cpu(results: Results, subject: Subject, compared: pd.DataFrame) -> Sentence:
    """Compare the fastest variant, transfers included, with the CPU at the largest common order."""
    gains = _fastest_gains(results, subject, compared)
    gains = gains[gains["cpu_best_gain"].notna()]
    if gains.empty:
        return Sentence("cpu", NOT_MEASURED, ("A gain over the CPU was not measured.",))
    index = int(gains["n"].idxmax())
    row = gains.loc[index]
    best = verdict(row["cpu_best_gain"], row["cpu_best_gain_low"], row["cpu_best_gain_high"])
    parts: list[Part] = [
        *("At N\u00a0=\u00a0", order(results, "gains", index)),
        ", the largest order that its CPU multiplied too, ",
        *(*variant(results, "gains", index), f" with its copies {_compared[best]}"),
        *(" the best CPU version here (", *opponent(results, "gains", index, "cpu_best_")),
        *("): gain ", *measured(results, "gains", index, "cpu_best_gain", TIMES)),
        *_over_naive(results, gains, index),
    ]
    parts += ["." if best in (GAIN, LOSS) else _reservation[best]]
    if math.isnan(row["cpu_blas_all_gain"]) and _has_several_threads(results, subject):
        parts += [" What a BLAS on all its cores would do was not measured."]
    return Sentence("cpu", best, tuple(parts))


def _over_naive(results: Results, gains: pd.DataFrame, shown: int) -> list[Part]:
    """Return the gain over the naive loop at the largest order that has one."""
    known = gains[gains["cpu_naive_gain"].notna()]
    if known.empty:
        return []
    row = int(known["n"].idxmax())
    at: list[Part] = ["at N\u00a0=\u00a0", order(results, "gains", row), " "]
    numbers = measured(results, "gains", row, "cpu_naive_gain", TIMES)
    text = "; over the naive CPU loop, the yardstick of the source, "
    return [text, *(at if row != shown else []), *numbers]


def _has_several_threads(results: Results, subject: Subject) -> bool:
    """Tell whether the host's process may use more than one core, as far as is known."""
    hosts = results.frame("cpu_hosts")
    own = hosts.loc[hosts["recording"] == subject.recording, "usable_threads"]
    return own.empty or bool((own != 1).any())


_compared = {
    GAIN: "is faster than",
    LOSS: "loses against",
    UNDECIDED: "can be told neither faster nor slower than",
    NO_INTERVAL: "is compared without interval to",
}
_reservation = {
    UNDECIDED: "; the interval holds 1.",
    NO_INTERVAL: "; too few samples for an interval, so nothing is claimed.",
}


def _sizes_not_won(
    results: Results, subject: Subject, compared: pd.DataFrame
) -> Iterator[Sentence]:
    """List the orders at which the GPU with its copies does not beat the best CPU version."""
    gains = _fastest_gains(results, subject, compared)
    gains = gains[gains["cpu_best_gain"].notna()].sort_values("n")
    if len(gains) < 2:
        return
    words = [
        verdict(row.cpu_best_gain, row.cpu_best_gain_low, row.cpu_best_gain_high)
        for row in gains.itertuples()
    ]
    if all(word == GAIN for word in words):
        low, high = (order(results, "gains", int(gains.index[end])) for end in (0, -1))
        text = "It wins against the best CPU version at every common order, N\u00a0=\u00a0"
        yield Sentence("sizes", GAIN, (text, low, " to ", high, "."))
        return
    parts: list[Part] = ["Against the best CPU version "]
    named = {
        LOSS: "it is a loss at ",
        UNDECIDED: "it is undecided at ",
        NO_INTERVAL: "there is no interval at ",
        GAIN: "it is a gain at ",
    }
    clauses: list[list[Part]] = []
    for word, text in named.items():
        rows = [index for index, found in zip(gains.index, words, strict=True) if found == word]
        if not rows:
            continue
        clause: list[Part] = [text]
        for position, index in enumerate(rows):
            gain = measured(results, "gains", index, "cpu_best_gain", TIMES, brackets="; ")
            clause += [", " if position else "", "N\u00a0=\u00a0", order(results, "gains", index)]
            clause += [" (", *gain, ")"]
        clauses.append(clause)
    for position, clause in enumerate(clauses):
        parts += [", " if position else "", *clause]
    worst = LOSS if LOSS in words else next(word for word in words if word != GAIN)
    yield Sentence("sizes", worst, (*parts, "."))


def _kernel_rate(results: Results, cells: pd.DataFrame, library: pd.DataFrame) -> Sentence:
    """Give the fastest kernel without its copies, and beside it that of NVIDIA's library."""
    cells = cells[cells["kernel_s"].notna()]
    if cells.empty:
        return Sentence("kernel", NOT_MEASURED, ("The time of the kernel alone was not measured.",))
    best = int(cells["kernel_s"].idxmin())
    parts: list[Part] = ["Without the copies, the fastest kernel at N\u00a0=\u00a0"]
    parts += [order(results, "summary", best), " is ", *variant(results, "summary", best), ": "]
    parts += _time_and_rate(results, best)
    library = library[library["kernel_s"].notna()]
    if not library.empty:
        row = int(library["kernel_s"].idxmin())
        parts += ["; that of NVIDIA's library (", *variant(results, "summary", row), ") takes "]
        parts += _time_and_rate(results, row)
    return Sentence("kernel", STATED, (*parts, "."))


def _time_and_rate(results: Results, row: int) -> list[Part]:
    time = measured(results, "summary", row, "kernel_s", MILLISECONDS)
    return [*time, ", ", cell(results, "summary", row, "kernel_flop_per_s", GFLOPS)]


def _transfers(results: Results, cells: pd.DataFrame, best: int) -> Sentence:
    """Give the share of the copies in the fastest variant's time, for each host memory kind."""
    fastest = cells.loc[best]
    same = cells[(cells["variant"] == fastest["variant"]) & (cells["n"] == fastest["n"])]
    block = fastest["block_size"]
    same = same[same["block_size"].isna() if math.isnan(block) else same["block_size"] == block]
    same = same.dropna(subset=["h2d_s", "d2h_s"])
    if same.empty:
        return Sentence("transfers", NOT_MEASURED, ("The copies were not timed apart.",))
    parts: list[Part] = ["The copies take "]
    for position, (index, row) in enumerate(same.sort_values("host_memory").iterrows()):
        share = results.derived("summary", [int(str(index))], "(h2d_s + d2h_s) / total_s", PERCENT)
        parts += [" and " if position else "", share, f" of its time from {row['host_memory']}"]
    return Sentence("transfers", STATED, (*parts, " host memory."))


def _cpu_sentence(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Give the fastest CPU version, on one thread and on all, next to the naive loop.

    At the largest order that the naive loop has too, if there is one.
    """
    summary = order_cells(results)
    cells = summary[(summary["recording"] == subject.recording) & (summary["device"] == CPU)]
    cells = cells[cells["total_s"].notna()]
    if cells.empty:
        yield Sentence("host", NOT_MEASURED, ("The CPU of this host was not measured.",))
        return
    naive = cells[cells["variant"] == "naive"]
    largest = cells[cells["n"] == (cells if naive.empty else naive)["n"].max()]
    best = int(largest["total_s"].idxmin())
    parts: list[Part] = [
        *("Its CPU (", results.text("recordings", subject.row, "cpu_model")),
        ") is fastest at N\u00a0=\u00a0",
        *(order(results, "summary", best), " with ", *opponent(results, "summary", best), ": "),
        *_time_of_cpu(results, best),
    ]
    one = largest[largest["threads"] == 1]
    if not one.empty and best not in one.index:
        row = int(one["total_s"].idxmin())
        parts += ["; on one thread with ", *variant(results, "summary", row), ": "]
        parts += _time_of_cpu(results, row)
    slow = largest[largest["variant"] == "naive"]
    if not slow.empty and best not in slow.index:
        numbers = measured(results, "summary", int(slow.index[0]), "total_s", MILLISECONDS)
        parts += ["; the naive loop takes ", *numbers]
    yield Sentence("host", STATED, (*parts, "."))


def _time_of_cpu(results: Results, row: int) -> list[Part]:
    time = measured(results, "summary", row, "total_s", MILLISECONDS)
    return [*time, ", ", cell(results, "summary", row, "flop_per_s", GFLOPS)]


def _model_sentence(results: Results, label: str) -> Sentence:
    """Say which of the models predicts orders best that it was not fitted to, and how well."""
    compared = results.frame("model_comparison")
    own = compared[(compared["source"] == label) & compared["left_out_log_rms"].notna()]
    own = own[own["kernels"] == MODELLED_SET]
    if own.empty:
        return Sentence("model", NOT_MEASURED, ("No model was fitted to its times.",))
    first, best = int(own.index[0]), int(own["left_out_log_rms"].idxmin())
    parts: list[Part] = ["Sizes that they were not fitted to are predicted best by the model "]
    for row in dict.fromkeys((best, first)):
        parts += ["" if row == best else "; by the source's own, "]
        parts += [results.text("model_comparison", row, "model")]
        parts += [", typically within a factor of " if row == best else ", within "]
        parts += [results.derived("model_comparison", [row], "exp(left_out_log_rms)", FACTOR)]
    return Sentence("model", STATED, (*parts, "."))


def _gate_sentence(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Say how many cells failed the correctness gate, if any did."""
    failed = cell(results, "recordings", subject.row, "cells_failed", COUNT)
    if isinstance(failed, Number) and float(failed.value) > 0:
        said = " of the planned cells failed the correctness gate and were not timed."
        yield Sentence("gate", STATED, (failed, said))


def _fastest_gains(results: Results, subject: Subject, compared: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of gains.csv of the fastest compared cell at each order."""
    gains = results.frame("gains")
    keys = ["n", "variant", "block_size", "host_memory"]
    fastest = compared.loc[compared.groupby("n")["total_s"].idxmin(), keys]
    own = gains[gains["source"] == subject.label]
    own = own.reset_index(names="row").merge(fastest, on=keys)  # a blank B matches a blank B
    return gains.loc[own["row"]]
