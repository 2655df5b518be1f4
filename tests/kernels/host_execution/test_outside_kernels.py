"""Kernels in the styles of public repositories: `gemm-study try` judges each of them rightly.

The last line of each file in `tests/data/outside_kernels` is the expected verdict: "correct",
"correct for …", "unsupported", or a regular expression that the message of the fault must match.
Most files differ from another one by a small edit, which their name describes.
"""

import re

import pytest

from base.errors import StudyError
from kernels.host_execution.compiler import NotSupported
from kernels.launches.checks import at_large_sizes
from kernels.launches.verdict import judge, kernels_to_judge
from tests.support import ROOT

SOURCES = sorted((ROOT / "tests/data/outside_kernels").glob("*.cu"))
CORRECT, UNSUPPORTED = "correct", "unsupported"


def judged(source):
    """Return for what the kernel is correct, "unsupported" or the message of the fault."""
    text = source.read_text()
    (name,) = kernels_to_judge(source, text, None, None)
    try:
        verdict = at_large_sizes(judge(source, text, name))
    except NotSupported:
        return UNSUPPORTED
    except StudyError as fault:
        return str(fault)
    if verdict.multiple != 1:
        return f"{verdict.multiple}: {verdict.fault}"
    return f"correct for {verdict.layout}" if verdict.layout else CORRECT


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_kernels_of_public_repositories_get_the_right_verdict(source, tmp_path):
    text = source.read_text()
    expected = text.rstrip().rpartition("// expected: ")[2]
    copy = tmp_path / "mine.cu"
    copy.write_text(text)
    verdict = judged(copy)
    if expected.startswith((CORRECT, UNSUPPORTED)):
        assert verdict == expected
    else:
        assert re.search(expected, verdict)
        assert "\n" not in verdict


def test_the_public_kernels_include_every_verdict():
    verdicts = [source.read_text().rstrip().rpartition("// expected: ")[2] for source in SOURCES]
    assert verdicts.count(CORRECT) >= 60
    assert sum(verdict.startswith("correct for") for verdict in verdicts) == 3
    assert len(verdicts) == 187
