"""Read and validate stored JSON; problems become errors of one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from uol.errors import UolError

Model = TypeVar("Model", bound=BaseModel)


def read_validated(kind: type[Model], path: Path) -> Model:
    """Read a JSON file as a pydantic model; `UolError` names the first problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UolError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
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
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message
    message = message[0].lower() + message[1:]
    if first["type"] == "json_invalid":
        return f"not readable as JSON ({message})"
    place, shown = "".join(f"{part}." for part in first["loc"]), first["input"]
    message = f"{place[:-1]}: {message}" if place else message
    return message + (f", not {shown!r}" if isinstance(shown, str | int | float | None) else "")
