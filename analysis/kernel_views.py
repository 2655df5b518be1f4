"""The report's tables on systems, claims, shapes and limits."""

from collections.abc import Sequence

import pandas as pd

from analysis.results import (
    COUNT,
    FACTOR,
    GFLOPS,
    MILLISECONDS,
    PLAIN,
    Results,
    Subject,
    Unit,
    compared_memory,
    order_cells,
    rows_of,
)
from analysis.style import ANY_SHAPE
from analysis.views import Cell, Column, Row, Table, number, samples
from analysis.wording import NOT_MEASURED, Code, Part, shape
from kernels.variant import ELEMENTS

OPERATIONS = Unit(1e-9, "Gop/s", 4)
EDGES = ["batch", "m", "n", "k"]
Columns = dict[str, tuple[str, str | Unit]]


def largest(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return, of each group, the rows of the shape with the most flop."""
    flop = frame[EDGES].astype(float).prod(axis=1)
    most = flop.groupby([frame[name] for name in by], dropna=False).transform("max")
    return frame[flop == most]


def compared_kernel_memory(frame: pd.DataFrame) -> str:
    """Return the host memory whose kernel times are shown: that which disturbs the card least."""
    return "pinned" if (frame["host_memory"] == "pinned").any() else "pageable"


def samples_of(results: Results, subject: Subject, shown: pd.DataFrame) -> list[Part]:
    """Return the sentence that says how many samples the medians of these products are of.

    `shown` has variant, dtype and `EDGES`.
    """
    keys = ["variant", "dtype", *EDGES]
    cells = results.frame("summary")
    cells = cells[cells["gpu"] == subject.label].reset_index(names="row")
    rows = sorted(cells.merge(shown[keys].drop_duplicates(), on=keys)["row"])
    if not rows:
        return []
    low, high = (
        results.derived("summary", rows, f"samples.{end}()", COUNT) for end in ("min", "max")
    )
    return [" Medians of ", low, " to ", high, " samples a cell."]


def systems_table(results: Results, subjects: Sequence[Subject], anchor: str) -> Table:
    """Return every system of the sources: where it stands, its gate, its best rate on each card."""
    frame = results.frame("systems")
    rows = []
    for key, group in frame.groupby(["source", "system", "side"], sort=False):
        first = int(group.index[0])
        cells = [
            Cell((results.text("systems", first, "source"),)),
            Cell((results.text("systems", first, "system"),)),
            Cell((Code(results.text("systems", first, "variant")),)),
            Cell((Code(results.text("systems", first, "stands_at")),)),
        ]
        on_gpu = key[2] == "gpu"
        for subject in subjects:
            own = group[group["recording"] == subject.recording]
            if on_gpu:
                own = own[own["gpu"] == subject.label]
            cells.append(_fares(results, int(own.index[0]) if len(own) else None))
        rows.append(Row(tuple(cells)))
    columns = [
        *(Column(title, is_number=False) for title in ("source", "system", "variant", "stands at")),
        *(Column(subject.label, "GFLOP/s") for subject in subjects),
    ]
    caption = (
        "Every system of the sources and, on each card (those of a CPU: on its host, on as many "
        "threads as are fastest), the highest rate of its kernel in any cell; of integers, "
        f"operations. Below it what the correctness gate found.{_titles(subjects)}",
    )
    return Table(anchor, "Systems", caption, tuple(columns), tuple(rows), ("systems",))


def _titles(subjects: Sequence[Subject]) -> str:
    """Return the sentence that names the cards of a table with a column for each."""
    return f" Cards: {', '.join(s.marked_title for s in subjects)}." if subjects else ""


def _fares(results: Results, row: int | None) -> Cell:
    """Return a system's best rate on a card with the outcome of its gate."""
    if row is None:
        return Cell((NOT_MEASURED,))
    frame = results.frame("systems")
    statuses = {
        status: int(frame.at[row, f"cells_{status}"])
        for status in ("passed", "failed", "not_launchable")
    }
    if not any(statuses.values()):
        return Cell((NOT_MEASURED,))
    rate = results.cell("systems", row, "best_flop_per_s", GFLOPS)
    parts = (rate.bare() if rate else "–",)
    if statuses["failed"]:
        return Cell(parts, badge="some failed" if statuses["passed"] else "failed")
    if not statuses["passed"]:
        return Cell(parts, badge="not launchable")
    return Cell(parts, note="passed" if not statuses["not_launchable"] else "passed where it runs")


def claims_table(results: Results, anchor: str) -> Table:
    """Return the sources' claims, one line a claim and card."""
    frame = results.frame("claims")
    order = frame["claim"].map(
        {claim: place for place, claim in enumerate(frame["claim"].unique())}
    )
    rows = [
        _claim_row(results, row)
        for row in rows_of(frame.assign(order=order).sort_values("order", kind="stable"))
    ]
    columns = (
        *(Column(title, is_number=False) for title in ("claim", "source", "verdict", "recording")),
        *(Column(title, is_number=False) for title in ("card", "measured")),
        *(Column(title) for title in ("B", "N", "value", "expected", "cases")),
        Column("rule", is_number=False),
    )
    caption = (
        "What the sources claim, what was found here, and the rule by which a claim holds. In "
        "small print the interval of a ratio of medians, by bootstrap. Of several cases the value "
        "is that farthest from the claim; of a claim of \u201cup to\u201d, the largest.",
    )
    return Table(anchor, "Claims", caption, columns, tuple(rows), ("claims",))


def _claim_row(results: Results, row: int) -> Row:
    texts = {
        name: results.text("claims", row, name)
        for name in ("claim", "source", "verdict", "recording", "gpu", "measured", "rule")
    }
    # A count has no interval, and lacks none.
    is_ratio = bool(texts["gpu"])
    return Row(
        (
            *(Cell((texts[name],)) for name in ("claim", "source", "verdict")),
            *(Cell((Code(texts[n]) if texts[n] else "–",)) for n in ("recording", "gpu")),
            Cell((texts["measured"],)),
            number(results, "claims", row, "block_size", COUNT),
            number(results, "claims", row, "n", COUNT),
            number(results, "claims", row, "value", FACTOR, mark_interval=is_ratio),
            number(results, "claims", row, "expected", PLAIN),
            number(results, "claims", row, "cases", COUNT),
            Cell((texts["rule"],)),
        )
    )


def shapes_table(results: Results, subject: Subject, anchor: str) -> Table:
    """Return the cells that are not of the study's orders, and source L's at those that are."""
    checks, summary = results.frame("checks"), results.frame("summary")
    own = checks[checks["recording"] == subject.recording]
    own = own[own["device"] == results.text("recordings", subject.row, "device")]
    memory = compared_memory(own)
    own = own[(own["host_memory"] == memory) & ~_is_order(results, own)]
    keys = ["variant", "dtype", *EDGES, "block_size"]
    timed = summary[(summary["gpu"] == subject.label) & (summary["host_memory"] == memory)]
    timed = timed.reset_index(names="timed")[["timed", *keys]]
    places = (
        own.reset_index(names="row").merge(timed, how="left", on=keys).set_index("row")["timed"]
    )
    rows = [
        _shape_row(results, row, None if pd.isna(place) else int(place))
        for row, place in places.items()
    ]
    columns = (
        *(Column("variant", is_number=False), Column("elements", is_number=False)),
        *(Column("shape, m×k×n"), Column("B"), Column("build", is_number=False)),
        *(Column("gate", is_number=False), Column("samples")),
        *(Column(title, unit.name) for title, unit in _SHAPE_TIMES.values()),
    )
    caption = (
        f"Products of other shapes and elements ({', '.join(ELEMENTS)}), and source L's kernels, "
        f"{subject.marked_title}, {memory} host memory; a fourth edge in front is the number of "
        "products in a batch. A rate counts multiplications and additions; those of integers are "
        "no FLOP. Below each median its interval.",
        *samples_of(results, subject, own),
    )
    name = f"Shapes, {subject.label}"
    return Table(anchor, name, caption, columns, tuple(rows), ("summary", "checks"))


_SHAPE_TIMES = {
    "host_s": ("host's work", MILLISECONDS),
    "kernel_s": ("kernel", MILLISECONDS),
    "total_s": ("total", MILLISECONDS),
    "kernel_flop_per_s": ("rate, kernel", OPERATIONS),
    "flop_per_s": ("rate, total", OPERATIONS),
}


def _is_order(results: Results, cells: pd.DataFrame) -> pd.Series:
    """Tell which cells are of the study's orders, source L's left out."""
    planned = set(order_cells(results)["n"])
    square = (cells["m"] == cells["n"]) & (cells["k"] == cells["n"]) & (cells["batch"] == 1)
    main = square & (cells["dtype"] == "float32") & cells["n"].isin(planned)
    return main & ~cells["variant"].isin(ANY_SHAPE)


def _shape_row(results: Results, row: int, timed: int | None) -> Row:
    """Return the row of a cell of checks.csv, with its times from summary.csv."""
    times = [Cell(("–",))] * (1 + len(_SHAPE_TIMES))
    if timed is not None:
        units = ((column, unit) for column, (_, unit) in _SHAPE_TIMES.items())
        times = [samples(results, timed)]
        times += [number(results, "summary", timed, column, unit) for column, unit in units]
    return Row(
        (
            Cell((Code(results.text("checks", row, "variant")),)),
            Cell((results.text("checks", row, "dtype"),)),
            Cell(tuple(shape(results, "checks", row))),
            number(results, "checks", row, "block_size", COUNT),
            Cell((results.text("checks", row, "build") or "–",)),
            Cell((_status(results, row),)),
            *times,
        )
    )


def _status(results: Results, row: int) -> Part:
    status = results.text("checks", row, "status")
    return status.shown_as(status.replace("_", " "))


def limits_table(results: Results, gpus: Sequence[Subject], anchor: str) -> Table:
    """Return what a card allows a launch: by its compute capability, and by its driver."""
    frame = results.frame("limits")
    rows = []
    for _, group in frame.groupby("limit", sort=False):
        first = int(group.index[0])
        name, unit = (results.text("limits", first, column) for column in ("limit", "unit"))
        cells = [Cell((name.shown_as(f"{name}, {unit}") if unit else name,))]
        for gpu in gpus:
            own = group[group["gpu"] == gpu.label]
            for column in ("of_capability", "of_driver"):
                value = len(own) and results.cell("limits", int(own.index[0]), column, COUNT)
                cells.append(Cell((value or "–",)))
        rows.append(Row(tuple(cells)))
    columns = [Column("limit", is_number=False)]
    for gpu in gpus:
        columns += [Column(f"{gpu.label}, by table"), Column(f"{gpu.label}, by driver")]
    caption = (
        "The limits of a launch: those of the card's compute capability, as NVIDIA's programming "
        "guide lists them, and those that its driver reported when it was recorded."
        f"{_titles(gpus)}",
    )
    return Table(anchor, "Limits", caption, tuple(columns), tuple(rows), ("limits",))
