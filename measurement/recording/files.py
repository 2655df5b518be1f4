"""The files of a recording: their names, limits and hashes.

`measurement.recording.recording` reads the tables. This module does not import pandas.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from base.errors import StudyError
from base.files import MANIFEST, sha256
from base.validation import first_fault
from measurement.recording.provenance_schema import USER_SUPPLIED, Provenance
from measurement.recording.schema import TABLES, check_text

PROVENANCE, SAMPLES = "provenance.json", "samples.csv.gz"
# Limit of all files, unpacked: eight times the largest recording so far.
MOST_BYTES = 64 * 2**20
_MOST_BYTES_OF = {MANIFEST: 2**16, PROVENANCE: 2**20}
_MOST_DEPTH = 16  # deepest nesting of brackets
_HASHED = re.compile(r"[0-9a-f]{64}  [^\x00-\x1f]{1,255}")  # a line of the manifest
_MOST_VALUES = 2**17  # limit of values in provenance.json
_LARGEST = 2**63  # largest number in provenance.json


class RecordingError(StudyError):
    """A recording is invalid; the message names folder, fault and remedy."""


def bad(path: Path, problem: str) -> RecordingError:
    """Return the error whose message names a recording and its problem."""
    return RecordingError(
        f"recording {path}: {problem}; restore the folder from version control or record it again"
    )


def check_manifest(path: Path) -> None:
    """Compare all files with MANIFEST.sha256; raise RecordingError naming one that differs.

    Each must be a plain file, and together they must not exceed `MOST_BYTES`.
    """
    if not path.is_dir():
        raise RecordingError(f"recording {path}: no such folder; correct the path")
    check_file(path, MANIFEST)
    lines = (path / MANIFEST).read_bytes().decode(errors="replace").removesuffix("\n").split("\n")
    if not all(map(_HASHED.fullmatch, lines)):
        raise bad(path, f"{MANIFEST} is not in the format of sha256sum")
    entries = {line[66:]: line[:64] for line in lines}
    if len(entries) < len(lines):
        raise bad(path, f"{MANIFEST} lists a file twice")
    strange = sorted(entries.keys() - {PROVENANCE, *TABLES})
    if strange:
        raise bad(path, f"{MANIFEST} lists {strange[0]!r:.80}, which is not a file of a recording")
    size = 0
    for name in [PROVENANCE, *TABLES]:
        if name not in entries:
            raise bad(path, f"{MANIFEST} does not list {name}")
        size += check_file(path, name)
        if size > MOST_BYTES:
            raise bad(path, f"the files have more than {MOST_BYTES} bytes")
        if sha256(path / name) != entries[name]:
            raise bad(path, f"{name} was altered or truncated (its SHA-256 differs)")


def check_copies(folders: Iterable[Path]) -> None:
    """Raise RecordingError naming the first folder whose file of samples another one has too."""
    seen: dict[str, Path] = {}
    for path in folders:
        first = seen.setdefault(sha256(path / SAMPLES), path)
        if first is not path:
            raise RecordingError(
                f"recording {path}: has the samples of {first}; remove one of the two from gpus in "
                "the config"
            )


def check_file(path: Path, name: str) -> int:
    """Return the size of a plain file in bytes; raise RecordingError if it is not one."""
    file = path / name
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise bad(path, f"{name} is not a plain file")
    if not file.is_file():
        raise bad(path, f"{name} is missing")
    size, most = file.stat().st_size, _MOST_BYTES_OF.get(name, MOST_BYTES)
    if size > most:
        raise bad(path, f"{name} has {size} bytes, more than {most}")
    return size


def files_of(path: Path) -> list[str]:
    """Return the names of a recording's files that are in its folder."""
    named = [PROVENANCE, *TABLES, MANIFEST]
    return sorted(name for name in named if (path / name).is_file())


def check_sessions(provenances: Mapping[Path, Mapping[str, Any]]) -> None:
    """Check that recordings, given by folder, are sessions of one GPU model and one study.

    GPUs, sources and study must be equal; the protocol, the energy settings, the series and what is
    measured of the CPU may differ. Raise RecordingError naming the first that does not fit.
    """
    (first, one), *others = provenances.items()
    for path, other in others:
        fault = difference(one, other)
        if fault:
            raise RecordingError(
                f"recording {path}: {fault} than {first}, so it is not a session of the same "
                "study; give it its own entry in gpus in the config"
            )


# Keys of a study that may differ between its sessions.
_PER_SESSION = ("protocol", "energy", "series", "cpu")


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return in which fact two recordings differ that sessions must share; None if in none."""
    gpus, others = (
        {(gpu["name"], gpu["compute_capability"]) for gpu in each["devices"]}
        for each in (one, other)
    )
    if len(gpus | others) > 1 or len(gpus) != len(others):
        return f"has other GPUs ({', '.join(sorted(name for name, _ in others)) or 'none'})"
    if one.get("at_once", False) != other.get("at_once", False):
        return "has another order of GPUs (at once, or one after the other)"
    study, configured = (
        {key: value for key, value in each["configuration"].items() if key not in _PER_SESSION}
        for each in (one, other)
    )
    if study != configured:
        keys = {key for key in study | configured if study.get(key) != configured.get(key)}
        return f"has another study ({', '.join(sorted(keys))})"
    sources, measured = one["sources"], other["sources"]
    changed = [
        path for path in sorted(sources | measured) if sources.get(path) != measured.get(path)
    ]
    return f"has other sources ({', '.join(changed)})" if changed else None


def user_supplied(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each user-supplied source, by the name of its kernel."""
    sources = provenance["sources"].items()
    return {
        PurePosixPath(path).stem: digest
        for path, digest in sources
        if path.startswith(f"{USER_SUPPLIED}/")
    }


def read_provenance(path: Path) -> dict[str, Any]:
    """Return a recording's provenance; raise RecordingError."""
    check_file(path, PROVENANCE)
    try:
        provenance: dict[str, Any] = json.loads(
            (path / PROVENANCE).read_bytes().decode(), object_pairs_hook=_distinct
        )
    except (ValueError, RecursionError) as error:
        raise bad(path, f"{PROVENANCE} is not valid JSON ({error})") from None
    try:
        _check_values(provenance)
        Provenance.model_validate(provenance)
    except ValidationError as error:
        raise bad(path, f"{PROVENANCE}: {first_fault(error)}") from None
    except ValueError as error:
        raise bad(path, f"{PROVENANCE}: {error}") from None
    return provenance


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r:.80} is given twice")
    return unique


def _check_values(value: Any) -> None:
    """Raise ValueError for texts or numbers that are invalid, or values too many or too nested."""
    level, count = [value], 0
    for _ in range(_MOST_DEPTH + 1):
        count += len(level)
        if count > _MOST_VALUES:
            raise ValueError(f"has more than {_MOST_VALUES} values")
        for each in level:
            if isinstance(each, str):
                check_text(each)
            elif isinstance(each, int | float) and not abs(each) < _LARGEST:  # true for NaN, too
                raise ValueError(f"{each!r:.20} is not a valid number")
        lists = [[*each, *each.values()] for each in level if isinstance(each, dict)]
        lists += [each for each in level if isinstance(each, list)]
        level = [inner for each in lists for inner in each]
        if not level:
            return
    raise ValueError(f"has more than {_MOST_DEPTH} nested brackets")
