"""The audit of the published numbers in six paragraphs, each with its arithmetic."""

import numpy as np
import pandas as pd

from analysis.audit.tables import ORDER, REPEAT, WARM_TABLE
from analysis.audit.text import AS_CAPTIONED, NAIVE
from analysis.findings import Sentence
from analysis.results import (
    COUNT,
    GFLOPS,
    GIGABYTES,
    SECONDS,
    TIMES,
    Number,
    Results,
    Unit,
    as_published,
    rows_of,
)
from analysis.wording import (
    GAIN,
    LOSS,
    NO_INTERVAL,
    NOT_MEASURED,
    STATED,
    UNDECIDED,
    Code,
    Part,
    bounds,
    cell,
    order,
    verdict,
)

_CELLS, _CONSTANTS, _PAIRS = "audit_cells", "audit_constants", "audit_pairs"
_HEADLINE, _CPU = "audit_headline", "audit_cpu"
_PRINTED_S, _PRINTED_GFLOPS = as_published(SECONDS), as_published(GFLOPS)
_SECONDS = Unit(1.0, "s", 3)
_MEGABYTES = Unit(1e-6, "MB", 3)
_RATE = Code("2N³/t")
_N = "N\u00a0=\u00a0"


def audit_sentences(results: Results) -> list[Sentence]:
    """Return the six points, in the order in which the design of the study lists them."""
    return [
        _rates(results),
        _constant(results),
        _limit(results),
        _headline(results),
        _cpu(results),
        _pairs(results),
    ]


def _missing(topic: str, what: str) -> Sentence:
    return Sentence(topic, NOT_MEASURED, (f"The published tables hold no {what}.",))


def _count(results: Results, table: str, frame: pd.DataFrame, column: str) -> Part:
    """Return how many rows `frame` has, as a number that can be traced."""
    if frame.empty:
        return "none"
    return results.derived(table, rows_of(frame), f"{column}.count()", COUNT)


def _at(results: Results, table: str, row: int) -> list[Part]:
    """Return where a published cell stands: "Table 4, N = 1024, gpu_block (B = 8)"."""
    block = cell(results, table, row, "block_size", COUNT)
    parts: list[Part] = ["Table\u00a0", order(results, table, row, "table"), ", ", _N]
    parts += [order(results, table, row), ", ", _kernel(results, table, row)]
    return [*parts, " (B\u00a0=\u00a0", block, ")"] if isinstance(block, Number) else parts


def _kernel(results: Results, table: str, row: int) -> Code:
    return Code(results.text(table, row, "implementation").removeprefix("gpu_"))


def _time(results: Results, table: str, row: int, column: str = "time_s") -> Part:
    return cell(results, table, row, column, _PRINTED_S)


# ---- 1: printed rates


def _rates(results: Results) -> Sentence:
    """Hold every printed rate against that of its printed time."""
    cells = results.frame(_CELLS)
    printed = cells[cells["printed_flop_per_s"].notna()]
    if printed.empty:
        return _missing("audit_rates", "rate")
    agrees = pd.Series([results.text(_CELLS, row, "rate_agrees") for row in rows_of(printed)])
    wrong = printed[(agrees != "True").to_numpy()]
    right = printed.drop(wrong.index)
    parts: list[Part] = ["Of ", _count(results, _CELLS, printed, "table"), " rates printed beside "]
    parts += ["their times, ", _count(results, _CELLS, right, "table"), " are ", _RATE]
    parts += [" of the printed time within the rounding of both"]
    for position, row in enumerate(rows_of(wrong)):
        parts += ["; " if position else ", and these are not: ", *_one_rate(results, row)]
    apart = (printed["flop_per_s"] / printed["printed_flop_per_s"] - 1).abs()
    if wrong.empty:
        parts += ["; farthest apart are those of ", *_one_rate(results, int(apart.idxmax()))]
    return Sentence("audit_rates", STATED, (*parts, "."))


def _one_rate(results: Results, row: int) -> list[Part]:
    time_s = _time(results, _CELLS, row)
    rate = cell(results, _CELLS, row, "flop_per_s", GFLOPS)
    parts: list[Part] = [*_at(results, _CELLS, row), ": ", _RATE, " with t\u00a0=\u00a0", time_s]
    parts += [" gives ", rate, " (", *bounds(results, _CELLS, row, "flop_per_s", GFLOPS)]
    return [
        *parts,
        "), printed is ",
        cell(results, _CELLS, row, "printed_flop_per_s", _PRINTED_GFLOPS),
    ]


# ---- 2: the start-up constant


def _constant(results: Results) -> Sentence:
    """Give the constant of Tables 1–5, and say whether Table 6 holds it."""
    frame = results.frame(_CONSTANTS)
    cold = frame[frame["first_table"] != WARM_TABLE].sort_values("cells", ascending=False)
    warm = frame[frame["first_table"] == WARM_TABLE]
    if cold.empty:
        return _missing("audit_constant", "times to fit a constant to")
    parts: list[Part] = []
    for row in rows_of(cold):
        parts += _fitted(results, row)
    for row in rows_of(warm[warm["machine"].isin(cold["machine"])]):
        start = rows_of(cold[cold["machine"] == warm.at[row, "machine"]])[0]
        least = np.fmin(cold.at[start, "constant_s"], cold.at[start, "constant_low_s"])
        parts += ["The shortest time of Table\u00a0", order(results, _CONSTANTS, row, "last_table")]
        parts += [", ", cell(results, _CONSTANTS, row, "shortest_s", _PRINTED_S), ", is "]
        if warm.at[row, "shortest_s"] >= least:
            parts += ["no shorter than the constant of its machine, and may hold it."]
            continue
        parts += ["shorter than the constant of its machine: that table does not hold it (fitted "]
        parts += ["alone it has ", *_value(results, row), "). ", *_read_across(results)]
    return Sentence("audit_constant", STATED, tuple(parts))


def _fitted(results: Results, row: int) -> list[Part]:
    """Return the sentences on one constant."""
    first, last, cells, kernels, least_n, near, least_kernels = (
        order(results, _CONSTANTS, row, column)
        for column in (
            *("first_table", "last_table", "cells", "kernels"),
            *("least_n", "least_n_near", "least_n_kernels"),
        )
    )
    tables: list[Part] = ["Tables\u00a0", first, " to ", last]
    tables = ["Table\u00a0", last] if str(first) == str(last) else tables
    parts: list[Part] = ["The GPU times of ", *tables, " (", _machine(results, row), "; ", cells]
    parts += [" cells, kernels: ", kernels, ") were taken as a constant and, for each kernel, a "]
    parts += ["cost that grows with N³: the constant is ", *_value(results, row), ", and at ", _N]
    return [*parts, least_n, " ", near, " of ", least_kernels, " times are within a tenth of it. "]


def _machine(results: Results, row: int) -> Code:
    return Code(results.text(_CONSTANTS, row, "machine"))


def _value(results: Results, row: int) -> list[Part]:
    interval = bounds(results, _CONSTANTS, row, "constant_s", _SECONDS) or [NO_INTERVAL]
    return [cell(results, _CONSTANTS, row, "constant_s", _SECONDS), " (", *interval, ")"]


def _read_across(results: Results) -> list[Part]:
    """Return what becomes of the gains of Table 6 over the cold naive times that it repeats."""
    cells = results.frame(_CELLS)
    own = cells[(cells["table"] == WARM_TABLE) & cells["warm_gain"].notna()]
    if own.empty:
        return []
    best = own.loc[own.groupby("n")["time_s"].idxmin()]
    parts: list[Part] = ["Its gains are over the naive times of the cold tables: "]
    for position, row in enumerate(rows_of(best.iloc[[0, -1]] if len(best) > 1 else best)):
        naive = _time(results, _CELLS, row, "naive_time_s")
        constant = cell(results, _CELLS, row, "naive_constant_s", _SECONDS)
        parts += [", and at " if position else "at ", _N, order(results, _CELLS, row), " "]
        parts += [naive, " over ", _time(results, _CELLS, row), " is ", _gain(results, row)]
        parts += [", but (", naive, " − ", constant, ") over ", _time(results, _CELLS, row)]
        parts += [" is ", cell(results, _CELLS, row, "warm_gain", TIMES)]
        parts += [" (", *bounds(results, _CELLS, row, "warm_gain", TIMES), ")"]
    return [*parts, "."]


def _gain(results: Results, row: int) -> Part:
    return cell(results, _CELLS, row, "gain", TIMES)


# ---- 3: the limit of the buffered kernels


def _limit(results: Results) -> Sentence:
    """Hold the gain of `buffered_row` without the constant against the source's own limit."""
    cells = results.frame(_CELLS)
    own = cells[(cells["implementation"] == "gpu_buffered_row") & cells["warm_gain"].notna()]
    if own.empty:
        return _missing("audit_limit", "time of buffered_row")
    row = int(own["n"].idxmax())
    naive, time_s = (_time(results, _CELLS, row, name) for name in ("naive_time_s", "time_s"))
    limit = cell(results, _CELLS, row, "m0_limit", Unit(1.0, "×", 4))
    constant = cell(results, _CELLS, row, "naive_constant_s", _SECONDS)
    parts: list[Part] = ["At ", _N, order(results, _CELLS, row), " ", Code("buffered_row")]
    parts += [" gains ", naive, " over ", time_s, ", ", _gain(results, row), ", as printed. "]
    parts += ["Without the constant it gains (", naive, " − ", constant, ") over (", time_s, " − "]
    parts += [constant, "), ", cell(results, _CELLS, row, "warm_gain", TIMES)]
    parts += [" (", *bounds(results, _CELLS, row, "warm_gain", TIMES), "). "]
    parts += ["The source proves that no ρ lets it gain more than ", Code("2/(1 + 1/N)"), ", "]
    factor = (
        own.loc[row, ["warm_gain", "warm_gain_low", "warm_gain_high"]] / own.at[row, "m0_limit"]
    )
    word = verdict(*(float(value) for value in factor))
    return Sentence("audit_limit", word, (*parts, limit, ": ", _LIMITS[word]))


_LIMITS = {
    GAIN: (
        "the gain is above that limit, so its premise, that every access to global memory costs "
        "the same, does not hold. The naive kernel's accesses are uncoalesced."
    ),
    LOSS: "the gain stays below that limit.",
    UNDECIDED: "rounding and the constant's interval leave open whether the gain is above it.",
}


# ---- 4: the headline


def _headline(results: Results) -> Sentence:
    """Say by how much the stated best rate is off Table 6, and whether copies make that up."""
    frame = results.frame(_HEADLINE)
    if frame.empty:
        return _missing("audit_headline", "time at the order of the stated best rate")
    row = 0
    parts: list[Part] = ["The text's best rate, "]
    parts += [cell(results, _HEADLINE, row, "headline_flop_per_s", _PRINTED_GFLOPS), " at ", _N]
    parts += [order(results, _HEADLINE, row), ", means t\u00a0=\u00a0"]
    parts += [cell(results, _HEADLINE, row, "headline_s", _SECONDS), " by ", _RATE, "; the "]
    parts += ["shortest time there in Table\u00a0", order(results, _HEADLINE, row, "table"), " is "]
    parts += [
        _time(results, _HEADLINE, row),
        ", ",
        cell(results, _HEADLINE, row, "flop_per_s", GFLOPS),
    ]
    if not frame.at[row, "difference_s"] > 0:
        return Sentence("audit_headline", STATED, (*parts, ": the table holds what the text says."))
    size = cell(results, _HEADLINE, row, "copy_bytes", _MEGABYTES)
    copies = cell(results, _HEADLINE, row, "copies", COUNT)
    parts += [". In the difference, ", *_bounded(results, "difference_s", _SECONDS), ", "]
    parts += [copies, " copies of ", size, " move at "]
    parts += [*_bounded(results, "copies_bytes_per_s", GIGABYTES), ", "]
    link = cell(results, _HEADLINE, row, "link_bytes_per_s", GIGABYTES)
    if frame.at[row, "copies_bytes_per_s"] <= frame.at[row, "link_bytes_per_s"]:
        parts += ["which the card's link (", link, " at most) can carry: the text's rate fits the "]
        parts += ["kernel alone, the table's time the kernel and its copies."]
    else:
        parts += ["more than the card's link can carry (", link, " at most): copies alone do not "]
        parts += ["explain it."]
    return Sentence("audit_headline", STATED, tuple(parts))


def _bounded(results: Results, column: str, unit: Unit) -> list[Part]:
    interval = bounds(results, _HEADLINE, 0, column, unit)
    return [cell(results, _HEADLINE, 0, column, unit), " (", *interval, ")"]


# ---- 5: the CPU


def _cpu(results: Results) -> Sentence:
    """Say what the CPU columns are, from their rate and from what the text says of it."""
    frame = results.frame(_CPU)
    if frame.empty:
        return _missing("audit_cpu", "CPU time")
    known = frame[frame["over_headline"].notna()]
    row = rows_of(known if not known.empty else frame)[-1]

    def shown(column: str, unit: Unit) -> Part:
        return cell(results, _CPU, row, column, unit)

    parts: list[Part] = ["The captions call the CPU column cache-optimised. Table\u00a0"]
    parts += [order(results, _CPU, row, "table"), " has ", shown("cpu_time_s", _PRINTED_S), " at "]
    parts += [_N, order(results, _CPU, row), ", by ", _RATE, " ", shown("cpu_flop_per_s", GFLOPS)]
    parts += [". The text gives the cache-optimised version "]
    parts += [shown("tuned_least_flop_per_s", _PRINTED_GFLOPS), " to "]
    parts += [shown("tuned_most_flop_per_s", _PRINTED_GFLOPS), " and "]
    parts += [shown("tuned_gain", as_published(TIMES)), " the speed of the naive one; "]
    parts += [
        shown("tuned_gain", as_published(Unit(1.0, "", None))),
        " times the column's rate is ",
    ]
    parts += [shown("tuned_flop_per_s", GFLOPS), "."]
    if not pd.isna(frame.at[row, "growth"]):
        parts += [" From ", _N, order(results, _CPU, row, "before_n"), " on its time grows "]
        parts += [
            shown("growth", TIMES),
            ", the work ",
            shown("n3_growth", as_published(TIMES)),
            ".",
        ]
    if not pd.isna(frame.at[row, "over_headline"]):
        parts += [
            " And ",
            shown("cpu_time_s", _PRINTED_S),
            " over the ",
            shown("headline_s", _SECONDS),
        ]
        parts += [" of the best rate is ", shown("over_headline", COUNT), ", beside the text's "]
        parts += ["“more than ", shown("said_gain", COUNT), "”."]
    word = results.text(_CPU, row, "verdict")
    said = {
        NAIVE: " So the column is the naive version.",
        AS_CAPTIONED: " So the caption may hold.",
    }
    parts += [said.get(word, " So the column is neither of the two that the text tells of.")]
    return Sentence("audit_cpu", STATED, tuple(parts))


# ---- 6: pairs


def _pairs(results: Results) -> Sentence:
    """Say which larger blocks are slower than smaller ones, and which cells are printed twice."""
    frame = results.frame(_PAIRS)
    orders, repeats = (frame[frame["kind"] == kind] for kind in (ORDER, REPEAT))
    if orders.empty:
        return _missing("audit_pairs", "times of two block sizes")
    turned = orders[orders["differs"].astype(str) == "True"]
    empty = turned[turned["is_empty"].astype(str) == "True"]
    parts: list[Part] = [
        "Of ",
        _count(results, _PAIRS, orders, "kind"),
        " pairs of block sizes at ",
    ]
    parts += ["one N, the smaller block is the faster one in "]
    parts += [_count(results, _PAIRS, turned, "kind")]
    if not turned.empty:
        largest = turned[turned["n"] == turned["n"].max()]
        row = int((largest["other_time_s"] / largest["time_s"]).idxmax())
        parts += [", as no model has it. At ", _N, order(results, _PAIRS, row), ", the largest of "]
        parts += ["these orders, B\u00a0=\u00a0", order(results, _PAIRS, row, "block_size")]
        parts += [" takes ", _time(results, _PAIRS, row), ", B\u00a0=\u00a0"]
        parts += [order(results, _PAIRS, row, "other_block_size"), " takes "]
        parts += [_time(results, _PAIRS, row, "other_time_s")]
        parts += [
            ". In ",
            _count(results, _PAIRS, empty, "kind"),
            " of them the faster time cannot ",
        ]
        parts += ["be told from the start-up constant: nothing of the kernel is left in it"]
    same = repeats[repeats["differs"].astype(str) != "True"]
    parts += [". Of ", _count(results, _PAIRS, repeats, "kind"), " cells that an earlier table "]
    parts += ["prints too, ", _count(results, _PAIRS, same, "kind"), " have the same digits"]
    if len(repeats) and len(same) == len(repeats):
        parts += [": they are one measurement, and the gains of Table\u00a0"]
        last = int(repeats["other_table"].idxmax())
        parts += [order(results, _PAIRS, last, "other_table"), " are over cold times"]
    return Sentence("audit_pairs", STATED, (*parts, "."))
