"""Where a new kernel is on a GPU's roofline, compared with the recorded kernels."""

from collections.abc import Collection, Mapping

import pandas as pd

from analysis.data.ceilings import ceilings_table
from analysis.data.cells import product_of, rates_of
from analysis.data.recordings import MeasuredSource
from analysis.kernels.counts import Launch
from analysis.kernels.roofline import fastest, placed
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.product import Product
from kernels.cubins.build import build_for
from kernels.host_execution.check import predict
from kernels.host_execution.counts import quantities
from kernels.theory.cost import Total

NEIGHBOURS = 2  # kernels on either side, by attainable throughput


def largest_size(source: MeasuredSource) -> int:
    """Return the largest matrix size at which a GPU's kernels were timed."""
    return int(fastest(source)["n"].max())


def standing(
    source: MeasuredSource,
    counted: Mapping[Product, Mapping[str, Total]],
    also: Collection[str] = (),
) -> pd.DataFrame:
    """Return one row per kernel on a GPU's roofline: those of `counted`, neighbours, and `also`.

    `counted` has the totals of memory accesses by operation of each launch, all at one size of the
    GPU's timed kernels. Columns: variant, block_size, flop_per_byte_of_sectors, bound,
    bound_flop_per_s (attainable throughput), kernel_s, kernel_flop_per_s and share_of_bound (NaN if
    not timed), is_own (whether in `counted`). Rows are sorted by attainable throughput; libraries,
    which have no counts, come last.
    """
    rates = rates_of(ceilings_table([source]), source.label)
    sizes = {product.shape.n for product in counted}
    cells = fastest(source)
    cells = cells[cells["n"].isin(sizes) & cells["variant"].isin(VARIANTS)].to_dict("records")
    launches = {product: _launch(product, totals) for product, totals in counted.items()}
    new = [product.row() | {"kernel_s": float("nan")} for product in counted]
    for cell in cells:
        product = product_of(cell)
        if product.has_theory:
            launches[product] = _launch(product, predict(product), predict(product, merged=True))
    catalog = next(iter(counted)).catalog
    placed_cells = [placed(cell, rates, launches, {}, catalog) for cell in (*new, *cells)]
    rows = pd.DataFrame(placed_cells)
    rows["bound_flop_per_s"] = 2.0 * rows["n"].astype(float) ** 3 / rows["bound_s"]
    rows["is_own"] = [True] * len(new) + [False] * len(cells)
    libraries = rows["variant"].isin(LIBRARIES)
    ranked = rows[~libraries].sort_values("bound_flop_per_s", ascending=False, kind="stable")
    ranked = ranked.reset_index(drop=True)
    own_ranks = ranked.index[ranked["is_own"]]
    near = [
        name in also or any(abs(rank - other) <= NEIGHBOURS for other in own_ranks)
        for rank, name in enumerate(ranked["variant"])
    ]
    shown = pd.concat([ranked[near], rows[libraries]], ignore_index=True)
    return shown.assign(block_size=shown["block_size"].astype(float))


def _launch(
    product: Product, totals: Mapping[str, Total], merged: Mapping[str, Total] | None = None
) -> Launch:
    build = build_for(product)
    assert build is not None  # a library has no counts
    return Launch(build.kind, quantities(totals), quantities(merged or totals))
