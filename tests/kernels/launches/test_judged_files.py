"""Small kernels with one fault each, and their corrected twins, are judged rightly.

In `tests/data/bug_reports`, each file shows the kind of fault of a public report, which its first
line names. `tests/data/judged_kernels` contains other kinds, and correct kernels in many styles.
A comment ``// twin: CODE`` at the end of a line is what the line is in the corrected twin. The last
line is a regular expression that the verdict on the fault must match, or "correct".
"""

import re
from pathlib import Path

import pytest

from base.errors import StudyError
from kernels.host_execution.limited import LimitReached
from kernels.launches import lines
from tests.support import ROOT

FOLDERS = ("bug_reports", "judged_kernels")
SOURCES = [file for name in FOLDERS for file in sorted((ROOT / "tests/data" / name).glob("*.cu"))]
CORRECT = r": correct(?: [^\n]*)?\n"
REPORT = re.compile(r"// [\w.-]+/[\w.-]+ #\d+: ")


def verdict(folder: Path, text: str, launch: str | None = None) -> str:
    """Return what `gemm-study try` prints of a file, one line or more."""
    file = folder / "mine.cu"
    file.write_text(text)
    try:
        return "\n".join(lines.judged(file, launch))
    except StudyError as refused:
        return str(refused)


def twin_of(text: str) -> str:
    """Return the corrected twin of a file with a fault."""
    return re.sub(r"^.*// twin: ?(.*)$", r"\1", text, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SECONDS", 300.0)
    monkeypatch.setattr(lines, "LARGE_SECONDS", 300.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_kernels_with_reported_faults_fail_and_their_corrected_versions_pass(
    source: Path, tmp_path: Path
) -> None:
    text = source.read_text()
    expected = text.rstrip().rpartition("// expected: ")[2]
    said = verdict(tmp_path, text)
    assert re.search(CORRECT if expected == "correct" else expected, said), said
    assert expected == "correct" or not re.search(r": correct\n", said)
    if (twin := twin_of(text)) != text:
        assert re.search(CORRECT, verdict(tmp_path, twin))


def test_the_test_kernels_reproduce_at_least_thirty_bug_reports() -> None:
    texts = [source.read_text() for source in SOURCES]
    reports = {found[0] for text in texts if (found := REPORT.match(text))}
    assert len(reports) >= 30
    assert all("// twin:" in text for text in texts if REPORT.match(text))


def test_a_verdict_without_time_for_large_sizes_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(_: object) -> None:
        raise LimitReached("host execution takes more than 50 s")

    monkeypatch.setattr(lines, "at_large_sizes", too_long)
    text = (ROOT / "tests/data/judged_kernels/grid_stride-in-size-t.cu").read_text()
    monkeypatch.setattr(lines, "LARGE_SECONDS", 1.0)
    assert "at sizes above 1,024: host execution takes more than 50 s: does each loop" in verdict(
        tmp_path, text
    )
    monkeypatch.setattr(lines, "LARGE_SECONDS", 400.0)
    assert ": correct, not checked at sizes above 1,024\n" in verdict(tmp_path, text)
