"""Fuzzing: reading any file succeeds or gives a one-line error.

`FUZZ_CASES=1000000 pytest tests/test_fuzz.py` tries more cases, different ones each time.
"""

import gzip
import json
import os
import shutil

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.errors import StudyError
from measurement.recording import recording
from measurement.recording.consistency import fault
from measurement.recording.files import (
    MANIFEST,
    MOST_BYTES,
    PROVENANCE,
    TABLES,
    check_manifest,
    read_provenance,
)
from study.config import load, validate
from tests.support.simulated import recorded
from tests.support.studies import SMALL

pytestmark = pytest.mark.slow
CASES = int(os.environ.get("FUZZ_CASES", "10000"))
# Texts that often break parsers.
TOKENS = [
    *("", "0", "-1", "1e999", "1e-300", "NaN", "nan", "inf", "null", "true", "None", "9" * 30),
    *("1" * 5000, "0x10", "1_0", "2001-99-99", "\0", "\x1b[2J", "\r", "\n", "\n\n", "\t", "  "),
    *("\ufeff", "\u202e", "é", "😀", "=1+1", "'", '"', '""', "#", "\\", "\\ud800", ",", ",,", ";"),
    *("[", "]", "[" * 300, "{", "}", "{" * 300, ": ", "- ", "- " * 300, "&a ", "*a", "<<: ", "? "),
    *("!!int ", "!!binary ", "!!timestamp ", "!!python/name:os ", "| ", "---\n", "..", "../../x"),
    *("/dev/zero", "%s", "{{7*7}}", "gpu0", "gpu9", "cpu", "naive", "x" * 5000),
]
EDITS = st.lists(
    st.tuples(
        st.integers(0, 2**16), st.integers(0, 60), st.sampled_from(TOKENS) | st.text(max_size=3)
    ),
    min_size=1,
    max_size=3,
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(TOKENS),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=3,
)


def drawn(share):
    """Try a share of the cases: the same each time, unless FUZZ_CASES is set."""
    return settings(
        max_examples=int(CASES * share),
        deadline=None,
        derandomize="FUZZ_CASES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def edited(text, edits):
    """Replace parts of a text by others."""
    for place, length, new in edits:
        at = place % (len(text) + 1)
        text = text[:at] + new + text[at + length :]
    return text.encode(errors="replace")


def places(value, before=()):
    """Return the paths of all values in nested lists and dictionaries."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, one in inner:
        found.append((*before, key))
        if isinstance(one, dict | list):
            found += places(one, (*before, key))
    return found


def changed(plain, path, value):
    """Return nested lists and dictionaries with another value at a path."""
    step, *rest = path
    result = plain.copy()
    result[step] = changed(plain[step], rest, value) if rest else value
    return result


def one_line_or_none(read, *arguments):
    """Return what was read, or None after a one-line error."""
    try:
        return read(*arguments)
    except StudyError as refused:
        said = str(refused)
    assert said.isprintable()
    assert len(said) < 3000
    return None


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a small recording, which may be changed, and its files as texts."""
    few = {"sizes": (32,), "samples": 1, "variants": ("naive",)}
    source = recorded(gpus=1, holdout=(), kernel_only=True, **few)
    folder = shutil.copytree(source, tmp_path_factory.mktemp("fuzz") / "r")
    data = {path.name: path.read_bytes() for path in folder.iterdir()}
    return folder, {name: unpacked(name, one).decode() for name, one in data.items()}


@pytest.fixture(scope="module")
def leaves(small):
    """The paths of all values of the provenance."""
    return places(json.loads(small[1][PROVENANCE]))


def unpacked(name, data):
    return gzip.decompress(data) if name.endswith(".gz") else data


def put(path, data):
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)


CONFIG = {"study": SMALL, "gpus": [{"id": "card", "recording": "data/recordings/card"}]}
CONFIG_TEXT = yaml.safe_dump(CONFIG)


@drawn(0.03)
@given(edits=EDITS)
def test_config_as_text(small, edits):
    path = small[0].parent / "config.yaml"
    path.write_bytes(edited(CONFIG_TEXT, edits))
    one_line_or_none(load, path)


@drawn(0.25)
@given(place=st.sampled_from(places(CONFIG)), value=VALUES)
def test_config_by_value(place, value):
    one_line_or_none(validate, changed(CONFIG, place, value), "config.yaml")


@drawn(0.3)
@given(edits=EDITS)
def test_provenance_as_text(small, edits):
    folder, texts = small
    put(folder / PROVENANCE, edited(texts[PROVENANCE], edits))
    one_line_or_none(read_provenance, folder)


@drawn(0.22)
@given(number=st.integers(0, 999), value=VALUES)
def test_provenance_by_value(small, leaves, number, value):
    folder, texts = small
    place = leaves[number % len(leaves)]
    found = changed(json.loads(texts[PROVENANCE]), place, value)
    put(folder / PROVENANCE, json.dumps(found).encode())
    one_line_or_none(read_provenance, folder)


@drawn(0.17)
@given(edits=EDITS)
def test_manifest(small, edits):
    folder, texts = small
    put(folder / MANIFEST, edited(texts[MANIFEST], edits))
    one_line_or_none(check_manifest, folder)


@pytest.fixture(scope="module")
def sound(small):
    """The unchanged provenance and tables."""
    folder, texts = small
    put(folder / PROVENANCE, texts[PROVENANCE].encode())
    frames = {name: recording.read_table(folder, name, MOST_BYTES)[0] for name in TABLES}
    return json.loads(texts[PROVENANCE]), frames


@drawn(0.03)
@given(name=st.sampled_from(list(TABLES)), edits=EDITS)
def test_tables(small, sound, name, edits):
    folder, texts = small
    provenance, frames = sound
    put(folder / name, edited(texts[name], edits))
    read = one_line_or_none(recording.read_table, folder, name, MOST_BYTES)
    put(folder / name, texts[name].encode())
    if read:
        problem = fault(provenance, frames | {name: read[0]})
        assert problem is None or "\n" not in problem
