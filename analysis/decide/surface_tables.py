"""The tables that predict products of any shape: surfaces, surface_nodes and batches.

`analysis.decide.surfaces` looks them up.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import stdtrit

from analysis.cpu.cells import candidates
from analysis.data.best import fastest
from analysis.data.cells import is_square
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, once_per_recording, with_gpu
from analysis.decide.curves import half_widths
from analysis.decide.surface_fits import LEAST_SHAPES, Fit, Measured, fit
from analysis.decide.surfaces import (
    CLASSES,
    IN,
    OUT,
    STREAMED,
    TERMS,
    Batch,
    Run,
    Surface,
    Surfaces,
)
from analysis.domain import CPU
from analysis.stats import between
from analysis.stats.estimates import CONFIDENCE, FloatArray, Groups
from kernels.catalog.entries import CONTEXT, VARIANTS
from kernels.catalog.locations import LOCATIONS
from measurement.recording.recording import KERNEL

_EDGES = ["m", "n", "k"]
# Start of the fit: logarithms of times in s (issue, alone, latency), then duplex and overlap.
_START = (math.log(2e-5), math.log(1e-5), math.log(3e-6), 0.5, 0.5)
_WEIGHT_OF_COPIES = 0.1  # in the fit of batches, because copies alone are issued faster


def surface_tables(sources: Sequence[MeasuredSource]) -> dict[str, pd.DataFrame]:
    """Return the tables surfaces, surface_nodes and batches.

    A surface belongs to a kernel (blank host_memory), to the runs of a variant at one location, or
    to a baseline of the CPU. Variants have one block size and were measured at `LEAST_SHAPES`
    shapes. The nodes of a CPU's surface name the fastest implementation at that shape.
    """
    surfaces: list[dict[str, Any]] = []
    nodes: list[pd.DataFrame] = []
    batches: list[dict[str, Any]] = []
    for source, cells in once_per_recording((one, _usable(one)) for one in sources):
        of_source = [*_on_cpu(source, cells)]
        if source.device:
            on_gpu = [*_on_gpu(source, cells)]
            of_source += on_gpu
            batches += _batches(source, on_gpu)
        for one in of_source:
            surfaces.append(one.row())
            nodes.append(one.nodes())
    return {
        "surfaces": from_rows("surfaces", surfaces),
        "surface_nodes": stacked("surface_nodes", nodes),
        "batches": from_rows("batches", batches),
    }


def surfaces_of(sources: Sequence[MeasuredSource]) -> Surfaces:
    """Return the surfaces fitted to recordings, without writing tables."""
    frames = surface_tables(sources)
    filled = {name: frame.astype(object).where(frame.notna(), "") for name, frame in frames.items()}
    return Surfaces({name: frame.to_dict("records") for name, frame in filled.items()})


def unseen_sessions_table(sources: Sequence[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU and location: its last session, predicted from the other sessions.

    cells: runs of that session that surfaces predict. inside_share: share of them inside their
    prediction intervals. median_error: median of |log(predicted/measured)|.
    """
    frames = []
    for source in with_gpu(sources):
        if errors := list(_unseen(source)):
            by_location = pd.concat(errors).groupby("host_memory", as_index=False)
            columns = {"cells": ("inside", "count"), "inside_share": ("inside", "mean")}
            table = by_location.agg(**columns, median_error=("error", "median"))
            frames.append(table.assign(recording=source.recording_id, gpu=source.label))
    return stacked("unseen_sessions", frames)


def _unseen(source: MeasuredSource) -> Iterator[pd.DataFrame]:
    """Yield log errors of the last of several sessions, by variant and location."""
    *others, last = sorted(source.recording.samples["session"].unique())
    runs = _only(source, [last]).placed.summary()
    runs = runs[(runs["dtype"] == "float32") & (runs["batch"] == 1)]
    for one in surfaces_of([_only(source, others)]).on_gpu(source.label) if others else ():
        for location in one.runs:
            rows = runs[(runs["variant"] == one.variant) & (runs["host_memory"] == location)]
            time_s, half_width = one.predict(_shapes(rows), Run(location))
            error = np.abs(np.log(time_s / rows["total_s"]))
            inside = error <= half_width
            yield pd.DataFrame({"host_memory": location, "error": error, "inside": inside})


def _only(source: MeasuredSource, sessions: Sequence[int]) -> MeasuredSource:
    """Return a GPU with some of its sessions, without batches and CPU."""
    recording = source.recording
    samples, kernels = (
        rows[rows["session"].isin(sessions) & (rows["device"] == source.device)]
        for rows in (recording.samples, recording.kernels)
    )
    none = recording.throughput[:0]
    chosen = replace(recording, samples=samples, kernels=kernels, throughput=none)
    return replace(source, recording=chosen)


@dataclass(frozen=True)
class _Named:
    """A fitted surface with the columns that name it in tables, and the cells at its nodes."""

    names: dict[str, Any]
    fitted: Fit
    cells: pd.DataFrame

    @property
    def name(self) -> str:
        """The name of the surface in the tables."""
        return " ".join(str(name) for name in self.names.values())

    def row(self) -> dict[str, Any]:
        """Return the row of the table surfaces."""
        one = self.fitted.surface
        kept = (
            "power",
            "multiprocessors",
            "octaves",
            "size_share",
            "noise",
            "session_share",
            "session_s",
        )
        row = self.names | {name: getattr(one, name) for name in kept}
        row |= dict(zip(TERMS, one.coefficients, strict=True))
        row |= {f"{name}_error": one.errors[name] for name in CLASSES}
        median_error = float(np.median(np.abs(self.fitted.errors)))
        return row | {"surface": self.name, "shapes": len(one.nodes), "median_error": median_error}

    def nodes(self) -> pd.DataFrame:
        """Return the rows of the table surface_nodes."""
        named = self.cells[[*_EDGES, "threads"]].assign(surface=self.name)
        named["variant"] = self.cells["variant"].where(self.cells["threads"].notna())
        return named.assign(weight=self.fitted.surface.weights)


def _usable(source: MeasuredSource) -> pd.DataFrame:
    """Return the cells of float32 products, at all locations; held-out sizes are excluded."""
    cells = source.cells
    if len(source.placed.rows):
        placed = source.placed.summary()
        others = placed[~placed["host_memory"].isin(cells["host_memory"])]
        cells = pd.concat([cells, others], ignore_index=True)
    held_out = is_square(cells) & cells["n"].isin(source.holdout_sizes)
    plain = (cells["dtype"] == "float32") & (cells["batch"] == 1) & cells["total_s"].notna()
    return cells[plain & ~held_out & ~cells["variant"].isin(CONTEXT)]


def _shapes(cells: pd.DataFrame) -> FloatArray:
    return cells[_EDGES].to_numpy(dtype=float)


def _on_cpu(source: MeasuredSource, cells: pd.DataFrame) -> Iterator[_Named]:
    for baseline, rows in candidates(cells).items():
        best = fastest(rows, "total_s", _EDGES)
        if len(best) >= LEAST_SHAPES:
            fitted = fit(Measured.of(_shapes(best), best["total_s"].to_numpy(dtype=float)))
            names = {"recording": source.recording_id, "cpu_baseline": baseline}
            yield _Named(names, _of_sessions(fitted, best, between.ON_CPU), best)


def _on_gpu(source: MeasuredSource, cells: pd.DataFrame) -> Iterator[_Named]:
    on_gpu = cells[cells["device"] != CPU]
    for variant, rows in on_gpu[on_gpu["variant"].isin(VARIANTS)].groupby("variant"):
        kernels = rows[rows["host_memory"] == source.memory("kernel")]
        kernels = kernels[kernels["kernel_s"].notna()]
        is_single = rows["block_size"].nunique(dropna=False) == 1
        if is_single and VARIANTS[variant].shapes == "single" and len(kernels) >= LEAST_SHAPES:
            names = {"recording": source.recording_id, "gpu": source.label, "variant": variant}
            yield from _of_variant(names, kernels, rows, source.gpu["multiprocessors"])


def _of_variant(
    names: dict[str, Any], kernels: pd.DataFrame, rows: pd.DataFrame, multiprocessors: int
) -> Iterator[_Named]:
    """Yield the surface of a variant's kernel, and those of its runs at each location."""
    kernel_s = kernels["kernel_s"].to_numpy(dtype=float)
    kernel = fit(Measured.of(_shapes(kernels), kernel_s, multiprocessors))
    yield _Named(names, _of_sessions(kernel, kernels, between.KERNEL), kernels)
    left_out_s = pd.Series(kernel_s * np.exp(kernel.errors), _index(kernels))
    for location, runs in rows.groupby("host_memory"):
        if len(runs) < LEAST_SHAPES or location not in LOCATIONS:
            continue
        shapes, time_s = _shapes(runs), runs["total_s"].to_numpy(dtype=float)
        inside_s = kernel.surface.time_s(shapes)
        left_out = left_out_s.reindex(_index(runs)).to_numpy(dtype=float)
        left_out = np.where(np.isnan(left_out), inside_s, left_out)
        fitted = fit(Measured(shapes, time_s, inside_s, left_out, str(location)))
        fitted = _of_sessions(fitted, runs, between.kind_of(str(location)))
        yield _Named({**names, "host_memory": location}, fitted, runs)


def _index(cells: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(cells[_EDGES].astype(int))


def _of_sessions(fitted: Fit, cells: pd.DataFrame, kind: str) -> Fit:
    """Return a fit that includes the variation from the fitted sessions to a new one.

    The standard deviations are those of a kind of time in `analysis.stats.between`.
    """
    model = between.KNOWN[kind]
    factor = float(stdtrit(model.freedom, (1 + CONFIDENCE) / 2))
    factor *= float(np.sqrt(1 + 1 / cells["sessions"].astype(float).max()))
    varied = replace(
        fitted.surface,
        session_share=factor * model.relative,
        session_s=factor * model.absolute_s,
    )
    return replace(fitted, surface=varied)


def _batches(source: MeasuredSource, surfaces: Sequence[_Named]) -> Iterator[dict[str, Any]]:
    """Yield a row for each variant, with parameters fitted to its batches of several products.

    The half-widths come from leave-one-out errors, as those of curves do.
    """
    pinned = [s.fitted.surface for s in surfaces if s.names.get("host_memory") == STREAMED]
    if not pinned or source.recording.throughput.empty:
        return
    batches = _measured_batches(source, pinned[0])
    of_variant = {
        name: rows for name, rows in batches.groupby("variant") if len(rows) > len(_START)
    }
    errors = [
        np.array([_left_out(rows, row) for row in rows.index]) for rows in of_variant.values()
    ]
    for (name, rows), half_width in zip(of_variant.items(), half_widths(errors), strict=True):
        names = {"recording": source.recording_id, "gpu": source.label, "variant": name}
        fitted = replace(_fitted(rows), half_width=half_width)
        yield names | {"batches": len(rows)} | asdict(fitted)


def _measured_batches(source: MeasuredSource, pinned: Surface) -> pd.DataFrame:
    """Return one row per batch of several products from pinned memory, with its medians.

    copies_s, run_s: seconds per product after the first, which takes one run. in_s, out_s: the
    copies of a product without latency, at the bandwidths of `pinned`. kernel_s: its kernel.
    """
    measured = source.own(source.recording.throughput)
    measured = measured[measured["products"] > 1]
    groups = Groups.of(measured, [*KERNEL, "streams", "products", "same_a"])
    batches = groups.keys
    for name in ("copies_s", "run_s"):
        batches[name] = groups.medians(measured[name])[0]
    runs = source.cells[source.cells["host_memory"] == STREAMED]
    batches = batches.merge(runs[[*KERNEL, "total_s", "kernel_s"]], on=KERNEL)
    batches = batches.dropna(subset=["total_s", "kernel_s"])
    same, other = (
        Run(STREAMED, independent=independent).moved(_shapes(batches))
        for independent in (False, True)
    )
    into = np.where(batches["same_a"].astype(bool), same[0], other[0])
    more, copies_s = batches["products"] - 1, batches["total_s"] - batches["kernel_s"]
    return batches.assign(
        in_s=into * pinned.coefficients[IN],
        out_s=same[1] * pinned.coefficients[OUT],
        copies_s=((batches["copies_s"] - copies_s) / more).clip(lower=1e-9),
        run_s=((batches["run_s"] - batches["total_s"]) / more).clip(lower=1e-9),
    )


def _fitted(rows: pd.DataFrame) -> Batch:
    """Return the batch parameters that minimise the squared log errors of runs and of copies.

    The errors of copies have a smaller weight.
    """

    def batch(parameters: FloatArray) -> Batch:
        issue_s, alone_s, latency_s = map(float, np.exp(parameters[:3]))
        duplex, overlap = map(float, parameters[3:])
        return Batch(issue_s, alone_s, latency_s, duplex, overlap, 0.0)

    times = _times(rows)

    def errors(parameters: FloatArray) -> FloatArray:
        of_copies, of_runs = _errors(times, batch(parameters))
        return np.concatenate([_WEIGHT_OF_COPIES * of_copies, of_runs])

    bounds = ([-25.0] * 3 + [0.0] * 2, [0.0] * 3 + [1.0] * 2)
    return batch(least_squares(errors, _START, bounds=bounds).x)


def _times(rows: pd.DataFrame) -> FloatArray:
    """Return the columns of batches that `_errors` unpacks, as rows of an array."""
    return rows[["in_s", "out_s", "kernel_s", "streams", "copies_s", "run_s"]].to_numpy(float).T


def _errors(times: FloatArray, batch: Batch) -> tuple[FloatArray, FloatArray]:
    """Return log(predicted/measured) of copies and of runs."""
    in_s, out_s, kernel_s, streams, copies_s, run_s = times
    predicted_s = batch.product_s(in_s, out_s, kernel_s, streams)
    return np.log(batch.copies_s(in_s, out_s, streams) / copies_s), np.log(predicted_s / run_s)


def _left_out(rows: pd.DataFrame, row: int) -> float:
    """Return the error of one batch's run, predicted by a fit to the other batches."""
    return float(_errors(_times(rows.loc[[row]]), _fitted(rows.drop(index=row)))[1][0])
