"""The main path in docs/CONTRIBUTING.md: few files, which lead from one to the next."""

from tests.support import ROOT
from tests.support.imports import path_of, reached

DOCUMENT = (ROOT / "docs" / "CONTRIBUTING.md").read_text()
LISTING = DOCUMENT.partition("## The main path")[2].split("```")[1].removeprefix("text")
PATHS = [ROOT / line.split()[0] for line in LISTING.strip().splitlines()]
# Modules that read a recorded, built or configured study, and reach the modules before them.
ENDS = ("measurement.recorder.record", "analysis.tables", "analysis.render.page")
MOST_FILES, MOST_LINES = 15, 3000


def test_the_main_path_through_the_code_is_short():
    assert len(PATHS) == len(set(PATHS)) == MOST_FILES
    assert sum(len(path.read_text().splitlines()) for path in PATHS) <= MOST_LINES


def test_every_file_of_the_main_path_is_documented_in_one_sentence():
    for line in LISTING.strip().splitlines():
        _, _, sentence = line.partition(" ")
        assert sentence.endswith("."), line
        assert sentence.count(". ") == 0, line


def test_every_module_of_the_main_path_is_imported_by_its_end_points():
    used = {path for name in ENDS for path in (path_of(name), *reached(path_of(name)))}
    assert {path for path in PATHS if path.suffix == ".py"} <= used
