"""Reading config.yaml: checked against the schema and the catalogs, refused in one line."""

import difflib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

import cpu_reference.catalog
from kernels.catalog import VARIANTS
from kernels.plan import products_of
from kernels.shape import Shape
from measurement.errors import StudyError
from measurement.scope import changed

SCHEMA = Path(__file__).resolve().parent.parent / "workflow" / "schemas" / "config.schema.yaml"
_KINDS = {
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping of keys to values",
    "string": "a text",
}


class ConfigError(StudyError):
    """A faulty configuration; the message names file, key and fault, and what is allowed."""


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, where YAML itself would drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for index, (key, _) in enumerate(node.value):
            if key.value in keys[:index]:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value} stands twice", problem_mark=key.start_mark
                )
        return super().construct_mapping(node, deep)


def load(path: Path | str) -> dict[str, Any]:
    """Return the configuration in the file `path`; raises ConfigError if missing or faulty."""
    return validate(read(path), str(path))


def read(path: Path | str) -> Any:
    """Return the content of a YAML file, unchecked; raises ConfigError if it cannot be read."""
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a configuration file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is no text in UTF-8; name a configuration file") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {_yaml_fault(error)}; correct the YAML there") from None


def validate(config: Any, name: str) -> dict[str, Any]:
    """Return `config` if it is allowed; raises ConfigError, whose message begins with `name`.

    The study must be one as it is, and with the changes of `quick` in it.
    """
    _check(config, name)
    if "quick" in config:
        quick = {**config, "study": changed(config["study"], config["quick"])}
        _check(quick, f"{name}, with the keys of quick in study")
    checked: dict[str, Any] = config
    return checked


def _check(config: Any, name: str) -> None:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    error = next(_validator(schema).iter_errors(config), None)
    if error is not None:
        raise ConfigError(f"{name}: {_schema_fault(error)}")
    fault = next(_faults(config), None)
    if fault is not None:
        raise ConfigError(f"{name}: {fault}")


def _yaml_fault(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"


def _validator(schema: dict[str, Any]) -> Any:
    """Return a validator that is stricter than JSON Schema where YAML says more than JSON.

    32.0 is no whole number (no matrix has 32.0 rows), and neither ``.nan`` nor ``.inf`` a number.
    """
    draft = jsonschema.Draft202012Validator
    kinds = draft.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ).redefine(
        "number",
        lambda _, value: (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ),
    )
    return jsonschema.validators.extend(draft, type_checker=kinds)(schema)


def _schema_fault(error: jsonschema.ValidationError) -> str:
    """Say in one line which key breaks the schema, how, and what is allowed."""
    where = _location(error.absolute_path)
    value, limit = error.instance, error.validator_value
    match error.validator:
        case "additionalProperties":
            return _unknown_key(where, value, error.schema["properties"])
        case "required":
            missing = ", ".join(key for key in limit if key not in value)
            return f"{where}: lacks {missing}; add it (required: {', '.join(limit)})"
        case "oneOf":
            return f"{where}: give either recording (a folder) or device (auto or a CUDA index)"
        case "uniqueItems":
            twice = next(item for item in value if value.count(item) > 1)
            return f"{where}: {_shown(twice)} stands there twice; remove one"
        case "minItems":
            return f"{where}: is empty; it needs one entry or more"
        case "minimum":
            fault = f"{value} is less than {limit}"
        case "maximum":
            fault = f"{value} is more than {limit}"
        case "type":
            fault = f"{_shown(value)} is not {_KINDS[error.schema['type']]}"
        case _:
            fault = f"{_shown(value)} is not allowed"
    return f"{where}: {fault}; allowed: {_allowed(error.schema)}"


def _location(path: Any) -> str:
    """Return the place of a value as one would write it: ``study.sizes[2]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "the file"


def _unknown_key(where: str, value: dict[Any, Any], known: dict[str, Any]) -> str:
    unknown = next(key for key in value if key not in known)
    prefix = "" if where == "the file" else f"{where}."
    close = difflib.get_close_matches(str(unknown), known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{prefix}{unknown}: unknown key; {hint}allowed: {', '.join(known)}"


def _allowed(schema: dict[str, Any]) -> str:
    """Return in words what a part of the schema allows."""
    if "description" in schema:
        return str(schema["description"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_allowed(choice) for choice in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    if schema["type"] == "array" and "items" in schema:
        return f"a list, each entry: {_allowed(schema['items'])}"
    if schema["type"] == "object":
        return f"the keys {', '.join(schema['properties'])}"
    bounds = [
        f"{words} {schema[key]}"
        for key, words in [
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        ]
        if key in schema
    ]
    return " ".join([_KINDS[schema["type"]], *bounds])


def _shown(value: Any) -> str:
    """Return a value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _faults(config: dict[str, Any]) -> Iterator[str]:
    """Yield what a schema cannot see: names the catalogs lack, and entries that contradict."""
    study = config["study"]
    yield from _unknown_variants("study.variants", study["variants"], VARIANTS)
    for index, series in enumerate(study.get("series", [])):
        yield from _series_faults(f"study.series[{index}]", series)
    if "neighbours" in study:
        name = study["neighbours"]["variant"]
        yield from _unknown_variant("study.neighbours.variant", name, VARIANTS)
    yield from _unknown_variants(
        "study.cpu.variants", study["cpu"]["variants"], cpu_reference.catalog.VARIANTS
    )
    for index, limit in enumerate(study["cpu"].get("size_limits", [])):
        where = f"study.cpu.size_limits[{index}].variant"
        yield from _unknown_variant(where, limit["variant"], cpu_reference.catalog.VARIANTS)
    for index, size in enumerate(study["holdout_sizes"]):
        if size in study["sizes"]:
            yield (
                f"study.holdout_sizes[{index}]: {size} is in study.sizes too; a size is either "
                "fitted or held out"
            )
    protocol = study["protocol"]
    if protocol["max_samples"] < protocol["min_samples"]:
        yield (
            f"study.protocol.max_samples: {protocol['max_samples']} is less than min_samples; "
            f"allowed: a whole number from {protocol['min_samples']}"
        )
    ids = [entry["id"] for entry in config["gpus"]]
    for taken in ("published", "tree"):  # what published times and cubins built here are called
        if taken in ids:
            yield f"gpus[{ids.index(taken)}].id: {taken} is taken; give the entry another id"
    for index, name in enumerate(ids):
        if name in ids[:index]:
            yield f"gpus[{index}].id: {name} is taken by gpus[{ids.index(name)}]; ids must differ"


def _series_faults(where: str, series: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a series: unknown variants, shapes that are none, nothing to do."""
    yield from _unknown_variants(f"{where}.variants", series["variants"], VARIANTS)
    for index, text in enumerate(series["shapes"]):
        try:
            Shape.parse(text)
        except StudyError as error:
            yield f"{where}.shapes[{index}]: {error}"
    for index, name in enumerate(series["variants"]):
        if not any(products_of(series | {"variants": [name]})):
            yield (
                f"{where}.variants[{index}]: {name} takes none of the series' shapes with its "
                "dtypes and block_sizes; `python -m kernels list` shows what it takes"
            )


def _unknown_variants(where: str, names: list[str], known: dict[str, Any]) -> Iterator[str]:
    for index, name in enumerate(names):
        yield from _unknown_variant(f"{where}[{index}]", name, known)


def _unknown_variant(where: str, name: str, known: dict[str, Any]) -> Iterator[str]:
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        yield f"{where}: unknown variant {name}; {hint}allowed: {', '.join(known)}"
