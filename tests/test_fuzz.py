"""Fuzzing: reading any file succeeds or gives a one-line error.

`make test-all` tries fifty times as many cases as `make test`, and
`FUZZ_CASES=1000000 FUZZ_SEED=10000 pytest tests/test_fuzz.py` other and more cases.
"""

import gzip
import json
import math
import os
import random
import shutil
import struct

import pytest
import yaml

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


def drawn(share):
    """Yield a generator per case; its seed is the number of the case, counted from SEED."""
    for seed in range(SEED, SEED + int(CASES * share)):
        print(f"random.Random({seed})")  # the last one is that of a failure
        yield random.Random(seed)


def some_text(rng):
    points = (rng.randrange(128), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))
    return "".join(chr(rng.choice(points)) for _ in range(rng.randrange(7)))


def some_edits(rng):
    """Return one to three places in a text, lengths, and texts that replace what is there."""
    texts = [rng.choice((rng.choice(TOKENS), some_text(rng)[:3])) for _ in range(rng.randint(1, 3))]
    return [(rng.randrange(2**16), rng.randrange(61), text) for text in texts]


def some_value(rng, depth=0):
    """Return a value of JSON: mostly of any kind, sometimes nested."""
    kinds = (
        lambda: rng.choice((None, True, False)),
        lambda: rng.randint(-3, 3),
        lambda: rng.getrandbits(rng.randrange(130)) * rng.choice((-1, 1)),
        lambda: struct.unpack("d", rng.randbytes(8))[0],
        lambda: rng.choice((0.0, -0.0, 0.5, 1e-300, 1e308, math.inf, -math.inf, math.nan)),
        lambda: some_text(rng),
        lambda: rng.choice(TOKENS),
        lambda: [some_value(rng, depth + 1) for _ in range(rng.randrange(3))],
        lambda: {some_text(rng): some_value(rng, depth + 1) for _ in range(rng.randrange(3))},
    )
    return rng.choice(kinds if depth < 3 else kinds[:7])()


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
    source = recorded(gpus=1, holdout=(), kernel_only=True, **few)
    folder = shutil.copytree(source, tmp_path_factory.mktemp("fuzz") / "r")
    data = {path.name: path.read_bytes() for path in folder.iterdir()}
    texts = {name: unpacked(name, one).decode() for name, one in data.items()}
    return folder, texts | {CONFIG: yaml.safe_dump(STUDY)}


def unpacked(name, data):
    return gzip.decompress(data) if name.endswith(".gz") else data


def put(path, data):
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)


CONFIG = "config.yaml"
STUDY = {"study": SMALL, "gpus": [{"id": "card", "recording": "data/recordings/card"}]}
TEXTS = [
    (CONFIG, 0.03, lambda folder: load(folder / CONFIG)),
    (PROVENANCE, 0.3, read_provenance),
    (MANIFEST, 0.17, check_manifest),
]


@pytest.mark.parametrize(("name", "share", "read"), TEXTS, ids=[name for name, *_ in TEXTS])
def test_text(small, name, share, read):
    folder, texts = small
    for rng in drawn(share):
        put(folder / name, edited(texts[name], some_edits(rng)))
        one_line_or_none(read, folder)


def test_config_by_value():
    paths = places(STUDY)
    for rng in drawn(0.25):
        one_line_or_none(validate, changed(STUDY, rng.choice(paths), some_value(rng)), CONFIG)


def test_provenance_by_value(small):
    folder, texts = small
    provenance = json.loads(texts[PROVENANCE])
    paths = places(provenance)
    for rng in drawn(0.22):
        found = changed(provenance, rng.choice(paths), some_value(rng))
        put(folder / PROVENANCE, json.dumps(found).encode())
        one_line_or_none(read_provenance, folder)


def test_tables(small):
    folder, texts = small
    put(folder / PROVENANCE, texts[PROVENANCE].encode())
    provenance = json.loads(texts[PROVENANCE])
    frames = {name: recording.read_table(folder, name, MOST_BYTES)[0] for name in TABLES}
    for rng in drawn(0.03):
        name = rng.choice(list(TABLES))
        put(folder / name, edited(texts[name], some_edits(rng)))
        read = one_line_or_none(recording.read_table, folder, name, MOST_BYTES)
        put(folder / name, texts[name].encode())
        if read:
            problem = fault(provenance, frames | {name: read[0]})
            assert problem is None or "\n" not in problem
