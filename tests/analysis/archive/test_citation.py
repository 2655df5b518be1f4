"""The citation of a report: the study's own file, the data's hash, the commit, the command."""

import hashlib

import pytest

from analysis.archive.citation import citation
from analysis.data.store import StoreError

CFF = """
title: A study
authors:
  - {given-names: Ada, family-names: Lovelace}
  - name: The others
version: 1.2.3
license: MIT
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "CITATION.cff").write_text(CFF)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "MANIFEST.sha256").write_text(f"of {name}\n")
    return tmp_path


def test_a_citation_has_the_year_of_the_last_recording_and_hashes_of_all_manifests(root):
    found = citation({}, ["2024-12-31T23:59:59Z", "2023-01-01T00:00:00Z"], root)
    assert (found.title, found.version, found.licence) == ("A study", "1.2.3", "MIT")
    assert (found.authors, found.year) == ("Ada Lovelace, The others", "2024")
    assert citation({}, [], root).year == ""
    beside = 'A (<a href="../kernels/a.cu"><code>kernels/a.cu</code></a>)'
    assert found.link("1a", "kernels/a.cu", "A") == beside, "for a reader without the checkout"
    (root / "CITATION.cff").write_text(f"{CFF}repository-code: https://example.org/x/\n")
    linked = '<a href="https://example.org/x/blob/1a/kernels/a.cu">&lt;A</a>'
    assert citation({}, [], root).link("1a", "kernels/a.cu", "<A") == linked
    found = citation({name: root / name for name in ("b", "a")}, [], root)
    assert found.data_hash == hashlib.sha256(b"of b\nof a\n").hexdigest()
    hashes = (hashlib.sha256(text).hexdigest() for text in (b"of b\n", b"of a\n"))
    assert found.data == dict(zip("ba", hashes, strict=True))


def test_a_faulty_or_missing_citation_file_is_a_one_line_error(root):
    with pytest.raises(StoreError, match=r"MANIFEST.sha256 is missing"):
        citation({"gone": root / "gone"}, [], root)
    for text in ("title: [", "title: only", "- a list"):
        (root / "CITATION.cff").write_text(text)
        with pytest.raises(StoreError, match=r"CITATION.cff cannot be read") as error:
            citation({}, [], root)
        assert "\n" not in str(error.value)
    (root / "CITATION.cff").unlink()
    with pytest.raises(StoreError, match=r"CITATION.cff is missing"):
        citation({}, [], root)
