"""Sentences of the report that name an extreme, each with the query that proves it.

Each of `WORDS` in a sentence must be part of the text of an entry of `LISTED`. The proof of an
entry is a query over the tables, which `faults` evaluates on a page. For a definition, the proof is
the part of the project that makes it true: a module, and a name if any. Entries without an extreme
are conclusions that depend on the recordings. Queries read the tables as text and share no code
with the page.
"""

import csv
import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path

WORDS = re.compile(r"(?<![-\w])(fastest|best|all|none|only|closest|always)(?![-\w])", re.IGNORECASE)
_BLOCKS = (
    "p|h[1-6]|li|d[td]|t[dhr]|section|div|fig\\w+|summary|option|label|button|caption|table|ul"
)
_PLACE = re.compile("⟦(\\w+) (\\d+) (\\w+)⟧")
_VERDICTS = {  # the value and its verdict, by table
    "answers": [("speedup", "speedup_verdict")],
    "ladder": [("speedup", "verdict")],
    "ladder_summary": [("speedup", "verdict")],
    "cpu_ladder": [("speedup", "verdict")],
    "end_to_end_modes": [("speedup", "verdict")],
}
Row = dict[str, str]


class Tables:
    """The tables of a report, and the rows that a sentence cites."""

    def __init__(self, folder: Path) -> None:
        """Read all tables of a folder."""
        self.rows = {
            path.stem: list(csv.DictReader(path.open(encoding="utf-8", newline="")))
            for path in folder.glob("*.csv")
        }
        self.cited: list[tuple[str, int, str]] = []

    def where(self, table: str, **equal: str) -> list[Row]:
        """Return the rows with these values."""
        return [row for row in self.rows[table] if all(row[k] == v for k, v in equal.items())]

    def cells(self, **equal: str) -> list[Row]:
        """Return the float32 products of two square matrices in the table summary."""
        rows = self.where("summary", dtype="float32", batch="1", **equal)
        return [row for row in rows if row["m"] == row["n"] == row["k"]]

    def on_gpu(self, gpu: str, **equal: str) -> list[Row]:
        """Return `cells` of one GPU."""
        return [row for row in self.cells(gpu=gpu, **equal) if row["device"] != "cpu"]

    def on_cpu(self, recording: str, **equal: str) -> list[Row]:
        """Return `cells` of the CPU of one recording."""
        return self.cells(recording=recording, device="cpu", **equal)

    def shown(self, table: str, **equal: str) -> list[Row]:
        """Return the rows of a table that the sentence cites, else those with these values."""
        cited = [self.rows[table][row] for name, row, _ in self.cited if name == table]
        return cited or self.where(table, **equal)

    def citations(self, table: str) -> list[Row]:
        """Return the rows of a table that the sentence cites; at least one."""
        found = dict.fromkeys(row for name, row, _ in self.cited if name == table)
        assert found, f"no row of {table} is cited"
        return [self.rows[table][row] for row in found]


def _least(rows: list[Row], column: str) -> float:
    return min(float(row[column]) for row in rows if row[column])


def _most(rows: list[Row], column: str) -> float:
    return max(float(row[column]) for row in rows if row[column])


def _same(row: Row, column: str, value: float) -> bool:
    return abs(float(row[column]) / value - 1) < 1e-4


# ---- Queries: each returns whether the sentence is true.


def fastest_run(tables: Tables) -> bool:
    """answers: total_s is the least in summary at the largest of `study: sizes:` of the device."""
    for a in tables.rows["answers"]:
        on, device = (tables.on_gpu, a["gpu"]) if a["gpu"] else (tables.on_cpu, a["recording"])
        every = on(device, series="sizes")
        least = _least([row for row in every if row["n"] == a["n"]], "total_s")
        if not _same(a, "total_s", least) or float(a["n"]) != _most(every, "n"):
            return False
    return True


def next_fastest(tables: Tables) -> bool:
    """answers: next_total_s is the least of all other variants, own_total_s of no library."""
    for a in tables.rows["answers"]:
        rows = tables.on_gpu(a["gpu"], n=a["n"])
        others = [row for row in rows if row["variant"] != a["variant"]]
        own = [row for row in rows if row["variant"] != "cublas_sgemm"]
        for column, found in (("next_total_s", others), ("own_total_s", own)):
            if a["gpu"] and a[column] and not _same(a, column, _least(found, "total_s")):
                return False
    return True


def over_fastest_cpu(tables: Tables) -> bool:
    """answers: speedup is the least total_s of the CPU over the named run's, at speedup_n."""
    for a in tables.citations("answers"):
        cpu = tables.on_cpu(a["recording"], n=a["speedup_n"])
        gpu = _least(tables.on_gpu(a["gpu"], n=a["speedup_n"]), "total_s")
        named = [row for row in cpu if row["variant"] == a["cpu_best_variant"]]
        least = _least(cpu, "total_s")
        if _least(named, "total_s") != least or not _same(a, "speedup", least / gpu):
            return False
    return True


def faster_from(tables: Tables) -> bool:
    """break_even: the GPU's least total_s is below the CPU's at all sizes from n, not before."""
    table = "answers" if any(name == "answers" for name, *_ in tables.cited) else "break_even"
    prefix = "break_even_" if table == "answers" else ""
    for row in tables.citations(table):
        gpu = tables.on_gpu(row["gpu"], host_memory=row[f"{prefix}host_memory"])
        cpu = tables.on_cpu(row["recording"])
        names = (f"{prefix}{name}" for name in ("location", "n", "least_n", "largest_n"))
        location, n, first, last = (row[name] for name in names)
        ends = {"below": 0.0, "above": float("inf")}
        crossing = ends[location] if location in ends else float(n)
        sizes = sorted({int(c["n"]) for c in cpu} & {int(c["n"]) for c in gpu})
        faster = [
            _least([c for c in gpu if c["n"] == str(size)], "total_s")
            < _least([c for c in cpu if c["n"] == str(size)], "total_s")
            for size in sizes
            if int(first) <= size <= int(last)
        ]
        shown = [size >= crossing for size in sizes if int(first) <= size <= int(last)]
        after = shown.index(True) if True in shown else len(shown)
        if not all(faster[after:]) or (after and faster[after - 1]):
            return False
    return True


def fastest_block(tables: Tables) -> bool:
    """ladder_summary, end_to_end_modes: least over block sizes, but for the source's launch."""
    for row in tables.rows["ladder_summary"]:
        cells = [c for c in tables.on_gpu(row["gpu"], n=row["n"]) if c["kernel_s"]]
        memory = "pinned" if any(c["host_memory"] == "pinned" for c in cells) else "pageable"
        cells = [c for c in cells if c["host_memory"] == memory]
        for variant, rate in (("variant", "kernel_flop_per_s"), ("after", "after_flop_per_s")):
            own = [c for c in cells if c["variant"] == row[variant]]
            source = variant == "after" and row["after"] == row["variant"]
            source = source or (row["variant"], row["block_size"]) == ("naive", "32")
            if own and not source:
                flop_per_s = 2 * float(row["n"]) ** 3 / _least(own, "kernel_s")
                if not _same(row, rate, flop_per_s):
                    return False
    for row in tables.rows["end_to_end_modes"]:
        equal = {name: row[name] for name in ("variant", "n", "host_memory")}
        own = tables.on_gpu(row["gpu"], **equal)
        if row["m"] == row["k"] and own and not _same(row, "total_s", _least(own, "total_s")):
            return False
    return True


def tiles_below_b(tables: Tables) -> bool:
    """ladder_summary: the speedup of block over the coalesced kernel is above 1 and below B."""
    return all(
        row["after"] == "naive_coalesced" and 1 < float(row["speedup"]) < float(row["block_size"])
        for row in tables.citations("ladder_summary")
        if row["variant"] == "block"
    )


def fastest_on_both(tables: Tables) -> bool:
    """gpu_comparison: the least time over the candidates timed alike on both GPUs."""
    key = ("variant", "block_size", "host_memory")
    for row in tables.shown("gpu_comparison", quantity="kernel"):
        if not row["ratio"]:
            continue
        sides = []
        for gpu in (row["gpu"], row["first"]):
            own = tables.on_gpu(gpu, n=row["n"], host_memory=row["host_memory"])
            sides.append({tuple(c[k] for k in key): c for c in own if c["kernel_s"]})
        both = [
            name
            for name in sides[0].keys() & sides[1].keys()
            if sides[0][name]["kernel_timing"] == sides[1][name]["kernel_timing"]
            or min(float(side[name]["kernel_s"]) for side in sides) >= 1e-3
        ]
        least = [_least([side[name] for name in both], "kernel_s") for side in sides]
        if len(both) != int(row["candidates"]) or not _same(row, "ratio", least[0] / least[1]):
            return False
    return True


def fastest_of_source(tables: Tables) -> bool:
    """figure2: the largest throughput at N = 2048 of the kernels of source V."""
    names = ("naive", "buffered_column", "buffered_row", "block")
    for row in tables.rows["figure2"]:
        cells = tables.on_gpu(row["gpu"], n=row["n"]) if row["gpu"] else []
        own = [c for c in cells if c["kernel_s"] and c["variant"].startswith(names)]
        own = [c for c in own if c["variant"] not in ("naive_coalesced", "block_padded")]
        if own and row["kernel_flop_per_s"]:
            flop_per_s = 2 * float(row["n"]) ** 3 / _least(own, "kernel_s")
            if not _same(row, "kernel_flop_per_s", flop_per_s):
                return False
    return True


def throughputs_follow(tables: Tables) -> bool:
    """audit_cells: rate_agrees if 2N³ over the printed time, with its rounding, is as printed."""
    for row in tables.rows["audit_cells"]:
        if row["printed_flop_per_s"]:
            printed, flop = float(row["printed_flop_per_s"]) / 1e9, 2e-9 * float(row["n"]) ** 3
            time_s, off_s = float(row["time_s"]), float(row["rounding_s"])
            unit = 0.5 * 10.0 ** -len(f"{printed:.6g}".partition(".")[2])
            low, high = flop / (time_s + off_s) - unit, flop / (time_s - off_s) + unit
            if (low <= printed <= high) != (row["rate_agrees"] == "True"):
                return False
    return True


_RANGE = ("source", "kernels", "from_n")


def interpolation_is_best(tables: Tables) -> bool:
    """model_tests: interpolation has the least error at held-out sizes of all models."""
    for row in tables.citations("model_tests"):
        rows = tables.where(
            "model_tests", source=row["source"], kernels=row["kernels"], test="size held out"
        )
        (line,) = (own for own in rows if own["model"] == "interpolation")
        if not _same(line, "log_rms", _least(rows, "log_rms")):
            return False
    return True


def fastest_kernel(tables: Tables) -> bool:
    """ladder_summary: the largest throughput of the GPU without libraries, of the cited kernel."""
    for row in tables.shown("ladder_summary", is_fastest="True", units="FP32"):
        own = tables.where("ladder_summary", gpu=row["gpu"], is_library="False")
        top = max(own, key=lambda each: float(each["kernel_flop_per_s"] or 0))
        if top["is_fastest"] != "True" or (tables.cited and row is not top):
            return False
    return True


def fastest_as_measured(tables: Tables) -> bool:
    """predictions: the marked rows have the least time, or predicted time, of their size."""
    for mark, column in (("is_fastest", "time_s"), ("is_predicted_fastest", "predicted_s")):
        for row in tables.where("predictions", **{mark: "True"}):
            same = {name: row[name] for name in ("gpu", "host_memory", "n", "is_library")}
            if not _same(row, column, _least(tables.where("predictions", **same), column)):
                return False
    return True


def best_throughput(tables: Tables) -> bool:
    """systems: best_flop_per_s is the largest throughput of the variant in summary."""
    for row in tables.rows["systems"]:
        equal = {"variant": row["variant"], "recording": row["recording"]}
        rate = "kernel_flop_per_s" if row["gpu"] else "flop_per_s"
        equal |= {"gpu": row["gpu"]} if row["gpu"] else {"device": "cpu"}
        own = tables.where("summary", **equal)
        own = [c for c in own if row["gpu"] == "" or c["device"] != "cpu"]
        if row["best_flop_per_s"] and not _same(row, "best_flop_per_s", _most(own, rate)):
            return False
    return True


def best_model(tables: Tables) -> bool:
    """model_comparison: over_best is the error over the least error of left-out sizes."""
    for row in tables.rows["model_comparison"]:
        same = {name: row[name] for name in ("source", "kernels")}
        every = tables.where("model_comparison", **same)
        best = min(every, key=lambda each: float(each["left_out_log_rms"] or "inf"))
        ratio = float(row["left_out_log_rms"] or "nan") / float(best["left_out_log_rms"])
        if row["over_best"] and not _same(row, "over_best", ratio):
            return False
    return True


def largest_effect(tables: Tables) -> bool:
    """model_effects: the largest share of its source, kernels and range of sizes."""
    return all(
        _same(
            row,
            "share",
            _most(tables.where("model_effects", **{k: row[k] for k in _RANGE}), "share"),
        )
        for row in tables.citations("model_effects")
    )


def fastest_on_one_thread(tables: Tables) -> bool:
    """summary: the largest flop_per_s of the host at this size on one thread."""
    return all(
        _same(row, "total_s", _least(tables.on_cpu(row["recording"], n=row["n"], threads="1"), t))
        for row in tables.citations("summary")
        for t in ("total_s",)
    )


def fastest_on_all_cores(tables: Tables) -> bool:
    """summary: the least total_s of the host at this size."""
    return all(
        _same(row, "total_s", _least(tables.on_cpu(row["recording"], n=row["n"]), "total_s"))
        for row in tables.citations("summary")
    )


def over_all_cores(tables: Tables) -> bool:
    """speedups: cpu_best_speedup is over the least total_s of the host at this size."""
    for row in tables.citations("speedups"):
        cells = tables.on_gpu(row["source"], n=row["n"], host_memory=row["host_memory"])
        key = ("variant", "block_size")
        (own,) = (cell for cell in cells if all(cell[k] == row[k] for k in key))
        least = _least(tables.on_cpu(own["recording"], n=row["n"]), "total_s")
        if not _same(row, "cpu_best_speedup", least / float(own["total_s"])):
            return False
    return True


def nothing_measured(tables: Tables) -> bool:
    """summary: no rows."""
    return not tables.rows["summary"]


def no_gpu_measured(tables: Tables) -> bool:
    """summary: rows of CPUs."""
    return all(row["device"] == "cpu" for row in tables.rows["summary"])


def not_timed(tables: Tables) -> bool:
    """checks: no failed configuration has a time in summary."""
    key = ["recording", "device", "variant", "dtype", "batch", "m", "n", "k", "block_size"]
    key += ["host_memory", "threads"]
    timed = {tuple(row[k] for k in key) for row in tables.rows["summary"]}
    failed = [row for row in tables.rows["checks"] if row["status"] != "passed"]
    return not any(tuple(row.get(k, "") for k in key) in timed for row in failed)


def between_measured(tables: Tables) -> bool:
    """break_even: n is between least_n and largest_n, else blank."""
    rows = [row for row in tables.rows["break_even"] if row["n"]]
    return all(float(r["least_n"]) <= float(r["n"]) <= float(r["largest_n"]) for r in rows)


def crossing_measured(tables: Tables) -> bool:
    """answers: the break-even size is a size between measured sizes."""
    return all(row["break_even_location"] == "measured" for row in tables.citations("answers"))


def conflicts_cost(tables: Tables) -> bool:
    """ladder_summary: the kernel without bank conflicts is faster than the one with them."""
    rows = tables.citations("ladder_summary")
    (free,) = (row for row in rows if row["variant"] == "tile_conflict_free")
    return free["verdict"] == "faster" and free["after"] == "tile_transposed_b"


def slower_step(tables: Tables) -> bool:
    """ladder_summary: the cited step is slower than the step before it."""
    return all(row["verdict"] == "slower" for row in tables.citations("ladder_summary"))


def link_limits(tables: Tables) -> bool:
    """end_to_end_modes: the run takes at most 1.25 times as long as its copies."""
    rows = tables.citations("end_to_end_modes")
    (row,) = (row for row in rows if row["variant"] == "sgemm_tensor_pieces")
    return float(row["total_s"]) <= 1.25 * float(row["copies_s"])


def pinned_matters(tables: Tables) -> bool:
    """summary: pageable memory takes longer than pinned memory by more than the kernel's time."""
    rows = {row["host_memory"]: row for row in tables.citations("summary")}
    pinned, pageable = rows["pinned"], rows["pageable"]
    return float(pageable["total_s"]) - float(pinned["total_s"]) > float(pinned["kernel_s"])


def untuned_cpu(tables: Tables) -> bool:
    """speedups: the fastest CPU program contributes more than half of the logarithm."""
    (row,) = tables.citations("speedups")
    return float(row["cpu_naive_speedup"]) > float(row["cpu_best_speedup"]) ** 2


Proof = Callable[[Tables], bool] | str
LISTED: dict[str, Proof] = {}


def _listed() -> Iterator[tuple[str, Proof]]:
    """Yield the entries of `sentences.txt`: a part of the sentence, and its proof."""
    path = Path(__file__).with_suffix(".txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            text, _, proof = line.partition(" | ")
            yield text, globals().get(proof.strip(), proof.strip())


def of_page(page: str) -> list[str]:
    """Return the sentences of a page with ⟦table row column⟧ before each value from a table."""
    page = re.sub(r"<(script|style|svg|form|noscript|tbody)\b.*?</\1>", "", page, flags=re.S)
    page = re.sub(r'<\w+ data-at="([^"]*)"[^>]*>([^<]*)</\w+>', r"⟦\1⟧\2", page)
    page = re.sub("⟦.*?⟧", lambda at: at[0].replace(" / ", "⟧⟦"), page)
    return _split(page)


def of_template(text: str) -> list[str]:
    """Return the sentences of a template, with … for each value."""
    text = re.sub(r"\{#.*?#\}", "", text, flags=re.S)
    text = re.sub(r"\{% (call )?set .*?%\}", "", text, flags=re.S)
    drawn = r"\{% call (?:table|pivot|figure|fold)\((?:[^\"]|\"[^\"]*\")*?\) %\}"
    text = re.sub(drawn, lambda c: " . ".join(re.findall('"([A-Z][^"]*)"', c[0])) + ". ", text)
    return _split(re.sub(r"\{\{.*?\}\}", "…", re.sub(r"\{%.*?%\}", "", text, flags=re.S)))


def _split(markup: str) -> list[str]:
    text = re.sub(rf"</?(?:{_BLOCKS})\b[^>]*>", ". ", markup)
    text = " ".join(html.unescape(re.sub("<[^>]*>", "", text)).split())
    return re.split(r"(?<=[.?!]) ", text)


def unlisted(sentences: list[str]) -> list[str]:
    """Return the sentences with one of `WORDS` outside the texts of `LISTED`."""
    plain = [re.sub("⟦.*?⟧", "", one) for one in sentences]
    return [one for one in plain if WORDS.search(_rest(one))]


def _rest(sentence: str) -> str:
    for text in LISTED:
        sentence = re.sub(_pattern(text), "", sentence)
    return sentence


def _pattern(text: str) -> str:
    """Return the pattern of an entry: … is any words, and = marks a whole sentence."""
    if text[0] == "=":
        return f"^{re.escape(text[1:])}[ .]*$"
    return re.escape(text).replace("…", ".*?")


def faults(page: str, folder: Path) -> list[str]:
    """Return one line per unlisted or false sentence of a page, and per wrong verdict."""
    tables, sentences = Tables(folder), of_page(page)
    found = [f"not listed: {one}" for one in unlisted(sentences)]
    for number, sentence in enumerate(sentences):
        plain = re.sub("⟦.*?⟧", "", sentence)
        around = "".join(sentences[max(number - 4, 0) : number + 4])  # of a heading or conclusion
        cited = _PLACE.findall(sentence) or _PLACE.findall(around)
        tables.cited = [(table, int(row), column) for table, row, column in cited]
        for text, proof in LISTED.items():
            if callable(proof) and re.search(_pattern(text), plain):
                try:
                    true = proof(tables)
                except (AssertionError, LookupError, ValueError) as error:
                    found.append(f"{proof.__name__}: {error!r}: {plain}")
                else:
                    found += [] if true else [f"{proof.__name__} is false: {plain}"]
    return list(dict.fromkeys(found + list(_wrong_verdicts(tables))))


def _wrong_verdicts(tables: Tables) -> Iterator[str]:
    for table, pairs in _VERDICTS.items():
        for number, row in enumerate(tables.rows[table]):
            for value, verdict in pairs:
                bounds = [row[f"{value}_{end}"] for end in ("low", "high")]
                if not row[value] or not row[verdict]:
                    continue
                low, high = map(float, bounds) if all(bounds) else (float("nan"),) * 2
                expected = "faster" if low > 1 else "slower" if high <= 1 else "undecided"
                if low != low:
                    expected = "no interval"
                if abs(low - 1) > 1e-5 and abs(high - 1) > 1e-5 and expected != row[verdict]:
                    yield f"{table} {number}: {row[verdict]}, recomputed {expected}"


LISTED |= dict(_listed())
