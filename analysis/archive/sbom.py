"""Software bill of materials: the Python packages of this environment with their licences."""

import importlib.metadata
import json

from packaging.utils import canonicalize_name


def bill_of_materials() -> str:
    """Return a CycloneDX 1.6 document as JSON, sorted by name."""
    packages = importlib.metadata.distributions()
    found = {canonicalize_name(each.metadata["Name"]): each for each in packages}
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


def _licence(package: importlib.metadata.Distribution) -> str:
    """Return the declared licence: an expression, classifiers, or the first line of a text."""
    facts = package.metadata
    stated = {key: facts[key] for key in ("License-Expression", "License") if key in facts}
    classifiers = facts.get_all("Classifier") or []
    names = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License ::")]
    files = [file for file in package.files or [] if file.name.upper().startswith("LICEN")]
    texts = [stated.get("License", ""), *(file.read_text() for file in files)]
    heads = [text.strip().splitlines()[0] for text in texts if text.strip()]
    return stated.get("License-Expression") or ", ".join(names) or (heads or ["unknown"])[0]
