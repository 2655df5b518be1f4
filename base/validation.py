"""The base class of all file models: strict types, no unknown keys, one-line errors."""

import difflib
import json
from collections import Counter
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)


class Section(BaseModel):
    """A mapping in a file, with declared keys whose values have exactly the declared types.

    32.0 and true are not whole numbers; ``.nan`` and ``.inf`` are not numbers. Undeclared keys are
    errors unless a subclass sets ``extra="ignore"``.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:
        fields = cls.model_fields
        if not isinstance(given, dict):
            raise ValueError(
                f"{_shown(given)} is not a mapping of keys to values; allowed: the keys "
                f"{', '.join(fields)}"
            )
        if cls.model_config["extra"] == "forbid":
            for key in given:
                check_known("key", key, fields)
        required = [name for name, field in fields.items() if field.is_required()]
        missing = [name for name in required if name not in given]
        if missing:
            raise ValueError(
                f"missing {', '.join(missing)}; add it (required: {', '.join(required)})"
            )
        for key in fields:
            if key in given and given[key] is None and key not in required:
                raise ValueError(f"{key} has no value; give it a value or remove the key")
        return given

    def plain(self) -> dict[str, Any]:
        """Return the keys that the file sets, with their values as plain JSON types."""
        return self.model_dump(mode="json", exclude_unset=True)


def first_fault(error: ValidationError) -> str:
    """Return one line with the first fault's location (``study.sizes[2]``) and allowed values."""
    first = error.errors(include_url=False)[0]
    steps = [f"[{step}]" if isinstance(step, int) else f".{step:.60}" for step in first["loc"]]
    where = "".join(steps).removeprefix(".") or "the file"
    if first["type"] == "value_error":  # the error was raised by a validator of this project
        return f"{where}: {first['ctx']['error']}"
    expected = first["msg"][0].lower() + first["msg"][1:]
    return f"{where}: {_shown(first['input'])} is not allowed; {expected}"


def allowed(text: str) -> WrapValidator:
    """Return a validator whose only error message is "use `text`", for any invalid value.

    If the value would be valid with or without quotes, the message says so.
    """

    def check(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError:
            hint = _quotes(value, validate)
            raise ValueError(f"{_shown(value)} is not allowed; use {text}{hint}") from None

    return WrapValidator(check)


def _quotes(value: Any, validate: ValidatorFunctionWrapHandler) -> str:
    """Return ", in quotes" or ", without quotes" if this makes the value valid, otherwise ""."""
    with suppress(ValidationError, ValueError):
        if isinstance(value, str):
            validate(json.loads(value))
            return ", without quotes"
        if isinstance(value, bool | int | float):
            validate(json.dumps(value))
            return ", in quotes"
    return ""


def check_known(kind: str, name: object, allowed_names: Iterable[str]) -> None:
    """Raise ValueError if `name` is not allowed; the message suggests the closest name."""
    names = list(allowed_names)
    if name not in names:
        close = difflib.get_close_matches(str(name).lower(), names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"unknown {kind} {name!s:.60}; {hint}allowed: {', '.join(names)}")


def name_in(kind: str, names: Iterable[str]) -> AfterValidator:
    """Return a validator that accepts only these names (`check_known`)."""

    def check(name: str) -> str:
        check_known(kind, name, names)
        return name

    return AfterValidator(check)


T = TypeVar("T", bound=Hashable)


def _check_distinct(values: list[T]) -> list[T]:
    for value, times in Counter(values).items():
        if times > 1:
            raise ValueError(f"{_shown(value)} is listed twice; remove one")
    return values


def not_empty(values: list[T]) -> list[T]:
    """Return the list unchanged; raise ValueError if it is empty."""
    if not values:
        raise ValueError("is empty; add an entry")
    return values


Distinct = Annotated[list[T], AfterValidator(_check_distinct)]
OneOrMore = Annotated[list[T], AfterValidator(not_empty), AfterValidator(_check_distinct)]


def _shown(value: Any) -> str:
    """Return a value as one short line for messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
