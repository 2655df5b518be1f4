"""Sentences of the page's essay that depend on the data, tested on the tables by other code."""

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

Check = Callable[["Tables", str, re.Match[str]], Any]


class Tables:
    """The rows of a folder's tables that have given values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, **equal: object) -> pd.DataFrame:
        frame = pd.read_csv(self.folder / f"{name}.csv")
        for column, value in equal.items():
            frame = frame[frame[column] == value]
        return frame


def _answer(t: Tables, gpu: str) -> Any:
    return t("speedups", source=gpu, is_answer=True).iloc[0]


def _strict(t: Tables, gpu: str) -> Any:
    rows = t("choices", gpu=gpu, kernels="strict FP32", host_memory="pageable", cpu_baseline="best")
    return rows.iloc[0]


def _even(t: Tables, gpu: str) -> Any:
    return t("break_even", gpu=gpu, is_answer=True).iloc[0]


def _is_faster_from(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    """At every measured size from the break-even size, the least GPU time is below the CPU's."""
    even, cells = _even(t, gpu), t("summary", series="sizes")
    libraries = ("cublas_sgemm", "cublas_default")
    on_gpu = cells[(cells["gpu"] == gpu) & (cells["host_memory"] == even["host_memory"])]
    on_gpu = on_gpu[~on_gpu["variant"].isin(libraries)]
    on_cpu = cells[(cells["recording"] == even["recording"]) & (cells["device"] == "cpu")]
    both = [side.groupby("n")["total_s"].min() for side in (on_gpu, on_cpu)]
    sizes = [n for n in both[0].index.intersection(both[1].index) if n >= even["n"]]
    return bool((both[0][sizes] < both[1][sizes]).all())


def _more_than_b(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    rows = t("speedups", source=gpu, baseline="source-naive", quantity="kernel", variant="block")
    return bool((rows["speedup_low"] > rows["block_size"]).any())


def _less_than_b(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    row = t("ladder_speedups", gpu=gpu, baseline="previous", variant="block").iloc[0]
    return bool(1 < row["speedup"] < row["block_size"])


def _copies_are_long(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    rows = t("end_to_end_modes", gpu=gpu, variant="sgemm_tensor_pieces").dropna(subset="over_floor")
    return bool(rows.sort_values("m")["over_floor"].iloc[-1] <= 1.25)


def _models(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    test = {"source": gpu, "kernels": "modelled"}
    best = t("model_comparison", **test).set_index("model")["left_out_log_rms"].idxmin()
    errors = t("model_tests", **test, test="leave-one-variant-out").set_index("model")["log_rms"]
    smaller = set(errors.index[errors < errors[best]])
    return smaller == set(re.findall(r"M\d", match[1]))


def _claims(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    verdicts = list(t("claim_verdicts", gpu=gpu)["verdict"])
    words = ("holds", "does not hold", "undecided")
    return [int(n) for n in match.groups()] == [verdicts.count(word) for word in words]


def _t_interval(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    logs = np.log(t("answer_sessions", gpu=gpu)["speedup"])
    ends = stats.t.interval(0.95, len(logs) - 1, logs.mean(), stats.sem(logs))
    return [float(end) for end in match.groups()] == [float(f"{np.exp(end):.3g}") for end in ends]


def _step(variant: str, verdict: str) -> Check:
    rows = {"baseline": "previous", "variant": variant, "verdict": verdict}
    return lambda t, gpu, match: len(t("ladder_speedups", gpu=gpu, **rows)) == 1


def _interpolation(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    rows = t("model_tests", source=gpu, kernels="all", test="size held out").set_index("model")
    best = t("model_comparison", source=gpu, kernels="all").set_index("model")["left_out_log_rms"]
    return bool(rows.at["interpolation", "log_rms"] < rows.at[best.idxmin(), "log_rms"])


def _mostly_untuned(t: Tables, gpu: str, match: re.Match[str]) -> bool:
    rows = t("speedups", source=gpu, baseline="cpu_naive")
    top = rows[rows["n"] == rows["n"].max()].sort_values("speedup").iloc[-1]
    cell = {name: top[name] for name in ("n", "variant", "host_memory")}
    over_best = t("speedups", source=gpu, baseline="cpu_best", **cell)["speedup"].max()
    return bool(top["speedup"] / over_best > over_best)


STATEMENTS: dict[str, Check] = {
    r"best choice At N": lambda t, gpu, match: (
        _answer(t, gpu)["speedup"] > _strict(t, gpu)["speedup"]
    ),
    r"with the best choice, \w+ memory, for N ≥ \d+": _is_faster_from,
    r"which is faster is undecided": lambda t, gpu, match: (
        t("answers", gpu=gpu, role="fastest").iloc[0]["verdict"] == "undecided"
    ),
    r"The interval contains 1\.": lambda t, gpu, match: (
        _answer(t, gpu)["speedup_low"] <= 1 <= _answer(t, gpu)["speedup_high"]
    ),
    r"give less than B over coalesced accesses": _less_than_b,
    r"No value of ρ gives the speedups of tiles": _more_than_b,
    r"The link limits large products": _copies_are_long,
    r"the error is smaller with ((?:M\d \([\d.]+\)[,.] ?)+)": _models,
    r"in focus, (\d+) hold, (\d+) do not, (\d+) are undecided": _claims,
    r"Student's t interval of its \d+ values by session is ([\d.]+)× to ([\d.]+)×": _t_interval,
    r"Not every step is faster": _step("outer_product_prefetch", "slower"),
    r"Bank conflicts are expensive": _step("tile_conflict_free", "faster"),
    r"interpolation between measured sizes is better": _interpolation,
    r"due to the untuned CPU program": _mostly_untuned,
    r"It is not exact: \S+(?: \(\S+ = \d+\))? reaches (\d+) %": lambda t, gpu, match: (
        int(match[1]) >= 100
    ),
}


def essay(page: str) -> str:
    """Return the text before the appendix, in one line."""
    page = page.partition("<main")[2].partition('id="explorer"')[0]
    page = re.sub(r"<(script|style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", " ", page)).replace("\u2060", "").replace("( ", "(")
    return re.sub(r"\s+([.,;:)])", r"\1", " ".join(text.split()))


def said(page: str) -> dict[str, re.Match[str]]:
    """Return the statements of the page by their pattern."""
    found = {pattern: re.search(pattern, essay(page)) for pattern in STATEMENTS}
    return {pattern: match for pattern, match in found.items() if match}


def faults(page: str, tables_dir: Path, gpu: str) -> Iterator[str]:
    """Yield the false statements of a page."""
    tables = Tables(tables_dir)
    for pattern, match in said(page).items():
        if not STATEMENTS[pattern](tables, gpu, match):
            yield match[0]
