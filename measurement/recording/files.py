"""The files of a recording: names, columns, limits and hashes.

`measurement.recording.recording` reads the tables. This module does not import pandas.
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from pydantic import ValidationError

from base.errors import StudyError
from base.validation import first_fault
from measurement.recording.provenance_schema import USER_SUPPLIED, Provenance

# The columns that identify a kernel, and a cell.
KERNEL = ["device", "variant", "dtype", "batch", "m", "n", "k", "block_size"]
CELL = [*KERNEL, "host_memory", "threads"]

_KERNEL_TYPES = {
    "device": "string",
    "variant": "string",
    "dtype": "string",
    "batch": "Int64",
    "m": "Int64",
    "n": "Int64",
    "k": "Int64",
    "block_size": "Int64",
}
_CELL_TYPES = _KERNEL_TYPES | {"host_memory": "string", "threads": "Int64"}
_BUILD_TYPES = {
    "architecture": "string",
    "variant": "string",
    "dtype": "string",
    "block_size": "Int64",
    "build": "string",
}
_RUN_TYPES = {
    "total_s": "float64",
    "host_s": "float64",
    "h2d_s": "float64",
    "kernel_s": "float64",
    "d2h_s": "float64",
}
# Column types of each table, in the order of the columns.
TABLES: dict[str, dict[str, str]] = {
    "samples.csv.gz": _CELL_TYPES
    | {
        "round": "Int64",
        "position": "Int64",
        "time_unix_s": "float64",
        **_RUN_TYPES,
        "sm_clock_hz": "Int64",
        "memory_clock_hz": "Int64",
        "temperature_celsius": "Int64",
        "power_w": "float64",
        "throttle_reasons": "Int64",
        "other_threads_s": "float64",
        "cpu_clock_before_hz": "Int64",
        "cpu_clock_after_hz": "Int64",
    },
    "checks.csv": _CELL_TYPES
    | {
        "build": "string",
        "status": "string",
        "reason": "string",
        "worst_row": "Int64",
        "worst_column": "Int64",
        "worst_error": "float64",
        "worst_bound": "float64",
    },
    "builds.csv": _BUILD_TYPES
    | {
        "registers_per_thread": "Int64",
        "static_shared_bytes": "Int64",
        "spill_store_bytes": "Int64",
        "spill_load_bytes": "Int64",
        "stack_bytes": "Int64",
        "nvcc": "string",
        "cubin_sha256": "string",
    },
    "instructions.csv": _BUILD_TYPES
    | {"scope": "string", "opcode": "string", "bits": "Int64", "count": "Int64"},
    "cold_starts.csv": _CELL_TYPES
    | {
        "round": "Int64",
        "init_s": "float64",
        "context_s": "float64",
        "module_s": "float64",
        "allocation_s": "float64",
        **_RUN_TYPES,
    },
    "ceilings.csv": {
        "device": "string",
        "quantity": "string",
        "host_memory": "string",
        "size_bytes": "Int64",
        "threads": "Int64",
        "round": "Int64",
        "value": "float64",
    },
    "neighbours.csv": _CELL_TYPES | {"round": "Int64", "neighbours": "Int64", **_RUN_TYPES},
}
# Optional tables: the first two are new in format 5, the third is only in format 4, and the last
# two may be added later.
OPTIONAL: dict[str, dict[str, str]] = {
    "kernels.csv.gz": _KERNEL_TYPES
    | {
        "round": "Int64",
        "position": "Int64",
        "time_unix_s": "float64",
        "caches": "string",
        "launches": "Int64",
        "kernel_s": "float64",
        "sm_clock_hz": "Int64",
        "throttle_reasons": "Int64",
    },
    "energy.csv": _KERNEL_TYPES
    | {
        "launches": "Int64",
        "duration_s": "float64",
        "launch_s": "float64",
        "power_w": "float64",
        "energy_j": "float64",
        "idle_power_w": "float64",
    },
    "batches.csv.gz": _KERNEL_TYPES
    | {"round": "Int64", "launches": "Int64", "kernel_batch_s": "float64"},
    "counters.csv": _KERNEL_TYPES | {"metric": "string", "value": "float64"},
    "accuracy.csv": _KERNEL_TYPES
    | {"matrices": "string", "worst_units": "float64", "rms_units": "float64"},
}
# Tables that the recorder writes.
MEASURED = TABLES | {name: OPTIONAL[name] for name in ("kernels.csv.gz", "energy.csv")}
MANIFEST = "MANIFEST.sha256"
SIGNATURE = f"{MANIFEST}.sig"  # optional
PROVENANCE = "provenance.json"
# Limit of all files, unpacked: fifteen times the largest recording so far.
MOST_BYTES = 128 * 2**20
_MOST_BYTES_OF = {MANIFEST: 2**16, SIGNATURE: 2**16, PROVENANCE: 2**20}
_MOST_DEPTH = 16  # of nested brackets
_MOST_CHARACTERS = 4096  # per text


class RecordingError(StudyError):
    """An invalid recording; the message names folder, fault and remedy."""


def bad(path: Path, problem: str) -> RecordingError:
    """Return the error of a recording with this problem."""
    return RecordingError(
        f"recording {path}: {problem}; restore the folder from version control or record it again"
    )


def check_manifest(path: Path) -> None:
    """Compare all files with MANIFEST.sha256; raise RecordingError naming one that differs.

    Each must be a plain file; together they may have `MOST_BYTES`.
    """
    if not path.is_dir():
        raise RecordingError(f"recording {path}: no such folder; correct the path in the config")
    check_file(path, MANIFEST)
    try:
        lines = (path / MANIFEST).read_text().splitlines()
        entries = dict(line.split("  ", 1)[::-1] for line in lines)
    except ValueError:
        raise bad(path, f"{MANIFEST} is not in the format of sha256sum") from None
    present = [name for name in OPTIONAL if name in entries or (path / name).exists()]
    size = 0
    for name in [PROVENANCE, *TABLES, *present]:
        if name not in entries:
            raise bad(path, f"{MANIFEST} does not list {name}")
        size += check_file(path, name)
        if size > MOST_BYTES:
            raise bad(path, f"the files have more than {MOST_BYTES} bytes")
        with (path / name).open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != entries[name]:
                raise bad(path, f"{name} was altered or truncated (its SHA-256 differs)")


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
    """Return the names of a recording's files, without other files in its folder."""
    named = [PROVENANCE, *TABLES, *OPTIONAL, MANIFEST, SIGNATURE]
    return sorted(name for name in named if (path / name).is_file())


def check_sessions(provenances: Mapping[Path, Mapping[str, Any]]) -> None:
    """Check that recordings, by folder, are sessions of one GPU model and one study.

    GPUs, sources and study must be equal; the protocol and the energy settings may differ. Raise
    RecordingError naming the first recording that does not fit.
    """
    (first, one), *others = provenances.items()
    for path, other in others:
        fault = _difference(one, other)
        if fault:
            raise RecordingError(
                f"recording {path}: {fault} than {first}, so it is not a session of the same "
                "study; give it its own entry in gpus in the config"
            )


# Keys of a study that may differ between its sessions.
_PER_SESSION = ("protocol", "energy")


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return in which required fact two recordings differ; None if in none."""
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
        text = (path / PROVENANCE).read_text()
        provenance: dict[str, Any] = json.loads(
            text, parse_int=_whole, parse_float=_finite, parse_constant=_not_a_number
        )
    except (ValueError, RecursionError) as error:
        raise bad(path, f"{PROVENANCE} is not valid JSON ({error})") from None
    if isinstance(provenance, dict) and "sittings" in provenance:  # its name in format 4
        provenance["attempts"] = provenance.pop("sittings")
    try:
        _check_texts(provenance)
        Provenance.model_validate(provenance)
    except ValidationError as error:
        raise bad(path, f"{PROVENANCE}: {first_fault(error)}") from None
    except ValueError as error:
        raise bad(path, f"{PROVENANCE}: {error}") from None
    return provenance


def _whole(text: str) -> int:
    return int(text) if len(text) < 20 else _not_a_number(text)


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _not_a_number(text)


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is not a valid number")


def _check_texts(value: Any, depth: int = 0) -> None:
    """Raise ValueError for unprintable texts and too deeply nested brackets."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"has more than {_MOST_DEPTH} nested brackets")
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for inner in value:
            _check_texts(inner, depth + 1)


def check_text(text: str) -> None:
    """Raise ValueError if a text of a recording is too long or has unprintable characters."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"a text has {len(text)} characters, more than {_MOST_CHARACTERS}")
    for character in text:
        strange = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
        if strange or ord(character) > 0xFFFF:  # above: four bytes for each character of a text
            raise ValueError(f"a text contains the character {character!r}")
