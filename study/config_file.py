"""Reading and writing the configuration file, and the user's config.local.yaml."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from base.errors import StudyError

_MOST_BYTES = 2**16  # limit of a file


class ConfigError(StudyError):
    """A faulty configuration; the message names file, key, fault and allowed values."""


def files(path: Path | str) -> list[str]:
    """Return the path of a configuration file, and of a config.local.yaml next to it."""
    local = Path(path).with_suffix(f".local{Path(path).suffix}")
    return [str(path), str(local)] if os.path.lexists(local) else [str(path)]


def named(path: Path | str, *more: Path | str) -> str:
    """Return the names of a configuration file and of the files that override it, for messages."""
    first, *overriding = [*files(path), *map(str, more)]
    return f"{first} with {' and '.join(overriding)}" if overriding else first


def in_scope(content: Any, scope: str) -> Any:
    """Return the content of a configuration file with the study's scope set to `scope`."""
    if not isinstance(content, dict) or not isinstance(content.get("study"), dict):
        return content
    return {**content, "study": {**content["study"], "scope": scope}}


def changed(section: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a section with `changes`; mappings change key by key, and None removes a key."""
    result = dict(section)
    for key, value in changes.items():
        if isinstance(value, dict):
            before = result.get(key)
            value = changed(before if isinstance(before, dict) else {}, value)
        result[key] = value
    return {key: value for key, value in result.items() if value is not None or key not in changes}


def replaced_by_quick(content: Any, committed: str) -> list[str]:
    """Return the keys that the user edited but the scope "quick" overrides, such as ``cpu.sizes``.

    `content` is that of the configuration file, `committed` its text before the edits (empty:
    unknown). A study in the scope "full" has no such keys, because nothing is overridden.
    """
    study = content.get("study") if isinstance(content, dict) else None
    original = yaml.load(committed, _Loader) if committed else None
    if not (original and isinstance(study, dict) and study.get("scope") == "quick"):
        return []
    quick = _by_dotted_key(study.get("quick") or {})
    edited, before = _by_dotted_key(study), _by_dotted_key(original["study"])
    return [key for key, new in quick.items() if edited.get(key) not in (new, before.get(key))]


def _by_dotted_key(section: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by dotted keys such as ``cpu.sizes``."""
    values: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict):
            values |= _by_dotted_key(value, f"{before}{key}.")
        else:
            values[f"{before}{key}"] = value
    return values


def _without(section: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return a section without the values that are equal in `others`."""
    return {
        key: _without(value, others[key]) if isinstance(others.get(key), dict) else value
        for key, value in section.items()
        if key not in others or (isinstance(value, dict) and isinstance(others[key], dict))
    }


def _overridden(content: dict[str, Any], local: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a configuration file after a `local` one has overridden values.

    The local values also override values of `quick` in `content`. The focus in `content` applies
    only while its GPU is in the list of GPUs.
    """
    study, changes = content.get("study"), local.get("study")
    if isinstance(study, dict) and isinstance(changes, dict):
        quick = study.get("quick")
        study = study | ({"quick": _without(quick, changes)} if isinstance(quick, dict) else {})
        content = content | {"study": study}
    report, gpus = content.get("report"), local.get("gpus")
    if isinstance(report, dict) and isinstance(gpus, list):
        ids = [str(gpu.get("id")) for gpu in gpus if isinstance(gpu, dict)]
        if not among(str(report.get("focus")), ids):
            content = content | {"report": changed(report, {"focus": None})}
    return changed(content, local)


def among(focus: str, ids: Iterable[str]) -> bool:
    """Return whether the focus is one of the GPUs' ids, or the label of one GPU of an entry."""
    return any(focus == name or focus.startswith(f"{name}-") for name in ids)


class _Loader(yaml.BaseLoader):
    """A YAML loader without aliases and duplicate keys; only JSON's scalars are not texts.

    Numbers, true, false and null are therefore read as in JSON. All other values are texts, also
    those that YAML 1.1 and 1.2 read differently: 012, 1:30, 1_000, 2026-01-01, yes and on. Tabs
    between two tokens of a line separate them, as in YAML 1.2.
    """

    def scan_to_next_token(self) -> None:
        while self.column and self.peek() in " \t":
            self.forward()
        super().scan_to_next_token()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            problem, mark = "aliases (*) are not allowed", self.peek_event().start_mark
            raise yaml.composer.ComposerError(problem=problem, problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            problem = f"the key {key.value} is given twice"
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key is not a text"
            elif key.value not in seen:
                seen.add(key.value)
                continue
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)


def _scalar(_: _Loader, node: yaml.ScalarNode) -> Any:
    if node.style is None and node.value in ("", "~"):
        return None
    with suppress(ValueError):
        return json.loads(node.value) if node.style is None else node.value
    return node.value


_Loader.add_constructor("tag:yaml.org,2002:str", _scalar)


def dump(content: Any) -> str:
    """Return the text of a configuration file with this content: JSON, which is also YAML."""
    return json.dumps(content, indent=2) + "\n"


def read(path: Path | str, *more: Path | str) -> Any:
    """Return the content of a configuration file, unchecked; raise ConfigError if unreadable.

    Values in a ``config.local.yaml`` next to ``config.yaml`` override those of ``config.yaml``.
    Values in the files `more` override both (`_overridden`).
    """
    content = _read(path)
    for name in [*files(path)[1:], *more]:
        changes = _read(name)
        changes = {} if changes is None else changes  # an empty file
        if not isinstance(changes, dict):
            raise ConfigError(f"{name}: not a mapping of keys to values; use keys as in {path}")
        content = _overridden(content, changes) if isinstance(content, dict) else content
    return content


def _read(path: Path | str) -> Any:
    try:
        file = Path(path)
        size = file.stat().st_size
        if not file.is_file():
            raise ConfigError(f"{path}: not a regular file; use a configuration file")
        if size > _MOST_BYTES:
            raise ConfigError(f"{path}: larger than {_MOST_BYTES} bytes; use a configuration file")
        return yaml.load(file.read_bytes().decode(), _Loader)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; use a configuration file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid UTF-8; use a configuration file") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {_yaml_fault(error)}; correct the YAML") from None
    except RecursionError:
        raise ConfigError(f"{path}: has too many nested levels; correct the YAML") from None


def _yaml_fault(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    context = f"{error.context}, " if error.context else ""
    problem = str(error.problem).replace("character '\\t'", "a tab, not blanks,")
    return f"line {mark.line + 1}, column {mark.column + 1}: {context}{problem}"
