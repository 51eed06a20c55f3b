"""The digests of a model folder's files, written with them and checked before they are used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uol.errors import UolError
from uol.storage.files import write_json
from uol.storage.validation import first_problem, read_object

MANIFEST = "manifest.json"
_ALGORITHM = "sha256"  # 1.5 ms a megabyte


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[1]
    files: dict[str, _File]


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Write the digests and sizes of those of the named files that the folder has."""
    there = [name for name in names if (folder / name).is_file()]
    files = {name: {"sha256": _digest(folder / name), "size": (folder / name).stat().st_size} for name in there}
    write_json(folder / MANIFEST, {"format": 1, "files": files})


def check_manifest(folder: Path, names: Iterable[str]) -> bool:
    """Compare the named files with the folder's manifest; `UolError` names the first that differs.

    Of the named files, those that exist must be listed, and those listed must exist; others are not listed. False if
    the folder has no manifest.
    """
    path = folder / MANIFEST
    if not path.exists():
        return False
    try:
        listed = _Manifest.model_validate(read_object(path)).files
    except ValidationError as error:
        raise UolError(f"{path}: damaged; copy the folder again ({first_problem(error)})") from error
    names = list(names)
    for name in listed:
        if not (folder / name).exists():
            raise UolError(f"{folder}: not a whole model folder: {name[:100]} is missing")
        if name not in names:
            raise UolError(f"{path}: damaged: it lists {name[:100]!r}, which is no file of this folder")
    for name in names:
        problem = _problem(folder / name, listed.get(name))
        if problem is not None:
            raise UolError(f"{folder / name}: {problem}; copy the folder again")
    return True


def _problem(path: Path, expected: _File | None) -> str | None:
    """How a file differs from what the manifest says of it."""
    if expected is None:
        return f"not listed in {MANIFEST}" if path.exists() else None
    try:
        if not path.is_file():
            return "not a file"
        size = path.stat().st_size
        if size != expected.size:
            return f"damaged: {size} bytes instead of {expected.size}"
        return None if _digest(path) == expected.sha256 else f"damaged: its content is not what {MANIFEST} lists"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, _ALGORITHM).hexdigest()
