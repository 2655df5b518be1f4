"""How much of a study is measured: all of it, or as much as its three answers need."""

from collections.abc import Mapping
from typing import Any

QUICK, FULL = "quick", "full"


def study_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the study that a checked configuration asks for, with its `scope` in it.

    That is the section `study`, in which the scope `quick` puts the keys of the section `quick` in
    the place of its own. A configuration without scope asks for the full study.
    """
    scope = config.get("scope", FULL)
    changes = config.get("quick", {}) if scope == QUICK else {}
    return {**changed(config["study"], changes), "scope": scope}


def changed(study: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section with the values of `changes` in it; mappings are changed key by key."""
    result = dict(study)
    for key, value in changes.items():
        own = result.get(key)
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            value = changed(own, value)
        result[key] = value
    return result
