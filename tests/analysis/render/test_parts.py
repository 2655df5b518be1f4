"""Every number of pages of parts of the published recordings agrees with its table."""

from functools import cache
from pathlib import Path

import pytest
import yaml

from analysis.data.sessions import folders_by_session
from analysis.render.check import check
from analysis.render.page import render
from kernels.catalog.baselines import BASELINES
from measurement.recording import recording
from tests.support import ROOT
from tests.support.cache import made
from tests.support.report_data import MAKER, TEMPLATE, chain

pytestmark = pytest.mark.exhaustive
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
# The folders of each GPU that was recorded earlier.
PATHS = {
    each["id"]: each.get("recordings") or [each["recording"]]
    for each in CONFIG["gpus"]
    if "device" not in each
}
SIZES = {64, 128, 256, 512, 1000, 1024, 1500, 2048, 4096}
KERNELS = ("naive", "naive_coalesced", "buffered_column", "block", "tile_conflict_free")
KERNELS += ("sgemm_top", "sgemm_tensor_pieces", "cublas_sgemm", "packed")


def reduced(path: str, without: str = "") -> Path:
    """Return a copy of a recording with square products of `SIZES`, without one variant."""

    def kept(frame):
        if "k" in frame:
            frame = frame[(frame["m"] == frame["n"]) & (frame["n"] == frame["k"])]
            frame = frame[frame["n"].isin(SIZES)]
        return frame[frame["variant"] != without] if "variant" in frame else frame

    def write(out):
        whole = recording.read(ROOT / path)
        frames = {name: kept(whole.table(name)) for name in recording.TABLES}
        recording.write(out, whole.provenance, frames)

    return made("reduced", [path, without, sorted(SIZES), ROOT / path / "MANIFEST.sha256"], write)


@cache
def recordings(kind: str, of: str = "") -> dict[str, list[Path]]:
    """Return the recordings of `PATHS`: only a model, or without a session or a variant."""
    paths = {of: PATHS[of]} if kind == "only" else PATHS
    paths = {name: [each for each in found if each != of] for name, found in paths.items()}
    without = of if kind == "without kernel" else ""
    return {name: [reduced(each, without) for each in found] for name, found in paths.items()}


PAGES = [("all", "", focus, baseline) for focus in PATHS for baseline in BASELINES]
PAGES += [("only", model, model, BASELINES[0]) for model in PATHS]
PAGES += [
    ("without session", path, focus, BASELINES[0])
    for focus, paths in PATHS.items()
    for path in paths[: len(paths) - 1]
]
PAGES += [("without kernel", name, CONFIG["report"]["focus"], BASELINES[0]) for name in KERNELS]


@pytest.mark.parametrize(("kind", "of", "focus", "baseline"), PAGES)
def test_every_number_of_a_page_agrees_with_its_table(tmp_path, kind, of, focus, baseline):
    used = recordings(kind, of)
    tables = chain(used)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "figures.json").write_text("[]")
    page = tmp_path / "report.html"
    folders = (tables, tmp_path / "figures", folders_by_session(used), TEMPLATE)
    render(*folders, page, focus, MAKER, baseline)
    assert check(page.read_text(), tables, TEMPLATE) == []
