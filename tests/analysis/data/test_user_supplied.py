"""A kernel from outside of the catalog: its rows in tables and page, and its refusals."""

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data import user_supplied
from analysis.data.recordings import MeasuredSource
from analysis.data.store import Store
from analysis.kernels.figures import FIGURES
from analysis.render.check import check
from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from measurement.recording import recording
from measurement.recording.consistency import fault
from measurement.recording.files import read_provenance
from measurement.recording.provenance_schema import lines_sha256
from tests.support import reports
from tests.support.figures import drawn
from tests.support.report_data import TEMPLATE
from tests.support.reports import MINE
from tests.support.simulated import tried

PATH = "brought/mine.cu"
NOT_DECLARED = "mine does not exist for float32 with block size"


@pytest.fixture(scope="module")
def made():
    return recording.read(tried(MINE))


def changed(made, **facts):
    return replace(made, provenance=made.provenance | facts)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_user_supplied_kernel_appears_in_tables_figures_and_page():
    """It has no rows that follow from counts, and the catalog stays as it is."""
    folder = reports.made("tried")
    store = Store(folder / "tables")

    def rows(name):
        frame = store[name]
        return frame[frame["variant"] == "mine"].to_dict("records")

    (summary,) = rows("ladder_summary")
    (over,) = (row for row in rows("ladder_speedups") if row["baseline"] == "previous")
    assert (summary["idea"], summary["n"]) == ("user-supplied", 1999)
    assert over["baseline_variant"] == "naive_coalesced"
    assert min(over["speedup"], summary["share_of_units"], summary["share_of_library"]) > 0
    assert pd.isna(summary["bound"])
    assert {row["after"] for row in rows("ladder")} == {"naive_coalesced"}
    (code,) = rows("machine_code")
    assert code["occupancy"] == 1.0
    assert not rows("predicted_times")
    assert not rows("model_predictions")
    assert not store["recordings"]["stale"].any()
    assert not store["environment"]["item"].str.startswith("texts").any()
    page = (folder / "report.html").read_text()
    assert check(page, folder / "tables", TEMPLATE) == []
    assert "User-supplied kernels were tried on this GPU" in page
    assert re.search(r"measured as far\s+as the answers require\.\s*</p>", page), "not live"
    assert "mine" in drawn(FIGURES["ladder"], store).texts
    packed = re.search('id="explorer-data">([^<]*)<', page)[1]
    shown = json.loads(gzip.decompress(base64.b64decode(packed)))["kernels"]
    assert {one["name"] for one in shown if one["chosen"]} >= {"naive", "cublas_sgemm", "mine"}
    assert "mine" not in VARIANTS


def test_two_user_kernels_with_one_name_or_one_without_source_are_refused(made, monkeypatch):
    other = changed(made, sources=made.provenance["sources"] | {PATH: "0" * 64})
    a, b = (MeasuredSource(name, name, "gpu0", made) for name in "ab")
    user_supplied.check_same([a, b])
    said = r"^recording 'c': its mine differs from mine of recording 'a'; remove one"
    with pytest.raises(StudyError, match=said):
        user_supplied.check_same([a, b, MeasuredSource("c", "c", "gpu0", other)])
    monkeypatch.setattr(data, "read", lambda _: changed(made, texts={}))
    said = r"^recording 'old': mine is not in .*`gemm-study try` again"
    with pytest.raises(StudyError, match=said):
        data.load({"old": [Path("old")]})


def test_a_user_source_that_differs_from_the_measured_one_is_refused(made):
    for old, new, message in (
        ('"mine"', '"block"', "brought/mine.cu:1: block is a variant of the catalog"),
        ('"mine"', '"other"', "brought/mine.cu:1: contains other; name the file after its kernel"),
        ('"threads":256', '"threads":1e9', "brought/mine.cu:2: launch.threads: "),
        ('"tile"', '"dtype":"float64","tile"', NOT_DECLARED),
    ):
        texts = {PATH: MINE.replace(old, new).split("\n")}
        said = fault(made.provenance | {"texts": texts}, recording._read_tables(made.path))
        assert re.search(message, said)
        assert len(said) < 600


def test_a_user_source_that_a_recording_cannot_store_is_refused(made, tmp_path):
    for lines, message in (
        (["not it"], "texts: brought/mine.cu differs from its SHA-256"),
        ([""] * (2**16 + 1), "has 65537 characters, more than 65536"),
    ):
        own = made.provenance | {"texts": {PATH: lines}}
        if len(lines) > 1:
            own["sources"] = own["sources"] | {PATH: lines_sha256(lines)}
        (tmp_path / "provenance.json").write_text(json.dumps(own))
        with pytest.raises(StudyError, match=message):
            read_provenance(tmp_path)
