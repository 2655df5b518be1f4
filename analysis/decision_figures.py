"""The figures of the transfer model and of the break-even orders."""

from collections.abc import Iterator

import pandas as pd

from analysis import decision_plots
from analysis.data.recordings import CPU
from analysis.decide.advise import OPPONENTS
from analysis.decide.break_even import MEASURED, STUDY
from analysis.decide.curves import BEST
from analysis.decide.transfer_tables import PASSES
from analysis.drawings import INTERVALS, Card, Drawing
from analysis.results import Results, is_library, order_cells


def of_copies(results: Results, titles: dict[str, str]) -> Iterator[Drawing]:
    """Draw the transfer model of all cards; `titles` are theirs by label."""
    points, fits = results.frame("transfer_points"), results.frame("transfers")
    points = points[points["gpu"].isin(titles) & (points["data"] == PASSES)]
    points = points[points["direction"] != "overhead"]
    used = fits[fits["gpu"].isin(titles) & (fits["used"].astype(str) == "True")]
    if used.empty:
        return
    cards = ", ".join(titles[card] for card in dict.fromkeys(points["gpu"]))
    shown = [frame.assign(gpu=frame["gpu"].map(titles)) for frame in (points, used)]
    yield Drawing(
        "copies",
        "copies",
        "",
        "Copies of whole passes and the transfer model",
        "Rate of the copies of whole passes over their bytes (two matrices to the card, one back): "
        "medians over the kernels of one order, hollow where the order took no part in the fit. "
        f"Lines: the model that predicts. Cards: {cards}.",
        decision_plots.copies(*shown),
    )


def of_break_even(results: Results, card: Card) -> Iterator[Drawing]:
    """Draw the totals of one card and of its CPU over N, and where they cross."""
    cells = order_cells(results)
    cells = cells[(cells["gpu"] == card.subject.label) & (cells["device"] != CPU)]
    cells = cells[cells["total_s"].notna()]
    cells = cells[~is_library(cells)]
    curves = results.frame("curves")
    cpu = curves[(curves["recording"] == card.subject.recording) & curves["opponent"].notna()]
    cpu = cpu[cpu["opponent"] != BEST]
    if cells.empty or cpu.empty:
        return
    fastest = cells.loc[cells.groupby(["host_memory", "n"])["total_s"].idxmin()]
    found = results.frame("break_even")
    found = found[(found["gpu"] == card.subject.label) & (found["kernels"] == STUDY)]
    found = found[(found["place"] == MEASURED) & (found["opponent"] != BEST)]
    marked = "" if found.empty else " Dotted verticals: break-even orders between measured ones."
    yield card.drawing(
        "break-even",
        "Fastest total over N, beside the CPU",
        "Least time of a whole pass over N of the kernels of this study on "
        f"{card.subject.marked_title}, from and to each kind of host memory, beside its host's "
        f"CPU.{marked} {INTERVALS}",
        decision_plots.break_even(fastest, cpu, _within(found), OPPONENTS),
    )


def _within(found: pd.DataFrame) -> pd.DataFrame:
    return found[["host_memory", "opponent", "n"]]
