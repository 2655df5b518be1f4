"""The software bill of materials: every Python package of this environment, with its licence."""

import importlib.metadata
import json

from packaging.utils import canonicalize_name


def bill_of_materials() -> str:
    """Return a CycloneDX 1.6 document as JSON, sorted by name."""
    found = {_name(each): each for each in importlib.metadata.distributions()}
    components = [
        {
            "type": "library",
            "name": name,
            "version": each.version,
            "purl": f"pkg:pypi/{name}@{each.version}",
            "licenses": [{"license": {"name": _licence(each)}}],
        }
        for name, each in sorted(found.items())
    ]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return json.dumps(document | {"components": components}, indent=1) + "\n"


def _name(package: importlib.metadata.Distribution) -> str:
    return canonicalize_name(package.metadata["Name"])


def _licence(package: importlib.metadata.Distribution) -> str:
    """Return the licence as the package says it: an expression, classifiers, or a text's head."""
    facts = package.metadata
    said = {key: facts[key] for key in ("License-Expression", "License") if key in facts}
    classifiers = facts.get_all("Classifier") or []
    told = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License ::")]
    files = [file for file in package.files or [] if file.name.upper().startswith("LICEN")]
    texts = [said.get("License", ""), *(file.read_text() for file in files)]
    heads = [text.strip().splitlines()[0] for text in texts if text.strip()]
    return said.get("License-Expression") or ", ".join(told) or (heads or ["not told"])[0]
