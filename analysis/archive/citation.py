"""Citation of a report: study, version, commit, and a hash of the data."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from analysis.data.store import StoreError
from base.paths import ROOT
from measurement.recording.recording import MANIFEST

CITATION = "CITATION.cff"


@dataclass(frozen=True)
class Maker:
    """Origin of a report: the command, the tree's commit, and whether the tree has changes.

    `commit` is None without history, `dirty` is None if unknown.
    """

    command: str
    commit: str | None
    dirty: bool | None


@dataclass(frozen=True)
class Citation:
    """A citation. `data` are the SHA-256 of the recordings' manifests by id, `data_hash` of all.

    `year` is that of the end of the last recording; blank without recordings.
    """

    title: str
    authors: str
    version: str
    licence: str
    year: str
    data: dict[str, str]
    data_hash: str


def citation(
    recordings: Mapping[str, Path], finished_utc: list[str], root: Path = ROOT
) -> Citation:
    """Return the citation of a report on `recordings`, which ended at `finished_utc` (ISO 8601).

    A manifest contains the hash of each file of its recording. Raise StoreError if a manifest or
    ``CITATION.cff`` of `root` is missing or unreadable.
    """
    manifests = {name: _read(Path(path) / MANIFEST) for name, path in recordings.items()}
    try:
        cited = yaml.safe_load(_read(root / CITATION))
        return Citation(
            title=str(cited["title"]),
            authors=", ".join(_name(author) for author in cited["authors"]),
            version=str(cited["version"]),
            licence=str(cited["license"]),
            year=max(finished_utc, default="")[:4],
            data={name: hashlib.sha256(text).hexdigest() for name, text in manifests.items()},
            data_hash=hashlib.sha256(b"".join(manifests.values())).hexdigest(),
        )
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise StoreError(
            f"{root / CITATION} cannot be read ({' '.join(str(error).split())}); "
            "restore it from version control"
        ) from None


def _name(author: Mapping[str, str]) -> str:
    """Return the name of a person or an organisation."""
    names = (author.get(key, "") for key in ("given-names", "family-names", "name"))
    return " ".join(filter(None, names))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise StoreError(f"{path} is missing; restore it from version control") from None
