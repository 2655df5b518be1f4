"""The project's texts use the field's words and none of the private words of earlier versions."""

import ast
import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.imports import nodes_of
from workflow.__main__ import parser

# Private words of earlier versions, and the field's.
WORDS = {
    r"sitting(?:s)?": "session",
    r"(?:complete|in the|each|per|a|one|first|whole) pass(?:es)?": "end-to-end run, in-run",
    r"held against": "compared with",
    r"kernels? alone": "kernel-only",
    r"(?:kinds? of )?cards?": "GPU, GPU model",
    r"gain(?:s|ed)?": "speedup",
    r"times as (?:fast|long) as": "× faster, speedup",
    r"pays?": "faster, slower",
    r"worth (?:it|from)": "break-even size",
    r"orders? (?:of (?:a|the) matri\w+|N|from|up to|\d+)|of order (?!stat)\w+": "size N",
    r"at best": "attainable, maximum",
    r"multiply-adds?": "FMA",
    r"(?<!in )turns?": "wave, iteration",
    r"steps of k": "K per iteration",
    r"shapes of tiles": "tile shapes",
    r"first-level caches?": "L1",
    r"opponents?|anchors?": "CPU baseline, reference",
    r"(?<!degrees of )freedom": "degrees of freedom",
    r"judg(?:e|es|ed|ing)": "evaluated",
    r"left out": "leave-one-out, excluded",
    r"brought|of one's own": "user-supplied",
    r"goes on|in the place of|anew": "resumes, instead of, again",
    r"is told|tells?|knows?": "gets an error, reports, computes",
}
FORBIDDEN = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
# Where a word is meant as it is: by file, the text around it.
EXCEPTIONS = {
    "docs/reference/glossary.md": ["A fused multiply-add, the main instruction"],
    "docs/results/recordings.md": ["h100-sxm-two-in-turn"],
    "analysis/models/evaluation.py": ["left out"],  # seeds of the bootstrap
    "report/lesson.html.j2": ["fused multiply-adds (FMAs)"],  # the definition
}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEMPLATES = sorted((ROOT / "report").rglob("*.j2"))
_FOLDERS = {"kernels": "*.cu", "kernels/host_execution": "*.[ch]*", "cpu_reference": "*.c"}
SOURCES = sorted(path for name, files in _FOLDERS.items() for path in (ROOT / name).glob(files))
PACKAGES = ("analysis", "base", "cpu_reference", "kernels", "measurement", "study", "workflow")


def private_words(text: str, where: str) -> list[str]:
    """Return each private word of a text with its surroundings."""
    found = []
    for match in FORBIDDEN.finditer(text):
        around = " ".join(text[max(0, match.start() - 30) : match.end() + 30].split())
        if not any(known in around for known in EXCEPTIONS.get(where, [])):
            found.append(f"{where}: {match[0]!r} in: {around}")
    return found


def prose(path: Path) -> str:
    """Return a document without code, a template without tags, or the comments of a source."""
    text = path.read_text()
    if path in SOURCES:
        return re.sub(r"\n *// ?", " ", "\n".join(re.findall(r"//.*", text)))
    if path.suffix == ".j2":
        return re.sub(r"\{\{.*?\}\}|\{%.*?%\}|<[^>]*>", " ", text, flags=re.DOTALL)
    return re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)


def messages(path: Path) -> str:
    """Return the texts of a module that contain a space, without docstrings."""
    nodes = nodes_of(path)
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and n not in docstrings]
    return "\n".join(text for text in texts if isinstance(text, str) and " " in text.strip())


@pytest.mark.parametrize("path", DOCUMENTS + TEMPLATES + SOURCES, ids=lambda path: path.name)
def test_documents_templates_and_comments_use_the_fields_words(path):
    assert private_words(prose(path), str(path.relative_to(ROOT))) == []


def test_help_uses_the_fields_words():
    helps = [parser(), *parser().commands.values()]
    assert private_words("\n".join(each.format_help() for each in helps), "--help") == []


@pytest.mark.parametrize("name", PACKAGES)
def test_messages_use_the_fields_words(name):
    for path in (ROOT / name).rglob("*.py"):
        assert private_words(messages(path), str(path.relative_to(ROOT))) == []


def test_a_text_with_private_words_is_found():
    assert len(private_words("Each card pays: a gain of 2, times as fast as before.", "x")) == 4
