"""Sources without comments, and their hashes in recordings."""

import pytest

from analysis.data.recordings import stale_sources
from kernels.catalog.source import code_sha256, without_comments
from measurement.recording.files import read_provenance
from tests.support import ROOT

RECORDINGS = sorted(path.parent for path in ROOT.glob("data/*/*/provenance.json"))
CODE = 'int a = 1; /* why */\nconst char *s = "//kept", q = \'"\';\n\n    // because\n    f(a);\n'


def test_removing_comments_keeps_line_numbers_and_strings():
    code = 'int a = 1; \nconst char *s = "//kept", q = \'"\';\n\n    \n    f(a);\n'
    assert without_comments(CODE) == code


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("why", "another\n reason", True),
        ("    // because\n", "", True),
        ("    f(a)", "\n  f(a)", True),
        ("f(a)", "f(b)", False),
        ("//kept", "//lost", False),
        ("int a", "inta", False),
    ],
)
def test_the_hash_of_a_source_changes_only_if_its_code_changes(old, new, same):
    assert CODE.count(old) == 1
    assert (code_sha256(CODE.replace(old, new)) == code_sha256(CODE)) == same


def test_the_sources_of_committed_recordings_are_those_of_this_tree():
    stale = {path.name: stale_sources(read_provenance(path)) for path in RECORDINGS}
    assert {name: paths for name, paths in stale.items() if paths} == {}
