"""docs/methods.md speaks of what there is."""

import importlib
import re

import pytest

from analysis.data.recordings import ROOT

TEXT = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
PACKAGES = ("analysis", "measurement", "kernels", "cpu_reference")
NAMES = sorted(
    name
    for name in set(re.findall(r"`([a-z_]+(?:\.[a-zA-Z_]+)+)`", TEXT))
    if name.split(".")[0] in PACKAGES
)


def test_the_page_names_modules():
    assert len(NAMES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_names_exists(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_fitting_estimator_has_its_reason():
    """Each paragraph that opens with a name in bold says why, or whose it is."""
    paragraphs = [part for part in TEXT.split("\n\n") if part.startswith("**")]
    assert len(paragraphs) > 20
    bare = [p[:50] for p in paragraphs if not re.search(r"\*(Reason|Source):\*", p)]
    allowed = ("**M0**", "**Coverage**", "**Claims of the sources**", "**Ceilings**")
    assert [one for one in bare if not one.startswith(allowed)] == []


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / "docs" / target).is_file(), target
