"""Fuzzing: reading any file succeeds or gives a one-line error.

`make test-all` tries fifty times as many cases as `make test`, and
`FUZZ_CASES=1000000 FUZZ_SEED=10000 pytest tests/test_fuzz.py` other and more cases.
"""

import gzip
import json
import os
import shutil

import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings
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
CASES, SEED = (int(os.environ.get(f"FUZZ_{k}", v)) for k, v in (("CASES", "200"), ("SEED", "0")))
# Texts that often break parsers.
TOKENS = ["", "0", "-1", "1e999", "1e-300", "NaN", "nan", "inf", "null", "true", "None", "9" * 30]
TOKENS += ["1" * 5000, "0x10", "1_0", "2001-99-99", "\0", "\x1b[2J", "\r", "\n", "\n\n", "\t", "  "]
TOKENS += ["\ufeff", "\u202e", "é", "😀", "=1+1", "'", '"', '""', "#", "\\", "\\ud800"]
TOKENS += [",", ",,", ";", "[", "]", "[" * 300, "{", "}", "{" * 300, ": ", "- ", "- " * 300]
TOKENS += ["&a ", "*a", "<<: ", "? ", "!!int ", "!!binary ", "!!timestamp ", "!!python/name:os "]
TOKENS += ["| ", "---\n", "..", "../../x", "/dev/zero", "%s", "{{7*7}}", "gpu0", "gpu9", "cpu"]
TOKENS += ["naive", "x" * 5000]
SHORT = st.text(max_size=6)
TEXTS = SHORT | st.sampled_from(TOKENS)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
# Values of JSON, of which some are nested.
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SHORT, inner, max_size=2),
    max_leaves=4,
)
NUMBERS = st.integers(0, 2**16)
# Places in a text, lengths, and texts that replace what is there.
EDITS = st.lists(st.tuples(NUMBERS, st.integers(0, 60), TEXTS), min_size=1, max_size=3)


def drawn(share, **strategies):
    """Return a decorator that calls a test with a share of the cases, the same in every run."""
    options = {"max_examples": int(CASES * share), "database": None, "deadline": None}
    limited = settings(**options, suppress_health_check=list(HealthCheck))
    return lambda test: seed(SEED)(limited(given(**strategies)(test)))


def edited(text, edits):
    """Replace parts of a text by others."""
    for place, length, new in edits:
        at = place % (len(text) + 1)
        text = text[:at] + new + text[at + length :]
    return text.encode(errors="replace")


def places(value, before=()):
    """Return the paths of all values in nested lists and dictionaries."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    paths = [(*before, key) for key in keys]
    return [inner for path in paths for inner in (path, *places(value[path[-1]], path))]


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
    source = recorded(gpus=1, holdout=(), complete=True, **few)
    folder = shutil.copytree(source, tmp_path_factory.mktemp("fuzz") / "r")
    data = {path.name: path.read_bytes() for path in folder.iterdir()}
    texts = {name: unpacked(name, one).decode() for name, one in data.items()}
    return folder, texts | {CONFIG: yaml.safe_dump(STUDY)}


@pytest.fixture(scope="module")
def frames(small):
    return {name: recording.read_table(small[0], name, MOST_BYTES)[0] for name in TABLES}


def unpacked(name, data):
    return gzip.decompress(data) if name.endswith(".gz") else data


def put(path, data):
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)


CONFIG = "config.yaml"
STUDY = {"study": SMALL, "gpus": [{"id": "card", "recording": "data/recordings/card"}]}
READERS = {
    CONFIG: lambda folder: load(folder / CONFIG),
    PROVENANCE: read_provenance,
    MANIFEST: check_manifest,
}


@drawn(0.5, name=st.sampled_from([CONFIG, *9 * [PROVENANCE], *5 * [MANIFEST]]), edits=EDITS)
def test_randomly_changed_texts_are_valid_or_give_an_error(small, name, edits):
    folder, texts = small
    put(folder / name, edited(texts[name], edits))
    one_line_or_none(READERS[name], folder)


@drawn(0.25, path=st.sampled_from(places(STUDY)), value=VALUES)
def test_randomly_changed_configuration_values_give_an_error(path, value):
    one_line_or_none(validate, changed(STUDY, path, value), CONFIG)


@drawn(0.22, number=NUMBERS, value=VALUES)
def test_randomly_changed_provenance_values_give_an_error(small, number, value):
    folder, texts = small
    provenance = json.loads(texts[PROVENANCE])
    paths = places(provenance)
    put(
        folder / PROVENANCE,
        json.dumps(changed(provenance, paths[number % len(paths)], value)).encode(),
    )
    one_line_or_none(read_provenance, folder)


@drawn(0.03, name=st.sampled_from([*TABLES]), edits=EDITS)
def test_randomly_changed_tables_are_valid_or_give_an_error(small, frames, name, edits):
    folder, texts = small
    put(folder / PROVENANCE, texts[PROVENANCE].encode())
    put(folder / name, edited(texts[name], edits))
    read = one_line_or_none(recording.read_table, folder, name, MOST_BYTES)
    put(folder / name, texts[name].encode())
    if read:
        problem = fault(read_provenance(folder), frames | {name: read[0]})
        assert problem is None or "\n" not in problem
