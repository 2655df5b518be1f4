"""The glossary: docs/reference/glossary.md is current, terms are sorted."""

from analysis.render.page import _read_yaml, glossary_page
from tests.support import ROOT


def test_the_document_is_current_and_terms_are_sorted_sentences():
    written = (ROOT / "docs" / "reference" / "glossary.md").read_text()
    assert written == glossary_page(), "python -m analysis glossary > docs/reference/glossary.md"
    terms = _read_yaml(ROOT / "report", "glossary.yaml")
    assert list(terms) == sorted(terms, key=str.casefold)
    assert all(meaning.endswith(".") and len(meaning.split()) <= 30 for meaning in terms.values())
