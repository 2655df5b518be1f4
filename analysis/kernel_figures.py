"""The figures of steps, ceilings and shapes of one card."""

from collections.abc import Iterator

import pandas as pd

from analysis import kernel_plots, plots, style
from analysis.data.recordings import CPU
from analysis.drawings import INTERVALS, Card, Drawing, samples_text
from analysis.kernel_views import compared_kernel_memory
from analysis.results import Results, compared_memory, order_cells


def of_kernels(results: Results, card: Card) -> Iterator[Drawing]:
    """Draw the steps, the rates over N of the variants that are among them, ceilings, shapes."""
    cells = order_cells(results)
    cells = cells[(cells["gpu"] == card.subject.label) & (cells["device"] != CPU)]
    steps = cells[cells["variant"].isin(style.STEPS)].assign(is_cpu=False, threads=0)
    if not steps.empty:
        yield from _steps(results, card, steps)
    yield from _roofline(results, card)
    yield from _shapes(results, card)


def _steps(results: Results, card: Card, cells: pd.DataFrame) -> Iterator[Drawing]:
    memory = compared_memory(cells)
    compared = cells[cells["host_memory"] == memory]
    name = card.subject.marked_title
    rows, n = _step_rows(results, card, cells)
    if not rows.empty:
        yield card.drawing(
            "steps",
            f"The steps of T and G at N = {n}",
            f"Rate of the kernel at N = {n} on {name}, step by step of sources T and G and then "
            "cuBLAS, each in its fastest blocks; beside each bar the gain over the step before, in "
            "the same blocks where both take some. Lines at the ends of the bars are the intervals "
            f"of the medians. {samples_text(rows)}",
            kernel_plots.steps(rows, n),
        )
    yield card.drawing(
        "steps-size",
        "Rate over the matrix order, steps of T and G",
        f"Rate over N on {name}, {memory} host memory, of the steps of sources T and G and cuBLAS, "
        f"each with its best block size at that N. {INTERVALS} {samples_text(compared)}",
        plots.rate_over_size(compared),
    )


def _step_rows(results: Results, card: Card, cells: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return what `kernel_plots.steps` draws, and at which order: the largest of the cells."""
    n = int(cells["n"].max())
    own = cells[(cells["n"] == n) & (cells["host_memory"] == compared_kernel_memory(cells))]
    best = plots.best_blocks(plots.with_rates(own, plots.KERNEL), ["variant"])
    ladder = results.frame("ladder")
    ladder = ladder[(ladder["gpu"] == card.subject.label) & (ladder["quantity"] == plots.KERNEL)]
    ladder = ladder[(ladder["n"] == n) & (ladder["batch"] == 1) & (ladder["m"] == n)]
    ladder = ladder[(ladder["k"] == n) & ladder["host_memory"].isin(own["host_memory"])]
    ladder = ladder[ladder["dtype"] == "float32"].drop_duplicates("variant").set_index("variant")
    order = {variant: place for place, variant in enumerate(style.STEPS)}
    best = best.sort_values("variant", key=lambda names: names.map(order))
    texts = [_gain_text(ladder, str(variant)) for variant in best["variant"]]
    return best.assign(text=texts), n


def _gain_text(ladder: pd.DataFrame, variant: str) -> str:
    """Return what stands beside a bar: "× 1.45", and whether the step pays."""
    if variant not in ladder.index or variant == style.STEPS[0]:
        return ""
    row = ladder.loc[variant]
    return f"× {row['gain']:.3g}, {row['verdict']}"


def _roofline(results: Results, card: Card) -> Iterator[Drawing]:
    frame = results.frame("roofline")
    own = frame[(frame["gpu"] == card.subject.label) & frame["flop_per_byte_of_sectors"].notna()]
    if own.empty:
        return
    known = results.frame("ceilings")
    known = known[(known["gpu"] == card.subject.label) & known["host_memory"].isna()]
    ceilings = known.set_index("quantity")["value"].astype(float).to_dict()
    yield card.drawing(
        "roofline",
        "Kernels below the ceilings of the card",
        f"Rate of every variant's kernel at its largest N on {card.subject.marked_title} over its "
        "flop a byte of sectors of global memory (counted), with the ceilings measured on the "
        f"card: multiply-adds, and what each memory carries. {INTERVALS}",
        kernel_plots.roofline(plots.with_rates(own, plots.KERNEL), ceilings),
    )


def _shapes(results: Results, card: Card) -> Iterator[Drawing]:
    cells = results.frame("summary")
    own = cells[(cells["gpu"] == card.subject.label) & cells["variant"].isin(style.ANY_SHAPE)]
    own = own[own["kernel_s"].notna()]
    if own.empty:
        return
    own = own[own["host_memory"] == compared_kernel_memory(own)]
    best = own.loc[own.groupby(["variant", "dtype", "batch", "m", "n", "k"])["kernel_s"].idxmin()]
    yield card.drawing(
        "shapes",
        "Source L's kernels by shape and type of elements",
        f"Rate of the kernels of source L on {card.subject.marked_title}, by the shape of the "
        "product (m×k×n, a number in front: products in a batch) and the type of its elements, "
        f"each with its best block size. {INTERVALS} {samples_text(best)}",
        kernel_plots.shapes(best, plots.KERNEL),
    )
