"""Read and validate stored JSON; problems become errors of one line."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from uol.errors import UolError
from uol.storage.files import why_unread

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """A part of a result: no other fields, no conversion of types, no infinite numbers, no changes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


_MOST_BYTES = 2**20  # of a file of settings
_WORDS = {  # in place of pydantic's, which are those of a programmer
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object: {{name: value}}",
    "extra_forbidden": "no such field",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "has too many digits",
    "int_type": "must be a whole number",
    "invalid_key": "no such field",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model_attributes_type": "must be an object: {{name: value}}",
    "model_type": "must be an object: {{name: value}}",
    "named_tuple_type": "must be a list",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "is too short",
    "string_type": "must be a text",
    "too_long": "give at most {max_length}",
    "too_short": "give at least {min_length}",
    "tuple_type": "must be a list",
}
_IN_OUR_WORDS = {"removed_setting", "value_error"}
_CHOICES = {"str", "int", "dict[str,str]"}  # where a value may be of several types, pydantic adds the one it tried


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file of settings: a regular file of at most a megabyte, in which no name occurs twice."""
    if not path.is_file():
        raise UolError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise UolError(f"{path}: larger than a megabyte, which no file of settings is")
        value = json.loads(content.decode(), object_pairs_hook=_without_doubles)
    except OSError as error:
        raise UolError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise UolError(f"{path}: damaged or of another version (not a text file)") from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise UolError(f"{path}: damaged or of another version (not readable as JSON: {reason})") from error
    if not isinstance(value, dict):
        raise UolError(f"{path}: damaged or of another version (not an object of settings)")
    return value


def _without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


def read_validated(kind: type[Model], path: Path) -> Model:
    """Read a JSON file as a pydantic model; `UolError` names the first problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UolError(f"{path}: cannot be read ({why_unread(error)})") from error
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise UolError(f"{path}: {first_problem(error)}") from error


def check_values(kind: type[Model], values: Mapping[str, Any], path: Path) -> Model:
    """Those of a file's values that a model has, checked; other values are passed over."""
    try:
        return kind.model_validate({key: values[key] for key in kind.model_fields if key in values})
    except ValidationError as error:
        raise UolError(f"{path}: {first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """The first problem that validation found, as `field: what is wrong`."""
    first = _nearest(error)
    message: str = first["msg"].removeprefix("Value error, ")
    if first["type"] in _IN_OUR_WORDS:
        return message
    words = _WORDS.get(first["type"])
    message = words.format(**first.get("ctx", {})) if words else message[0].lower() + message[1:]
    if first["type"] == "json_invalid":
        return f"not readable as JSON ({message})"
    place, shown = "".join(f"{part}." for part in first["loc"] if part not in _CHOICES), first["input"]
    message = f"{place[:-1]}: {message}" if place else message
    plain = isinstance(shown, str | int | float | None) and first["type"] not in ("extra_forbidden", "invalid_key")
    return message + (f", not {_as_written(shown)}" if plain else "")


def _as_written(value: str | int | float | None) -> str:
    """A value as JSON and YAML write it, without the middle of a long one."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return reprlib.repr(value)


def _nearest(error: ValidationError) -> Any:
    """The first problem; of a value that may be of several types, the one that lies deepest in it."""
    found = error.errors()
    place = list(takewhile(lambda part: part not in _CHOICES, found[0]["loc"]))
    same = [one for one in found if list(one["loc"][: len(place)]) == place]
    return found[0] if len(place) == len(found[0]["loc"]) else max(same, key=lambda one: len(one["loc"]))
