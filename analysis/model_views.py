"""The report's tables of the models: parameters, comparison, held-out orders, ratios."""

from analysis.model_findings import MEMORY_NAMES, PARAMETER_NAMES, parameter_unit
from analysis.models.comparison import FACTOR as WITHIN
from analysis.models.comparison import LEAST_ORDER, WORSE
from analysis.models.definitions import ALL_SET, HELD_OUT, MODELLED_SET, MODELS, RHO, SOURCE_V
from analysis.models.ratios import BANDWIDTH, FIT, LATENCY
from analysis.results import (
    COUNT,
    CYCLES,
    FACTOR,
    MILLISECONDS,
    PERCENT,
    PLAIN,
    TIMES,
    Results,
    rows_of,
)
from analysis.stats.uncertainty import AT_LEAST, AT_MOST, DETERMINED
from analysis.views import Cell, Column, Row, Table, flag, number
from analysis.wording import Code, Part

_SETS = {MODELLED_SET: "M0's kernels", ALL_SET: "all of V's"}


def comparison_table(results: Results, source: str, title: str, anchor: str) -> Table:
    """Return the comparison of the models of a source."""
    frame = results.frame("model_comparison")
    own = frame[frame["source"] == source]
    rows = [_compared(results, row) for row in rows_of(own)]
    columns = (
        *(Column(text, is_number=False) for text in ("fitted to", "model")),
        *(Column(text) for text in ("parameters", "cells")),
        Column("typical miss"),
        Column("typical miss, order left out"),
        Column("error over the best's"),
        Column("verdict", is_number=False),
        Column("AICc above the least"),
        Column("within the factor"),
        Column("farthest off"),
    )
    caption = (
        f"How well each model describes and predicts kernel times, {title}: those of the kernels "
        "that M0 speaks of, and of all kernels of source V in all block sizes. A typical miss is "
        "the root mean square of the logarithm of predicted over measured time, as a factor; with "
        "the order left out, every order is predicted by a fit to the others. In small print the "
        "interval, by bootstrap over kernels and orders: a model is worse than the best if the "
        "interval of its error over the best's lies above 1. The last two columns: of the cells "
        f"from N = {LEAST_ORDER} on, how many are predicted within a factor of {WITHIN:g}, and the "
        "worst.",
    )
    name = f"Models compared, {source}"
    return Table(anchor, name, caption, columns, tuple(rows), ("model_comparison",))


def _compared(results: Results, row: int) -> Row:
    table = "model_comparison"
    kernels, verdict = (results.text(table, row, name) for name in ("kernels", "verdict"))
    within: tuple[Part, ...] = (
        results.cell(table, row, "judged_within", COUNT) or "–",
        " of ",
        results.cell(table, row, "judged", COUNT) or "–",
    )
    missed = results.derived(table, [row], "exp(left_out_log_rms)", FACTOR)
    return Row(
        (
            Cell((kernels.shown_as(_SETS[kernels]),)),
            Cell((results.text(table, row, "model"),)),
            number(results, table, row, "parameters", COUNT),
            number(results, table, row, "cells", COUNT),
            Cell((results.derived(table, [row], "exp(log_rms)", FACTOR),)),
            Cell((missed if missed.text != "undefined" else "–",)),
            number(results, table, row, "over_best", FACTOR),
            Cell((verdict or "–",)) if verdict in (WORSE, "") else Cell(("",), badge=verdict),
            number(results, table, row, "aicc_above_least", PLAIN),
            Cell(within),
            number(results, table, row, "worst_factor", FACTOR),
        )
    )


def parameters_table(results: Results, source: str, title: str, anchor: str) -> Table:
    """Return the parameters of a source's models, ρ first.

    Each model once, fitted to the most kernels that it speaks of.
    """
    frame = results.frame("models")
    own = frame[frame["source"] == source]
    every = set(own.loc[own["kernels"] == ALL_SET, "model"])
    own = own[(own["kernels"] == ALL_SET) | ~own["model"].isin(every)]
    rows = [_parameter(results, row) for row in rows_of(own)]
    columns = (
        Column("model", is_number=False),
        Column("parameter", is_number=False),
        Column("the cost of", is_number=False),
        Column("value"),
        Column("the data say", is_number=False),
        Column("interval by", is_number=False),
        Column("clock cycles"),
        Column("median share of the time", PERCENT.name),
        Column("cells"),
    )
    caption = (
        f"The parameters of the models, {title}. M0 to M3 are fitted to the kernels that M0 speaks "
        "of, the others to all kernels of source V where those were measured. In small print the "
        "interval; 0 and ∞ are ends that the data leave open. Cycles are those of one "
        "multiprocessor for what all of them share out, else of the clock.",
    )
    name = f"Parameters of the models, {source}"
    return Table(anchor, name, caption, columns, tuple(rows), ("models",))


def _parameter(results: Results, row: int) -> Row:
    table = "models"
    name = results.text(table, row, "parameter")
    shown = PARAMETER_NAMES[name]
    unit = parameter_unit(name, float(results.frame(table).at[row, "value"]))
    value = results.cell(table, row, "value", unit)
    low, high = results.interval(table, row, "value", unit) or (None, None)
    if results.text(table, row, "status") in (AT_MOST, AT_LEAST):  # often far from the best value
        low, high = (results.cell(table, row, f"value_{end}", unit) for end in ("low", "high"))
    return Row(
        (
            Cell((results.text(table, row, "model"),)),
            Cell((Code(name.shown_as(shown.symbol)),)),
            Cell((name.shown_as(shown.of),)),
            Cell((value or "–",), low, high),
            _said(results.text(table, row, "status")),
            Cell((results.text(table, row, "method") or "–",)),
            number(results, table, row, "cycles", CYCLES if name != RHO else PLAIN),
            number(results, table, row, "share", PERCENT),
            number(results, table, row, "cells", COUNT),
        )
    )


def held_out_table(results: Results, source: str, title: str, anchor: str) -> Table:
    """Return measured times of held-out orders beside the best model's predictions."""
    frame = results.frame("model_predictions")
    own = frame[(frame["source"] == source) & (frame["role"] == HELD_OUT)]
    own = own[own["kernels"] == ALL_SET]
    own = own[own["model"] == own["model"].max()] if len(own) else own
    place = {name: index for index, name in enumerate(SOURCE_V)}
    own = own.assign(place=own["variant"].map(place)).sort_values(["n", "place", "block_size"])
    rows = [_held_out(results, row) for row in rows_of(own)]
    columns = (
        Column("variant", is_number=False),
        *(Column(text) for text in ("B", "N")),
        Column("measured", "ms"),
        Column("predicted", "ms"),
        Column("predicted / measured"),
        Column("in the interval", is_number=False),
    )
    model = "".join(sorted(set(own["model"])))
    caption = (
        f"Orders that took no part in the fit, {title}: the measured median with its interval, and "
        f"the prediction by {model} with the interval in which 95 % of such cells lie.",
    )
    name = f"Kernels at held-out orders, {source}"
    return Table(anchor, name, caption, columns, tuple(rows), ("model_predictions",))


def _held_out(results: Results, row: int) -> Row:
    table = "model_predictions"
    return Row(
        (
            Cell((Code(results.text(table, row, "variant")),)),
            number(results, table, row, "block_size", COUNT),
            number(results, table, row, "n", COUNT),
            number(results, table, row, "time_s", MILLISECONDS),
            number(results, table, row, "predicted_s", MILLISECONDS),
            Cell((results.derived(table, [row], "exp(log_residual)", FACTOR),)),
            Cell((flag(results, table, row, "in_interval"),)),
        )
    )


def ratios_table(results: Results, source: str, title: str, anchor: str) -> Table:
    """Return the fitted ρ of each model beside ratios that were measured independently."""
    frame = results.frame("model_ratios")
    own = frame[frame["source"] == source]
    rows = [_ratio(results, row) for row in rows_of(own)]
    columns = (
        *(Column(text, is_number=False) for text in ("from", "of", "what it is")),
        Column("ratio", TIMES.name),
        Column("the data say", is_number=False),
    )
    caption = (
        f"The cost of a global access over that of a shared one, {title}, in small print its "
        "interval. These ratios answer different questions and need not agree.",
    )
    name = f"Ratios of costs, {source}"
    return Table(anchor, name, caption, columns, tuple(rows), ("model_ratios",))


def _ratio(results: Results, row: int) -> Row:
    basis, of, status = (
        results.text("model_ratios", row, name) for name in ("basis", "of", "status")
    )
    charged = MODELS[of].ratio if basis == FIT else None
    meaning = _MEANINGS[basis] if charged is None else _CHARGED[charged]
    return Row(
        (
            Cell((basis,)),
            Cell((of.shown_as(MEMORY_NAMES.get(of, of)),)),
            Cell((basis.shown_as(meaning),)),
            number(results, "model_ratios", row, "value", TIMES),
            _said(status),
        )
    )


def _said(status: str) -> Cell:
    """Return what the data say of a value, marked where they do not determine it."""
    return Cell((status,)) if status == DETERMINED else Cell(("",), badge=status)


_CHARGED = {
    ("t_G", "t_S"): "what a thread is charged, when all are at work and caches help",
    ("c_G", "c_S"): "a sector over a wavefront",
    ("c_L", "c_S"): "a line over a wavefront",
}
_MEANINGS = {
    LATENCY: "one load at a time: what a lone thread waits",
    BANDWIDTH: "as many loads as there can be: what the memories carry",
}
