"""The CSV tables inside of the page, as links that save them."""

import base64
import lzma
from dataclasses import dataclass
from urllib.parse import quote

from analysis.results import COUNT, Number, Results

# A table above this is offered compressed.
_LARGE_BYTES = 5_000
_DESCRIPTIONS = {
    "table1": "published and measured Table 1",
    "table2": "published and measured Table 2",
    "table3": "published and measured Table 3",
    "table4": "published and measured Table 4",
    "table5": "published and measured Table 5",
    "table6": "published and measured Table 6",
    "summary": "every measured cell: medians, intervals, rates",
    "gains": "gains over the naive kernel and over five yardsticks of the CPU, with intervals",
    "cards": "the fastest way on each card, over that on the first card",
    "threats": "what speaks against the numbers, card by card",
    "models": "the parameters of every fitted model",
    "model_comparison": "how well each model predicts the sizes that it was not fitted to",
    "model_steps": "what each step from model to model explains",
    "model_predictions": "times by the plainest and by the best model, cell by cell",
    "model_ratios": "the fitted ρ beside ratios of latencies and of bandwidths",
    "recordings": "the recordings and whether they are stale",
    "checks": "the correctness gate, cell by cell",
    "builds": "registers, shared memory and spills of every build",
    "environment": "hosts, cards and software",
    "telemetry": "clocks, temperature, power and throttling, cell by cell",
    "batches": "short kernels launched back to back, and one at a time",
    "cold_starts": "what a fresh process pays until its first product",
    "ceilings": "the most that card, link, CPU and clock do",
    "phases": "how long each part of a measurement took",
    "neighbours": "passes beside the traffic of a host's other GPUs",
    "agreement": "how many medians of recordings of the same kind of card agree",
    "agreement_cells": "cells whose medians do not, with the state of both cards",
    "counts": "memory accesses: theory, host's count, hardware counter",
    "counts_by_line": "memory accesses by source line, counted on the host",
    "machine_code": "every build: resources, occupancy, instructions, flop a byte",
    "ladder": "what each step gains over the step before, and what it changed",
    "roofline": "each variant against the ceilings of its card",
    "claims": "the sources' claims, and whether they hold",
    "limits": "what a card allows a launch, by table and by driver",
    "systems": "the sources' systems: where they stand and how they fare",
    "cpu_hosts": "hosts: CPU, threads, caches, BLAS",
    "cpu_clock": "the clock of the CPU before and after its passes",
    "cpu_ladder": "what each step of the CPU's ladder gains, on one thread and on all",
    "cpu_roofline": "each CPU variant against the ceilings of its host",
    "cpu_split": "gains over the naive CPU loop, split into their parts",
    "audit_cells": "every published cell: rate by its time, gain without the start-up constant",
    "audit_constants": "start-up constants of the published tables",
    "audit_pairs": "published block sizes in pairs, and cells that are printed twice",
    "audit_headline": "the text's best rate beside Table 6",
    "audit_cpu": "what the published CPU columns are",
    "predictors": "what predictions know of each card beside its fits",
    "transfers": "the transfer model: latency, bandwidth, and how well they predict",
    "transfer_points": "copies as measured, and by the transfer model",
    "curves": "times of kernels and of the CPU between the measured orders",
    "break_even": "from which order on a card is faster than its CPU",
    "predictions": "passes at held-out orders, measured and predicted",
}


@dataclass(frozen=True)
class Download:
    """A CSV table inside the page, as a link that saves it in a `file`."""

    table: str
    file: str
    description: str
    rows: Number
    href: str


def download(results: Results, name: str) -> Download:
    """Return a table as a link; a large one compressed: it is a tenth then."""
    data = results.bytes[name]
    file = f"{name}.csv"
    href = "data:text/csv;charset=utf-8," + quote(data, safe=",;:.()/|-_=+*!@$[]{}")
    if len(data) > _LARGE_BYTES:
        packed = lzma.compress(data, preset=9)
        file += ".xz"
        href = "data:application/x-xz;base64," + base64.b64encode(packed).decode()
    rows = results.derived(name, range(len(results.frame(name))), "index.size", COUNT)
    return Download(name, file, _DESCRIPTIONS[name], rows, href)
