"""docs/CONTRIBUTING.md draws the imports between folders; the drawing is compared with the code."""

import re
from collections import defaultdict
from graphlib import TopologicalSorter

import pytest

from tests.support import ROOT
from tests.support.imports import imported

PAGE = (ROOT / "docs" / "CONTRIBUTING.md").read_text()
DRAWING = re.search(r"```text\n(base\n.*?)```", PAGE, re.S)[1]
DRAWN = {
    name.strip(): set(targets.split(", ")) if targets else set()
    for name, _, targets in (line.partition(" → ") for line in DRAWING.splitlines())
}
FOLDERS = [name for name in DRAWN if "/" not in name]
# Folders whose rooms are drawn too.
SORTED = sorted({name.split("/")[0] for name in DRAWN if "/" in name})


@pytest.fixture(scope="module")
def found():
    """What each folder and room imports, with one file for each import."""
    imports = defaultdict(dict)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            own, room = path.relative_to(ROOT).with_suffix("").parts[:2]
            for name in imported(path):
                other, _, rest = name.partition(".")
                target = rest.partition(".")[0]
                if other in FOLDERS and other != own:
                    imports[own].setdefault(other, path)
                elif other == own in SORTED and target not in ("", room) and room[0] != "_":
                    imports[f"{own}/{room}"].setdefault(target, path)
    return imports


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_the_imports_between_folders_equal_the_documented_drawing(found, name):
    assert DRAWN[name] == set(found.get(name, {})), dict(found.get(name, {}))


def test_the_drawing_of_imports_contains_every_folder_with_code(found):
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(FOLDERS) == packages - {"tests"}
    assert set(found) <= set(DRAWN)


@pytest.mark.parametrize("folder", ["", *SORTED])
def test_imports_between_folders_form_no_circle(folder):
    parts = [(*name.rpartition("/"), targets) for name, targets in DRAWN.items()]
    rooms = {room: targets for inside, _, room, targets in parts if inside == folder}
    assert rooms
    TopologicalSorter(rooms).prepare()
