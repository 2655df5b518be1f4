"""Write every figure of the report as SVG, and a list of them with titles and captions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis import plots, style, svg
from analysis.cards_report import of_cards
from analysis.cpu_figures import of_cpu, split_figure
from analysis.data.published import SOURCE as PUBLISHED
from analysis.data.recordings import CPU
from analysis.decision_figures import of_break_even, of_copies
from analysis.drawings import INTERVALS, Card, Drawing, Host, samples_text, threads_text
from analysis.headline_figure import of_headline
from analysis.kernel_figures import of_kernels
from analysis.model_figures import of_models
from analysis.results import (
    Results,
    Subject,
    anchors,
    compared_memory,
    comparison_order,
    hosts_of,
    is_library,
    order_cells,
    subjects,
    without_swept_naive,
)
from measurement.files import write_atomic

INDEX = "figures.json"
# Where the published rates stand: table, prefix of the columns, is CPU, variant.
_PUBLISHED_COLUMNS = (
    ("table2", "cpu", True, "naive"),
    ("table2", "gpu", False, "naive"),
    ("table4", "buffered_column", False, "buffered_column"),
    ("table4", "buffered_row", False, "buffered_row"),
    ("table5", "block_", False, "block"),
    ("table6", "block_unroll4_", False, "block_unroll4"),
)


def write_figures(tables_dir: Path | str, out_dir: Path | str) -> None:
    """Draw every figure from the tables in `tables_dir` into `out_dir`, and index them there.

    ``figures.json`` lists name, kind, source, title, caption in the order of the report. SVG files
    that are no longer among them are removed. Raises ResultsError if a table is missing.
    """
    results, out = Results(tables_dir), Path(out_dir)
    with style.theme():
        drawn = list(_drawings(results))
        for number, drawing in enumerate(drawn, start=1):
            said = (drawing.title, drawing.caption)
            text = svg.render(drawing.figure, drawing.name, f"f{number}", *said)
            write_atomic(out / f"{drawing.name}.svg", text)
    fields = ("name", "kind", "source", "title", "caption")
    index = [{field: getattr(drawing, field) for field in fields} for drawing in drawn]
    write_atomic(out / INDEX, json.dumps(index, indent=2, ensure_ascii=False) + "\n")
    for old in set(out.glob("*.svg")) - {out / f"{drawing.name}.svg" for drawing in drawn}:
        old.unlink()


def _drawings(results: Results) -> Iterator[Drawing]:
    summary = order_cells(results)
    threads = summary["threads"].fillna(0).astype(int)
    summary = summary.assign(is_cpu=summary["device"] == CPU, threads=threads)
    measured = subjects(results)
    names = anchors([subject.label for subject in measured])
    gpus = [subject for subject in measured if subject.is_gpu]
    hosts = hosts_of(measured)
    for subject in measured:
        rows = _cells(summary, subject)
        if rows.empty:
            continue
        yield from of_headline(results, subject, names[subject.label], rows)
        if subject.is_gpu:
            card = Card(subject, names[subject.label])
            yield from _of_gpu(results, card, rows)
            yield from of_kernels(results, card)
            yield from of_break_even(results, card)
        if subject is hosts[subject.recording]:
            host = Host(subject, names[subject.label])
            yield from of_cpu(results, host, rows[rows["is_cpu"]])
    if gpus:
        yield from _figure_2(results, gpus, summary)
    yield from split_figure(results, gpus)
    yield from of_models(results, PUBLISHED, "published", "published Tables 3–5")
    for subject in gpus:
        yield from of_models(results, subject.label, names[subject.label], subject.marked_title)
    titles = {gpu.label: gpu.marked_title for gpu in gpus}
    yield from of_copies(results, titles)
    yield from of_cards(results, titles)
    yield from _of_trust(results, titles)


def _cells(summary: pd.DataFrame, subject: Subject) -> pd.DataFrame:
    """Return the rows of one GPU and of its host's CPU, or those of a host without GPU."""
    own_cpu = (summary["recording"] == subject.recording) & summary["is_cpu"]
    if not subject.is_gpu:
        return summary[own_cpu]
    return summary[own_cpu | (~summary["is_cpu"] & (summary["gpu"] == subject.label))]


def _of_gpu(results: Results, card: Card, rows: pd.DataFrame) -> Iterator[Drawing]:
    subject = card.subject
    gpu = rows[~rows["is_cpu"]]
    if gpu.empty:
        return
    n = comparison_order(gpu)
    memory = compared_memory(gpu)
    compared = without_swept_naive(rows[rows["is_cpu"] | (rows["host_memory"] == memory)])
    compared = compared[_of_fair_cpu(compared) | _of_source_or_fastest(compared)]

    published, at_n = _published_rates(results, n), without_swept_naive(rows[rows["n"] == n])
    on_cpu = at_n[at_n["is_cpu"]]
    host = "" if on_cpu.empty else f" and {threads_text(on_cpu)} of its host ({subject.cpu_model})"
    crosses = "" if published.empty else " Crosses: the published GTX 770."
    yield card.drawing(
        "figure1",
        f"Figure 1. All variants at N = {n}",
        f"Rate of every variant at N = {n}, each with its best block size (naive: B = 32), on "
        f"{subject.marked_title}{host}.{crosses} {INTERVALS} {samples_text(at_n)}",
        plots.variants_at_size(at_n, published, n),
    )
    yield card.drawing(
        "rate-size",
        "Rate over the matrix order",
        f"Rate over N on {subject.marked_title}, {memory} host memory, of source V's variants and "
        "the fastest other, each with its best block size at that N; of the host's CPU the naive "
        "loop and the fastest variant, on one thread (dashed) and on all (dash-dotted). "
        f"{INTERVALS} {samples_text(compared)}",
        plots.rate_over_size(compared),
    )
    blocks = gpu[(gpu["n"] == n) & (gpu["host_memory"] == memory)]
    blocks = blocks[blocks["variant"].isin(style.SOURCE_V)]
    if blocks["block_size"].notna().any():
        yield card.drawing(
            "rate-block",
            "Rate over the block size",
            f"Rate of source V's variants over the block size B at N = {n} on "
            f"{subject.marked_title}, {memory} host memory. {INTERVALS} {samples_text(blocks)}",
            plots.rate_over_block(blocks),
        )
    split = _fastest_kernel_cells(gpu[~is_library(gpu)], n)
    if not split.empty:
        first = split.iloc[0]
        block = "" if pd.isna(first["block_size"]) else f", B = {int(first['block_size'])}"
        yield card.drawing(
            "split",
            "Where the time goes",
            f"Parts of the transfer-inclusive time of {first['variant']}{block} on "
            f"{subject.marked_title}, as shares of the sum of their medians; above each bar the "
            f"median total in milliseconds. {samples_text(split)}",
            plots.split_of_total(split),
        )


def _of_fair_cpu(cells: pd.DataFrame) -> pd.Series:
    """Tell which cells are of the CPU's naive loop, or of what is fastest on one thread or all.

    At the largest order.
    """
    chosen = cells["is_cpu"] & (cells["variant"] == "naive")
    for _, own in cells[cells["is_cpu"]].groupby("threads"):
        largest = own[own["n"] == own["n"].max()]
        fastest = largest.loc[largest["total_s"].idxmin()]
        same = (cells["variant"] == fastest["variant"]) & (cells["threads"] == fastest["threads"])
        chosen |= cells["is_cpu"] & same
    return chosen


def _of_source_or_fastest(cells: pd.DataFrame) -> pd.Series:
    """Tell which cells are of the source's variants, or of what is fastest at the largest order."""
    others = cells[~cells["is_cpu"] & ~cells["variant"].isin(style.SOURCE_V)]
    largest = others[others["n"] == others["n"].max()]
    fastest = set(largest.loc[largest["total_s"] == largest["total_s"].min(), "variant"])
    return cells["variant"].isin({*style.SOURCE_V, *fastest})


def _figure_2(results: Results, gpus: list[Subject], summary: pd.DataFrame) -> Iterator[Drawing]:
    """Draw the source's Figure 2, of its own variants."""
    labels = {subject.label: subject.marked_title for subject in gpus}
    rows = summary[summary["gpu"].isin(labels) & summary["variant"].isin(style.SOURCE_V)]
    if rows.empty:
        return
    n = comparison_order(rows)
    rates = _published_rates(results, n)
    cards = [] if rates.empty else [("published GTX 770", float(rates["rate"].max()))]
    yield Drawing(
        "figure2",
        "figure2",
        "",
        f"Figure 2. The source's fastest variant at N = {n} on each card",
        f"Rate of the fastest of the source's variants at N = {n} on each card: "
        f"{', '.join(labels.values())}. The "
        "band is what the source's text says of its own Figure 2, 100–300 GFLOP/s for most cards; "
        f"its values are lost. {INTERVALS}",
        plots.best_over_cards(rows.assign(gpu=rows["gpu"].map(labels)), cards, n),
    )


def _of_trust(results: Results, titles: dict[str, str]) -> Iterator[Drawing]:
    """Draw what links carry and what single launches add, each for all cards that it is known of.

    `titles` are those of the GPUs by label.
    """
    ceilings, batches = results.frame("ceilings"), results.frame("batches")
    links = ceilings[ceilings["quantity"].isin(["h2d_bytes_per_s", "d2h_bytes_per_s"])]
    links = links[links["gpu"].isin(titles)]
    single = batches[batches["gpu"].isin(titles) & batches["ratio"].notna()]
    if not links.empty:
        yield Drawing(
            "links",
            "links",
            "",
            "Bandwidth between host and card by the size of the copy",
            "Rate of single copies between host and card by their size, from and to pinned and "
            f"pageable memory; the shading is the interval. {_cards(links, titles)}",
            plots.link_bandwidth(links.assign(gpu=links["gpu"].map(titles))),
        )
    if not single.empty:
        yield Drawing(
            "launches",
            "launches",
            "",
            "What timing single launches adds to short kernels",
            "Median time of one launch, by events around it, over that of the same kernel launched "
            "back to back, by the latter; at 1 gaps between launches and the resolution of events "
            f"add nothing. {INTERVALS} {_cards(single, titles)}",
            plots.launch_overhead(single.assign(gpu=single["gpu"].map(titles))),
        )


def _cards(rows: pd.DataFrame, titles: dict[str, str]) -> str:
    return f"Cards: {', '.join(titles[card] for card in dict.fromkeys(rows['gpu']))}."


def _published_rates(results: Results, n: int) -> pd.DataFrame:
    """Return the best published rate at order `n` of each variant: variant, is_cpu, GFLOP/s."""
    times: dict[tuple[bool, str], list[float]] = {}
    for table, prefix, is_cpu, variant in _PUBLISHED_COLUMNS:
        frame = results.frame(table)
        row = frame[(frame["source"] == PUBLISHED) & (frame["n"] == n)]
        columns = [c for c in frame if c.startswith(prefix) and c.endswith("_time_s")]
        values = row[columns].to_numpy(dtype=float).ravel()
        times.setdefault((is_cpu, variant), []).extend(v for v in values if v > 0)
    rows = [(v, c, 2e-9 * n**3 / min(t)) for (c, v), t in times.items() if t]
    return pd.DataFrame(rows, columns=["variant", "is_cpu", "rate"])


def _fastest_kernel_cells(gpu: pd.DataFrame, n: int) -> pd.DataFrame:
    """Return all cells of the variant and block size whose kernel is the fastest at order `n`."""
    parts = gpu.fillna({"host_s": 0}).dropna(subset=[*style.PARTS, "total_s"])
    at_n = parts[parts["n"] == n]
    if at_n.empty:
        return at_n
    best = at_n.loc[at_n["kernel_s"].idxmin()]
    same = parts["variant"] == best["variant"]
    if not pd.isna(best["block_size"]):
        same &= parts["block_size"] == best["block_size"]
    return parts[same]
