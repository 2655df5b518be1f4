"""What steps, ceilings and claims say, in sentences whose numbers are computed."""

from collections.abc import Iterator

import pandas as pd

from analysis.code_views import BOUND_NAMES
from analysis.findings import Findings, Sentence
from analysis.kernel_views import compared_kernel_memory, largest
from analysis.kernels.claims import DOES_NOT_HOLD, HOLDS
from analysis.kernels.ladder import DOES_NOT_PAY, PAYS
from analysis.results import (
    COUNT,
    GFLOPS,
    GIGABYTES,
    PERCENT,
    PLAIN,
    TIMES,
    Results,
    Subject,
    rows_of,
    subjects,
)
from analysis.wording import (
    NOT_MEASURED,
    STATED,
    UNDECIDED,
    Code,
    Part,
    cell,
    measured,
    size,
    variant,
)
from kernels.catalog import VARIANTS


def kernel_findings(results: Results) -> list[Findings]:
    """Return these findings on every GPU, in the order of recordings.csv."""
    return [
        Findings(subject, (*_steps(results, subject), *_ceilings(results, subject)))
        for subject in subjects(results)
        if subject.is_gpu
    ]


def claim_sentences(results: Results) -> list[Sentence]:
    """Return how many of the sources' claims hold."""
    frame = results.frame("claims")
    if frame.empty:
        return [Sentence("claims", NOT_MEASURED, ("No claim was looked at.",))]
    parts: list[Part] = ["Of ", _number(results, "claims", frame, "claim"), " checks of claims "]
    for position, word in enumerate((HOLDS, DOES_NOT_HOLD, UNDECIDED, NOT_MEASURED)):
        own = frame[frame["verdict"] == word]
        count: Part = _number(results, "claims", own, "claim") if len(own) else "none"
        parts += [", " if position else "", count, _OUTCOMES[word]]
    return [Sentence("claims", STATED, (*parts, "."))]


_OUTCOMES = {
    HOLDS: " found that it holds",
    DOES_NOT_HOLD: " that it does not",
    UNDECIDED: " could not decide",
    NOT_MEASURED: " had nothing measured",
}


def _number(results: Results, table: str, frame: pd.DataFrame, column: str) -> Part:
    return results.derived(table, rows_of(frame), f"{column}.count()", COUNT)


def _steps(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Say which steps pay, and how far the last one is from the library."""
    frame = results.frame("ladder")
    own = frame[(frame["gpu"] == subject.label) & (frame["quantity"] == "kernel")]
    own = own[own["dtype"] == "float32"]
    if own.empty:
        yield Sentence("steps", NOT_MEASURED, ("No two successive steps were measured.",))
        return
    own = largest(own[own["host_memory"] == compared_kernel_memory(own)], ["variant"])
    library = own["variant"].map(lambda name: VARIANTS[name].kernel is None)
    yield _paying(results, own[~library])
    for row in rows_of(own[library]):
        before = Code(results.text("ladder", row, "after"))
        word = results.text("ladder", row, "verdict")
        said = "is faster than" if word == PAYS else "is not faster than"
        said = said if word in (PAYS, DOES_NOT_PAY) else "cannot be told apart from"
        parts: list[Part] = ["At ", *size(results, "ladder", row), " NVIDIA's library ("]
        parts += [*variant(results, "ladder", row), f") {said} the last step, ", before, ": "]
        parts += [*measured(results, "ladder", row, "gain", TIMES), "."]
        yield Sentence("library", STATED, tuple(parts))


def _paying(results: Results, own: pd.DataFrame) -> Sentence:
    """Say which steps pay in the kernel's time, which do not, and of which it is undecided."""
    parts: list[Part] = ["Of ", _number(results, "ladder", own, "variant")]
    parts += [" steps, each at its largest shape, by the time of the kernel "]
    clauses = 0
    for word, text in (
        (PAYS, " pay"),
        (DOES_NOT_PAY, " do not pay"),
        (UNDECIDED, " are undecided"),
    ):
        rows = own[own["verdict"] == word]
        if rows.empty:
            continue
        parts += ["; " if clauses else "", _number(results, "ladder", rows, "variant"), text, " ("]
        for position, row in enumerate(rows_of(rows)):
            parts += [", " if position else "", *variant(results, "ladder", row), " "]
            parts += [cell(results, "ladder", row, "gain", TIMES)]
        parts += [")"]
        clauses += 1
    return Sentence("steps", STATED, (*parts, "."))


def _ceilings(results: Results, subject: Subject) -> Iterator[Sentence]:
    """Give the card's balance, what is bound by memory by it, and what comes nearest its bound."""
    frame = results.frame("roofline")
    own = frame[(frame["gpu"] == subject.label) & frame["balance_flop_per_byte"].notna()]
    if own.empty:
        yield Sentence("balance", NOT_MEASURED, ("The ceilings of this card were not measured.",))
        return
    first = rows_of(own)[0]
    ceilings = results.frame("ceilings")
    ceilings = ceilings[(ceilings["gpu"] == subject.label) & ceilings["host_memory"].isna()]
    places = {str(row["quantity"]): int(str(index)) for index, row in ceilings.iterrows()}
    rate, memory = places["fp32_flop_per_s"], places["device_copy_bytes_per_s"]
    parts: list[Part] = ["The card multiplies and adds at "]
    parts += [cell(results, "ceilings", rate, "value", GFLOPS), ", its memory carries "]
    parts += [cell(results, "ceilings", memory, "value", GIGABYTES), ": its balance is "]
    parts += [cell(results, "roofline", first, "balance_flop_per_byte", PLAIN), " flop a byte. "]
    known = own[own["flop_per_byte_of_sectors"].notna()]
    above = known[known["flop_per_byte_of_sectors"] > known["balance_flop_per_byte"]]
    if above.empty:
        parts += [
            "No variant does more flop a byte of its sectors, so that by source L's rule all "
        ]
        parts += ["are bound by memory, unless caches serve them."]
    else:
        parts += ["By source L's rule all variants are bound by memory, unless caches serve them, "]
        parts += ["but for those that do more flop a byte of their sectors: "]
        for position, row in enumerate(rows_of(above)):
            parts += [", " if position else "", *variant(results, "roofline", row)]
        parts += ["."]
    yield Sentence("balance", STATED, tuple(parts))
    nearest = own[own["share_of_bound"].notna()]
    if not nearest.empty:
        row = int(nearest["share_of_bound"].idxmax())
        bound = BOUND_NAMES[results.text("roofline", row, "bound")]
        parts = [
            "Nearest to its bound comes ",
            *variant(results, "roofline", row),
            ": its time is ",
        ]
        parts += ["bounded by ", bound, ", of which it reaches "]
        yield Sentence(
            "nearest",
            STATED,
            (*parts, cell(results, "roofline", row, "share_of_bound", PERCENT), "."),
        )
