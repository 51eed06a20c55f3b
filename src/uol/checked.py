"""What a check of settings or stored values found, in one line."""

from __future__ import annotations

from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """The first thing that a check found, as `field: what is wrong`."""
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
