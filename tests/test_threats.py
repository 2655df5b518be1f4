"""Threats to validity: what the recordings tell of themselves, a row a threat."""

import pytest
from report_data import cpu_cell, gpu_cell, recording, tables

from analysis.results import subjects
from analysis.threats import threats_table

ROWS = {
    "throttled": "samples taken while the card throttled",
    "moved": "a total without those samples moves by, at most",
    "clock": "clock of the card, least and most",
    "bare": "totals without interval",
    "wide": "totals whose interval reaches beyond 5\u00a0% of the median",
    "again": "medians that another recording of the same kind of card finds again",
    "failed": "cells that failed the correctness gate",
    "stale": "measured sources changed since",
    "dirty": "made from a tree with changes that are not committed",
    "simulated": "simulated, not measured",
}


def shown(results):
    """Return what each threat's row says of each subject, by threat and label."""
    measured = subjects(results)
    table = threats_table(results, measured, "x")
    texts = {
        str(row.cells[0].parts[0]): [
            "".join(map(str, cell.parts)).replace("\u00a0", " ") + f" {cell.badge}".rstrip()
            for cell in row.cells[1:]
        ]
        for row in table.rows
    }
    assert list(texts) == list(ROWS.values())
    return {
        name: dict(zip([s.label for s in measured], texts[text], strict=True))
        for name, text in ROWS.items()
    }


def state(label, n, samples=10, throttled=0, clock=1.5e9, total=1.0, unmarked=1.0):
    return {
        "gpu": label,
        "n": n,
        "samples": samples,
        "samples_throttled": throttled,
        "sm_clock_hz": clock,
        "total_s": total,
        "unmarked_total_s": unmarked,
    }


@pytest.fixture
def results(tmp_path):
    return tables(
        tmp_path,
        recordings=[
            recording("card", stale=True, stale_sources="kernels/block.cu", cells_failed=2),
            recording("again", simulated=True, dirty=True),
            recording("host", gpu=False, dirty=False),
        ],
        summary=[
            gpu_cell("card", "block", 512, 0.01),
            gpu_cell("card", "block", 1024, 0.01, spread=0.06),
            gpu_cell("card", "block", 2048, 0.01, spread=None),
            cpu_cell("card", "naive", 512, 0.01, spread=None),
            gpu_cell("again", "block", 512, 0.01),
            cpu_cell("host", "naive", 512, 0.01),
        ],
        telemetry=[
            state("card", 512, throttled=1, clock=1.2e9, unmarked=0.9),
            state("card", 1024, clock=1.98e9, unmarked=1.02),
        ],
        agreement=[
            {
                "recording_a": "card",
                "gpu_a": "card",
                "recording_b": "again",
                "gpu_b": "again",
                "cells": cells,
                "cells_agreeing": agreeing,
            }
            for cells, agreeing in ((10, 7), (5, 5))
        ],
    )


def test_every_threat_is_told_of_every_subject(results):
    told = shown(results)
    assert told["throttled"] == {"card": "5.0 %", "again": "not measured", "host": "not measured"}
    assert told["moved"]["card"] == "10.0 %"
    assert told["clock"]["card"] == "1200 MHz to 1980 MHz"
    assert told["bare"] == {"card": "2 of 4", "again": "0 of 1", "host": "0 of 1"}
    assert told["wide"] == {"card": "1 of 4", "again": "0 of 1", "host": "0 of 1"}
    assert told["again"]["card"] == told["again"]["again"] == "12 of 15"
    assert told["again"]["host"] == "no other recording"
    assert told["failed"] == {"card": "2", "again": "0", "host": "0"}
    assert told["stale"] == {"card": "yes stale", "again": "no", "host": "no"}
    assert told["dirty"] == {"card": "not known", "again": "yes", "host": "no"}
    assert told["simulated"] == {"card": "no", "again": "yes SIMULATED", "host": "no"}


def test_nothing_measured_is_said(tmp_path):
    told = shown(tables(tmp_path, recordings=[recording("card")]))
    for name in ("throttled", "moved", "clock", "bare", "wide"):
        assert told[name] == {"card": "not measured"}
