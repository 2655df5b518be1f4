"""The citation of a report, with a hash of its data, and the bill of materials of its software."""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from markupsafe import Markup
from packaging.utils import canonicalize_name

from analysis.data.store import StoreError
from base.files import MANIFEST
from base.paths import ROOT

CITATION = "CITATION.cff"


@dataclass(frozen=True)
class Maker:
    """How a report was made: the command, the commit of the tree, and whether the tree was changed.

    `commit` is None for a tree without history, `dirty` is None if it is unknown.
    """

    command: str
    commit: str | None
    dirty: bool | None

    @property
    def state(self) -> str:
        """The tree in words: "commit 1234567 with changes that are not committed"."""
        if self.commit is None:
            return "a tree without history"
        changes = " with changes that are not committed" if self.dirty else ""
        return f"commit {self.commit}{changes}"


UNKNOWN = Maker("gemm-study page", None, None)


@dataclass(frozen=True)
class Citation:
    """The citation of a report and its recordings.

    `data` has the SHA-256 of each recording's manifest by the recording's id, `data_hash` is the
    hash of all of them. `year` is the year in which the last recording ended; blank without
    recordings. `repository` is the address of the repository; empty if ``CITATION.cff`` names none.
    """

    title: str
    authors: str
    version: str
    licence: str
    year: str
    data: dict[str, str]
    data_hash: str
    repository: str

    @property
    def address(self) -> str:
        """The address of the repository; without one, how to name the version."""
        unknown = "No address is published; the commit and the data hash identify this version"
        return self.repository or unknown

    def address_of(self, commit: str | None, path: str) -> str:
        """Return the address of a file or folder of the repository; its path if there is none."""
        if not self.repository:
            return path
        return f"{self.repository.rstrip('/')}/blob/{commit or 'HEAD'}/{path}"

    def link(self, commit: str | None, path: str, text: str) -> Markup:
        """Return a link to a file or folder of the repository.

        Without an address the link shows the path, and leads to the checkout around ``results/``.
        """
        shown = '{1} (<a href="../{0}"><code>{0}</code></a>)'
        shown = '<a href="{0}">{1}</a>' if self.repository else shown
        return Markup(shown).format(self.address_of(commit, path), text)


def citation(recordings: Mapping[str, Path], ended_utc: list[str], root: Path = ROOT) -> Citation:
    """Return the citation of a report on `recordings`, which ended at `ended_utc` (ISO 8601).

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
            year=max(ended_utc, default="")[:4],
            data={name: hashlib.sha256(text).hexdigest() for name, text in manifests.items()},
            data_hash=hashlib.sha256(b"".join(manifests.values())).hexdigest(),
            repository=str(cited.get("repository-code", "")),
        )
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise StoreError(
            f"{root / CITATION} cannot be read ({' '.join(str(error).split())}); "
            "restore it from version control"
        ) from None


def _name(author: Mapping[str, str]) -> str:
    names = (author.get(key, "") for key in ("given-names", "family-names", "name"))
    return " ".join(filter(None, names))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise StoreError(f"{path} is missing; restore it from version control") from None


def bill_of_materials() -> str:
    """Return the installed packages as a CycloneDX 1.6 document in JSON, sorted by name."""
    packages = importlib.metadata.distributions()
    by_name = {canonicalize_name(each.metadata["Name"]): each for each in packages}
    components = [
        {
            "type": "library",
            "name": name,
            "version": each.version,
            "purl": f"pkg:pypi/{name}@{each.version}",
            "licenses": [{"license": {"name": _licence(each)}}],
        }
        for name, each in sorted(by_name.items())
    ]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return json.dumps(document | {"components": components}, indent=1) + "\n"


def _licence(package: importlib.metadata.Distribution) -> str:
    """Return a package's declared licence: an expression, classifiers, or a text's first line."""
    facts = package.metadata
    stated = {key: facts[key] for key in ("License-Expression", "License") if key in facts}
    classifiers = facts.get_all("Classifier") or []
    names = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License ::")]
    files = [file for file in package.files or [] if file.name.upper().startswith("LICEN")]
    texts = [stated.get("License", ""), *(file.read_text() for file in files)]
    heads = [text.strip().splitlines()[0] for text in texts if text.strip()]
    return stated.get("License-Expression") or ", ".join(names) or (heads or ["unknown"])[0]
